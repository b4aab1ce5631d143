package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// IsNaN returns whether elements are NaN (https://onnx.ai/onnx/operators/onnx__IsNaN.html).
type IsNaN struct{ boolOfInput }

var _ = kit.Register(&kit.Def{Name: "IsNaN", Since: kit.Versions{9, 13, 20}, In: "X:T1", Out: "Y:T2",
	Types:       "T1: @float @float8; T2: bool",
	Elementwise: true,
	Build:       kit.WithoutAttrs[IsNaN],
	Gradient:    gradient.None})

// boolOfInput infers one bool output of the shape of input 0.
type boolOfInput struct{}

func (boolOfInput) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeBool, Shape: c.Shape(0)})
	return nil
}

var isNaNLoops = elementwise.LoopsOf(append(float8Test(func(f float32) bool { return f != f }),
	isNaN(vec.EqualF32), isNaN(vec.EqualF64))...).WithFast(tensor.TypeFloat16, func(dst []byte, in *[3][]byte) {
	vec.NaNF16(cpu.Active(), memory.FromRaw[bool](dst), memory.FromRaw[uint16](in[0]))
})

// Run implements [ir.Operator].
func (*IsNaN) Run(c *ir.Call) error { return elementwise.MapTable(c, isNaNLoops, kit.GrainCheap) }

func isNaNLoop[T kit.FloatNumber](dst []bool, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = x != x
	}
}

// isNaN returns the loop over floats. The kernel compares elements with themselves.
func isNaN[T kit.RealFloat](equal func(l cpu.Level, dst []bool, a, b []T)) *elementwise.Loop {
	l := elementwise.Loop1(isNaNLoop[T])
	l.Fast = func(dst []byte, in *[3][]byte) {
		y, x := memory.FromRaw[bool](dst), memory.FromRaw[T](in[0])
		equal(cpu.Active(), y, x, x)
		whole := len(dst) &^ 31
		elementwise.NotWords(dst[:whole], dst[:whole], nil)
		elementwise.NotLoop(y[whole:], y[whole:])
	}
	return l
}
