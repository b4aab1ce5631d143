package conv

import (
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

func TestEveryAssemblyFunctionIsTested(t *testing.T) {
	testkit.CheckAsmTested(t, ".", []string{
		"tile*",        // TestDirect
		"nchw*",        // TestNCHWInput
		"permuted*",    // TestPermutedPointwise
		"grouped*",     // TestGrouped
		"channelTile*", // TestChannelTile
		"windowTile*",  // TestWindowTile
		"planar*",      // TestPlanar
		"planeTile*",   // TestPlaneTile, TestInteger
		"byteTile*",    // TestByteTile, TestInteger
		"depthwise*",   // TestDepthwise
		"maximum*",     // TestPool
		"sum*",         // TestPool
		"winograd*",    // TestWinogradTwins
		"affine*",      // TestAffine
		"pairs*",       // TestRoundedLevels
		"octetsBF16*",  // TestRoundOctets
	})
}

func TestPauses(t *testing.T) {
	s := shape2(1, 64, 64, 1, 14, 14, 3, 1, 1, 1)
	b := newBlocked(rand.New(rand.NewPCG(9, 9)), s, 0)
	in, out, _ := b.layouts(false)
	x, y := make([]float32, in.Len()), make([]float32, out.Len())
	d := &Direct{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
		Weights: PackWeights(cpu.Active(), b.w, nil, 64, 64, 1, 3, 3)}
	w := &Winograd{In: in, Out: out, Top: 1, Left: 1, Dilation: 1,
		Weights: PackWinograd(cpu.Active(), 4, b.w, nil, 64, 64)}
	dw := &Depthwise{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
		Weights: PackDepthwise(b.w, nil, 64, 3, 3)}
	g := &Grouped{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
		Weights: PackGrouped(b.w, nil, 64, 8, 3, 3)}
	fused, err := NewFusedDepthwise(d.To(in), dw)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		if l == cpu.Generic {
			t.Skip("Go code is preemptible")
		}
		testkit.CheckPauses(t, func() { d.Run(l, nil, y, x, &BlockedEpilogue{}) })
		testkit.CheckPauses(t, func() { g.Run(l, nil, y, x, &BlockedEpilogue{}) })
		testkit.CheckPauses(t, func() { dw.Run(l, nil, y, x, &BlockedEpilogue{}) })
		testkit.CheckPauses(t, func() { fused.Run(l, nil, y, x, &BlockedEpilogue{}, &BlockedEpilogue{}) })
		testkit.CheckPauses(t, func() { w.Run(l, nil, y, x, &BlockedEpilogue{}) })
	})
}
