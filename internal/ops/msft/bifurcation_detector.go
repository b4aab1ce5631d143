package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// BifurcationDetector appends predicted tokens to the current tokens, up to and including
// the first that differs from the source tokens after an index. It then searches the
// source for the last tokens and returns the index after the match if it is unique
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BifurcationDetector).
type BifurcationDetector struct{ Least, Most int } // limits of the length of the suffix searched for

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BifurcationDetector", Since: kit.Versions{1},
	Class: kit.ClassOther,
	In:    "src_tokens:T, cur_tokens:T, prev_suffix_match_idx:T, pred_tokens:T?", Out: "tokens:T, suffix_match_idx:T",
	Types: "T: int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &BifurcationDetector{a.Int("min_ngram_size", 1), a.Int("max_ngram_size", 3)}
		if op.Least < 1 || op.Most < op.Least {
			a.Errorf("want 1 <= min_ngram_size <= max_ngram_size, got %d and %d", op.Least, op.Most)
		}
		return op
	}})

// Infer sets the types; the number of output tokens depends on the values of the inputs.
func (op *BifurcationDetector) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(tensor.TypeInt64, ir.Unknown))
	c.SetOut(1, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeInt64, Shape: c.Shape(2)})
	return nil
}

// Run appends the predicted tokens and searches the source for the suffix.
func (op *BifurcationDetector) Run(c *ir.Call) error {
	src, cur := tensor.MustData[int64](c.Tensor(0)), tensor.MustData[int64](c.Tensor(1))
	from, err := kit.ScalarInt(c.Tensor(2), "prev_suffix_match_idx")
	if err != nil {
		return err
	}
	if t := c.Tensor(3); t != nil {
		pred := tensor.MustData[int64](t)
		if from < 0 || from > len(src) || len(pred) != len(src)+1-from {
			return fail.Errorf("pred_tokens has shape %v, prev_suffix_match_idx is %d and src_tokens has %d tokens; "+
				"want as many predicted tokens as source tokens after the index, plus one", t.Shape(), from, len(src))
		}
		n := 0
		for n < len(src)-from && pred[n] == src[from+n] {
			n++
		}
		cur = slices.Concat(cur, pred[:n+1])
	}
	y, err := c.Output(0, tensor.TypeInt64, len(cur))
	if err != nil {
		return err
	}
	copy(tensor.MustData[int64](y), cur)
	found := -1
	for n := op.Least; n <= min(op.Most, len(cur)); n++ {
		suffix := cur[len(cur)-n:]
		find := func(from int) int {
			for i := from; i+n <= len(src); i++ {
				if slices.Equal(src[i:i+n], suffix) {
					return i
				}
			}
			return -1
		}
		first := find(0)
		if first < 0 {
			break
		}
		if found = first + n; found >= len(src) || find(first+1) < 0 {
			break
		}
		found = -1
		if err := c.Err(); err != nil {
			return err
		}
	}
	at, err := c.Output(1, tensor.TypeInt64, c.Tensor(2).Shape()...)
	if err != nil {
		return err
	}
	tensor.MustData[int64](at)[0] = int64(found)
	return nil
}
