package ops

import (
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// StringConcat concatenates the strings of two tensors, with broadcasting
// (https://onnx.ai/onnx/operators/onnx__StringConcat.html).
type StringConcat struct{}

var _ = kit.Register(&kit.Def{Name: "StringConcat", Since: kit.Versions{20},
	In: "X:string, Y:string", Out: "Z:string",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &StringConcat{} }})

// Infer implements ir.Operator.
func (op *StringConcat) Infer(c *ir.InferContext) error {
	out, err := kit.BroadcastDims(c.Shape(0), c.Shape(1))
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, tensor.TypeString, out)
	return nil
}

// Run implements ir.Operator.
func (op *StringConcat) Run(c *ir.Call) error {
	x, y := c.Tensor(0), c.Tensor(1)
	shape, err := kit.BroadcastShapes(x.Shape(), y.Shape())
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.TypeString, shape...)
	if err != nil {
		return err
	}
	z := tensor.MustData[string](out)
	// Copy the left strings to the output first, then append the right ones.
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	move.Strided(c, move.Buf{Strs: z}, src, shape, kit.Strides(shape), 0, kit.BroadcastStrides(x.Shape(), shape), 0)
	right := tensor.MustData[string](y)
	if y.Len() != len(z) {
		if err := c.Reserve(int64(len(z)) * 16); err != nil {
			return err
		}
		right = make([]string, len(z))
		move.Strided(c, move.Buf{Strs: right}, move.Buf{Strs: tensor.MustData[string](y)}, shape, kit.Strides(shape), 0,
			kit.BroadcastStrides(y.Shape(), shape), 0)
	}
	size := int64(0)
	c.Serial(len(z), ir.GrainWatch, func(lo, hi int) {
		for i, s := range z[lo:hi] {
			size += kit.StringSize(len(s) + len(right[lo+i]))
		}
	})
	if err := c.Reserve(size); err != nil {
		return err
	}
	meter := ir.Meter{C: c}
	for i := range z {
		z[i] = concat(&meter, z[i], right[i])
	}
	return nil
}

// concat returns a followed by b. It copies long strings in pieces and does not return if the run
// must stop.
func concat(m *ir.Meter, a, b string) string {
	const piece = 256 << 10
	if m.Check((len(a) + len(b)) / 8); len(a)+len(b) <= piece {
		return a + b
	}
	var r strings.Builder
	r.Grow(len(a) + len(b))
	for _, s := range [2]string{a, b} {
		for len(s) > 0 {
			n := min(len(s), piece)
			r.WriteString(s[:n])
			s = s[n:]
			m.Check(n / 8)
		}
	}
	return r.String()
}
