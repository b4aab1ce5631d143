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
	kit.RandomSeed
	kit.LikeInput
}

var _ = kit.Register(&kit.Def{Name: "Bernoulli", Since: kit.Versions{15, 22}, In: "input:T1", Out: "output:T2",
	Types: "T1: @float; T2: @number bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Bernoulli{kit.ReadRandomSeed(a), kit.LikeInput{DType: a.DType("dtype", tensor.Undefined)}}
	}})

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
			return fail.Errorf("element %d is NaN, want a probability in [0, 1]", i)
		}
	}
	src := o.Source(c)
	var numbers [kit.LoopBlock]float64
	return kit.FillRandoms(c, o.Elem(x.DType()), x.Shape(), func(dst []float64, at int) {
		for lo := 0; lo < len(dst); lo += len(numbers) {
			y := dst[lo:min(len(dst), lo+len(numbers))]
			p := probs[at+lo:][:len(y)]
			// Draw the less likely outcome, as NumPy does. It takes a number only if it is possible.
			count := 0
			for _, v := range p {
				if v > 0 && v < 1 {
					count++
				}
			}
			src.Uniforms(numbers[:count])
			if count == len(p) {
				for i, u := range numbers[:count] {
					v := p[i]
					rare := min(v, 1-v)
					drawn := math.Float64bits((1-rare)-u) ^ math.Float64bits(0.5-v)
					y[i] = float64(int64(drawn >> 63))
				}
				continue
			}
			next := 0
			for i, v := range p {
				v = min(max(v, 0), 1)
				rare := min(v, 1-v)
				drawn := math.Float64bits((1-rare)-numbers[next]) >> 63 // 1 if the number is greater
				if rare == 0 {
					drawn = 0
				} else {
					next = (next + 1) % len(numbers)
				}
				y[i] = float64(drawn ^ math.Float64bits(0.5-v)>>63)
			}
		}
	})
}
