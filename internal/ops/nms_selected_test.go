package ops

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestNonMaxSuppressionCells selects from enough boxes to divide them into cells, and compares with
// a selection that compares all pairs.
func TestNonMaxSuppressionCells(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	const n = 1500
	for _, k := range []struct {
		name  string
		shift func(i int, b []float32)
	}{
		{"one class", func(int, []float32) {}},
		{"shifted classes", func(i int, b []float32) {
			for j := range b {
				b[j] += float32(i % 30 * 101)
			}
		}},
		{"classes in the order of scores", func(i int, b []float32) {
			for j := range b {
				b[j] -= float32(i / 50 * 101)
			}
		}},
		{"wide boxes", func(i int, b []float32) {
			if i%100 == 0 {
				b[1], b[3] = -1e4, 1e4
			}
		}},
		{"flat boxes", func(i int, b []float32) {
			b[0], b[2] = 0, float32(i%8)*0x1p-149
			b[3] = b[1] + (b[3]-b[1])/8
		}},
		{"far from zero", func(i int, b []float32) {
			for j := range b {
				b[j] += 1e7
			}
		}},
		{"exceptional numbers", func(i int, b []float32) {
			b[i%4] += float32(i % 30 * 101)
			if i%7 == 0 {
				b[i%4] = []float32{nan, inf, -inf, math.MaxFloat32}[i/7%4]
			}
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			boxes, scores, order := make([]float32, 4*n), make([]float32, n), make([]int, n)
			for i := range n {
				b := boxes[4*i:][:4]
				b[0], b[1] = r.Float32()*100, r.Float32()*100
				b[2], b[3] = b[0]+5+r.Float32()*20, b[1]+5+r.Float32()*20
				k.shift(i, b)
				scores[i], order[i] = 1-float32(i/3)/n, i
			}
			slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(scores[a], scores[b]) })
			for _, threshold := range []float32{.3, .5, .8} {
				var picked []nmsBox
				want := []int64{}
				for _, i := range order {
					if b := newNMSBox(boxes[4*i:], false); !b.suppressed(picked, threshold) {
						picked = append(picked, b)
						want = append(want, 0, 0, int64(i))
					}
				}
				if len(picked) <= 2*nmsCellsFrom {
					t.Fatalf("only %d boxes are selected", len(picked))
				}
				for _, limit := range []int{n, n / 10} { // sorted, and a heap
					picks := min(limit, len(picked))
					optest.Want(t, "NonMaxSuppression", 11, nil, optest.Tensor(want[:3*picks], picks, 3),
						optest.Tensor(boxes, 1, n, 4), optest.Tensor(scores, 1, 1, n), optest.Int64s(int64(limit)),
						optest.Tensor([]float32{threshold}, 1))
				}
			}
		})
	}
}
