package gradops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// gradientHelper is an operator that gradients need and ONNX lacks, for
// floating-point tensors.
type gradientHelper struct {
	gradient *gradient.Gradient

	infer func(c *ir.InferContext) error
	shape func(c *ir.Call) ([]int, error)
	// run writes the output; x holds the elements of the inputs that are listed in
	// read.
	run    func(op *gradientHelper, c *ir.Call, x []float64, y []float64, shape []int)
	factor float64

	// What may fail at a run, or needs the attribute, instead of the above.
	shapeOf func(op *gradientHelper, c *ir.Call) ([]int, error)
	compute func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) error
}

func registerGradientHelper(name, in string, h gradientHelper) *kit.Def {
	return kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: name, Since: kit.Versions{1}, In: in, Out: "Y:T",
		Types:    "T: @float; U: @all",
		Gradient: h.gradient,
		Build: func(a *kit.Attrs, opset int) kit.Operator {
			op := h
			op.factor = float64(a.Float("factor", 1))
			return &op
		}})
}

// shapedLike returns an Infer function that sets the output to the element type of input
// 0 and the shape of input i.
func shapedLike(i int) func(c *ir.InferContext) error {
	return func(c *ir.InferContext) error {
		c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: c.Elem(0), Shape: c.Shape(i)})
		return nil
	}
}

func shapeOfInput(i int) func(c *ir.Call) ([]int, error) {
	return func(c *ir.Call) ([]int, error) { return c.Tensor(i).Shape(), nil }
}

// broadcastShape returns the shape of input 1, of inputs 0 and 1, after a check that input small
// repeats to the shape of the other one.
func broadcastShape(small int) func(c *ir.Call) ([]int, error) {
	return func(c *ir.Call) ([]int, error) {
		s, l := c.Tensor(small).Shape(), c.Tensor(1-small).Shape()
		for len(s) > len(l) && s[0] == 1 {
			s = s[1:]
		}
		ok := len(s) <= len(l)
		for i := range s {
			ok = ok && (s[i] == 1 || s[i] == l[len(l)-len(s)+i])
		}
		if !ok {
			return nil, fail.Errorf("shape %v does not broadcast to %v", c.Tensor(small).Shape(), l)
		}
		return c.Tensor(1).Shape(), nil
	}
}

var (
	// SumTo sums X over the dimensions along which the second input was broadcast: the gradient of
	// a broadcast.
	_ = registerGradientHelper("SumTo", "X:T, like:U", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.ExpandTo", g, x)
		}),
		infer: shapedLike(1), shape: broadcastShape(1),
		run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			ir.Clear(c, y)
			eachBroadcast(shape, c.Tensor(0).Shape(), func(small, large int) { y[small] += x[large] })
		}})
	// ExpandTo repeats X to the shape of the second input.
	_ = registerGradientHelper("ExpandTo", "X:T, like:U", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { return b.SumTo(g, x) }),
		infer:    shapedLike(1), shape: broadcastShape(0),
		run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			eachBroadcast(c.Tensor(0).Shape(), shape, func(small, large int) { y[large] = x[small] })
		}})
	// ReshapeTo gives X the shape of the second input.
	_ = registerGradientHelper("ReshapeTo", "X:T, like:U", gradientHelper{
		gradient: gradient.Reshape,
		infer:    shapedLike(1), shape: func(c *ir.Call) ([]int, error) {
			if c.Tensor(0).Len() != c.Tensor(1).Len() {
				return nil, fail.Errorf("X has shape %v, which cannot be reshaped to %v", c.Tensor(0).Shape(),
					c.Tensor(1).Shape())
			}
			return c.Tensor(1).Shape(), nil
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) { copy(y, x) }})
	// SwapLast transposes the last two dimensions.
	_ = registerGradientHelper("SwapLast", "X:T", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.SwapLast", g)
		}),
		infer: func(c *ir.InferContext) error {
			t := c.Type(0)
			if t.Shape != nil {
				n := len(t.Shape)
				if n < 2 {
					return fail.Errorf("gradients of matrix products require rank 2 or more, got rank %d", n)
				}
				t.Shape = append([]ir.Dim{}, t.Shape...)
				t.Shape[n-1], t.Shape[n-2] = t.Shape[n-2], t.Shape[n-1]
			}
			c.SetOut(0, t)
			return nil
		}, shape: func(c *ir.Call) ([]int, error) {
			s := append([]int{}, c.Tensor(0).Shape()...)
			n := len(s)
			if n < 2 {
				return nil, fail.Errorf("gradients of matrix products require rank 2 or more, got rank %d", n)
			}
			s[n-1], s[n-2] = s[n-2], s[n-1]
			return s, nil
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			n := len(shape)
			rows, cols := shape[n-1], shape[n-2]
			for len(x) > 0 {
				for i := range rows {
					for j := range cols {
						y[j*rows+i] = x[i*cols+j]
					}
				}
				x, y = x[rows*cols:], y[rows*cols:]
			}
		}})
	// Fill is the factor in the shape of X.
	_ = registerGradientHelper("Fill", "X:T", gradientHelper{
		gradient: gradient.None,
		infer:    kit.SameAsInput, shape: shapeOfInput(0),
		run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			for i := range y {
				y[i] = op.factor
			}
		}})
	// Scale multiplies X by factor.
	_ = registerGradientHelper("Scale", "X:T", gradientHelper{
		gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			return []string{b.Scaled(n.Attrs.Float("factor", 1), g)}, nil
		}),
		infer: kit.SameAsInput, shape: shapeOfInput(0),
		run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			for i, v := range x {
				y[i] = v * op.factor
			}
		}})
	// Step is 1 where X is above 0, else the factor.
	_ = registerGradientHelper("Step", "X:T", gradientHelper{
		gradient: gradient.None,
		infer:    kit.SameAsInput, shape: shapeOfInput(0),
		run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			for i, v := range x {
				y[i] = op.factor
				if v > 0 {
					y[i] = 1
				}
			}
		}})
)

// Infer infers the output.
func (op *gradientHelper) Infer(c *ir.InferContext) error { return op.infer(c) }

// Run computes in double.
func (op *gradientHelper) Run(c *ir.Call) error {
	var shape []int
	var err error
	if op.shapeOf != nil {
		shape, err = op.shapeOf(op, c)
	} else {
		shape, err = op.shape(c)
	}
	if err != nil {
		return err
	}
	x, err := kit.RealIn[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float64](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil {
		return err
	}
	if op.compute != nil {
		if err := op.compute(op, c, x, y.Data, shape); err != nil {
			return err
		}
	} else {
		op.run(op, c, x, y.Data, shape)
	}
	y.Store()
	return nil
}

// eachBroadcast calls fn for every element of large and the element of small
// that it repeats. small may have more dimensions only if these are 1.
func eachBroadcast(small, large []int, fn func(small, large int)) {
	for len(small) > len(large) {
		small = small[1:]
	}
	st := kit.BroadcastStrides(small, large)
	index := make([]int, len(large))
	n, at := kit.Product(large), 0
	for i := range n {
		fn(at, i)
		for d := len(large) - 1; d >= 0; d-- {
			index[d]++
			at += st[d]
			if index[d] < large[d] {
				break
			}
			at -= st[d] * large[d]
			index[d] = 0
		}
	}
}
