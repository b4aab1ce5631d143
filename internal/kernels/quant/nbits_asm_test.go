//go:build !purego && (amd64 || arm64)

package quant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

func TestDigitBytes(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(11, 11))
		for n := 16; n < 200; n += 1 + n%16 {
			stride := n + r.IntN(20)
			x := testkit.Guarded[float32](t, n, testkit.High, 0)
			got, want := testkit.Guarded[int8](t, 2*stride+n, testkit.High, 0), make([]int8, 2*stride+n)
			var sum, wantSum [digits]int32
			for i := range x {
				x[i] = (2*r.Float32() - 1) * 127 / 128
			}
			x[r.IntN(n)], x[r.IntN(n)] = 127./128, -127./128
			digitBytes(l, got, stride, x, 1<<23, &sum)
			digitBytesGeneric(want, stride, x, 1<<23, &wantSum)
			if !slices.Equal(got, want) || sum != wantSum {
				t.Fatalf("%v, %d elements: %v with sums %v, want %v with %v", l, n, got, sum, want, wantSum)
			}
			for i, v := range x {
				q := int(got[i])<<16 + int(got[stride+i])<<8 + int(got[2*stride+i])
				if e := math.Abs(float64(v)*(1<<23) - float64(q)); e > 0.5 {
					t.Fatalf("%v: the digits of %g are %d", l, v*(1<<23), q)
				}
			}
		}
	})
}
