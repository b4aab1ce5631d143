package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Expand broadcasts a tensor and the shape of its second input to each other
// (https://onnx.ai/onnx/operators/onnx__Expand.html).
type Expand struct{}

var _ = kit.Register(&kit.Def{Name: "Expand", Since: kit.Versions{8, 13},
	In: "input:T, shape:int64", Out: "output:T", Types: "T: @all",
	Selects:  kit.Always,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Expand{} },
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { return b.SumTo(g, x) })})

// Infer implements ir.Operator.
func (op *Expand) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 1, 1, "shape"); err != nil {
		return err
	}
	want := c.Contents(1)
	for i, d := range want {
		if n, ok := d.Value(); ok && n < 0 {
			return kit.NegativeDim(i, n)
		}
	}
	out, err := kit.BroadcastDims(c.Shape(0), want)
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	if d := c.Contents(0); len(d) == 1 && len(out) <= 1 && out != nil {
		if n, ok := ir.Product(out).Value(); ok && n <= tensor.MaxRank {
			r := make([]ir.Dim, n)
			for i := range r {
				r[i] = d[0]
			}
			c.SetContents(0, r)
		}
	}
	return nil
}

// Run implements ir.Operator.
func (op *Expand) Run(c *ir.Call) error {
	x := c.Tensor(0)
	want, err := kit.SmallInts(c.Tensor(1), "shape")
	if err != nil {
		return err
	}
	for i, n := range want {
		if n < 0 {
			return kit.NegativeDim(i, n)
		}
	}
	shape, err := kit.BroadcastShapes(x.Shape(), want)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	move.Strided(c, dst, src, shape, kit.Strides(shape), 0, kit.BroadcastStrides(x.Shape(), shape), 0)
	dst.Done()
	return nil
}
