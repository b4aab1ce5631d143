package ops

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestModQuick compares the loops that divide with math.Mod, bit for bit.
func TestModQuick(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.1, 1e-45, 1e38, math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1 << 24, 3}
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
	for name, f := range map[string][2]func(dst, a, b []float32){"fmod": {fmodQuick, fmodFloat[float32]}, "mod": {modQuick, modFloat[float32]}} {
		f[0](got, a, b)
		f[1](want, a, b)
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
				t.Fatalf("%s(%g, %g) is %g, want %g", name, a[i], b[i], got[i], want[i])
			}
		}
	}
}
