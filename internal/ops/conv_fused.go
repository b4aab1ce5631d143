package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// FusedConv is a Conv of float32 with an addition and an activation. Input 3, Z, is optional and
// has the shape of the output.
//
//	Y = act(conv(X, W) + B + Z)
type FusedConv struct {
	Conv
	Act kit.Activation
}

// Infer is that of Conv.
func (f *FusedConv) Infer(c *ir.InferContext) error {
	if e := c.Elem(0); e != tensor.TypeFloat32 {
		return fail.Errorf("input is %s, want float", e)
	}
	return f.Conv.Infer(c)
}

// Prepare packs weights over three axes and those of depthwise convolutions. Other weights are used
// unchanged.
func (f *FusedConv) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if op, drop, err := prepareVolume(f, in, types); op != nil || err != nil {
		return op, drop, err
	}
	return prepareDepthwise(f, in, types)
}

// Run computes the convolution and applies the rest in place.
func (f *FusedConv) Run(c *ir.Call) error {
	if err := c.Inner(&f.Conv); err != nil {
		return err
	}
	return f.finish(c, c.Out[0].(*tensor.Tensor))
}

// finish adds Z and applies the activation in place.
func (f *FusedConv) finish(c *ir.Call, y *tensor.Tensor) error {
	dst := tensor.MustData[float32](y)
	var add []float32
	if z := c.Tensor(3); z != nil {
		if fmt.Sprint(z.Shape()) != fmt.Sprint(y.Shape()) {
			return fail.Errorf("input Z has shape %v, the output %v", z.Shape(), y.Shape())
		}
		add = tensor.MustData[float32](z)
	}
	c.Parallel(len(dst), 1<<14, func(lo, hi int) {
		d := dst[lo:hi]
		if add != nil {
			vec.AddF32(cpu.Active(), d, d, add[lo:hi])
		}
		f.Act.Apply(d)
	})
	return nil
}
