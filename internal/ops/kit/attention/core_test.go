package attention

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
)

// CopyHeads copies whole caches, so it must stop when the run does.
func TestCopyHeadsStops(t *testing.T) {
	const rows, cols = 1 << 12, 1 << 8
	src, dst := make([]float32, rows*cols), make([]float32, rows*cols)
	for i := range src {
		src[i] = 1
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &ir.Call{Env: &optest.Env{Ctx: ctx}}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, context.Canceled) {
			t.Errorf("recovered %v, want %v", err, context.Canceled)
		}
		if dst[len(dst)-1] != 0 {
			t.Error("all rows were copied after the context had ended")
		}
	}()
	CopyHeads(c, HeadsFirst(dst, 1, rows, cols), HeadsFirst(src, 1, rows, cols), 1, 1, 0, 0, rows, cols)
}

// TestManyQueries checks that several queries per head have the result of the generic code, and the
// same bits with one and two threads, which share packed keys and values if there are few heads.
func TestManyQueries(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	normal := func(n int) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
		return s
	}
	for _, heads := range [][2]int{{1, 1}, {2, 1}, {6, 3}, {9, 9}} {
		for _, queries := range []int{3, 29, 128, 197} {
			for _, keys := range []int{1, 77, 300, 1030} {
				const batch, dim, vdim = 2, 24, 40
				a := Core[float32]{Batch: batch, Heads: heads[0], KVHeads: heads[1], QLen: queries, KVLen: keys,
					Dim: dim, VDim: vdim, Scale: 0.2, Observe: ScoresNone,
					Q: HeadsLast(normal(batch*heads[0]*queries*dim), heads[0], queries, dim),
					K: HeadsLast(normal(batch*heads[1]*keys*dim), heads[1], keys, dim),
					V: HeadsFirst(normal(batch*heads[1]*keys*vdim), heads[1], keys, vdim)}
				compute := func(generic, rounded, two bool) []float32 {
					c := &ir.Call{Env: &optest.Env{Ctx: t.Context(), Limit: optest.MemoryLimit, Two: two},
						Generic: generic, BFloat16: rounded}
					y := make([]float32, batch*heads[0]*queries*vdim)
					a.Y = HeadsLast(y, heads[0], queries, vdim)
					if err := a.Compute(c); err != nil {
						t.Fatal(err)
					}
					return y
				}
				want := compute(true, false, false)
				for rounded, tolerance := range map[bool]float64{false: 1e-5, true: 2e-2} {
					one, two := compute(false, rounded, false), compute(false, rounded, true)
					if !slices.Equal(one, two) {
						t.Errorf("heads %v, %d queries, %d keys, rounded %v: results depend on threads", heads, queries,
							keys, rounded)
					}
					for i, w := range want {
						if d := math.Abs(float64(one[i] - w)); !(d < tolerance) {
							t.Fatalf("heads %v, %d queries, %d keys, rounded %v: element %d is %g, want %g", heads,
								queries, keys, rounded, i, one[i], w)
						}
					}
				}
			}
		}
	}
}
