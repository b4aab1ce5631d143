package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// RMSNormalization divides the elements along axes Axis and after by the root of
// their mean square, and scales them. The output has the element type of scale.
type RMSNormalization struct {
	Axis    int
	Epsilon float32
}

var _ = register(Def{Name: "RMSNormalization", Since: []int{23}, In: "X:T, scale:V", Out: "Y:V", Types: Types{"T": "@float", "V": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		readStash(a)
		return &RMSNormalization{Axis: a.Int("axis", -1), Epsilon: readEpsilon(a)}
	})})

// Infer keeps the shape.
func (n *RMSNormalization) Infer(c *ir.InferContext) error {
	t := c.Type(0)
	t.Elem = c.Elem(1)
	c.SetOut(0, t)
	if t.Shape != nil {
		_, err := normalAxis(n.Axis, len(t.Shape))
		return err
	}
	return nil
}

// Run computes half types as float; double inputs as double.
func (n *RMSNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return rmsNorm[float64](c, n)
	}
	return rmsNorm[float32](c, n)
}

func rmsNorm[T realFloat](c *ir.Call, n *RMSNormalization) error {
	t := c.Tensor(0)
	shape := t.Shape()
	axis, err := normalAxis(n.Axis, len(shape))
	if err != nil {
		return err
	}
	r := normRows[T]{cols: product(shape[axis:]), eps: float64(n.Epsilon)}
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
	if err := r.run(c); err != nil {
		return err
	}
	y.store()
	return nil
}
