package blocked_test

import (
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// TestSameForSizes checks that NewConv finds the weights that SameForSizes has packed for its size.
func TestSameForSizes(t *testing.T) {
	for name, c := range convCases {
		rng := rand.New(rand.NewPCG(12, uint64(c.in)))
		cv := built[*ops.Conv](t, "Conv", 11, c.attrs(), 2)
		w, bias := c.weights(rng), normal(rng, c.out)
		for _, bias := range []*tensor.Tensor{bias, nil} {
			first := ir.NewPacks()
			packs := first.Fork()
			pack := blocked.SameForSizes(cv, w, bias, [][2]int{{c.side, c.side}, {c.side, c.side}}, packs)
			if pack == nil {
				t.Fatalf("%s: two equal sizes have different weights", name)
			}
			pack()
			size, o := first.Beyond(), c.outSide()
			_, err := blocked.NewConv(cv, w, bias, c.inLayout(), blocked.NewLayout(c.out, o, o, 0, 0, 0, 0), nil,
				kit.Activation{}, nil, first.Fork())
			if err != nil {
				t.Fatal(err)
			}
			if n := first.Beyond(); n != size || n == 0 {
				t.Errorf("%s: %d bytes were packed for the size, NewConv needs %d", name, size, n)
			}
		}
	}
}

// TestDifferentForSizes has convolutions that are packed differently for another size, and sizes
// that do not suit.
func TestDifferentForSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 0))
	for name, test := range map[string]struct {
		c     convCase
		sizes [][2]int
	}{
		"Winograd and not": {convCases["Winograd"], [][2]int{{1, 40}, {40, 40}}},
		"taps inside":      {convCase{20, 33, 1, 3, 1, 4, 4, 9}, [][2]int{{40, 40}, {4, 40}}},
		"one column":       {convCases["pointwise"], [][2]int{{40, 1}}},
		"too small":        {convCases["direct, stride"], [][2]int{{2, 2}}},
	} {
		if name == "Winograd and not" && cpu.Active() == cpu.Generic {
			continue
		}
		cv := built[*ops.Conv](t, "Conv", 11, test.c.attrs(), 2)
		if blocked.SameForSizes(cv, test.c.weights(rng), nil, test.sizes, ir.NewPacks()) != nil {
			t.Errorf("%s: the weights are packed in one way for %v", name, test.sizes)
		}
	}
}
