package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Bernoulli draws 0 or 1 for each element of the input, which is the probability of 1. Numbers
// outside of [0, 1], such as a rounded probability of 1.0000001, count as the nearer end
// (https://onnx.ai/onnx/operators/onnx__Bernoulli.html).
type Bernoulli struct {
	randomSeed
	likeInput
}

var _ = kit.Register(&kit.Def{Name: "Bernoulli", Since: kit.Versions{15, 22}, In: "input:T1", Out: "output:T2",
	Class: kit.ClassOther,
	Types: "T1: @float; T2: @number bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Bernoulli{readRandomSeed(a), likeInput{DType: a.DType("dtype", tensor.Undefined)}}
	}})

// Run implements [ir.Operator].
func (o *Bernoulli) Run(c *ir.Call) error {
	x := c.Tensor(0)
	p, err := kit.ToScratch(c, x, tensor.TypeFloat64)
	if err != nil {
		return err
	}
	probs := tensor.MustData[float64](p)
	src := o.Source(c)
	var numbers [kit.LoopBlock]float64
	nan := -1
	err = fillRandoms(c, o.Elem(x.DType()), x.Shape(), func(dst []float64, at int) {
		for lo := 0; lo < len(dst); lo += len(numbers) {
			y := dst[lo:min(len(dst), lo+len(numbers))]
			p := probs[at+lo:][:len(y)]
			// Draw the less likely outcome, as NumPy does. It takes a number only if it is
			// possible.
			count := 0
			for _, v := range p {
				if math.Float64bits(v)-1 < probable {
					count++
				}
			}
			if src.Uniforms(numbers[:count]); count == len(p) {
				draw(y, p, &numbers)
				continue
			}
			next := 0
			for i, v := range p {
				if v != v {
					nan = at + lo + i
				}
				u := numbers[next%kit.LoopBlock]
				above := math.Float64bits(v-u) & math.Float64bits((1-v)-u)
				if math.Float64bits(v)-1 < probable {
					next++
				} else {
					above = 0
				}
				y[i] = float64(int((math.Float64bits(0.5-v) ^ above) >> 63))
			}
		}
	})
	if nan >= 0 {
		return fail.Errorf("element %d is NaN, want a probability in [0, 1]", nan)
	}
	return err
}

// probable are the bits of the greatest number less than 1. Those of numbers between 0 and 1, less
// 1, are less.
const probable = 0x3ff0000000000000 - 1

// draw writes outcomes with probabilities between 0 and 1.
func draw(dst, p []float64, numbers *[kit.LoopBlock]float64) {
	dst = dst[:len(p)]
	for i, v := range p {
		u := numbers[i%kit.LoopBlock]
		above := math.Float64bits(v-u) & math.Float64bits((1-v)-u) // 1-v is exact where it is less than v
		dst[i] = float64(int((math.Float64bits(0.5-v) ^ above) >> 63))
	}
}
