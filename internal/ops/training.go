package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// optimizerStep is one iteration of a gradient descent method of ai.onnx.preview.training. The
// inputs are the learning rate, the update count, and groups of as many tensors as are optimized:
// the tensors themselves, their gradients, and the states of the method. The outputs are the new
// tensors and states.
type optimizerStep interface {
	// states returns the number of states per tensor, at most 2.
	States() int
	// begin returns the update of one element for a run with the given learning rate and update
	// count.
	Begin(rate float64, count int64) func(x, g float64, s [2]float64) (float64, [2]float64)
}

// trainer runs an optimizerStep.
type trainer struct{ optimizerStep }

// registerTrainer registers an optimizer of ai.onnx.preview.training.
func registerTrainer(name string, build func(a *kit.Attrs) optimizerStep) *kit.Def {
	return kit.Register(&kit.Def{Domain: kit.DomainPreviewTraining, Name: name, Class: kit.ClassOther,
		Since: kit.Versions{1}, In: "R:T1, T:int64, inputs:any+", Out: "outputs:any+",
		Types: "T1: float double", Build: func(a *kit.Attrs, opset int) kit.Operator {
			op := &trainer{build(a)}
			if group := 2 + op.States(); a.NumIn < 2+group || (a.NumIn-2)%group != 0 {
				a.Errorf("node has %d inputs, want 2 and then %d for each tensor", a.NumIn, group)
			}
			return op
		}})
}

// Infer gives every output the type of its input.
func (op *trainer) Infer(c *ir.InferContext) error {
	n := (c.NumIn() - 2) / (2 + op.States())
	for i := 2; i < c.NumIn(); i++ {
		if t := c.Type(i); t.Kind != tensor.KindTensor || t.Elem != tensor.TypeFloat32 && t.Elem != tensor.TypeFloat64 {
			return fail.Errorf("input %d is %s, want a tensor of float or double", i, t)
		}
	}
	for i := range n {
		c.SetOut(i, c.Type(2+i))
		for s := range op.States() {
			c.SetOut(n*(1+s)+i, c.Type(2+n*(2+s)+i))
		}
	}
	return nil
}

// Run updates every tensor.
func (op *trainer) Run(c *ir.Call) error {
	if c.Tensor(0).Len() != 1 || c.Tensor(1).Len() != 1 {
		return fail.Errorf("R and T have shapes %v and %v, want scalars", c.Tensor(0).Shape(), c.Tensor(1).Shape())
	}
	rate, err := kit.RealIn[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	step := op.Begin(rate[0], tensor.MustData[int64](c.Tensor(1))[0])
	n := (c.NumIn() - 2) / (2 + op.States())
	for i := range n {
		var in [4][]float64
		shape := c.Tensor(2 + i).Shape()
		for k := range 2 + op.States() {
			t := c.Tensor(2 + n*k + i)
			if !slices.Equal(t.Shape(), shape) {
				return fail.Errorf("input %d has shape %v, want %v, the shape of its tensor", 2+n*k+i, t.Shape(), shape)
			}
			if in[k], err = kit.RealIn[float64](c, t); err != nil {
				return err
			}
		}
		var out [3]kit.RealOutput[float64]
		for k := range 1 + op.States() {
			from := 2 + i
			if k > 0 {
				from = 2 + n*(k+1) + i
			}
			if out[k], err = kit.RealMaybe[float64](c, n*k+i, c.Tensor(from).DType(), shape...); err != nil {
				return err
			}
		}
		c.Parallel(len(in[0]), kit.GrainCostly, func(lo, hi int) {
			for j := lo; j < hi; j++ {
				var s [2]float64
				for k := range op.States() {
					s[k] = in[2+k][j]
				}
				out[0].Data[j], s = step(in[0][j], in[1][j], s)
				for k := range op.States() {
					out[1+k].Data[j] = s[k]
				}
			}
		})
		for k := range 1 + op.States() {
			if out[k].T != nil {
				out[k].Store()
			}
		}
	}
	return nil
}

// real64 returns an attribute as the float64 of its shortest decimal form: 0.9 becomes 0.9.
func real64(f float32) float64 {
	v := float64(f)
	if r := math.Round(v*1e6) / 1e6; float32(r) == f {
		return r
	}
	return v
}
