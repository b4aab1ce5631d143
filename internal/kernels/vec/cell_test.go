package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// eachCells calls fn with random cells of several sizes, at all levels. The gates of the first row
// have numbers that are not finite.
func eachCells(t *testing.T, gates int, fn func(t *testing.T, l level, c *Cells)) {
	testkit.Levels(t, func(t *testing.T, l level) {
		numbers := func(n int, scale float32) []float32 {
			s := testkit.Guarded[float32](t, n, testkit.High, 0)
			for i := range s {
				s[i] = scale * (rand.Float32() - 0.5)
			}
			return s
		}
		for _, n := range []int{0, 1, 15, 16, 17, 32, 61, 100} {
			for _, rows := range []int{0, 1, 2, 23} { // 23 rows of 100 take more than one call
				for _, y := range []bool{false, true} {
					c := &Cells{N: n, Rows: rows, Unit: n + rand.IntN(20), Step: n + 2, YStep: n + 1}
					c.GateStep = gates*c.Unit + 3
					last := max(0, rows-1)
					c.Gates = numbers(last*c.GateStep+(gates-1)*c.Unit+n, 30)
					for _, s := range []*[]float32{&c.Hidden, &c.Next, &c.Second} {
						*s = numbers(last*c.Step+n, 3)
					}
					if y {
						c.Y = numbers(last*c.YStep+n, 1)
					}
					for g, v := range []float32{float32(math.Inf(-1)), float32(math.NaN()), -100}[:min(gates, n, 3)] {
						c.Gates[g*c.Unit+g] = v
					}
					fn(t, l, c)
				}
			}
		}
	})
}

// copied returns cells whose gates and states are copies.
func (c *Cells) copied() *Cells {
	d := *c
	for _, s := range []*[]float32{&d.Gates, &d.Hidden, &d.Next, &d.Second, &d.Y} {
		*s = slices.Clone(*s)
	}
	return &d
}

// equalCells fails if the cells differ in a bit, or if a level with a kernel has none.
func equalCells(t *testing.T, l level, done bool, before, got, want *Cells) {
	t.Helper()
	if !done {
		if cpu.Level(l) == cpu.AVX512 {
			t.Fatal("there is no kernel")
		}
		want = before
	}
	name := []string{"gates", "hidden", "next", "second", "y"}
	w := [][]float32{want.Gates, want.Hidden, want.Next, want.Second, want.Y}
	for k, g := range [][]float32{got.Gates, got.Hidden, got.Next, got.Second, got.Y} {
		for i, v := range g {
			if math.Float32bits(v) != math.Float32bits(w[k][i]) && (v == v || w[k][i] == w[k][i]) {
				t.Fatalf("%s[%d] of %d rows of %d units: got %g, want %g", name[k], i, got.Rows, got.N, v, w[k][i])
			}
		}
	}
}

// eachRow calls fn with the parts of each row, and copies Next to Y.
func (c *Cells) eachRow(fn func(gate func(g int) []float32, hidden, next, second []float32)) {
	for i := range c.Rows {
		row := func(s []float32) []float32 { return s[i*c.Step:][:c.N] }
		fn(func(g int) []float32 { return c.Gates[i*c.GateStep+g*c.Unit:][:c.N] }, row(c.Hidden),
			row(c.Next), row(c.Second))
		if c.Y != nil {
			copy(c.Y[i*c.YStep:], row(c.Next))
		}
	}
}

var _ = testkit.Tested("lstmCellF32")

// TestLSTMCell compares with the kernels of the single functions, bit by bit.
func TestLSTMCell(t *testing.T) {
	eachCells(t, 4, func(t *testing.T, l level, c *Cells) {
		before, want := c.copied(), c.copied()
		want.eachRow(func(gate func(g int) []float32, _, next, second []float32) {
			of := func(g int, f func(level, []float32, []float32)) []float32 {
				y := make([]float32, c.N)
				f(l, y, gate(g))
				return y
			}
			in, out, forget, cell := of(0, SigmoidF32), of(1, SigmoidF32), of(2, SigmoidF32), of(3, TanhF32)
			MulF32(l, second, second, forget)
			MulF32(l, in, in, cell)
			AddF32(l, second, second, in)
			TanhF32(l, next, second)
			MulF32(l, next, next, out)
		})
		equalCells(t, l, LSTMCellF32(l, c), before, c, want)
	})
}

var _ = testkit.Tested("gruResetF32")

// TestGRUReset is TestLSTMCell for the gates z and r of a GRU.
func TestGRUReset(t *testing.T) {
	eachCells(t, 2, func(t *testing.T, l level, c *Cells) {
		c.Y = nil
		before, want := c.copied(), c.copied()
		want.eachRow(func(gate func(g int) []float32, hidden, _, second []float32) {
			SigmoidF32(l, gate(0), gate(0))
			SigmoidF32(l, gate(1), gate(1))
			MulF32(l, second, hidden, gate(1))
		})
		equalCells(t, l, GRUResetF32(l, c), before, c, want)
	})
}

var _ = testkit.Tested("gruStateF32")

// TestGRUState is TestLSTMCell for the state of a GRU, with and without a product that its gate r
// scales.
func TestGRUState(t *testing.T) {
	for _, apart := range []bool{false, true} {
		eachCells(t, 1, func(t *testing.T, l level, c *Cells) {
			last := max(0, c.Rows-1)
			zr, recurrence, step := make([]float32, last*c.GateStep+c.Unit+c.N), []float32(nil), c.N+1
			if apart {
				recurrence = make([]float32, last*step+c.N)
			}
			for i := range zr {
				zr[i] = rand.Float32()
			}
			for i := range recurrence {
				recurrence[i] = rand.Float32() - 0.5
			}
			before, want, i := c.copied(), c.copied(), 0
			want.eachRow(func(gate func(g int) []float32, hidden, next, _ []float32) {
				n, z, keep := slices.Clone(gate(0)), slices.Clone(zr[i*c.GateStep:][:c.N]), make([]float32, c.N)
				if apart {
					v := slices.Clone(recurrence[i*step:][:c.N])
					MulF32(l, v, v, zr[i*c.GateStep+c.Unit:])
					AddF32(l, n, n, v)
				}
				TanhF32(l, n, n)
				MulF32(l, keep, z, hidden)
				ScaleShiftF32(l, z, z, -1, 1)
				MulF32(l, n, n, z)
				AddF32(l, next, keep, n)
				i++
			})
			equalCells(t, l, GRUStateF32(l, c, zr, recurrence, step), before, c, want)
		})
	}
}
