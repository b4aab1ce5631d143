package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// The Gelu operators of com.microsoft
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
var (
	_ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Gelu", Since: kit.Versions{1}, In: "X:T",
		Out: "Y:T", Types: "T: @float",
		Elementwise: true, Vector: ops.GeluVector,
		Build: func(a *kit.Attrs, opset int) kit.Operator { return &ops.Gelu{} }})
	_ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BiasGelu", Since: kit.Versions{1}, In: "A:T, B:T",
		Out: "C:T", Types: "T: @float",
		Build: func(a *kit.Attrs, opset int) kit.Operator { return &biasGelu{} }})
	_ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "FastGelu", Since: kit.Versions{1}, In: "X:T, bias:T?",
		Out: "Y:T", Types: "T: @float",
		Build: func(a *kit.Attrs, opset int) kit.Operator { return &biasGelu{tanh: true} }})
	_ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QuickGelu", Since: kit.Versions{1}, In: "X:T",
		Out: "Y:T", Types: "T: @float",
		Build: func(a *kit.Attrs, opset int) kit.Operator { return &quickGelu{float64(a.Float("alpha", 1.702))} }})
)

// biasGelu computes Gelu of X plus a bias along the last dimension.
type biasGelu struct{ tanh bool }

// Infer sets the output to the type of X.
func (op *biasGelu) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run adds the bias and applies Gelu row by row.
func (op *biasGelu) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runBiasGelu[float64](op, c)
	}
	return runBiasGelu[float32](op, c)
}

func runBiasGelu[T kit.RealFloat](op *biasGelu, c *ir.Call) error {
	t := c.Tensor(0)
	cols := 1
	if t.Rank() > 0 {
		cols = t.Dim(t.Rank() - 1)
	}
	if b := c.Tensor(1); b != nil && (b.Rank() != 1 || b.Len() != cols) {
		return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), cols)
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	bias, err := kit.RealIn[T](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), t.Shape()...)
	if err != nil || len(x) == 0 {
		return err
	}
	c.Parallel(len(x)/cols, kit.GrainFor(8*cols), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := y.Data[r*cols:][:cols]
			copy(row, x[r*cols:])
			if bias != nil {
				addTo(row, bias)
			}
			f, fast := any(row).([]float32)
			d, double := any(row).([]float64)
			switch {
			case double && !c.Generic && op.tanh:
				kit.GeluTanhF64(cpu.Active(), d, d)
			case fast && !c.Generic && op.tanh:
				vec.GeluTanhF32(cpu.Active(), f, f)
			case fast && !c.Generic:
				vec.GeluF32(cpu.Active(), f, f)
			case op.tanh:
				kit.GeluTanhLoop(row, row)
			default:
				kit.GeluLoop(row, row)
			}
		}
	})
	y.Store()
	return nil
}

// quickGelu computes x·sigmoid(alpha·x).
type quickGelu struct{ alpha float64 }

// Infer sets the output to the type of X.
func (op *quickGelu) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run computes every element.
func (op *quickGelu) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runQuickGelu[float64](op, c)
	}
	return runQuickGelu[float32](op, c)
}

func runQuickGelu[T kit.RealFloat](op *quickGelu, c *ir.Call) error {
	t := c.Tensor(0)
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), t.Shape()...)
	if err != nil {
		return err
	}
	c.Parallel(len(x), kit.GrainFor(8), func(lo, hi int) {
		src, dst := x[lo:hi], y.Data[lo:hi]
		if f, ok := any(dst).([]float32); ok && !c.Generic {
			s := any(src).([]float32)
			vec.MulScalarF32(cpu.Active(), f, s, float32(op.alpha))
			vec.SigmoidF32(cpu.Active(), f, f)
			vec.MulF32(cpu.Active(), f, f, s)
			return
		}
		for i, v := range src {
			dst[i] = T(float64(v) / (1 + math.Exp(-op.alpha*float64(v))))
		}
	})
	y.Store()
	return nil
}
