package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// The sums of a row are those of one call however threads divide the panels, and with all
// epilogues.
func TestRowOfPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range []int{1, 2, 3, 4, 5, 9, 100, 1023, 1024, 1030, 2049} {
		for _, n := range []int{1, 31, 32, 33, 127, 128, 129, 200, 300} {
			x, w, bias := make([]float32, k), make([]float32, k*n), make([]float32, n)
			for _, s := range [][]float32{x, w, bias} {
				for i := range s {
					s[i] = float32(r.NormFloat64())
				}
			}
			packed := memory.Slice[float32](PackedLen(k, n))
			Pack(packed, w, n, false, k, n)
			a := &Args[float32]{M: 1, N: n, K: k, A: x, LdA: k, B: packed, Packed: true, LdC: n}
			a.Epilogue = Epilogue[float32]{BiasCol: bias, Alpha: 0.5, Act: Relu}
			for _, l := range cpu.Levels() {
				whole, parts := make([]float32, n), make([]float32, n)
				a.C = whole
				F32(l, a, a.Whole())
				a.C = parts
				for p := 0; p < Panels(n); p += 3 {
					F32(l, a, Block{0, 1, p, min(p+3, Panels(n))})
				}
				for j := range n {
					var want, size float64
					for i, v := range x {
						p := 0.5 * float64(v) * float64(w[i*n+j])
						want, size = want+p, size+max(p, -p)
					}
					want, size = max(0, want+float64(bias[j])), size+float64(max(bias[j], -bias[j]))
					if d := float64(whole[j]) - want; max(d, -d) > float64(k+3)*0x1p-24*size || parts[j] != whole[j] {
						t.Fatalf("%v, k %d, n %d: column %d is %g, in parts %g, want %g", l, k, n, j,
							whole[j], parts[j], want)
					}
				}
			}
		}
	}
}

// A single column, which is computed as a row, has the sums and the epilogue of other GEMMs.
func TestColumn(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, m := range []int{1, 3, 4, 35, 300} {
			for _, k := range []int{LeastDot - 1, LeastDot, 17, 100, 1030} {
				for ep := range 64 {
					s := shape{m: m, n: 1, k: k, transB: r.IntN(2) > 0, ep: ep}
					testkit.Scope(t, func(t testing.TB) {
						check(t, s, testkit.High, 0, 0x1p-24, floats[float32](r),
							func(a *Args[float32]) { Parallel(twoWays, l, a) })
					})
				}
			}
		}
	})
}

func BenchmarkRow(b *testing.B) {
	for _, s := range [][2]int{{768, 3072}, {3072, 768}, {4096, 4096}, {1280, 1000}} {
		k, n := s[0], s[1]
		a := &Args[float32]{M: 1, N: n, K: k, A: make([]float32, k), LdA: k, B: memory.Slice[float32](PackedLen(k, n)),
			Packed: true, C: make([]float32, n), LdC: n}
		for i := range a.B {
			a.B[i] = float32(i % 7)
		}
		b.Run(fmt.Sprintf("%dx%d", k, n), func(b *testing.B) {
			b.SetBytes(int64(4 * k * n))
			for b.Loop() {
				F32(cpu.Active(), a, a.Whole())
			}
		})
	}
}
