package gradops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// ConvInputGradient is the gradient of a convolution for its input: of the
// gradient G of the output and the weights W, in the shape of the third input.
type ConvInputGradient struct {
	window.Window
	Group int
}

// ConvWeightGradient is the gradient of a convolution for its weights: of the
// gradient G of the output and the input X, in the shape of the third input.
type ConvWeightGradient struct {
	window.Window
	Group int
}

// AveragePoolGradient is the gradient of AveragePool: of the gradient G of the
// output, in the shape of the second input.
type AveragePoolGradient struct {
	window.Window
	CountIncludePad bool
}

var (
	_ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "ConvInputGradient", Since: kit.Versions{1},
		In: "G:T, W:T, like:T", Out: "Y:T", Types: "T: @float",
		Build: func(a *kit.Attrs, opset int) kit.Operator {
			return &ConvInputGradient{window.Read(a, true), window.ReadGroup(a)}
		},
		Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			w := b.Node("onward.ConvWeightGradient", n.Attrs, n.Inputs[0], g, n.Input(1))
			return []string{b.Node("Conv", n.Attrs, g, n.Input(1)), w, ""}, nil
		})})
	_ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "ConvWeightGradient", Since: kit.Versions{1},
		In: "G:T, X:T, like:T", Out: "Y:T", Types: "T: @float",
		Build: func(a *kit.Attrs, opset int) kit.Operator {
			return &ConvWeightGradient{window.Read(a, true), window.ReadGroup(a)}
		},
		Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			x := b.Node("onward.ConvInputGradient", n.Attrs, n.Inputs[0], g, n.Input(1))
			return []string{b.Node("Conv", n.Attrs, n.Input(1), g), x, ""}, nil
		})})
	_ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "AveragePoolGradient", Since: kit.Versions{1},
		In: "G:T, like:T", Out: "Y:T", Types: "T: @float",
		Build: func(a *kit.Attrs, opset int) kit.Operator {
			a.Require("kernel_shape")
			p := &AveragePoolGradient{window.Read(a, true), a.Bool("count_include_pad", false)}
			p.Ceil, p.Crop = a.Bool("ceil_mode", false), true
			return p
		},
		Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
			return n.First(b.Node("AveragePool", n.Attrs, g)), nil
		})})
)

// Infer infers the output.
func (*ConvInputGradient) Infer(c *ir.InferContext) error { return shapedLike(2)(c) }

// Infer infers the output.
func (*ConvWeightGradient) Infer(c *ir.InferContext) error { return shapedLike(2)(c) }

// Infer infers the output.
func (*AveragePoolGradient) Infer(c *ir.InferContext) error { return shapedLike(1)(c) }

// convGradientShape returns the geometry of a convolution of shapes x by wt, whose output
// must have shape g.
func convGradientShape(w *window.Window, group int, g, x, wt []int) (window.ConvShape, error) {
	s, err := window.NewConvShape(w, group, x, wt)
	if err == nil && !slices.Equal(s.Shape, g) {
		err = fail.Errorf("the gradient has shape %v, want %v, the shape of the output", g, s.Shape)
	}
	return s, err
}

// Run transposes the convolution.
func (v *ConvInputGradient) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return convInputGradient[float64](c, v)
	}
	return convInputGradient[float32](c, v)
}

func convInputGradient[T kit.RealFloat](c *ir.Call, v *ConvInputGradient) error {
	s, err := convGradientShape(&v.Window, v.Group, c.Tensor(0).Shape(), c.Tensor(2).Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	g, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	w, err := kit.RealIn[T](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), c.Tensor(2).Shape()...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	if c.Generic {
		err = window.ConvTransposePlain(c, &s, g, w, nil, y.Data)
	} else {
		err = window.ConvTransposeGemm(c, &s, g, w, nil, y.Data)
	}
	if err == nil {
		y.Store()
	}
	return err
}

// Run correlates the input with the gradient.
func (v *ConvWeightGradient) Run(c *ir.Call) error {
	s, err := convGradientShape(&v.Window, v.Group, c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape())
	if err != nil {
		return err
	}
	g, err := kit.RealIn[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	x, err := kit.RealIn[float64](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float64](c, 0, c.Tensor(0).DType(), c.Tensor(2).Shape()...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	in, out, taps, stride := kit.Product(s.In), kit.Product(s.Out), s.Taps(), s.Stride[len(s.Stride)-1]
	ir.Clear(c, y.Data)
	c.Parallel(s.M*s.Cg, kit.GrainFor(s.N*out*taps), func(lo, hi int) {
		m := &ir.Meter{C: c}
		for p := lo; p < hi; p++ {
			k, ch := p/s.Cg, p/s.Cg/s.Mg*s.Cg+p%s.Cg
			dst := y.Data[p*taps:][:taps]
			for img := range s.N {
				gp, xp := g[(img*s.M+k)*out:][:out], x[(img*s.C+ch)*in:][:in]
				s.EachRow(func(r window.Row) bool {
					sum := 0.0
					for i, v := range gp[r.Out+r.Lo : r.Out+r.Hi] {
						sum += v * xp[r.In+i*stride]
					}
					dst[r.Tap] += sum
					return m.Spend(r.Hi - r.Lo)
				})
			}
		}
	})
	if err := c.Err(); err != nil {
		return err
	}
	y.Store()
	return nil
}

// Run gives every element of a window its part.
func (p *AveragePoolGradient) Run(c *ir.Call) error {
	like := c.Tensor(1).Shape()
	w, shape, err := window.PoolGeom(&p.Window, like)
	if err != nil {
		return err
	}
	if !slices.Equal(shape, c.Tensor(0).Shape()) {
		return fail.Errorf("the gradient has shape %v, want %v, the shape of the output", c.Tensor(0).Shape(), shape)
	}
	g, err := kit.RealIn[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float64](c, 0, c.Tensor(0).DType(), like...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	ir.Clear(c, y.Data)
	in, out, stride := kit.Product(w.In), kit.Product(w.Out), w.Stride[len(w.Stride)-1]
	parts, err := ir.ScratchOf[float64](c, out)
	if err != nil {
		return err
	}
	kit.RepeatOf(parts, 1)
	for d := range w.Out {
		inner := kit.Product(w.Out[d+1:])
		counts := w.Counts(d, p.CountIncludePad)
		for i := range parts {
			parts[i] *= float64(max(1, counts[i/inner%w.Out[d]]))
		}
	}
	c.Parallel(shape[0]*shape[1], kit.GrainFor(out*w.Taps()), func(lo, hi int) {
		m := &ir.Meter{C: c}
		for k := lo; k < hi; k++ {
			gp, yp := g[k*out:][:out], y.Data[k*in:][:in]
			w.EachRow(func(r window.Row) bool {
				for i := r.Lo; i < r.Hi; i++ {
					yp[r.In+(i-r.Lo)*stride] += gp[r.Out+i] / parts[r.Out+i]
				}
				return m.Spend(r.Hi - r.Lo)
			})
		}
	})
	if err := c.Err(); err != nil {
		return err
	}
	y.Store()
	return nil
}
