package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

// grouped checks Grouped.
func (b *blocked) grouped(t testing.TB, l cpu.Level, side testkit.Side, flat bool) {
	t.Helper()
	b.run(t, fmt.Sprintf("grouped %v %+v", l, *b.Shape), l, side, flat, 6e-6,
		func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
			d := &Grouped{In: in, Out: out, StrideH: b.Stride[0], StrideW: b.Stride[1], DilationH: b.Dilation[0],
				DilationW: b.Dilation[1], Top: b.PadBegin[0], Left: b.PadBegin[1],
				Weights: PackGrouped(b.w, b.ep.Bias, b.Cin, b.Cin/b.Group, b.Kernel[0], b.Kernel[1])}
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
			d.Run(l, twoWays, y, x, ep)
		})
}

func TestGrouped(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(5, 1))
		for i, s := range []*Shape{
			shape2(1, 32, 32, 8, 5, 14, 3, 1, 1, 1), shape2(1, 24, 24, 3, 6, 29, 1, 1, 1, 0), shape2(1, 6, 6, 3, 9, 9, 3, 2, 1, 1),
			shape2(1, 40, 40, 5, 7, 7, 3, 1, 2, 2), shape2(1, 4, 4, 1, 6, 33, 5, 3, 1, 2), shape2(1, 16, 16, 8, 1, 40, 1, 1, 1, 0),
		} {
			for _, e := range []int{0, 3, 7, 11} {
				b := newBlocked(r, s, e)
				b.grouped(t, l, i&1 == 0, false)
				if product(s.Kernel) == 1 {
					b.grouped(t, l, i&1 == 1, true)
				}
			}
		}
		for w := 1; w < 31; w++ { // every combination of tiles
			newBlocked(r, shape2(1, 18, 18, 9, 2, w, 1, 1, 1, 0), w&15).grouped(t, l, w&1 == 0, w%3 == 0)
		}
	})
}

func TestRapidGrouped(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		rapid.Check(t, func(rt *rapid.T) {
			g, each := rapid.IntRange(1, 9).Draw(rt, "group"),
				rapid.SampledFrom([]int{2, 4, 8}).Draw(rt, "channels of a group")
			n := func(lo, hi int, name string) []int {
				return rapid.SliceOfN(rapid.IntRange(lo, hi), 2, 2).Draw(rt, name)
			}
			s := &Shape{N: 1, Group: g, Cin: g * each, Cout: g * each,
				In: n(1, 17, "in"), Kernel: n(1, 4, "kernel"), Stride: n(1, 3, "stride"), Dilation: n(1, 2, "dilation"), PadBegin: n(0, 3, "begin"), PadEnd: n(0, 3, "end")}
			if s.Check() != nil {
				return
			}
			b := newBlocked(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)), s,
				rapid.IntRange(0, 15).Draw(rt, "epilogue"))
			side := testkit.Side(rapid.Bool().Draw(rt, "side"))
			testkit.Scope(t, func(t testing.TB) { b.grouped(t, l, side, false) })
		})
	})
}

// BenchmarkGrouped compares the grouped convolutions of ResNeXt-50 with Direct.
func BenchmarkGrouped(b *testing.B) {
	for _, s := range []*Shape{shape2(1, 128, 128, 32, 56, 56, 3, 1, 1, 1), shape2(1, 256, 256, 32, 28, 28, 3, 1, 1, 1),
		shape2(1, 64, 64, 32, 28, 28, 3, 1, 1, 1)} {
		in, out := NewLayout(s.Cin, s.In[0], s.In[1], 1, 1, 1, 1), NewLayout(s.Cout, s.Out[0], s.Out[1], 0, 0, 0, 0)
		each := s.Cin / s.Group
		x, y, w := memory.Slice[float32](in.Len()), memory.Slice[float32](out.Len()), make([]float32, s.Cout*each*9)
		g := &Grouped{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
			Weights: PackGrouped(w, nil, s.Cin, each, 3, 3)}
		d := &Direct{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
			Weights: PackWeights(cpu.Active(), w, nil, s.Cin, s.Cout, s.Group, 3, 3)}
		for name, f := range map[string]func(){
			"direct":  func() { d.Run(cpu.Active(), nil, y, x, &BlockedEpilogue{}) },
			"grouped": func() { g.Run(cpu.Active(), nil, y, x, &BlockedEpilogue{}) },
		} {
			b.Run(fmt.Sprintf("%d_g%d@%d/%s", s.Cin, s.Group, s.In[0], name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
			})
		}
	}
}
