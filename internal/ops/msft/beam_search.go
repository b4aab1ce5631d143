package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// BeamSearch generates text: for each batch entry it returns the most probable token
// sequences that a search with num_beams beams finds
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BeamSearch).
type BeamSearch struct{ beamSearch }

const beamSearchInputs = "input_ids:F, max_length:I, min_length:I?, num_beams:I, num_return_sequences:I, " +
	"length_penalty:T?, repetition_penalty:T?, " +
	"vocab_mask:I?, prefix_vocab_mask:I?, attention_mask:I?, decoder_input_ids:I?, logits_processor:I?"

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BeamSearch", Since: kit.Versions{1},
	In: beamSearchInputs, Out: "sequences:I, sequences_scores:T?, scores:T?",
	Class: kit.ClassControl,
	Types: "F: float int32 float16; T: float; I: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &BeamSearch{readBeamSearch(a, decoderOnly,
			generationInputs{penalty: 6, vocab: 7, prefix: 8, mask: 9, decoderIDs: 10})}
		if op.Model == speechToText {
			// Older exporters wrote Whisper models with BeamSearch. WhisperBeamSearch has inputs
			// for the decoder tokens.
			op.in.mask = 0
		}
		return op
	}})

// Run implements [ir.Operator].
func (op *BeamSearch) Run(c *ir.Call) error {
	return op.run(c, func(*beamRun) error { return nil }, func(*beamRun, [][]float32) error { return nil })
}
