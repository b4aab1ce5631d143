package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// BitCast reinterprets the bits of its input as elements of another type of the same width
// (https://onnx.ai/onnx/operators/onnx__BitCast.html).
type BitCast struct{ To tensor.DType }

const bitCastTypes = "@number bool @complex @float8 @packed float8e8m0"

var _ = kit.Register(&kit.Def{Name: "BitCast", Since: kit.Versions{26}, In: "input:T1", Out: "output:T2",
	Class: kit.ClassShape,
	Types: "T1: " + bitCastTypes + "; T2: " + bitCastTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("to")
		o := &BitCast{To: a.DType("to", tensor.Undefined)}
		if a.Has("to") && (o.To == tensor.Undefined || o.To == tensor.TypeString) {
			a.Errorf("attribute to is %s, want a type with a fixed width", o.To)
		}
		return o
	}})

// Infer implements [ir.Operator].
func (o *BitCast) Infer(c *ir.InferContext) error {
	if from := c.Elem(0); from.Bits() != o.To.Bits() {
		return fail.Errorf("elements of type %s have %d bits and those of type %s have %d, want the same width", from,
			from.Bits(), o.To, o.To.Bits())
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: o.To, Shape: c.Shape(0)})
	return nil
}

// Run implements [ir.Operator].
func (o *BitCast) Run(c *ir.Call) error {
	x := c.Tensor(0)
	out, err := c.Output(0, o.To, x.Shape()...)
	if err != nil {
		return err
	}
	if o.To != tensor.TypeBool {
		copy(out.Bytes(), x.Bytes())
		return nil
	}
	dst := out.Bytes()
	for i, b := range x.Bytes() { // the byte of a bool is 0 or 1
		if b != 0 {
			b = 1
		}
		dst[i] = b
	}
	return nil
}
