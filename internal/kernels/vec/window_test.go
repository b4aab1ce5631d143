package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested(
	"sumWindowF32", "sumWindow2F32", "maxWindowF32", "maxWindow2F32", "minWindowF32", "minWindow2F32",
)

func TestWindow(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		testWindow(t, l, "sum", SumWindowF32, 0, func(a, b float32) float32 { return a + b })
		testWindow(t, l, "max", MaxWindowF32, float32(math.Inf(-1)), func(a, b float32) float32 { return max(a, b) })
		testWindow(t, l, "min", MinWindowF32, float32(math.Inf(1)), func(a, b float32) float32 { return min(a, b) })
	})
}

// testWindow compares with plain loops, whose sums are in the same order, for every length up to
// five vectors, in memory that ends after the last window.
func testWindow(t *testing.T, l level, name string,
	window func(l level, dst, x []float32, rows, rowStep, taps, tapStep, stride int, fresh bool), initial float32,
	op func(a, b float32) float32) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 9))
	shapes := [][4]int{{1, 0, 1, 0}, {3, 90, 1, 0}, {1, 0, 3, 1}, {1, 0, 5, 1}, {3, 171, 3, 1}, {2, 170, 2, 2},
		{windowTaps + 5, 1, 1, 0}, {2, 3, windowTaps + 3, 1}, {0, 1, 1, 1}}
	testkit.Sides(func(side string, s testkit.Side) {
		for _, w := range shapes {
			for _, stride := range []int{1, 2, 3} {
				for n := range 84 + 1 {
					if n == 84 { // more than a byte counts
						n = 261
					}
					if w[0]*w[2] > windowTaps && n%9 != 2 {
						continue
					}
					fresh := rng.IntN(2) == 0
					size := max(0, (n-1)*stride+(w[0]-1)*w[1]+(w[2]-1)*w[3]+1)
					in, first := make([]float32, size), make([]float32, n)
					for i := range in {
						in[i] = float32(rng.NormFloat64())
						if rng.IntN(40) == 0 {
							in[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
								float32(math.Copysign(0, -1)), 1e-41}[rng.IntN(5)]
						}
					}
					for i := range first {
						first[i] = float32(rng.NormFloat64())
					}
					x, y := testkit.GuardedCopy(t, in, s, 0), testkit.GuardedCopy(t, first, s, 0)
					window(l, y, x, w[0], w[1], w[2], w[3], stride, fresh)
					for i, got := range y {
						want := first[i]
						if fresh {
							want = initial
						}
						for r := range w[0] {
							for k := range w[2] {
								want = op(want, in[i*stride+r*w[1]+k*w[3]])
							}
						}
						if math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
							t.Fatalf("%s %s, windows %v, stride %d, fresh %v: element %d of %d is %v, want %v", name,
								side, w, stride, fresh, i, n, got, want)
						}
					}
				}
			}
		}
	})
}

var _ = testkit.Tested("maskedWindowF32")

// TestWindowMasked compares with plain loops.
func TestWindowMasked(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		if l != cpu.AVX512 {
			t.Skip("the kernel is for AVX-512 only; other levels pool by rows")
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for n := 1; n <= 70; n++ {
			if n == 70 { // more than a byte counts
				n = 261
			}
			for _, taps := range []int{1, 2, 3, 5} {
				for stride := 1; stride <= 4; stride++ {
					const step = 3
					vectors, rows, pitch := (n+15)/16, 1+n%3, n*stride+n%5
					x, masks := make([]float32, (rows-1)*pitch+vectors*16*stride+(taps-1)*step),
						make([]uint16, vectors*taps)
					for i := range x {
						x[i] = float32(rng.NormFloat64())
						if rng.IntN(30) == 0 {
							x[i] = float32(math.NaN())
						}
					}
					for i := range masks {
						masks[i] = uint16(rng.Uint32())
					}
					testkit.Sides(func(_ string, s testkit.Side) { x = testkit.GuardedCopy(t, x, s, 0) })
					all := rows * n
					sum, most := make([]float32, all+1), make([]float32, all+1)
					MaskedWindowF32(sum[:all], x, n, pitch, taps, step, stride, masks, 1)
					MaskedWindowF32(most[:all], x, n, pitch, taps, step, stride, masks, 0)
					for i := range all + 1 {
						s, m := float32(0), float32(math.Inf(-1))
						if i == all {
							m = 0
						}
						row, col := i/n, i%n
						for k := 0; k < taps && i < all; k++ {
							if masks[col/16*taps+k]>>(col%16)&1 != 0 {
								v := x[row*pitch+col*stride+k*step]
								s, m = s+v, max(m, v)
							}
						}
						if !sameOrNaN(sum[i], s) || !sameOrNaN(most[i], m) {
							t.Fatalf("element %d of %d rows of %d, %d taps, stride %d: %v and %v, want %v and %v", i,
								rows, n, taps, stride, sum[i], most[i], s, m)
						}
					}
				}
			}
		}
	})
}

func sameOrNaN(a, b float32) bool { return a == b || a != a && b != b }

var _ = testkit.Tested("lineWindowF32")

// TestWindowLines compares with plain loops.
func TestWindowLines(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		if l != cpu.AVX512 {
			t.Skip("the kernel is for AVX-512 only; other levels pool by rows")
		}
		rng := rand.New(rand.NewPCG(5, 6))
		for _, n := range []int{1, 3, 15, 16, 17, 33, 256, 261} {
			x := make([]float32, 9*n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
				if rng.IntN(30) == 0 {
					x[i] = float32(math.NaN())
				}
			}
			testkit.Sides(func(_ string, s testkit.Side) { x = testkit.GuardedCopy(t, x, s, 0) })
			lines := []Line{{0, 2, n}, {0, 0, n}, {n, 4, n}, {0, 5, n}, {3 * n, 1, n}}
			if n > 20 {
				lines = append(lines, Line{2, 3, n - 20}, Line{0, 2, n})
			}
			for gap := range 3 {
				length := 0
				for _, r := range lines {
					length += r.N + gap
				}
				sum, most := make([]float32, length), make([]float32, length)
				LineWindowF32(sum, gap, x, lines, 2*n, 1)
				LineWindowF32(most, gap, x, lines, 2*n, 0)
				at := 0
				for row, r := range lines {
					for col := range r.N + gap {
						s, m := float32(0), float32(0)
						if col < r.N {
							m = float32(math.Inf(-1))
							for k := range r.Taps {
								v := x[r.From+2*k*n+col]
								s, m = s+v, max(m, v)
							}
						}
						if !sameOrNaN(sum[at], s) || !sameOrNaN(most[at], m) {
							t.Fatalf("column %d of row %d of %d, gaps of %d: %v and %v, want %v and %v", col, row, r.N,
								gap, sum[at], most[at], s, m)
						}
						at++
					}
				}
			}
		}
	})
}
