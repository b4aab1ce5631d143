package gradops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// unrankedLike infers an element type and no shape.
func unrankedLike(c *ir.InferContext) error {
	c.SetOut(0, ir.UnrankedTensor(c.Elem(0)))
	return nil
}

// copyRows transposes [outer, a, b, inner] to [outer, b, a, inner].
func copyRows(y, x []float64, outer, a, b, inner int) {
	for o := range outer {
		for i := range a {
			for j := range b {
				copy(y[((o*b+j)*a+i)*inner:][:inner], x[((o*a+i)*b+j)*inner:])
			}
		}
	}
}

var (
	// SplitHeads makes [batch, heads, length, size] of [batch, length, heads·size]; the
	// factor is the number of heads. A tensor of rank 4 is not changed.
	_ = registerGradientHelper("SplitHeads", "X:T", gradientHelper{
		gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			return []string{b.Node("onward.JoinHeads", n.Attrs, g, n.Inputs[0])}, nil
		}),
		infer: unrankedLike, shapeOf: func(op *gradientHelper, c *ir.Call) ([]int, error) {
			in, err := attention.NewInput(c.Tensor(0), "input", int(op.factor)*max(0, 4-c.Tensor(0).Rank()))
			return []int{in.Batch, in.Heads, in.Length, in.Size}, err
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			if c.Tensor(0).Rank() == 4 {
				copy(y, x)
				return
			}
			copyRows(y, x, shape[0], shape[2], shape[1], shape[3])
		}})
	// JoinHeads undoes SplitHeads where the second input has rank 3.
	_ = registerGradientHelper("JoinHeads", "X:T, like:U", gradientHelper{
		gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			return n.First(b.Node("onward.SplitHeads", n.Attrs, g)), nil
		}),
		infer: unrankedLike, shapeOf: func(op *gradientHelper, c *ir.Call) ([]int, error) {
			s := c.Tensor(0).Shape()
			if len(s) != 4 {
				return nil, fail.Errorf("input has shape %v, want rank 4", s)
			}
			if c.Tensor(1).Rank() == 4 {
				return s, nil
			}
			return []int{s[0], s[2], s[1] * s[3]}, nil
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			if len(shape) == 4 {
				copy(y, x)
				return
			}
			s := c.Tensor(0).Shape()
			copyRows(y, x, s[0], s[1], s[2], s[3])
		}})
	// RepeatHeads repeats every head of X as often as the second input has heads for
	// it.
	_ = registerGradientHelper("RepeatHeads", "X:T, like:U", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.SumHeads", g, x)
		}),
		infer: unrankedLike, shapeOf: func(op *gradientHelper, c *ir.Call) ([]int, error) {
			return headsAs(c.Tensor(0).Shape(), c.Tensor(1).Shape(), false)
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			eachHead(c.Tensor(0).Shape(), shape, func(small, large, n int) { copy(y[large:][:n], x[small:]) })
		}})
	// SumHeads undoes RepeatHeads in a gradient.
	_ = registerGradientHelper("SumHeads", "X:T, like:U", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("onward.RepeatHeads", g, x)
		}),
		infer: unrankedLike, shapeOf: func(op *gradientHelper, c *ir.Call) ([]int, error) {
			return headsAs(c.Tensor(0).Shape(), c.Tensor(1).Shape(), true)
		}, run: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) {
			ir.Clear(c, y)
			eachHead(shape, c.Tensor(0).Shape(), func(small, large, n int) {
				for i, v := range x[large:][:n] {
					y[small+i] += v
				}
			})
		}})
	// VisibleSoftmax is the softmax over the last dimension, 0 where all is −Inf.
	_ = registerGradientHelper("VisibleSoftmax", "X:T", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("Mul", y, b.Op("Sub", g, b.SumAxis(b.Op("Mul", g, y), -1)))
		}),
		infer: kit.SameAsInput, shape: shapeOfInput(0),
		compute: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) error {
			if len(shape) == 0 {
				return fail.Errorf("input has rank 0, want at least 1")
			}
			n := shape[len(shape)-1]
			for ; len(x) > 0; x, y = x[n:], y[n:] {
				top, sum := math.Inf(-1), 0.0
				for _, v := range x[:n] {
					top = max(top, v)
				}
				if math.IsInf(top, -1) {
					clear(y[:n])
					continue
				}
				for i, v := range x[:n] {
					y[i] = math.Exp(v - top)
					sum += y[i]
				}
				for i := range n {
					y[i] /= sum
				}
			}
			return nil
		}})
)

// headsAs returns the shape of x with the heads of like, of which one of the two
// numbers divides the other.
func headsAs(x, like []int, fewer bool) ([]int, error) {
	if len(x) != 4 || len(like) != 4 {
		return nil, fail.Errorf("inputs have shapes %v and %v, want rank 4", x, like)
	}
	few, many := x[1], like[1]
	if fewer {
		few, many = many, few
	}
	if few == 0 && many > 0 || few > 0 && many%few != 0 {
		return nil, fail.Errorf("%d heads cannot be grouped to %d", many, few)
	}
	return []int{x[0], like[1], x[2], x[3]}, nil
}

func eachHead(small, large []int, fn func(small, large, n int)) {
	n := small[2] * small[3]
	for i := range large[0] * large[1] {
		b, h := i/large[1], i%large[1]
		fn((b*small[1]+h*small[1]/large[1])*n, i*n, n)
	}
}

// AttentionMask returns the tensor that Attention adds to its scores [batch, heads, q, kv]: the
// mask, and −Inf for keys that a query may not see.
type AttentionMask struct{ ops.Attention }

var _ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "AttentionMask", Since: kit.Versions{1},
	In: "scores:T, keys:T, attn_mask:U?, nonpad_kv_seqlen:int64?", Out: "Y:T",
	Types: "T: @float; U: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &AttentionMask{ops.Attention{Causal: a.Bool("is_causal", false), Left: a.Int("left_window_size", -1),
			Right: a.Int("right_window_size", -1), PadMask: a.Bool("pad_mask", false)}}
	},
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		r := make([]string, len(n.Inputs))
		if mask := n.Input(2); mask != "" {
			pad := gradient.Attrs{"pad_mask": n.Attrs.Int("pad_mask", 0)}
			r[2] = b.ScatterBack(1, g, b.Node("onward.AttentionMaskIndices", pad, mask, n.Inputs[0]), mask)
		}
		return r, nil
	})})

// Infer infers the output.
func (*AttentionMask) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run writes the mask row by row.
func (op *AttentionMask) Run(c *ir.Call) error {
	s, k := c.Tensor(0).Shape(), c.Tensor(1).Shape()
	if len(s) != 4 || len(k) != 4 || k[2] > s[3] {
		return fail.Errorf("scores and keys have shapes %v and %v, want rank 4 and at most as many keys "+
			"as scores per row", s, k)
	}
	past := s[3] - k[2]
	nonpad := kit.Ints(c.Tensor(3))
	if c.Has(3) && len(nonpad) != s[0] {
		return fail.Errorf("nonpad_kv_seqlen has %d elements, want %d", len(nonpad), s[0])
	}
	if !c.Has(3) {
		nonpad = nil
	}
	var bias *attention.Bias[float64]
	var err error
	if c.Has(2) {
		if bias, err = attention.Mask[float64](c, c.Tensor(2), s[0], s[1], s[2], s[3], op.PadMask); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[float64](c, 0, c.Tensor(0).DType(), s...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	for i := range s[0] * s[1] * s[2] {
		row := y.Data[i*s[3]:][:s[3]]
		b, h, q := i/s[2]/s[1], i/s[2]%s[1], i%s[2]
		clear(row)
		if bias != nil {
			bias.Fill(b, h, q, row)
		}
		from, to := op.Visible(nonpad, b, q, past, s[2], s[3])
		for j := range row {
			if j < from || j >= to {
				row[j] = math.Inf(-1)
			}
		}
	}
	y.Store()
	return c.Err()
}

// AttentionMaskIndices returns for every score the index of the mask element that is added to it,
// counted from 1, or 0 without a mask element.
type AttentionMaskIndices struct{ PadMask bool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "AttentionMaskIndices", Since: kit.Versions{1},
	In: "attn_mask:U, scores:T", Out: "Y:int64", Types: "T: @float; U: @all",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &AttentionMaskIndices{a.Bool("pad_mask", false)} },
	Gradient: gradient.None})

// Infer infers the output.
func (*AttentionMaskIndices) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeInt64, Shape: c.Shape(1)})
	return nil
}

// Run broadcasts a mask that holds the indices of its elements.
func (op *AttentionMaskIndices) Run(c *ir.Call) error {
	s := c.Tensor(1).Shape()
	if len(s) != 4 {
		return fail.Errorf("scores have shape %v, want rank 4", s)
	}
	numbers, err := ir.ScratchOf[float64](c, c.Tensor(0).Len())
	if err != nil {
		return err
	}
	for i := range numbers {
		numbers[i] = float64(i) + 1
	}
	mask, err := tensor.New(numbers, c.Tensor(0).Shape()...)
	if err != nil {
		return err
	}
	row, err := ir.ScratchOf[float64](c, s[3])
	if err != nil {
		return err
	}
	bias, err := attention.Mask[float64](c, mask, s[0], s[1], s[2], s[3], op.PadMask)
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.TypeInt64, s...)
	if err != nil || out.Len() == 0 {
		return err
	}
	y := tensor.MustData[int64](out)
	for i := range s[0] * s[1] * s[2] {
		bias.Fill(i/s[2]/s[1], i/s[2]%s[1], i%s[2], row)
		for j, v := range row {
			y[i*s[3]+j] = int64(max(v, 0))
		}
	}
	return c.Err()
}
