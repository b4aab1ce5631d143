package ops

import "github.com/onward-ml/onward/internal/ir"

// GreedySearch generates text: every next token is the one with the greatest
// score, among equal ones the first
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GreedySearch).
type GreedySearch struct{ generation }

const generationInputs = "input_ids:I, max_length:I, min_length:I?, repetition_penalty:T?, vocab_mask:I?, prefix_vocab_mask:I?, attention_mask:I?"

var _ = register(Def{Domain: DomainMicrosoft, Name: "GreedySearch", Since: []int{1}, In: generationInputs, Out: "sequences:I",
	Types: Types{"T": "float", "I": "int32"},
	Build: simple(func(a *Attrs, opset int) Operator { return &GreedySearch{readGeneration(a)} })})

// Run implements [ir.Operator].
func (op *GreedySearch) Run(c *ir.Call) error {
	r, err := op.newRun(c)
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
			best := 0
			for i, v := range row {
				if v > row[best] {
					best = i
				}
			}
			next[b] = int32(best)
		}
		if more, err = r.add(next); err != nil {
			return err
		}
	}
	return r.finish(c)
}
