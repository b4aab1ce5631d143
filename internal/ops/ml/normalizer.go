package ml

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Normalizer divides each row of X ([N,C] or [C]) by its largest element (MAX), by the
// sum of its magnitudes (L1) or by its Euclidean norm (L2). If the divisor is 0, the row
// is unchanged
// (https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html).
type Normalizer struct{ norm string }

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "Normalizer", Since: kit.Versions{1}, In: "X:T", Out: "Y:float",
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
	y := tensor.Of[float32](t)
	grain := 1 + 1<<15/max(1, cols)
	if x.DType() == tensor.TypeFloat32 {
		s := tensor.Of[float32](x)
		c.Launch(n, grain, func(lo, hi int) { normalizeRows(c, op.norm, s, y, cols, lo, hi) })
		return nil
	}
	s, err := mlNumbersAs[float64](c, x)
	if err != nil {
		return err
	}
	c.Parallel(n, grain, func(lo, hi int) { normalizeRows(c, op.norm, s, y, cols, lo, hi) })
	return nil
}

func normalizeRows[T mlFloat](c *ir.Call, norm string, x []T, y []float32, cols, lo, hi int) {
	for i := lo; i < hi; i++ {
		row, out := x[i*cols:][:cols], y[i*cols:][:cols]
		d := 0.0
		switch norm {
		case "MAX":
			d = math.Inf(-1)
			for lo, hi := range kit.Steps(c, len(row)) {
				for _, v := range row[lo:hi] {
					d = math.Max(d, float64(v))
				}
			}
		case "L1":
			for lo, hi := range kit.Steps(c, len(row)) {
				for _, v := range row[lo:hi] {
					d += math.Abs(float64(v))
				}
			}
		case "L2":
			for lo, hi := range kit.Steps(c, len(row)) {
				for _, v := range row[lo:hi] {
					d += float64(v) * float64(v)
				}
			}
			d = math.Sqrt(d)
		}
		if d == 0 {
			d = 1
		}
		for lo, hi := range kit.Steps(c, len(row)) {
			for k, v := range row[lo:hi] {
				out[lo+k] = float32(float64(v) / d)
			}
		}
	}
}
