package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

func perTap(l cpu.Level, s *Shape, in, out Layout, w, bias []float32) *PerTap {
	return &PerTap{In: in, Out: out, KH: s.Kernel[0], KW: s.Kernel[1], DilationH: s.Dilation[0],
		DilationW: s.Dilation[1], Top: s.PadBegin[0], Left: s.PadBegin[1],
		Weights: PackPerTap(l, w, bias, s.Cin, s.Cout, s.Kernel[0], s.Kernel[1])}
}

func TestPerTap(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(12, 12))
		for i, s := range []*Shape{
			shape2(1, 20, 40, 1, 14, 14, 3, 1, 12, 12), shape2(1, 33, 16, 1, 9, 30, 3, 1, 6, 6),
			shape2(1, 16, 50, 1, 7, 5, 5, 1, 3, 6), shape2(1, 8, 24, 1, 1, 40, 3, 1, 1, 1),
			{N: 1, Cin: 18, Cout: 33, Group: 1, In: []int{10, 20}, Kernel: []int{2, 4}, Stride: []int{1, 1},
				Dilation: []int{7, 4}, PadBegin: []int{7, 9}, PadEnd: []int{0, 3}},
		} {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			for e := range 12 {
				b := newBlocked(r, s, e)
				for _, par := range []gemm.Par{nil, twoWays} {
					tol := 6e-6 * max(1, math.Sqrt(float64(s.Cin*product(s.Kernel)))/30)
					b.run(t, fmt.Sprintf("%v %+v", l, *s), l, e&1 == 0, i%2 == 0, tol,
						func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
							d := perTap(l, s, in, out, b.w, b.ep.Bias)
							if err := d.Check(); err != nil {
								t.Fatal(err)
							}
							d.Run(l, par, y, x, ep)
						})
				}
			}
		}
	})
}

func TestPerTapPays(t *testing.T) {
	for _, c := range []struct {
		s    *Shape
		want bool
	}{
		{shape2(1, 16, 16, 1, 14, 14, 3, 1, 12, 12), true},
		{shape2(1, 16, 16, 1, 14, 14, 3, 1, 1, 1), false},
		{shape2(1, 16, 16, 1, 14, 14, 3, 1, 2, 2), false},
		{shape2(1, 16, 16, 1, 6, 6, 3, 1, 5, 12), false}, // outputs that read padding only
		{shape2(1, 5000, 16, 1, 14, 14, 3, 1, 12, 12), false},
	} {
		if err := c.s.Check(); err != nil {
			t.Fatal(err)
		}
		in := NewLayout(c.s.Cin, c.s.In[0], c.s.In[1], 0, 0, 0, 0)
		out := NewLayout(16, c.s.Out[0], c.s.Out[1], 0, 0, 0, 0)
		d := &PerTap{In: in, Out: out, KH: 3, KW: 3, DilationH: c.s.Dilation[0], DilationW: c.s.Dilation[1],
			Top: c.s.PadBegin[0], Left: c.s.PadBegin[1]}
		if got := d.Pays(); got != c.want {
			t.Errorf("%+v: Pays() = %v, want %v", *c.s, got, c.want)
		}
	}
}

func TestPerTapCheck(t *testing.T) {
	s := shape2(1, 16, 16, 1, 6, 6, 3, 1, 5, 12)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	w := make([]float32, 16*32*9)
	in, out := NewLayout(16, 6, 6, 0, 0, 0, 0), NewLayout(16, s.Out[0], s.Out[1], 0, 0, 0, 0)
	for _, c := range []struct {
		d    *PerTap
		want string
	}{
		{perTap(cpu.Generic, s, in, out, w, nil), "no tap inside of 6×6 pixels"},
		{perTap(cpu.Generic, s, NewLayout(32, 6, 6, 0, 0, 0, 0), out, w, nil), "layouts of 32 and 16 channels"},
	} {
		if err := c.d.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check() = %v, want %q", err, c.want)
		}
	}
}
