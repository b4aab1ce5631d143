package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Dropout passes its input on. In training mode it makes elements 0 with
// probability ratio and scales the others by 1/(1−ratio)
// (https://onnx.ai/onnx/operators/onnx__Dropout.html). The ratio (0.5 by default)
// and the mode are inputs 1 and 2; before opset 12 they were attributes, and
// opsets 7 to 11 had no training mode.
type Dropout struct {
	Seed     int
	HasSeed  bool
	MaskLike bool // the mask has the data's type, as it did before opset 10
}

// trainingDropout is a Dropout that may draw random numbers.
type trainingDropout struct{ Dropout }

// Nondeterministic implements [ir.Nondeterministic].
func (*trainingDropout) Nondeterministic() {}

const dropoutTypes = "@float @float8"

var _ = register(Def{Name: "Dropout", Since: []int{1, 6, 7, 10, 12, 13, 22}, In: "data:T, ratio:T1?, training_mode:T2?", Out: "output:T, mask:T2",
	Types: Types{"T": dropoutTypes, "T1": dropoutTypes, "T2": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		o := Dropout{MaskLike: opset < 10}
		training := a.NumIn > 2
		if opset >= 12 {
			o.HasSeed = a.Has("seed")
			o.Seed = a.Int("seed", 0)
		} else {
			ignoreConsumed(a, opset)
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
	ratio, err := dropoutRatio(c.Tensor(1), c.Tensor(2))
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
			one, err := tensor.Convert(tensor.Scalar(true), mask.DType(), tensor.ConvertOptions{})
			if err != nil {
				return err
			}
			repeatElement(mask.Bytes(), one.Bytes())
		}
		return nil
	}
	keep, err := scratchTensor(c, tensor.TypeBool, x.Shape())
	if err != nil {
		return err
	}
	kept := tensor.Of[bool](keep)
	if err := o.draw(c, kept, ratio); err != nil {
		return err
	}
	if err := dropScaled(c, out, x, kept, 1/(1-ratio)); err != nil || mask == nil {
		return err
	}
	return convertInto(c, mask, keep, tensor.ConvertOptions{})
}

// draw sets kept to false with the given probability.
func (o *Dropout) draw(c *ir.Call, kept []bool, ratio float64) error {
	src := unseededSource(c)
	if o.HasSeed {
		src = newRandomSource(uint32(o.Seed))
	}
	for i := range kept {
		if i%grainWatch == 0 && c.Err() != nil {
			return c.Err()
		}
		kept[i] = src.uniform() >= ratio
	}
	return nil
}

// dropoutRatio returns the probability of a dropped element, 0 outside of
// training; t and mode are the inputs ratio and training_mode.
func dropoutRatio(t, mode *tensor.Tensor) (float64, error) {
	if mode == nil {
		return 0, nil
	}
	if mode.Len() != 1 {
		return 0, fmt.Errorf("training_mode has shape %v, want a scalar", mode.Shape())
	}
	if !tensor.Of[bool](mode)[0] {
		return 0, nil
	}
	if t == nil {
		return 0.5, nil
	}
	if t.Len() != 1 {
		return 0, fmt.Errorf("ratio has shape %v, want a scalar", t.Shape())
	}
	wide, err := tensor.Convert(t, tensor.TypeFloat64, tensor.ConvertOptions{})
	if err != nil {
		return 0, err
	}
	r := tensor.Of[float64](wide)[0]
	if !(r >= 0 && r < 1) {
		return 0, fmt.Errorf("ratio is %g, want it in [0, 1)", r)
	}
	return r, nil
}

// dropScaled stores scale·x where kept is set and 0 elsewhere.
func dropScaled(c *ir.Call, out, x *tensor.Tensor, kept []bool, scale float64) error {
	if x.DType() == tensor.TypeFloat64 {
		dropLoop(tensor.Of[float64](out), tensor.Of[float64](x), kept, scale)
		return nil
	}
	wide, err := toScratch(c, x, tensor.TypeFloat32)
	if err != nil {
		return err
	}
	res := out
	if x.DType() != tensor.TypeFloat32 {
		if res, err = scratchTensor(c, tensor.TypeFloat32, x.Shape()); err != nil {
			return err
		}
	}
	dropLoop(tensor.Of[float32](res), tensor.Of[float32](wide), kept, float32(scale))
	if res == out {
		return nil
	}
	return convertInto(c, out, res, tensor.ConvertOptions{Saturate: true})
}

func dropLoop[T floatNumber](dst, src []T, kept []bool, scale T) {
	for i, x := range src {
		k := T(0)
		if kept[i] {
			k = 1
		}
		dst[i] = k * x * scale
	}
}
