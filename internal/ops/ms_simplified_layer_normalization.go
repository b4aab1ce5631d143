package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// SimplifiedLayerNormalization divides the elements along axes Axis and after by
// the root of their mean square and scales them; the second output is the inverse
// of that root. ONNX Runtime puts it into the domain ai.onnx
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
type SimplifiedLayerNormalization struct {
	Axis    int
	Epsilon float32
}

var (
	_ = registerSimplifiedNorm("")
	_ = registerSimplifiedNorm(DomainMicrosoft)
)

func registerSimplifiedNorm(domain string) *Def {
	return register(Def{Domain: domain, Name: "SimplifiedLayerNormalization", Since: []int{1}, In: "X:T, scale:V", Out: "Y:V, inv_std_var:U?",
		Types: Types{"T": "@float", "V": "@float", "U": "float"}, Build: simple(func(a *Attrs, opset int) Operator {
			readStash(a)
			return &SimplifiedLayerNormalization{a.Int("axis", -1), readEpsilon(a)}
		})})
}

// Infer keeps the shape.
func (op *SimplifiedLayerNormalization) Infer(c *ir.InferContext) error {
	y, stat := c.Type(0), ir.UnrankedTensor(tensor.TypeFloat32)
	y.Elem = c.Elem(1)
	c.SetOut(0, y)
	if s := c.Shape(0); s != nil {
		axis, err := normalAxis(op.Axis, len(s))
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

func runSimplifiedNorm[T realFloat](op *SimplifiedLayerNormalization, c *ir.Call) error {
	t := c.Tensor(0)
	shape := t.Shape()
	axis, err := normalAxis(op.Axis, len(shape))
	if err != nil {
		return err
	}
	r := normRows[T]{cols: product(shape[axis:]), eps: float64(op.Epsilon)}
	if r.x, err = realIn[T](c, t); err != nil {
		return err
	}
	if r.gain, err = normParam[T](c, "scale", c.Tensor(1), shape, axis); err != nil {
		return err
	}
	y, err := realOut[T](c, 0, c.Tensor(1).DType(), shape...)
	if err != nil {
		return err
	}
	r.y = y.data
	if c.Wants(1) {
		stat := append([]int{}, shape...)
		for i := range stat[axis:] {
			stat[axis+i] = 1
		}
		s, err := realOut[float32](c, 1, tensor.TypeFloat32, stat...)
		if err != nil {
			return err
		}
		if len(r.x) == 0 && len(s.data) > 0 {
			return fmt.Errorf("input has shape %v: statistics of no elements are undefined", shape)
		}
		r.inv = s.data
	}
	if err := r.run(c); err != nil {
		return err
	}
	y.store()
	return nil
}
