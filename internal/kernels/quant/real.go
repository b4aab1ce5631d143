package quant

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Real is the destination of sums that become float32. All levels give the same bits:
//
//	y[i*n+j] = then(float32(s)*scale[j] + bias[j] + add[i*n+j])
type Real struct {
	Y     []float32 // M rows of N
	Scale []float32 // one value, or one per column
	Bias  []float32 // N values, or nil
	Add   []float32 // M rows of N, or nil
	// Then computes dst from x, parts of rows of the result, in place and elementwise; or nil.
	Then func(level cpu.Level, dst, x []float32)
}

// store converts the sums of columns [j, j+w) of n, for rows from r0 on. Rows of sums are ld apart.
func (o *Real) store(l cpu.Level, sums []int32, ld, r0, rows, j, w, n int) {
	for i := range rows {
		at := (r0+i)*n + j
		y := o.Y[at : at+w]
		vec.I32ToF32(l, y, sums[i*ld:][:w])
		if len(o.Scale) == 1 {
			vec.MulScalarF32(l, y, y, o.Scale[0])
		} else {
			vec.MulF32(l, y, y, o.Scale[j:j+w])
		}
		if o.Bias != nil {
			vec.AddF32(l, y, y, o.Bias[j:j+w])
		}
		if o.Add != nil {
			vec.AddF32(l, y, y, o.Add[at:at+w])
		}
		if o.Then != nil {
			o.Then(l, y, y)
		}
	}
}
