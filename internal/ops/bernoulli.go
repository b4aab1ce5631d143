package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Bernoulli draws 0 or 1 for each element of the input, which is the probability of 1. Numbers
// outside of [0, 1], such as a rounded probability of 1.0000001, count as the nearer end
// (https://onnx.ai/onnx/operators/onnx__Bernoulli.html).
type Bernoulli struct {
	kit.RandomSeed
	kit.LikeInput
}

var _ = kit.Register(kit.Def{Name: "Bernoulli", Since: []int{15, 22}, In: "input:T1", Out: "output:T2",
	Types: kit.Types{"T1": "@float", "T2": "@number bool"},
	Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		return &Bernoulli{kit.ReadRandomSeed(a), kit.LikeInput{DType: a.DType("dtype", tensor.Undefined)}}
	})})

// Run implements [ir.Operator].
func (o *Bernoulli) Run(c *ir.Call) error {
	x := c.Tensor(0)
	p, err := kit.ToScratch(c, x, tensor.TypeFloat64)
	if err != nil {
		return err
	}
	probs := tensor.Of[float64](p)
	for i, v := range probs {
		if math.IsNaN(v) {
			return fmt.Errorf("element %d is NaN, want a probability in [0, 1]", i)
		}
	}
	src, i := o.Source(c), 0
	return kit.FillRandom(c, o.Elem(x.DType()), x.Shape(), func() float64 {
		v := min(max(probs[i], 0), 1)
		i++
		// Draw the less likely outcome, as NumPy does.
		if v > 0.5 {
			return 1 - drawRare(src, 1-v)
		}
		return drawRare(src, v)
	})
}

// drawRare returns 1 with probability p.
func drawRare(src *kit.RandomSource, p float64) float64 {
	if p > 0 && src.Uniform() > 1-p {
		return 1
	}
	return 0
}
