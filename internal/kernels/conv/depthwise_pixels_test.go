package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestDepthwisePixels compares with the definition, in memory that ends at a guard page.
func TestDepthwisePixels(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(41, 41))
		for i := range 60 {
			c, k := 1+r.IntN(40), []int{1 + r.IntN(7), 1 + r.IntN(7)}
			s := &Shape{N: 1, Cin: c, Cout: c, Group: c, In: []int{1 + r.IntN(20), 1 + r.IntN(20)}, Kernel: k,
				Stride: []int{1 + r.IntN(2), 1}, Dilation: []int{1, 1 + r.IntN(2)},
				PadBegin: []int{r.IntN(k[0]), r.IntN(k[1])}, PadEnd: []int{r.IntN(k[0]), r.IntN(k[1])}}
			if s.Check() != nil {
				continue
			}
			side := testkit.Side(i%2 == 0)
			x := testkit.Guarded[float32](t, c*product(s.In), side, 0)
			y := testkit.Guarded[float32](t, c*product(s.Out), side, 0)
			copy(x, random(r, len(x)))
			w, bias := random(r, c*product(k)), random(r, c)
			d, err := NewDepthwisePixels(s, w, bias)
			if err != nil {
				t.Fatal(err)
			}
			scratch := random(r, d.Scratch())
			for b := range d.Blocks() {
				d.Run(l, y, x, scratch, b, &BlockedEpilogue{Map: func(dst, src []float32, _ int) {
					for j, v := range src {
						dst[j] = 2 * v
					}
				}})
			}
			planes, want := make([]float32, len(x)), make([]float32, len(y))
			for j := range planes {
				planes[j] = x[j%product(s.In)*c+j/product(s.In)]
			}
			NaiveGeneric(s, want, planes, w, &Epilogue[float32]{Bias: bias})
			for j, v := range want {
				if got := y[j%product(s.Out)*c+j/product(s.Out)]; math.Abs(float64(got-2*v)) > 1e-4 {
					t.Fatalf("%+v: output %d is %g, want %g", *s, j, got, 2*v)
				}
			}
		}
	})
}
