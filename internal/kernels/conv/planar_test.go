package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

func TestPlanar(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	special := testkit.Special32()
	for i := range 300 {
		k, c := []int{3, 5}[i%2], 1+r.IntN(5)
		s := &Shape{N: 1, Cin: c, Cout: c, Group: c, In: []int{1 + r.IntN(16), 1 + r.IntN(16)}, Kernel: []int{k, k},
			Stride: []int{1, 1}, Dilation: []int{1, 1},
			PadBegin: []int{r.IntN(k), r.IntN(k)}, PadEnd: []int{r.IntN(k), r.IntN(k)}}
		if s.Check() != nil || s.Out[1] > Lanes {
			continue
		}
		side := testkit.Side(i&2 == 0)
		x, w, y := testkit.Guarded[float32](t, c*product(s.In), side, 0), testkit.Guarded[float32](t, c*k*k, side, 0),
			testkit.Guarded[float32](t, c*product(s.Out), side, 0)
		bias := make([]float32, c)
		for _, v := range [][]float32{x, w, bias} {
			for j := range v {
				v[j] = r.Float32()*2 - 1
			}
		}
		if i%3 == 0 {
			x[r.IntN(len(x))] = special[r.IntN(len(special))]
		}
		want := make([]float32, len(y))
		p := newPlanar(cpu.AVX512, s, w, bias)
		p.run(cpu.Generic, want, x, 0, c, &BlockedEpilogue{})
		naive := make([]float32, len(y))
		NaiveGeneric(s, naive, x, w, &Epilogue[float32]{Bias: bias})
		level := cpu.Detected()
		p.run(level, y, x, 0, c, &BlockedEpilogue{})
		for j, v := range naive {
			for _, got := range []float32{y[j], want[j]} {
				if d := math.Abs(float64(got) - float64(v)); (got != got) != (v != v) ||
					d > 1e-5*max(1, math.Abs(float64(v))) {
					t.Fatalf("%v %+v: output %d is %g, want %g", level, *s, j, got, v)
				}
			}
		}
	}
}
