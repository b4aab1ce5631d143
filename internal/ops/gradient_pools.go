package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ConvInputGradient is the gradient of a convolution for its input: of the
// gradient G of the output and the weights W, in the shape of the third input.
type ConvInputGradient struct {
	Window
	Group int
}

// ConvWeightGradient is the gradient of a convolution for its weights: of the
// gradient G of the output and the input X, in the shape of the third input.
type ConvWeightGradient struct {
	Window
	Group int
}

// AveragePoolGradient is the gradient of AveragePool: of the gradient G of the
// output, in the shape of the second input.
type AveragePoolGradient struct {
	Window
	CountIncludePad bool
}

var (
	_ = register(Def{Domain: DomainInternal, Name: "ConvInputGradient", Since: []int{1}, In: "G:T, W:T, like:T", Out: "Y:T", Types: Types{"T": "@float"},
		Build: simple(func(a *Attrs, opset int) Operator { return &ConvInputGradient{readWindow(a, true), readGroup(a)} })})
	_ = register(Def{Domain: DomainInternal, Name: "ConvWeightGradient", Since: []int{1}, In: "G:T, X:T, like:T", Out: "Y:T", Types: Types{"T": "@float"},
		Build: simple(func(a *Attrs, opset int) Operator { return &ConvWeightGradient{readWindow(a, true), readGroup(a)} })})
	_ = register(Def{Domain: DomainInternal, Name: "AveragePoolGradient", Since: []int{1}, In: "G:T, like:T", Out: "Y:T", Types: Types{"T": "@float"},
		Build: simple(func(a *Attrs, opset int) Operator {
			a.Require("kernel_shape")
			p := &AveragePoolGradient{readWindow(a, true), a.Bool("count_include_pad", false)}
			p.Ceil, p.Crop = a.Bool("ceil_mode", false), true
			return p
		})})
)

// Infer infers the output.
func (*ConvInputGradient) Infer(c *ir.InferContext) error { return shapedLike(2)(c) }

// Infer infers the output.
func (*ConvWeightGradient) Infer(c *ir.InferContext) error { return shapedLike(2)(c) }

// Infer infers the output.
func (*AveragePoolGradient) Infer(c *ir.InferContext) error { return shapedLike(1)(c) }

// convGradientShape checks a convolution of x by w with output g.
func convGradientShape(w *Window, group int, g, x, wt []int) (convShape, error) {
	s, err := newConvShape(w, group, x, wt)
	if err == nil && !slices.Equal(s.shape, g) {
		err = fmt.Errorf("the gradient has shape %v for an output of %v", g, s.shape)
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

func convInputGradient[T realFloat](c *ir.Call, v *ConvInputGradient) error {
	s, err := convGradientShape(&v.Window, v.Group, c.Tensor(0).Shape(), c.Tensor(2).Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	g, err := realIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	w, err := realIn[T](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), c.Tensor(2).Shape()...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	if c.Generic {
		err = convTransposePlain(c, &s, g, w, nil, y.data)
	} else {
		err = convTransposeGemm(c, &s, g, w, nil, y.data)
	}
	if err == nil {
		y.store()
	}
	return err
}

// Run correlates the input with the gradient.
func (v *ConvWeightGradient) Run(c *ir.Call) error {
	s, err := convGradientShape(&v.Window, v.Group, c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape())
	if err != nil {
		return err
	}
	g, err := realIn[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	x, err := realIn[float64](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := realOut[float64](c, 0, c.Tensor(0).DType(), c.Tensor(2).Shape()...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	in, out, taps, stride := product(s.in), product(s.out), s.taps(), s.stride[len(s.stride)-1]
	clear(y.data)
	c.Parallel(s.m*s.cg, grainFor(s.n*out*taps), func(lo, hi int) {
		m := &meter{c: c}
		for p := lo; p < hi; p++ {
			k, ch := p/s.cg, p/s.cg/s.mg*s.cg+p%s.cg
			dst := y.data[p*taps:][:taps]
			for img := range s.n {
				gp, xp := g[(img*s.m+k)*out:][:out], x[(img*s.c+ch)*in:][:in]
				s.eachRow(func(r windowRow) bool {
					sum := 0.0
					for i, v := range gp[r.out+r.lo : r.out+r.hi] {
						sum += v * xp[r.in+i*stride]
					}
					dst[r.tap] += sum
					return m.spend(r.hi - r.lo)
				})
			}
		}
	})
	if err := c.Err(); err != nil {
		return err
	}
	y.store()
	return nil
}

// Run gives every element of a window its part.
func (p *AveragePoolGradient) Run(c *ir.Call) error {
	like := c.Tensor(1).Shape()
	w, shape, err := poolGeom(&p.Window, like)
	if err != nil {
		return err
	}
	if !slices.Equal(shape, c.Tensor(0).Shape()) {
		return fmt.Errorf("the gradient has shape %v for an output of %v", c.Tensor(0).Shape(), shape)
	}
	g, err := realIn[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := realOut[float64](c, 0, c.Tensor(0).DType(), like...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	clear(y.data)
	in, out, stride := product(w.in), product(w.out), w.stride[len(w.stride)-1]
	parts, err := ir.ScratchOf[float64](c, out)
	if err != nil {
		return err
	}
	repeatOf(parts, 1)
	for d := range w.out {
		inner := product(w.out[d+1:])
		counts := w.counts(d, p.CountIncludePad)
		for i := range parts {
			parts[i] *= float64(max(1, counts[i/inner%w.out[d]]))
		}
	}
	c.Parallel(shape[0]*shape[1], grainFor(out*w.taps()), func(lo, hi int) {
		m := &meter{c: c}
		for k := lo; k < hi; k++ {
			gp, yp := g[k*out:][:out], y.data[k*in:][:in]
			w.eachRow(func(r windowRow) bool {
				for i := r.lo; i < r.hi; i++ {
					yp[r.in+(i-r.lo)*stride] += gp[r.out+i] / parts[r.out+i]
				}
				return m.spend(r.hi - r.lo)
			})
		}
	})
	if err := c.Err(); err != nil {
		return err
	}
	y.store()
	return nil
}
