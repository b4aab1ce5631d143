package ops

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestModQuick compares the loops that divide with math.Mod, bit for bit.
func TestModQuick(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.1, 1e-45, 1e38, math.MaxFloat32,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1 << 24, 3}
	var a, b []float32
	for _, x := range special {
		for _, y := range special {
			a, b = append(a, x), append(b, y)
		}
	}
	for range 100000 {
		x, y := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
		if r.IntN(2) == 0 {
			x = float32(int32(r.Uint32())>>r.IntN(24)) * y // near multiples
		}
		a, b = append(a, x), append(b, y)
	}
	got, want := make([]float32, len(a)), make([]float32, len(a))
	for name, f := range map[string][2]func(dst, a, b []float32){"fmod": {fmodQuick, fmodFloat[float32]},
		"mod": {modQuick, modFloat[float32]}} {
		f[0](got, a, b)
		f[1](want, a, b)
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
				t.Fatalf("%s(%g, %g) is %g, want %g", name, a[i], b[i], got[i], want[i])
			}
		}
	}
}

// TestModDoubles compares fmodDoubles with math.Mod, bit for bit.
func TestModDoubles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 5e-324, 1e-310, 1e300, math.MaxFloat64, math.Inf(1),
		math.Inf(-1), math.NaN(), 1 << 53, 3, math.Nextafter(3, 4)}
	var a, b []float64
	for _, x := range special {
		for _, y := range special {
			a, b = append(a, x), append(b, y)
		}
	}
	for range 300000 {
		x, y := math.Float64frombits(r.Uint64()), math.Float64frombits(r.Uint64())
		switch r.IntN(3) {
		case 0:
			x = float64(int64(r.Uint64())>>r.IntN(60)) * y // near multiples
		case 1:
			x = math.Ldexp(y, r.IntN(56)) * (1 + float64(r.IntN(5)-2)*0x1p-52)
		}
		a, b = append(a, x), append(b, y)
	}
	got, want := make([]float64, len(a)), make([]float64, len(a))
	fmodDoubles(0, got, a, b)
	fmodFloat(want, a, b)
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
			t.Fatalf("fmod(%g, %g) is %g, want %g", a[i], b[i], got[i], want[i])
		}
	}
}
