package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestDoubles allows 4 ULP, because math.Exp itself errs by 3 on amd64.
func TestDoubles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	special := []float64{0, math.Copysign(0, -1), 1, math.Sqrt2, math.Sqrt2 / 2, math.Inf(1), math.Inf(-1), math.NaN(), -1, 5e-324, 0x1p-1022, math.MaxFloat64,
		-708, -745, -746, 709, 709.78, 710, 1e-20, math.Nextafter(1, 0), math.Nextafter(1, 2)}
	for _, k := range []struct {
		name string
		f    func(dst, x []float64)
		of   func(float64) float64
		draw func() float64
	}{
		{"exp", ExpF64, math.Exp, func() float64 { return r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10)) }},
		{"log", LogF64, math.Log, func() float64 { return math.Exp(r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10))) }},
	} {
		x := append([]float64{}, special...)
		for range 100000 {
			x = append(x, k.draw())
		}
		y := make([]float64, len(x))
		k.f(y, x)
		for i, v := range y {
			want := k.of(x[i])
			if v != want && v == v && math.Abs(v-want) > 4*math.Abs(math.Nextafter(want, math.Inf(1))-want) || (v == v) != (want == want) || math.IsInf(v, 0) != math.IsInf(want, 0) {
				t.Fatalf("%s(%g) is %g, want %g", k.name, x[i], v, want)
			}
		}
	}
}
