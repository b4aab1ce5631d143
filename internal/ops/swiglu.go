package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// SwiGLU returns swish(A)·B for a gate A and values B of one shape, where swish(a) is
// a·sigmoid(alpha·a) (https://onnx.ai/onnx/operators/onnx__SwiGLU.html).
type SwiGLU struct{ Alpha float64 }

var _ = kit.Register(&kit.Def{Name: "SwiGLU", Since: kit.Versions{28}, In: "A:T, B:T", Out: "Y:T", Types: "T: @float",
	Class: kit.ClassActivation,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &SwiGLU{Alpha: float64(a.Float("alpha", 1))}
	}})

// Infer implements [ir.Operator].
func (*SwiGLU) Infer(c *ir.InferContext) error {
	t, err := ir.MergeTypes(c.Type(0), c.Type(1))
	if err != nil {
		return fail.Errorf("types of A and B differ: %w", err)
	}
	c.SetOut(0, t)
	return nil
}

// Run implements [ir.Operator].
func (o *SwiGLU) Run(c *ir.Call) error {
	a, b := c.Tensor(0), c.Tensor(1)
	if !slices.Equal(a.Shape(), b.Shape()) {
		return fail.Errorf("A has shape %v and B %v, want the same", a.Shape(), b.Shape())
	}
	f32 := elementwise.Loop2(func(dst, a, b []float32) { swigluLoop(dst, a, b, o.Alpha) })
	f32.Fast = func(dst []byte, in *[3][]byte) {
		y, a, b := memory.FromRaw[float32](dst), memory.FromRaw[float32](in[0]), memory.FromRaw[float32](in[1])
		swish := (&Swish{Alpha: o.Alpha}).fast()
		for lo := 0; lo < len(y); lo += kit.LoopBlock {
			hi := min(len(y), lo+kit.LoopBlock)
			swish(cpu.Active(), y[lo:hi], a[lo:hi])
			vec.MulF32(cpu.Active(), y[lo:hi], y[lo:hi], b[lo:hi])
		}
	}
	return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, elementwise.LoopsOf(f32,
		elementwise.Loop2(func(dst, a, b []float64) { swigluLoop(dst, a, b, o.Alpha) })), kit.GrainCostly)
}

func swigluLoop[T kit.FloatNumber](dst, a, b []T, alpha float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x := float64(a[i])
		dst[i] = T(kit.Gated(x, 1/(1+math.Exp(-alpha*x))) * float64(b[i]))
	}
}
