package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// cosineWindow returns Σ terms[k]·cos(2πkt/n) for t = 0 … size−1, where n is size, or size−1 for a
// symmetric window. HannWindow, HammingWindow and BlackmanWindow differ in the terms.
type cosineWindow struct {
	terms     []float64
	symmetric bool
	dtype     tensor.DType
}

// registerWindow registers an operator that returns the cosine window with the given terms.
func registerWindow(name string, terms ...float64) *kit.Def {
	return kit.Register(&kit.Def{Name: name, Class: kit.ClassOther, Since: kit.Versions{17},
		In: "size:T1", Out: "output:T2",
		Types: "T1: int32 int64; T2: " + numberOutputs, Build: func(a *kit.Attrs, opset int) kit.Operator {
			return &cosineWindow{terms, !a.Bool("periodic", true), a.DType("output_datatype", tensor.TypeFloat32)}
		}})
}

// Infer sets the output to [size].
func (op *cosineWindow) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if d := c.Contents(0); len(d) == 1 {
		n = d[0]
	}
	if v, ok := n.Value(); ok && v < 0 {
		return fail.Errorf("size must be non-negative, got %d", v)
	}
	c.SetOut(0, ir.TensorType(op.dtype, n))
	return nil
}

// Run computes the window.
func (op *cosineWindow) Run(c *ir.Call) error {
	size, err := kit.ScalarInt(c.Tensor(0), "size")
	if err != nil {
		return err
	}
	if size < 0 {
		return fail.Errorf("size must be non-negative, got %d", size)
	}
	t, err := c.Output(0, op.dtype, size)
	if err != nil {
		return err
	}
	v, err := ir.ScratchOf[float64](c, size)
	if err != nil {
		return err
	}
	n := float64(size)
	if op.symmetric {
		n--
	}
	for i := range v {
		v[i] = 0
		for k, f := range op.terms {
			v[i] += f * math.Cos(2*math.Pi*float64(k)*float64(i)/n)
		}
		if n == 0 {
			v[i] = 1 // a symmetric window of one element is its own peak
		}
	}
	return storeNumbers(t, v)
}
