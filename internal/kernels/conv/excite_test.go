package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// exciteCase makes the kernel for c channels of h×w pixels and mid channels between the
// convolutions, with random weights and an image.
func exciteCase(t testing.TB, c, mid, h, w int) (e *Excite, x []float32) {
	r := rand.New(rand.NewPCG(uint64(c), uint64(mid)))
	random := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	pixel := func(cin, cout int) *Direct {
		return &Direct{In: NewLayout(cin, 1, 1, 0, 0, 0, 0), Out: NewLayout(cout, 1, 1, 0, 0, 0, 0), StrideH: 1,
			StrideW: 1, DilationH: 1, DilationW: 1,
			Weights: PackWeights(cpu.Active(), random(cin*cout), random(cout), cin, cout, 1, 1, 1)}
	}
	in := NewLayout(c, h, w, 0, 0, 0, 0)
	e, err := NewExcite(in, pixel(c, mid), pixel(mid, c))
	if err != nil {
		t.Fatal(err)
	}
	return e, random(in.Len())
}

// TestExcite compares the factors with those of convolutions of the means, and applies each piece
// of each panel once, for any number of threads, with the same bits.
func TestExcite(t *testing.T) {
	for _, s := range [][4]int{{1, 1, 1, 1}, {16, 4, 3, 5}, {40, 10, 14, 14}, {100, 33, 9, 1}, {240, 12, 7, 7},
		{33, 8, 70, 70}} {
		const pieces = 5
		e, x := exciteCase(t, s[0], s[1], s[2], s[3])
		means := make([]float32, e.first.In.Len())
		for b := range e.in.Blocks() {
			for l, v := range SumBlock(cpu.Generic, &e.in, x, b) {
				means[b*Lanes+l] = float32(v / float64(s[2]*s[3]))
			}
		}
		relu := &BlockedEpilogue{Act: gemm.Relu}
		mid, want := make([]float32, e.first.Out.Len()), make([]float32, e.second.Out.Len())
		e.first.Run(cpu.Generic, nil, mid, means, relu)
		e.second.Run(cpu.Generic, nil, want, mid, noEpilogue)
		testkit.Levels(t, func(t *testing.T, level cpu.Level) {
			var one []float32
			for _, threads := range []int{1, 2, 3, 16, 200} {
				got, seen := make([]float32, len(want)), make([]int, len(want)/Lanes*pieces)
				par := func(n int, fn func(lo, hi int)) {
					for i := n - 1; i >= 0; i-- {
						fn(i, i+1)
					}
				}
				e.Run(level, par, threads, make([]float32, e.Work(threads)), x, relu, noEpilogue, pieces,
					func(factors []float32, block, blocks, lo, hi int) {
						copy(got[block*Lanes:], factors[:blocks*Lanes])
						for b := block; b < block+blocks; b++ {
							for i := lo; i < hi; i++ {
								seen[b*pieces+i]++
							}
						}
					})
				for i, n := range seen {
					if n != 1 {
						t.Fatalf("%v on %d threads: piece %d of block %d is applied %d times", s, threads, i%pieces,
							i/pieces, n)
					}
				}
				for i, v := range got[:s[0]] {
					if d := math.Abs(float64(v - want[i])); !(d <= 1e-4*(1+math.Abs(float64(want[i])))) {
						t.Fatalf("%v on %d threads: factor %d is %v, want %v", s, threads, i, v, want[i])
					}
				}
				if one == nil {
					one = got
				} else if !slices.Equal(got, one) {
					t.Errorf("%v on %d threads: other factors than on one", s, threads)
				}
			}
		})
	}
}

func BenchmarkExcite(b *testing.B) {
	for _, s := range [][4]int{{1152, 48, 7, 7}, {672, 28, 14, 14}, {144, 6, 56, 56}} {
		for _, threads := range []int{1, 16} {
			b.Run(fmt.Sprint(s, threads), func(b *testing.B) {
				e, x := exciteCase(b, s[0], s[1], s[2], s[3])
				work := make([]float32, e.Work(threads))
				par := func(n int, fn func(lo, hi int)) {
					for i := range n {
						fn(i, i+1)
					}
				}
				for b.Loop() {
					e.Run(cpu.Active(), par, threads, work, x, noEpilogue, noEpilogue, 7,
						func([]float32, int, int, int, int) {})
				}
			})
		}
	}
}
