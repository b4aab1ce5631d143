package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/fourier"
)

// Irfft is the inverse of [Rfft] for signals of even length
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Irfft).
type Irfft struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Irfft", Since: kit.Versions{1}, In: "X:T", Out: "Y:T",
	Types: "T: float double float16",
	Class: kit.ClassOther,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		readFFT(a)
		return &Irfft{}
	}})

// Infer implements [ir.Operator].
func (*Irfft) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if s == nil {
		return nil
	}
	if len(s) < 2 || s[len(s)-1].Differs(ir.Known(2)) {
		return fail.Errorf("input has shape %v, want at least two dimensions, the last of 2", s)
	}
	out := slices.Clone(s[:len(s)-1])
	n := s[len(s)-2].Sub(ir.Known(1)).Mul(ir.Known(2))
	if v, ok := n.Value(); ok && v < 0 {
		n = ir.Known(0)
	}
	out[len(out)-1] = n
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// Run computes in float64.
func (*Irfft) Run(c *ir.Call) error {
	s := c.Tensor(0).Shape()
	if len(s) < 2 || s[len(s)-1] != 2 {
		return fail.Errorf("input has shape %v, want at least two dimensions, the last of 2", s)
	}
	m := s[len(s)-2]
	n := max(0, 2*(m-1))
	shape := slices.Clone(s[:len(s)-1])
	shape[len(shape)-1] = n
	return runFFT(c, fourier.Line{N: n, In: m, InParts: 2, Out: n, OutParts: 1, Inner: 1, Inverse: true,
		Hermitian: true}, kit.Product(s[:len(s)-2]), shape)
}
