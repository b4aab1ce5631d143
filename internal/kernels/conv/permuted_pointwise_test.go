package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

// permuted checks PermutedPointwise, with the channels of the image in another order if shuffle is
// not nil.
func (b *blocked) permuted(t testing.TB, l cpu.Level, side testkit.Side, flat bool, shuffle *rand.Rand) {
	t.Helper()
	c := *b
	var order []int
	if shuffle != nil {
		order = shuffle.Perm(b.Cin)
		c.x = make([]float32, len(b.x))
		n := product(b.In)
		for k, at := range order {
			copy(c.x[at*n:], b.x[k*n:][:n])
		}
	}
	k := float64(b.Cin / b.Group)
	c.run(t, fmt.Sprintf("permuted %v %+v", l, *b.Shape), l, side, flat, 6e-6*max(1, math.Sqrt(k)/30),
		func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
			d, err := newPermuted(b.w, b.ep.Bias, b.Group, in, out, b.Stride[0], b.Stride[1], order)
			if err != nil {
				t.Fatal(err)
			}
			d.Run(l, twoWays, y, x, ep)
		})
}

func TestPermutedPointwise(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(3, 1))
		for i, s := range []*Shape{
			shape2(1, 24, 88, 1, 6, 29, 1, 1, 1, 0), shape2(1, 136, 272, 4, 5, 5, 1, 1, 1, 0), shape2(1, 30, 60, 5, 5, 8, 1, 2, 1, 0), shape2(1, 1, 1, 1, 1, 1, 1, 1, 1, 0),
			shape2(1, 7, 7, 7, 4, 4, 1, 1, 1, 0), shape2(1, 64, 32, 2, 3, 15, 1, 3, 1, 0), shape2(1, 4100, 16, 1, 2, 7, 1, 1, 1, 0),
		} {
			for _, e := range []int{0, 3, 7, 11} {
				b := newBlocked(r, s, e)
				b.permuted(t, l, i&1 == 0, e == 7, nil)
				b.permuted(t, l, i&1 == 1, e == 7, r)
			}
		}
		for w := 1; w < 31; w++ { // every tile height, one and two blocks
			newBlocked(r, shape2(1, 17, 16*(1+w%3), 1, 2, w, 1, 1, 1, 0), w&15).permuted(t, l, w&1 == 0, w%3 == 0, r)
		}
	})
}

func TestRapidPermutedPointwise(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		rapid.Check(t, func(rt *rapid.T) {
			g := rapid.IntRange(1, 5).Draw(rt, "group")
			s := shape2(1, g*rapid.IntRange(1, 40).Draw(rt, "cin"), g*rapid.IntRange(1, 40).Draw(rt, "cout"), g,
				rapid.IntRange(1, 9).Draw(rt, "height"), rapid.IntRange(1, 17).Draw(rt, "width"), 1,
				rapid.IntRange(1, 3).Draw(rt, "stride"), 1, 0)
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
			b := newBlocked(r, s, rapid.IntRange(0, 15).Draw(rt, "epilogue"))
			if rapid.Bool().Draw(rt, "keep order") {
				r = nil
			}
			side := testkit.Side(rapid.Bool().Draw(rt, "side"))
			testkit.Scope(t, func(t testing.TB) { b.permuted(t, l, side, false, r) })
		})
	})
}

func TestPermutedPointwiseErrors(t *testing.T) {
	in, out := NewLayout(6, 4, 4, 0, 0, 0, 0), NewLayout(4, 4, 4, 0, 0, 0, 0)
	for name, f := range map[string]func() error{
		"group": func() error {
			_, err := newPermuted(make([]float32, 6), nil, 4, in, out, 1, 1, nil)
			return err
		},
		"weights": func() error {
			_, err := newPermuted(make([]float32, 5), nil, 2, in, out, 1, 1, nil)
			return err
		},
		"order": func() error {
			_, err := newPermuted(make([]float32, 12), nil, 2, in, out, 1, 1, make([]int, 5))
			return err
		},
		"stride": func() error {
			_, err := newPermuted(make([]float32, 12), nil, 2, in, out, 2, 1, nil)
			return err
		},
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// BenchmarkPermutedPointwise compares 1×1 convolutions whose channels are not a multiple of 16
// with Direct.
func BenchmarkPermutedPointwise(b *testing.B) {
	for _, s := range []*Shape{
		shape2(1, 136, 136, 4, 28, 28, 1, 1, 1, 0), shape2(1, 272, 272, 4, 14, 14, 1, 1, 1, 0), shape2(1, 544, 544, 4, 7, 7, 1, 1, 1, 0),
		shape2(1, 24, 88, 1, 28, 28, 1, 1, 1, 0), shape2(1, 24, 144, 1, 56, 56, 1, 1, 1, 0), shape2(1, 64, 64, 1, 28, 28, 1, 1, 1, 0),
	} {
		in, out := NewLayout(s.Cin, s.In[0], s.In[1], 0, 0, 0, 0), NewLayout(s.Cout, s.Out[0], s.Out[1], 0, 0, 0, 0)
		x, y, w := memory.Slice[float32](in.Len()), memory.Slice[float32](out.Len()),
			make([]float32, s.Cout*s.Cin/s.Group)
		g, err := newPermuted(w, nil, s.Group, in, out, 1, 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		d := &Direct{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
			Weights: PackWeights(cpu.Active(), w, nil, s.Cin, s.Cout, s.Group, 1, 1)}
		for name, f := range map[string]func(){
			"direct":   func() { d.Run(cpu.Active(), nil, y, x, &BlockedEpilogue{}) },
			"permuted": func() { g.Run(cpu.Active(), nil, y, x, &BlockedEpilogue{}) },
		} {
			b.Run(fmt.Sprintf("%dx%d_g%d@%d/%s", s.Cin, s.Cout, s.Group, s.In[0], name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(2*float64(len(w)*product(s.Out))*float64(b.N)/float64(b.Elapsed().Nanoseconds()),
					"GFLOPS")
			})
		}
	}
}

// newPermuted packs weights and returns their convolution.
func newPermuted(w, bias []float32, group int, in, out Layout, strideH, strideW int,
	order []int) (*PermutedPointwise, error) {
	p, err := PackPermuted(w, bias, in.C, out.C, group)
	if err != nil {
		return nil, err
	}
	return NewPermutedPointwise(p, in, out, strideH, strideW, order)
}
