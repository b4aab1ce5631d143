package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// NGramRepeatBlock copies scores and sets to −∞ the scores of tokens that would repeat an
// n-gram of their sequence
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NGramRepeatBlock).
type NGramRepeatBlock struct{ Size int }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "NGramRepeatBlock", Since: kit.Versions{1},
	In: "input_ids:Tid, scores:T", Out: "scores_out:T",
	Class: kit.ClassOther,
	Types: "Tid: int64; T: float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("ngram_size")
		o := &NGramRepeatBlock{a.Int("ngram_size", 1)}
		if o.Size < 1 {
			a.Errorf("attribute ngram_size is %d, want at least 1", o.Size)
		}
		return o
	}})

// Infer implements [ir.Operator].
func (*NGramRepeatBlock) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(1))
	for i, name := range []string{"input_ids", "scores"} {
		if err := kit.CheckRank(c, i, 2, name); err != nil {
			return err
		}
	}
	return nil
}

// Run implements [ir.Operator].
func (o *NGramRepeatBlock) Run(c *ir.Call) error {
	ids, scores := c.Tensor(0), c.Tensor(1)
	if ids.Rank() != 2 || scores.Rank() != 2 || ids.Dim(0) != scores.Dim(0) {
		return fail.Errorf("input_ids and scores have shapes %v and %v, want [batch length] and [batch vocabulary]",
			ids.Shape(), scores.Shape())
	}
	y, err := c.Output(0, tensor.TypeFloat32, scores.Shape()...)
	if err != nil {
		return err
	}
	copy(y.Bytes(), scores.Bytes())
	length, vocabulary := ids.Dim(1), scores.Dim(1)
	if o.Size > length {
		return nil
	}
	for b := range ids.Dim(0) {
		if err := c.Err(); err != nil {
			return err
		}
		seq, row := tensor.MustData[int64](ids)[b*length:][:length],
			tensor.MustData[float32](y)[b*vocabulary:][:vocabulary]
		last := seq[length-(o.Size-1):]
		for i := 0; i+o.Size <= length; i++ {
			before := seq[i : i+o.Size-1]
			if n := len(last) - 1; n >= 0 && before[n] != last[n] || !slices.Equal(before, last) {
				// the last element first: it rarely is the same
				continue
			}
			token := seq[i+o.Size-1]
			if token < 0 || token >= int64(vocabulary) {
				return fail.Errorf("token %d is out of range, the vocabulary size is %d", token, vocabulary)
			}
			row[token] = float32(math.Inf(-1))
		}
	}
	return nil
}
