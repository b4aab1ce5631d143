package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// gateOf returns the number of gates that t has per branch, for rows·num branches: 1, or
// one per feature.
func gateOf(name string, t *tensor.Tensor, rows, num, features int) (int, error) {
	switch t.Len() {
	case rows * num:
		return 1, nil
	case rows * num * features:
		return features, nil
	}
	return 0,
		fail.Errorf("%s has shape %v, want one gate per branch or feature of %d rows of %d branches of %d features",
			name, t.Shape(), rows, num, features)
}

// reduced returns shape s with the branches reduced to one feature vector per row.
func (b branches) reduced(s []int, features int) []int {
	if b.Number > 0 {
		return append(slices.Clone(s[:len(s)-1]), features)
	}
	return append(slices.Clone(s[:len(s)-2]), features)
}

// HyperConnectionPreMix returns the weighted sum of the branches of each row
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionPreMix).
type HyperConnectionPreMix struct {
	branches
	Scale float32 // factor of the sum
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "HyperConnectionPreMix", Since: kit.Versions{1},
	In: "streams:T, pre_mix:M", Out: "output:T",
	Class: kit.ClassOther,
	Types: "T: float float16 bfloat16; M: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &HyperConnectionPreMix{readBranches(a), a.Float("reduction_scale", 1)}
	}})

// Infer removes the axis of the branches.
func (op *HyperConnectionPreMix) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	if s := c.Shape(0); len(s) >= 1 && op.Number > 0 {
		t.Shape = slices.Clone(s)
		t.Shape[len(s)-1] = s[len(s)-1].Div(ir.Known(op.Number))
	} else if len(s) >= 2 {
		t.Shape = append(slices.Clone(s[:len(s)-2]), s[len(s)-1])
	}
	c.SetOut(0, t)
	return nil
}

// Run computes in float32.
func (op *HyperConnectionPreMix) Run(c *ir.Call) error {
	x := c.Tensor(0)
	rows, num, features, err := op.split("streams", x.Shape())
	if err != nil {
		return err
	}
	per, err := gateOf("pre_mix", c.Tensor(1), rows, num, features)
	if err != nil {
		return err
	}
	in, err := kit.RealIn[float32](c, x)
	if err != nil {
		return err
	}
	mix, err := kit.RealIn[float32](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), op.reduced(x.Shape(), features)...)
	if err != nil {
		return err
	}
	c.Parallel(len(y.Data), kit.GrainFor(num), func(lo, hi int) {
		for n := 0; lo < hi; lo += n {
			r, at := lo/features, lo%features
			n = min(hi-lo, features-at)
			dst := y.Data[lo:][:n]
			clear(dst)
			for k := range num {
				gate, src := mix[(r*num+k)*per:][:per], in[(r*num+k)*features+at:][:n]
				for i, v := range src {
					dst[i] += v * gate[(at+i)%per]
				}
			}
			for i := range dst {
				dst[i] *= op.Scale
			}
		}
	})
	y.Store()
	return c.Err()
}

// HyperConnectionPostMix mixes the branches of each row by a matrix, [from, to], and adds
// the block's output, weighted by each branch's gate
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.HyperConnectionPostMix).
type HyperConnectionPostMix struct{ branches }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "HyperConnectionPostMix", Since: kit.Versions{1},
	In: "streams:T, block_output:T, post_mix:M, stream_mix:M?", Out: "output:T",
	Class: kit.ClassOther,
	Types: "T: float float16 bfloat16; M: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &HyperConnectionPostMix{readBranches(a)}
	}})

// Infer keeps the type of the streams.
func (*HyperConnectionPostMix) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run computes in float32.
func (op *HyperConnectionPostMix) Run(c *ir.Call) error {
	x, m := c.Tensor(0), c.Tensor(3)
	rows, num, features, err := op.split("streams", x.Shape())
	if err != nil {
		return err
	}
	per, err := gateOf("post_mix", c.Tensor(2), rows, num, features)
	if err != nil {
		return err
	}
	if b := c.Tensor(1); b.Len() != rows*features {
		return fail.Errorf("block_output has shape %v, want %d rows of %d", b.Shape(), rows, features)
	}
	if m != nil && m.Len() != rows*num*num {
		return fail.Errorf("stream_mix has shape %v, want [... %d %d]", m.Shape(), num, num)
	}
	var in [4][]float32
	for i := range in {
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	c.Parallel(len(y.Data), kit.GrainFor(num), func(lo, hi int) {
		for n := 0; lo < hi; lo += n {
			branch, at := lo/features, lo%features
			r := branch / num
			n = min(hi-lo, features-at)
			dst, src := y.Data[lo:][:n], in[0][r*num*features+at:]
			if m == nil {
				copy(dst, src[branch%num*features:])
			} else {
				clear(dst)
				for j := range num {
					gate := in[3][(r*num+j)*num+branch%num]
					for i, v := range src[j*features:][:n] {
						dst[i] += gate * v
					}
				}
			}
			gate, out := in[2][branch*per:][:per], in[1][r*features+at:][:n]
			for i, v := range out {
				dst[i] += gate[(at+i)%per] * v
			}
		}
	})
	y.Store()
	return c.Err()
}
