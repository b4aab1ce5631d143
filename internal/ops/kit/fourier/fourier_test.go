package fourier

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

func TestFourierPlanEqualsTheDefinition(t *testing.T) {
	lengths := []int{509, 1000, 1021, 1024, 1155, 2 * 521}
	for n := 1; n <= 130; n++ {
		lengths = append(lengths, n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range lengths {
		p := NewPlan(optest.NewCall(), n)
		src, dst, back := make([]complex128, n), make([]complex128, n), make([]complex128, n)
		for i := range src {
			src[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		scratch := make([]complex128, p.ScratchLen())
		p.Forward(dst, src, scratch)
		for k := 0; k < n; k += 1 + n/17 {
			want := complex128(0)
			for j, x := range src {
				want += x * cmplx.Rect(1, -2*math.Pi*float64(j*k%n)/float64(n))
			}
			if cmplx.Abs(dst[k]-want) > 1e-11*float64(n) {
				t.Fatalf("length %d: frequency %d is %v, want %v", n, k, dst[k], want)
			}
		}
		p.inverse(back, dst, scratch)
		for i, x := range src {
			if cmplx.Abs(back[i]-x) > 1e-11 {
				t.Fatalf("length %d: element %d comes back as %v, want %v", n, i, back[i], x)
			}
		}
	}
}
