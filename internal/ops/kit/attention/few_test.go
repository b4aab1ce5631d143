package attention

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
)

// Few queries per head, with groups of heads, windows, biases and scores that are NaN, have the
// result of the generic code, and the same bits with one and two threads.
func TestFewQueries(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	normal := func(n int) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
		return s
	}
	for _, groups := range [][2]int{{1, 1}, {2, 1}, {3, 3}, {4, 2}, {7, 1}, {8, 1}, {14, 2}, {12, 1}} {
		for _, dims := range [][2]int{{16, 64}, {64, 64}, {80, 48}, {128, 128}, {24, 64}} {
			for _, length := range []int{1, 3, 64, 513, 1030} {
				const batch = 2
				heads, kv, dim, vdim := groups[0], groups[1], dims[0], dims[1]
				queries := []int{1, 1, 2, 3, fewQueries}[r.IntN(5)]
				k, bias := normal(batch*kv*length*dim), normal(batch*heads*queries*length)
				from, withBias := r.IntN(length), r.IntN(2) > 0
				if r.IntN(3) == 0 {
					k[len(k)-1] = float32(math.NaN())
				}
				a := Core[float32]{Batch: batch, Heads: heads, KVHeads: kv, QLen: queries, KVLen: length, Dim: dim,
					VDim:  vdim,
					Q:     HeadsLast(normal(batch*heads*queries*dim), heads, queries, dim),
					K:     HeadsFirst(k, kv, length, dim),
					V:     HeadsFirst(normal(batch*kv*length*vdim), kv, length, vdim),
					Scale: 1 / math.Sqrt(float64(dim)), Observe: ScoresNone,
					Visible: func(b, i int) (int, int) { return from + i/2, length - b - i }}
				if withBias {
					a.Bias = &Bias[float32]{Rows: HeadsFirst(bias, heads, queries, length),
						Fill: func(b, h, i int, row []float32) { copy(row, bias[((b*heads+h)*queries+i)*length:]) }}
				}
				compute := func(generic, two bool) []float32 {
					c := &ir.Call{Env: &optest.Env{Ctx: t.Context(), Limit: optest.MemoryLimit, Two: two},
						Generic: generic}
					y := make([]float32, batch*heads*queries*vdim)
					a.Y = HeadsLast(y, heads, queries, vdim)
					if err := a.Compute(c); err != nil {
						t.Fatal(err)
					}
					return y
				}
				want, one, two := compute(true, false), compute(false, false), compute(false, true)
				for i, w := range want {
					if math.Float32bits(one[i]) != math.Float32bits(two[i]) {
						t.Fatalf("%d queries, %d heads for %d, sizes %d, %d keys: element %d is %g with one thread, "+
							"%g with two", queries, heads, kv, dims, length, i, one[i], two[i])
					}
					if d := math.Abs(float64(one[i] - w)); !(d < 2e-5) && (w == w || one[i] == one[i]) {
						t.Fatalf("%d queries, %d heads for %d, sizes %d, %d keys: element %d is %g, want %g", queries,
							heads, kv, dims, length, i, one[i], w)
					}
				}
			}
		}
	}
}
