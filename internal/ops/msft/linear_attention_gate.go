package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// LinearAttentionGate computes the gates of LinearAttention: decay =
// decay_scale·softplus(a + dt_bias) and beta = sigmoid(b)
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LinearAttentionGate).
type LinearAttentionGate struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "LinearAttentionGate", Since: kit.Versions{1},
	In: "a:T, dt_bias:TF, decay_scale:TF, b:T?", Out: "decay:T, beta:T?",
	Class: kit.ClassOther,
	Types: "T: float float16 bfloat16; TF: float", Build: kit.WithoutAttrs[LinearAttentionGate]})

// Infer keeps the type of a.
func (*LinearAttentionGate) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	c.SetOut(1, c.Type(0))
	return nil
}

// Run computes in float32.
func (*LinearAttentionGate) Run(c *ir.Call) error {
	at := c.Tensor(0)
	s := at.Shape()
	heads := 0
	if len(s) > 0 {
		heads = s[len(s)-1]
	}
	if len(s) == 0 || c.Tensor(1).Len() != heads || c.Tensor(2).Len() != heads {
		return fail.Errorf("a, dt_bias and decay_scale have shapes %v, %v and %v, want [B T H] and twice [H]", s,
			c.Tensor(1).Shape(), c.Tensor(2).Shape())
	}
	var in [4][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	decay, err := kit.RealOut[float32](c, 0, at.DType(), s...)
	if err != nil {
		return err
	}
	l := cpu.Active()
	c.Parallel(len(in[0])/max(1, heads), kit.GrainFor(8*heads), func(lo, hi int) {
		for at := lo * heads; !c.Generic && at < hi*heads; at += heads {
			y := decay.Data[at:][:heads]
			vec.AddF32(l, y, in[0][at:][:heads], in[1])
			vec.SoftplusF32(l, y, y)
			vec.MulF32(l, y, y, in[2])
		}
		for i := lo * heads; c.Generic && i < hi*heads; i++ {
			z := float64(in[0][i] + in[1][i%heads])
			decay.Data[i] = in[2][i%heads] * float32(math.Max(z, 0)+math.Log1p(math.Exp(-math.Abs(z))))
		}
	})
	decay.Store()
	if !c.Wants(1) {
		return nil
	}
	if t := c.Tensor(3); t == nil || !slices.Equal(t.Shape(), s) {
		return fail.Errorf("b is %s, want shape %v: the output beta requires it", t, s)
	}
	beta, err := kit.RealOut[float32](c, 1, at.DType(), s...)
	if err != nil {
		return err
	}
	c.Parallel(len(in[3]), kit.GrainCostly, func(lo, hi int) {
		if !c.Generic {
			vec.SigmoidF32(l, beta.Data[lo:hi], in[3][lo:hi])
			return
		}
		for i := lo; i < hi; i++ {
			beta.Data[i] = kit.Sigmoid32(in[3][i])
		}
	})
	beta.Store()
	return nil
}
