package quant

import (
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestPairs checks which matrices are packed for VPMADDUBSW, and products of the largest pairs.
func TestPairs(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		const k, n = 64, 48
		for _, c := range []struct {
			name   string
			x, y   int8 // pairs of the even and of the odd columns alternate in sign
			large  int  // pairs of 127
			pairs  bool // on AVX2
			excess int
		}{
			{"small", 3, 5, 0, true, 0}, {"limit", 64, 64, 0, true, 0}, {"uneven", 1, 127, 0, true, 0},
			{"few large", 64, 64, 3, true, 3}, {"many large", 64, 64, 4, false, 0}, {"all large", 65, 64, 0, false, 0},
		} {
			b := make([]int8, k*n)
			for i := range b {
				b[i] = []int8{c.x, c.y}[i/n%2]
				if i/n/2%2 != 0 {
					b[i] = -b[i]
				}
			}
			for i := range c.large {
				b[(4*i+2)*n+40+i], b[(4*i+3)*n+40+i] = -127, -127
			}
			p := Pack(nil, l, b, n, false, k, n)
			count := 0
			for _, e := range p.excess {
				count += len(e)
			}
			if want := c.pairs && l == cpu.AVX2; p.pairs != want || want && count != c.excess {
				t.Errorf("%s: packed for pairs: %v, %d excesses", c.name, p.pairs, count)
			}
			a := make([]uint8, 7*k)
			for i := range a {
				a[i] = 255 // the first row
				if i >= k && i/2%2 != 0 {
					a[i] = uint8(i)
				}
			}
			sums := make([]int32, 7*n)
			Parallel(nil, l, &Args{M: 7, A: a, LdA: k, B: p, C: sums, LdC: n})
			for i, got := range sums {
				want := int32(0)
				for q := range k {
					want += int32(a[i/n*k+q]) * int32(b[q*n+i%n])
				}
				if got != want {
					t.Fatalf("%s: element %d is %d, want %d", c.name, i, got, want)
				}
			}
		}
	})
}
