package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/fourier"
	"github.com/onward-ml/onward/tensor"
)

// Rfft computes the Fourier transform of real signals along the last dimension, of size
// n. It returns the first ⌊n/2⌋+1 frequencies, with real and imaginary parts along a new
// last dimension
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Rfft).
type Rfft struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Rfft", Since: kit.Versions{1}, In: "X:T", Out: "Y:T",
	Types: "T: float double float16",
	Class: kit.ClassOther,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		readFFT(a)
		return &Rfft{}
	}})

// readFFT reads and checks the attributes that Rfft and Irfft share.
func readFFT(a *kit.Attrs) {
	if !a.Bool("onesided", true) {
		a.Errorf("attribute onesided is 0, want 1")
	}
	if a.Bool("normalized", false) {
		a.Errorf("attribute normalized is 1, want 0")
	}
	if n := a.Int("signal_ndim", 1); n != 1 {
		a.Errorf("attribute signal_ndim is %d, want 1", n)
	}
}

// Infer implements [ir.Operator].
func (*Rfft) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if s == nil {
		return nil
	}
	if len(s) < 1 {
		return fail.Errorf("input is a scalar, want rank at least 1")
	}
	out := append(slices.Clone(s), ir.Known(2))
	out[len(s)-1] = s[len(s)-1].Div(ir.Known(2)).Add(ir.Known(1))
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// Run computes in float64.
func (*Rfft) Run(c *ir.Call) error {
	s := c.Tensor(0).Shape()
	if len(s) < 1 {
		return fail.Errorf("input is a scalar, want rank at least 1")
	}
	n := s[len(s)-1]
	shape := append(slices.Clone(s), 2)
	shape[len(s)-1] = n/2 + 1
	return runFFT(c, fourier.Line{N: n, In: n, InParts: 1, Out: n/2 + 1, OutParts: 2, Inner: 1},
		kit.Product(s[:len(s)-1]), shape)
}

func runFFT(c *ir.Call, line fourier.Line, outer int, shape []int) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return fourier.DFT[float64](c, line, outer, shape)
	}
	return fourier.DFT[float32](c, line, outer, shape)
}
