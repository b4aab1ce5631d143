package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

func sinFast(_ cpu.Level, dst, x []float32) { sinCosFast(dst, x, 0) }
func cosFast(_ cpu.Level, dst, x []float32) { sinCosFast(dst, x, 1) }

// sinCosFast computes sin(x + turn·π/2) with a relative error below 0.6·2⁻²³. The
// argument is reduced to [−π/4, π/4] in float64, with π/2 in two parts of which
// the first has 33 bits (Cody and Waite, Software Manual for the Elementary
// Functions, 1980); there the Taylor series of a few terms suffice for float32.
func sinCosFast(dst, x []float32, turn int) {
	const (
		high  = 0x1.921fb544p+0
		low   = math.Pi/2 - high
		large = 1e5 // the number of quarter turns times high is exact below
	)
	dst = dst[:len(x)]
	for i, v := range x {
		w := float64(v)
		if !(math.Abs(w) < large) {
			if turn == 0 {
				dst[i] = float32(math.Sin(w))
			} else {
				dst[i] = float32(math.Cos(w))
			}
			continue
		}
		k := math.RoundToEven(w * (2 / math.Pi))
		r := w - k*high - k*low
		z := r * r
		y := r + r*z*(-1./6+z*(1./120+z*(-1./5040+z*(1./362880))))
		q := int(k) + turn
		if q&1 != 0 {
			y = 1 + z*(-1./2+z*(1./24+z*(-1./720+z*(1./40320+z*(-1./3628800)))))
		}
		if q&2 != 0 {
			y = -y
		}
		dst[i] = float32(y)
	}
}
