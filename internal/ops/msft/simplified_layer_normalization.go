package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// SimplifiedLayerNormalization divides the elements by their root mean square over the
// axes from Axis on, and scales them. The second output is the inverse of the root mean
// square. ONNX Runtime defines it in the domain ai.onnx
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
type SimplifiedLayerNormalization struct {
	Axis    int
	Epsilon float32
}

var (
	_ = registerSimplifiedNorm("")
	_ = registerSimplifiedNorm(kit.DomainMicrosoft)
)

func registerSimplifiedNorm(domain string) *kit.Def {
	return kit.Register(&kit.Def{Domain: domain, Name: "SimplifiedLayerNormalization", Since: kit.Versions{1},
		In: "X:T, scale:V", Out: "Y:V, inv_std_var:U?",
		Work:  4,
		Types: "T: @float; V: @float; U: float", Build: func(a *kit.Attrs, opset int) kit.Operator {
			reduce.ReadStash(a)
			return &SimplifiedLayerNormalization{a.Int("axis", -1), reduce.ReadEpsilon(a)}
		}})
}

// Infer keeps the shape.
func (op *SimplifiedLayerNormalization) Infer(c *ir.InferContext) error {
	y, stat := c.Type(0), ir.UnrankedTensor(tensor.TypeFloat32)
	y.Elem = c.Elem(1)
	c.SetOut(0, y)
	if s := c.Shape(0); s != nil {
		axis, err := kit.NormalAxis(op.Axis, len(s))
		if err != nil {
			return err
		}
		stat.Shape = append([]ir.Dim{}, s...)
		for i := axis; i < len(s); i++ {
			stat.Shape[i] = ir.Known(1)
		}
	}
	c.SetOut(1, stat)
	return nil
}

// Run normalizes row by row.
func (op *SimplifiedLayerNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runSimplifiedNorm[float64](op, c)
	}
	return runSimplifiedNorm[float32](op, c)
}

func runSimplifiedNorm[T kit.RealFloat](op *SimplifiedLayerNormalization, c *ir.Call) error {
	t := c.Tensor(0)
	shape := t.Shape()
	axis, err := kit.NormalAxis(op.Axis, len(shape))
	if err != nil {
		return err
	}
	r := reduce.NormRows[T]{Cols: kit.Product(shape[axis:]), Eps: float64(op.Epsilon)}
	if r.X, err = kit.RealIn[T](c, t); err != nil {
		return err
	}
	if r.Gain, err = reduce.NormParam[T](c, "scale", c.Tensor(1), shape, axis); err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(1).DType(), shape...)
	if err != nil {
		return err
	}
	r.Y = y.Data
	if c.Wants(1) {
		stat := append([]int{}, shape...)
		for i := range stat[axis:] {
			stat[axis+i] = 1
		}
		s, err := kit.RealOut[float32](c, 1, tensor.TypeFloat32, stat...)
		if err != nil {
			return err
		}
		if len(r.X) == 0 && len(s.Data) > 0 {
			return fail.Errorf("input has shape %v, want at least one element per row: statistics of no "+
				"elements are undefined", shape)
		}
		r.Inv = s.Data
	}
	r.Launch(c)
	y.Store()
	return nil
}
