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

// EngramGate multiplies one value vector per token by a gate per branch. The gate is
// sigmoid(sign(d)·√|d|), where d is the dot product of the normalized key and query,
// divided by √features
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EngramGate).
// The second output is the result after RMS normalization.
type EngramGate struct{ Epsilon float32 }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "EngramGate", Since: kit.Versions{1},
	Class: kit.ClassOther,
	In:    "key:T, query:T, value:T, key_norm_scale:T, query_norm_scale:T, conv_norm_scale:T?",
	Out:   "output:T, gated_value_normed:T?",
	Types: "T: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &EngramGate{a.Float("epsilon", 1e-5)}
	}})

// Infer sets both outputs to the type of the key.
func (*EngramGate) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	c.SetOut(1, c.Type(0))
	return nil
}

// Run computes in float32.
func (op *EngramGate) Run(c *ir.Call) error {
	kt := c.Tensor(0)
	s := kt.Shape()
	if len(s) != 4 || !slices.Equal(c.Tensor(1).Shape(), s) ||
		!slices.Equal(c.Tensor(2).Shape(), []int{s[0], s[1], s[3]}) {
		return fail.Errorf("key, query and value have shapes %v, %v and %v, want twice [batch length branches "+
			"features] and [batch length features]",
			s, c.Tensor(1).Shape(), c.Tensor(2).Shape())
	}
	rows, num, features := s[0]*s[1], s[2], s[3]
	for i := 3; i < 6; i++ {
		if t := c.Tensor(i); t != nil && !slices.Equal(t.Shape(), s[2:]) {
			return fail.Errorf("input %d has shape %v, want %v", i, t.Shape(), s[2:])
		}
	}
	if c.Wants(1) && !c.Has(5) {
		return fail.Errorf("conv_norm_scale is missing; the output gated_value_normed requires it")
	}
	var in [6][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[float32](c, 0, kt.DType(), s...)
	if err != nil {
		return err
	}
	normed, err := kit.RealMaybe[float32](c, 1, kt.DType(), s...)
	if err != nil {
		return err
	}
	// inverse returns the reciprocal of the root mean square of x.
	inverse := func(x []float32) float64 {
		sum := 0.0
		if !c.Generic && len(x) >= kit.ShortRow {
			return 1 / math.Sqrt(float64(vec.SumSquaresF32(cpu.Active(), x, 0))/float64(len(x))+float64(op.Epsilon))
		}
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		return 1 / math.Sqrt(sum/float64(len(x))+float64(op.Epsilon))
	}
	row := func(i int) (k, q, ks, qs []float32) {
		b := i % num
		return in[0][i*features:][:features], in[1][i*features:][:features], in[3][b*features:][:features],
			in[4][b*features:][:features]
	}
	c.Parallel(rows*num, kit.GrainFor(8*features), func(lo, hi int) {
		level := cpu.Active()
		var products [2][kit.LoopBlock]float32
		var block [64]float32 // gates of consecutive rows
		for lo < hi && c.Err() == nil && features > 0 {
			gates := block[:min(len(block), hi-lo)]
			for r := range gates {
				k, q, ks, qs := row(lo + r)
				dot := 0.0
				if !c.Generic && features >= kit.ShortRow && features <= kit.LoopBlock {
					x, w := products[0][:features], products[1][:features]
					vec.MulF32(level, x, k, ks)
					vec.MulF32(level, w, q, qs)
					dot = float64(vec.DotF32(level, x, w))
				} else {
					for j := range k {
						dot += float64(k[j]) * float64(ks[j]) * float64(q[j]) * float64(qs[j])
					}
				}
				dot *= inverse(k) * inverse(q) / math.Sqrt(float64(features))
				root := math.Sqrt(math.Max(math.Abs(dot), 1e-6))
				switch {
				case dot < 0:
					root = -root
				case dot == 0:
					root = 0
				}
				gates[r] = float32(root)
			}
			if !c.Generic {
				vec.SigmoidF32(level, gates, gates)
			} else {
				for r, v := range gates {
					gates[r] = float32(1 / (1 + math.Exp(-float64(v))))
				}
			}
			for r, gate := range gates {
				i := lo + r
				out, v := y.Data[i*features:][:features], in[2][i/num*features:][:features]
				if c.Generic {
					for j := range out {
						out[j] = gate * v[j]
					}
				} else {
					vec.MulScalarF32(level, out, v, gate)
				}
				if in[5] != nil && normed.Data != nil {
					f := inverse(out)
					for j, w := range in[5][i%num*features:][:features] {
						normed.Data[i*features+j] = float32(float64(out[j])*f) * w
					}
				}
			}
			lo += len(gates)
		}
	})
	y.Store()
	if normed.T != nil {
		normed.Store()
	}
	return c.Err()
}
