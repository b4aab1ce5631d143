package ml

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Normalizer divides each row of X ([N,C] or [C]) by its largest element (MAX), by the
// sum of its magnitudes (L1) or by its Euclidean norm (L2). If the divisor is 0, the row
// is unchanged
// (https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html).
type Normalizer struct{ norm string }

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "Normalizer", Since: kit.Versions{1},
	In: "X:T", Out: "Y:float",
	Types: "T: " + mlNumbers,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Normalizer{a.Enum("norm", "MAX", "MAX", "L1", "L2")}
	}})

// Infer sets Y to the shape of X.
func (op *Normalizer) Infer(c *ir.InferContext) error {
	if _, _, err := mlRowDims(c, 0, "X"); err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeFloat32, Shape: c.Shape(0)})
	return nil
}

// Run normalizes row by row.
func (op *Normalizer) Run(c *ir.Call) error {
	x := c.Tensor(0)
	n, cols, err := mlRows(x, "X")
	if err != nil {
		return err
	}
	t, err := c.Output(0, tensor.TypeFloat32, x.Shape()...)
	if err != nil {
		return err
	}
	y := tensor.MustData[float32](t)
	grain := 1 + 1<<15/max(1, cols)
	if x.DType() == tensor.TypeFloat32 {
		s := tensor.MustData[float32](x)
		c.Launch(n, grain, func(lo, hi int) { normalizeFloats(c, op.norm, s, y, cols, lo, hi) })
		return nil
	}
	s, err := mlNumbersAs[float64](c, x)
	if err != nil {
		return err
	}
	c.Parallel(n, grain, func(lo, hi int) { normalizeRows(c, op.norm, s, y, cols, lo, hi) })
	return nil
}

// normalizeFloats is [normalizeRows] with vector kernels where they apply.
func normalizeFloats(c *ir.Call, norm string, x, y []float32, cols, lo, hi int) {
	var norms [64]float32
	var divisors [1024]float32
	if c.Generic || cols < 2 || cols > len(divisors)/16 || len(x) < vec.LeastRowsF32*cols {
		for i := lo; i < hi; i++ {
			if c.Generic || cols < 8 || cols > 1<<16 || !normalizeRow(norm, y[i*cols:][:cols], x[i*cols:][:cols]) {
				normalizeRows(c, norm, x, y, cols, i, i+1)
			}
		}
		return
	}
	l := cpu.Active()
	step := min(len(norms), len(divisors)/cols)
	for ; lo < hi; lo += step {
		d := norms[:min(step, hi-lo)]
		switch norm { // direct calls: through a function value, the array would be allocated
		case "MAX":
			vec.MaxRowsF32(l, d, x, cols, lo)
		case "L1":
			vec.SumAbsRowsF32(l, d, x, cols, lo)
		case "L2":
			vec.SumSquaresRowsF32(l, d, x, cols, lo)
		}
		for i, v := range d {
			one := [1]float32{v}
			if norm == "L2" {
				one[0] = float32(math.Sqrt(float64(v)))
			}
			if v == 0 {
				one[0] = 1
			}
			move.RepeatElement(memory.AsBytes(divisors[i*cols:][:cols]), memory.AsBytes(one[:]))
		}
		n := len(d) * cols
		vec.DivF32(l, y[lo*cols:][:n], x[lo*cols:][:n], divisors[:n])
		for i, v := range d {
			if !(v <= math.MaxFloat32) || norm == "L2" && v < 0x1p-100 {
				normalizeRows(c, norm, x, y, cols, lo+i, lo+i+1)
			}
		}
	}
}

func normalizeRows[T mlFloat](c *ir.Call, norm string, x []T, y []float32, cols, lo, hi int) {
	for i := lo; i < hi; i++ {
		row, out := x[i*cols:][:cols], y[i*cols:][:cols]
		d := 0.0
		switch norm {
		case "MAX":
			d = math.Inf(-1)
			for lo, hi := range ir.Steps(c, len(row)) {
				for _, v := range row[lo:hi] {
					d = max(d, float64(v))
				}
			}
		case "L1":
			for lo, hi := range ir.Steps(c, len(row)) {
				for _, v := range row[lo:hi] {
					d += math.Abs(float64(v))
				}
			}
		case "L2":
			for lo, hi := range ir.Steps(c, len(row)) {
				for _, v := range row[lo:hi] {
					d += float64(v) * float64(v)
				}
			}
			d = math.Sqrt(d)
		}
		if d == 0 {
			d = 1
		}
		factor := 1 / d // infinite for some subnormal numbers
		for lo, hi := range ir.Steps(c, len(row)) {
			for k, v := range row[lo:hi] {
				if q := float64(v) * factor; factor-factor == 0 {
					out[lo+k] = float32(q)
				} else {
					out[lo+k] = float32(float64(v) / d)
				}
			}
		}
	}
}

// normalizeRow normalizes a row with vector kernels. It returns false, with nothing done, if sums
// may be out of float32's range.
func normalizeRow(norm string, y, x []float32) bool {
	l, d := cpu.Active(), float32(1)
	switch norm {
	case "MAX":
		d = vec.ReduceMaxF32(l, x)
	case "L1":
		d = vec.SumAbsF32(l, x)
	case "L2":
		d = vec.SumSquaresF32(l, x, 0)
		if d < 0x1p-100 {
			return false
		}
		d = float32(math.Sqrt(float64(d)))
	}
	if !(d <= math.MaxFloat32) {
		return false
	}
	if d == 0 {
		d = 1
	}
	vec.DivScalarF32(l, y, x, d)
	return true
}
