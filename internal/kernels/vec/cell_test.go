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
				if before := append([]float32{}, cell...); !LSTMCellF32(l, &LSTMStates{N: n, Rows: 1, Next: next, Cell: cell}, gates, 0, unit) {
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

// TestLSTMCells compares rows with calls for each.
func TestLSTMCells(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, n := range []int{1, 16, 33, 100} {
			const rows = 23 // more than one call takes
			unit := (n + 15) &^ 15
			step, yStep, gateStep := n+2, n+1, 4*unit+3
			random := func(n int) []float32 {
				s := testkit.Guarded[float32](t, n, testkit.High, 0)
				for i := range s {
					s[i] = 4 * (rand.Float32() - 0.5)
				}
				return s
			}
			next, cell, y, gates := random((rows-1)*step+n), random((rows-1)*step+n), random((rows-1)*yStep+n), random((rows-1)*gateStep+4*unit)
			wantNext, wantCell, wantY := slices.Clone(next), slices.Clone(cell), slices.Clone(y)
			for r := range rows {
				one := LSTMStates{N: n, Rows: 1, Next: wantNext[r*step:], Cell: wantCell[r*step:]}
				if !LSTMCellF32(l, &one, gates[r*gateStep:], 0, unit) {
					t.Skip("no kernel")
				}
				copy(wantY[r*yStep:][:n], wantNext[r*step:])
			}
			LSTMCellF32(l, &LSTMStates{N: n, Rows: rows, Next: next, Cell: cell, Step: step, Y: y, YStep: yStep}, gates, gateStep, unit)
			if !slices.Equal(next, wantNext) || !slices.Equal(cell, wantCell) || !slices.Equal(y, wantY) {
				t.Errorf("the states of %d units in %d rows differ from those of one row at a time", n, rows)
			}
		}
	})
}
