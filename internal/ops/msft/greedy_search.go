package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// GreedySearch generates text: every next token is the one with the greatest score, the
// first of equal ones
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GreedySearch).
type GreedySearch struct{ generation }

const generationInputsOf = "input_ids:I, max_length:I, min_length:I?, repetition_penalty:T?, vocab_mask:I?, " +
	"prefix_vocab_mask:I?, attention_mask:I?"

// generationIndices holds the input indices of searches without beams.
var generationIndices = generationInputs{penalty: 3, vocab: 4, prefix: 5, mask: 6}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GreedySearch", Since: kit.Versions{1},
	In: generationInputsOf, Out: "sequences:I",
	Class: kit.ClassControl,
	Types: "T: float; I: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &GreedySearch{readGeneration(a, decoderOnly, generationIndices)}
	}})

// Run implements [ir.Operator].
func (op *GreedySearch) Run(c *ir.Call) error {
	r, err := op.newRun(c, 1)
	if err != nil {
		return err
	}
	for more := true; more; {
		rows, err := r.scores(c)
		if err != nil {
			return err
		}
		next := make([]int32, r.batch)
		for b, row := range rows {
			r.process(b, row)
			best := 0
			for i, v := range row {
				r.meter.Check(0)
				if v > row[best] {
					best = i
				}
			}
			next[b] = int32(best)
		}
		if more, err = r.add(c, next); err != nil {
			return err
		}
	}
	return r.finish(c)
}
