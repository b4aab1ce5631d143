package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	testkit "github.com/onward-ml/onward/internal/testing"
)

// TestLSTMCell compares with the kernels of the single functions, bit by bit.
func TestLSTMCell(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, n := range []int{0, 1, 15, 16, 17, 32, 61} {
			for _, unit := range []int{(n + 15) &^ 15, 80} {
				numbers := func(n int, scale float32) []float32 {
					s := testkit.Guarded[float32](t, n, testkit.High, 0)
					for i := range s {
						s[i] = scale * (rand.Float32() - 0.5)
					}
					return s
				}
				gates, cell, next := numbers(3*unit+(n+15)&^15, 30), numbers(n, 3), numbers(n, 1)
				if n > 2 {
					gates[0], gates[2*unit+1], gates[3*unit+2] = float32(math.Inf(-1)), float32(math.NaN()), -100
				}
				gate := func(g int, f func(level, []float32, []float32)) []float32 {
					y := make([]float32, n)
					f(l, y, gates[g*unit:][:n])
					return y
				}
				in, out, forget, c := gate(0, SigmoidF32), gate(1, SigmoidF32), gate(2, SigmoidF32), gate(3, TanhF32)
				state, want := append([]float32{}, cell...), make([]float32, n)
				MulF32(l, state, state, forget)
				MulF32(l, in, in, c)
				AddF32(l, state, state, in)
				TanhF32(l, want, state)
				MulF32(l, want, want, out)
				if before := append([]float32{}, cell...); !LSTMCellF32(l, next, cell, gates, unit) {
					if cpu.Level(l) == cpu.AVX512 || !slices.Equal(cell, before) {
						t.Fatal("there is no kernel, or the states have changed")
					}
					continue
				}
				for i := range want {
					if math.Float32bits(cell[i]) != math.Float32bits(state[i]) || math.Float32bits(next[i]) != math.Float32bits(want[i]) {
						t.Fatalf("unit %d of %d: got %g and %g, want %g and %g", i, n, cell[i], next[i], state[i], want[i])
					}
				}
			}
		}
	})
}
