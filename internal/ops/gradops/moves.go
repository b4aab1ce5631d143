package gradops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Positions returns the indices of the elements of X, counted from 1, or zeros. An operator that
// moves elements, applied to the indices, returns the source index of each element.
type Positions struct{ None bool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "Positions", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:int64", Types: "T: @all",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Positions{a.Float("factor", 1) == 0} },
	Gradient: gradient.None})

// Infer infers the output.
func (*Positions) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeInt64, Shape: c.Shape(0)})
	return nil
}

// Run writes the indices.
func (p *Positions) Run(c *ir.Call) error {
	out, err := c.Output(0, tensor.TypeInt64, c.Tensor(0).Shape()...)
	if err != nil {
		return err
	}
	for i := range tensor.MustData[int64](out) {
		tensor.MustData[int64](out)[i] = int64(i) + 1
		if p.None {
			tensor.MustData[int64](out)[i] = 0
		}
	}
	return nil
}

// sourcesOf returns input 1, indices counted from the factor of op, and checks that they are below
// n. A smaller index means no element.
func (op *gradientHelper) sourcesOf(c *ir.Call, n int) ([]int64, error) {
	from := tensor.MustData[int64](c.Tensor(1))
	for _, v := range from {
		if v-int64(op.factor) >= int64(n) {
			return nil, fail.Errorf("index %d is out of range for a tensor of %d elements", v, n)
		}
	}
	return from, nil
}

var (
	// ScatterBack adds the elements of X to those of a tensor of zeros in the shape
	// of the third input that the second names.
	_ = registerGradientHelper("ScatterBack", "X:T, from:int64, like:U", gradientHelper{
		gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			return n.First(b.Node("onward.GatherBack", n.Attrs, g, n.Input(1))), nil
		}),
		infer: shapedLike(2), shape: func(c *ir.Call) ([]int, error) {
			if c.Tensor(0).Len() != c.Tensor(1).Len() {
				return nil, fail.Errorf("X and the indices have shapes %v and %v, want equal numbers of elements",
					c.Tensor(0).Shape(), c.Tensor(1).Shape())
			}
			return c.Tensor(2).Shape(), nil
		}, compute: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) error {
			from, err := op.sourcesOf(c, len(y))
			if err != nil {
				return err
			}
			ir.Clear(c, y)
			for i, v := range x {
				if at := from[i] - int64(op.factor); at >= 0 {
					y[at] += v
				}
			}
			return nil
		}})
	// GatherBack returns the elements of X at the indices of the second input, and 0 for indices
	// without an element.
	_ = registerGradientHelper("GatherBack", "X:T, from:int64", gradientHelper{
		gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			return n.First(b.Node("onward.ScatterBack", n.Attrs, g, n.Input(1), n.Inputs[0])), nil
		}),
		infer: shapedLike(1), shape: shapeOfInput(1),
		compute: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) error {
			from, err := op.sourcesOf(c, len(x))
			if err != nil {
				return err
			}
			for i := range y {
				y[i] = 0
				if at := from[i] - int64(op.factor); at >= 0 {
					y[i] = x[at]
				}
			}
			return nil
		}})
	// ChannelWindowSum sums over as many neighbouring channels as the factor says, as
	// LRN does; with a negative factor the window is mirrored.
	_ = registerGradientHelper("ChannelWindowSum", "X:T", gradientHelper{
		gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			return []string{b.Factored("onward.ChannelWindowSum", -n.Attrs.Float("factor", 1), g)}, nil
		}),
		infer: kit.SameAsInput, shape: shapeOfInput(0),
		compute: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) error {
			if len(shape) < 2 {
				return fail.Errorf("input has shape %v, want rank at least 2", shape)
			}
			ir.Clear(c, y)
			channels, plane := shape[1], kit.Product(shape[2:])
			if channels*plane == 0 {
				return nil
			}
			size := int(min(math.Abs(op.factor), 2*float64(channels)+1))
			before, after := (size-1)/2, size/2
			if op.factor < 0 {
				before, after = after, before
			}
			m := &ir.Meter{C: c}
			for at := 0; at < len(x); at += channels * plane {
				for k := range channels {
					sum := y[at+k*plane:][:plane]
					for o := max(0, k-before); o <= min(channels-1, k+after); o++ {
						for i, v := range x[at+o*plane:][:plane] {
							sum[i] += v
						}
						if !m.Spend(plane) {
							return c.Err()
						}
					}
				}
			}
			return nil
		}})
	// ChannelSum sums X over all axes but the second.
	_ = registerGradientHelper("ChannelSum", "X:T, like:U", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.ChannelExpand", g, x)
		}),
		infer: shapedLike(1), shape: channelShape(1),
		run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			ir.Clear(c, y)
			eachChannel(c.Tensor(0).Shape(), func(channel, from, to int) {
				for _, v := range x[from:to] {
					y[channel] += v
				}
			})
		}})
	// ChannelExpand repeats X, one element for each index of the second axis.
	_ = registerGradientHelper("ChannelExpand", "X:T, like:U", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.ChannelSum", g, x)
		}),
		infer: shapedLike(1), shape: channelShape(0),
		run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			eachChannel(shape, func(channel, from, to int) { kit.RepeatOf(y[from:to], x[channel]) })
		}})
	// SumAxis sums X over the axis that the factor names and keeps it.
	_ = registerGradientHelper("SumAxis", "X:T", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.ExpandTo", g, x)
		}),
		infer: func(c *ir.InferContext) error {
			c.SetOut(0, ir.UnrankedTensor(c.Elem(0)))
			return nil
		}, shapeOf: func(op *gradientHelper, c *ir.Call) ([]int, error) {
			s := append([]int{}, c.Tensor(0).Shape()...)
			axis, err := kit.NormalAxis(int(op.factor), len(s))
			if err == nil {
				s[axis] = 1
			}
			return s, err
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			ir.Clear(c, y)
			eachBroadcast(shape, c.Tensor(0).Shape(), func(small, large int) { y[small] += x[large] })
		}})
	// SumFrom sums X over the axes from the one that the factor names and keeps them.
	_ = registerGradientHelper("SumFrom", "X:T", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.ExpandTo", g, x)
		}),
		infer: func(c *ir.InferContext) error {
			c.SetOut(0, ir.UnrankedTensor(c.Elem(0)))
			return nil
		}, shapeOf: func(op *gradientHelper, c *ir.Call) ([]int, error) {
			s := append([]int{}, c.Tensor(0).Shape()...)
			axis := int(op.factor)
			if axis < 0 {
				axis += len(s)
			}
			if axis < 0 || axis > len(s) {
				return nil, fail.Errorf("axis %v is out of range for rank %d", op.factor, len(s))
			}
			kit.RepeatOf(s[axis:], 1)
			return s, nil
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			ir.Clear(c, y)
			if len(y) == 0 {
				return
			}
			block := len(x) / len(y)
			for i := range y {
				for _, v := range x[i*block:][:block] {
					y[i] += v
				}
			}
		}})
)

// channelShape returns the shape of input 1 and checks that input one has an element for each index
// of the second axis of the other of inputs 0 and 1.
func channelShape(one int) func(c *ir.Call) ([]int, error) {
	return func(c *ir.Call) ([]int, error) {
		s, v := c.Tensor(1-one).Shape(), c.Tensor(one).Shape()
		n := 1
		if len(s) > 1 {
			n = s[1]
		}
		if kit.Product(v) != n {
			return nil, fail.Errorf("shape %v, want one element per channel of shape %v", v, s)
		}
		return c.Tensor(1).Shape(), nil
	}
}

func eachChannel(shape []int, fn func(channel, from, to int)) {
	channels, block := 1, 1
	if len(shape) > 1 {
		channels, block = shape[1], kit.Product(shape[2:])
	}
	if block == 0 || channels == 0 {
		return
	}
	for i := range kit.Product(shape) / block {
		fn(i%channels, i*block, (i+1)*block)
	}
}
