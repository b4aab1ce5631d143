package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

func TestColumns(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(21, 21))
		for n := 0; n < 300; n += 1 + n/40 {
			for _, k := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 33, 4100} {
				if k > 100 && n%7 != 0 {
					continue
				}
				side, ldb := testkit.Side(n&1 == 0), n+r.IntN(3)
				a := testkit.Guarded[float32](t, k, side, n%3)
				b := testkit.Guarded[float32](t, max(0, (k-1)*ldb+n), side, k%5)
				dst := testkit.Guarded[float32](t, n, side, k%2)
				for _, s := range [][]float32{a, b, dst} {
					for i := range s {
						s[i] = r.Float32()*2 - 1
					}
				}
				if k > 1 && n > 5 { // NaN and infinities stay in their columns
					b[ldb+3], dst[1] = float32(math.NaN()), float32(math.Inf(1))
				}
				want, size := make([]float64, n), make([]float64, n)
				for j := range n {
					want[j], size[j] = float64(dst[j]), math.Abs(float64(dst[j]))
					for i, v := range a {
						p := float64(v) * float64(b[i*ldb+j])
						want[j] += p
						size[j] += math.Abs(p)
					}
				}
				Columns(l, dst, a, b, ldb)
				for j, w := range want {
					if d := math.Abs(float64(dst[j]) - w); d > float64(k+1)*0x1p-24*size[j] ||
						(w != w) != (dst[j] != dst[j]) || math.IsInf(w, 0) != math.IsInf(float64(dst[j]), 0) {
						t.Fatalf("%v: column %d of %d, %d steps: %g, want %g", l, j, n, k, dst[j], w)
					}
				}
			}
		}
	})
}

func BenchmarkColumns(b *testing.B) {
	for _, n := range []int{16, 32, 64, 128, 192, 256} {
		const total = 1 << 18
		k := 256
		w, a, d := make([]float32, total), make([]float32, k), make([]float32, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(4 * total)
			for b.Loop() {
				for i := 0; i+n*k <= total; i += n * k {
					Columns(cpu.Active(), d, a, w[i:], n)
				}
			}
		})
	}
}
