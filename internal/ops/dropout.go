package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Dropout returns its input. In training mode it sets elements to 0 with probability ratio and
// multiplies the others by 1/(1−ratio). Ratio (by default 0.5) and mode are inputs 1 and 2; before
// opset 12 they were attributes, and opsets 7 to 11 had no training mode. Outside of training mode
// the mask is true, and before opset 12, as in ONNX Runtime, false
// (https://onnx.ai/onnx/operators/onnx__Dropout.html).
type Dropout struct {
	Seed     int
	HasSeed  bool
	MaskLike bool // the mask has the type of the data, as before opset 10
	Unmasked bool // the mask is false outside of training mode, as before opset 12
}

// trainingDropout is a Dropout that may draw random numbers.
type trainingDropout struct{ Dropout }

// Nondeterministic implements [ir.Nondeterministic].
func (*trainingDropout) Nondeterministic() {}

const dropoutTypes = "@float @float8"

var _ = kit.Register(&kit.Def{Name: "Dropout", Since: kit.Versions{1, 6, 7, 10, 12, 13, 22},
	In: "data:T, ratio:T1?, training_mode:T2?", Out: "output:T, mask:T2?",
	Class: kit.ClassActivation,
	Types: "T: " + dropoutTypes + "; T1: " + dropoutTypes + "; T2: bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := Dropout{MaskLike: opset < 10, Unmasked: opset < 12}
		training := a.NumIn > 2
		if opset >= 12 {
			o.HasSeed = a.Has("seed")
			o.Seed = a.Int("seed", 0)
		} else {
			kit.IgnoreConsumed(a, opset)
			a.SetInput(1, tensor.Scalar(a.Float("ratio", 0.5)))
			if opset < 7 && !a.Bool("is_test", false) {
				training = true
				a.SetInput(2, tensor.Scalar(true))
			}
		}
		if training {
			return &trainingDropout{o}
		}
		return &o
	},
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		if b.Opset < 7 || n.Input(2) != "" {
			return "", fail.Errorf("is differentiable only outside of training mode, since opset 7")
		}
		return b.Op("Identity", n.Inputs[0]), nil
	})})

// Infer implements [ir.Operator].
func (o *Dropout) Infer(c *ir.InferContext) error {
	t := c.Type(0)
	c.SetOut(0, t)
	if !o.MaskLike {
		t.Elem = tensor.TypeBool
	}
	c.SetOut(1, t)
	return nil
}

// Run implements [ir.Operator].
func (o *Dropout) Run(c *ir.Call) error {
	x := c.Tensor(0)
	ratio, err := elementwise.DropoutRatio(c.Tensor(1), c.Tensor(2))
	if err != nil {
		return err
	}
	out, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	var mask *tensor.Tensor
	if c.Wants(1) {
		d := tensor.TypeBool
		if o.MaskLike {
			d = x.DType()
		}
		if mask, err = c.Output(1, d, x.Shape()...); err != nil {
			return err
		}
	}
	if ratio == 0 {
		copy(out.Bytes(), x.Bytes())
		if mask != nil {
			one, err := tensor.Convert(tensor.Scalar(!o.Unmasked), mask.DType(), nil)
			if err != nil {
				return err
			}
			move.RepeatElement(mask.Bytes(), one.Bytes())
		}
		return nil
	}
	keep, err := kit.ScratchTensor(c, tensor.TypeBool, x.Shape())
	if err != nil {
		return err
	}
	kept := tensor.MustData[bool](keep)
	if err := o.Draw(c, kept, ratio); err != nil {
		return err
	}
	if err := dropScaled(c, out, x, kept, 1/(1-ratio)); err != nil || mask == nil {
		return err
	}
	return kit.ConvertInto(c, mask, keep, tensor.ConvertOptions{})
}

// Draw sets elements of kept to false with the given probability.
func (o *Dropout) Draw(c *ir.Call, kept []bool, ratio float64) error {
	src := unseededSource(c)
	if o.HasSeed {
		src = newRandomSource(uint32(o.Seed))
	}
	for i := range kept {
		if i%ir.GrainWatch == 0 && c.Err() != nil {
			return c.Err()
		}
		kept[i] = src.Uniform() >= ratio
	}
	return nil
}

// dropScaled stores scale·x where kept is true, and 0 elsewhere.
func dropScaled(c *ir.Call, out, x *tensor.Tensor, kept []bool, scale float64) error {
	if x.DType() == tensor.TypeFloat64 {
		elementwise.DropLoop(tensor.MustData[float64](out), tensor.MustData[float64](x), kept, scale)
		return nil
	}
	wide, err := kit.ToScratch(c, x, tensor.TypeFloat32)
	if err != nil {
		return err
	}
	res := out
	if x.DType() != tensor.TypeFloat32 {
		if res, err = kit.ScratchTensor(c, tensor.TypeFloat32, x.Shape()); err != nil {
			return err
		}
	}
	elementwise.DropLoop(tensor.MustData[float32](res), tensor.MustData[float32](wide), kept, float32(scale))
	if res == out {
		return nil
	}
	return kit.ConvertInto(c, out, res, tensor.ConvertOptions{Saturate: true})
}
