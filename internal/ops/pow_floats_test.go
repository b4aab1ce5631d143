package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

func TestPowFloats(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a, b := testkit.Special32(), testkit.Special32()
	for i := range b {
		b[i] = b[len(b)-1-i]
	}
	for range 100000 {
		a = append(a, math.Float32frombits(r.Uint32()), float32(r.NormFloat64()), 1+float32(r.NormFloat64())/64)
		b = append(b, float32(r.NormFloat64()*4), float32(r.NormFloat64()*20), float32(r.NormFloat64()*2000))
	}
	b = b[:len(a)]
	d := make([]float32, len(a))
	check := func(what string, x, y func(i int) float32) {
		for i, v := range d {
			want := math.Pow(float64(x(i)), float64(y(i)))
			if u := testkit.ULP32(v, want); !(u <= 1) {
				t.Fatalf("%s: %g to the power of %g is %g, want %g: %.3g ULP", what, x(i), y(i), v, want, u)
			}
		}
	}
	powFloats(d, a, b)
	check("elements", func(i int) float32 { return a[i] }, func(i int) float32 { return b[i] })
	powFloats(d, a, []float32{1.7})
	check("one exponent", func(i int) float32 { return a[i] }, func(i int) float32 { return 1.7 })
	for i := range b {
		if i%3 == 0 {
			b[i] = float32(math.Round(float64(b[i])))
		}
	}
	powFloats(d, a, b)
	check("integers", func(i int) float32 { return a[i] }, func(i int) float32 { return b[i] })
	powFloats(d, a, []float32{-1})
	check("reciprocal", func(i int) float32 { return a[i] }, func(i int) float32 { return -1 })
	powFloats(d, []float32{1.3}, b)
	check("one base", func(i int) float32 { return 1.3 }, func(i int) float32 { return b[i] })
}
