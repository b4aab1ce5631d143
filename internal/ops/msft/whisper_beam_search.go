package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// WhisperBeamSearch transcribes speech: for each batch entry it returns the most probable
// token sequences that a search with num_beams beams finds
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.WhisperBeamSearch).
// Output 4 is the probability that there is no speech.
type WhisperBeamSearch struct {
	beamSearch
	Timestamps timestampRules // applied if logits_processor is 1
	NoSpeech   int            // token id; −1 if it is missing
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "WhisperBeamSearch", Since: kit.Versions{1},
	Class: kit.ClassControl,
	In:    beamSearchInputs + ", cross_qk_layer_head:I?, extra_decoding_ids:I?, temperature:T?",
	Out:   "sequences:I, sequences_scores:T?, scores:T?, cross_qk:T?, non_speech_probs:T?",
	Types: "F: float int32 float16; T: float; I: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &WhisperBeamSearch{beamSearch: readBeamSearch(a, speechToText,
			generationInputs{penalty: 6, vocab: 7, prefix: 8, decoderIDs: 10, temperature: 14})}
		if op.Model != speechToText {
			a.Errorf("model_type is %d, want 2", op.Model)
		}
		op.Timestamps = timestampRules{EOS: op.EOS, Start: op.Start, Translate: a.Int("translate_token_id", -1),
			Transcribe: a.Int("transcribe_token_id", -1),
			LM:         a.Int("start_of_lm_token_id", -1), None: a.Int("no_timestamps_token_id", -1),
			Begin: a.Int("beginning_timestamp_token_id", -1)}
		op.NoSpeech = a.Int("no_speech_token_id", -1)
		if a.Int("decoder_output_cross_qk", 0) != 0 {
			a.Errorf("decoder_output_cross_qk is 1, which is not supported")
		}
		return op
	}})

// Infer implements [ir.Operator].
func (op *WhisperBeamSearch) Infer(c *ir.InferContext) error {
	if c.Wants(3) {
		return fail.Errorf("output cross_qk is not supported")
	}
	if c.Wants(4) {
		batch := ir.Unknown
		if s := c.Shape(0); len(s) > 0 {
			batch = s[0]
		}
		c.SetOut(4, ir.TensorType(tensor.TypeFloat32, batch))
	}
	return op.beamSearch.Infer(c)
}

// Run implements [ir.Operator].
func (op *WhisperBeamSearch) Run(c *ir.Call) error {
	setup := func(r *beamRun) error {
		kind := 0
		if t := c.Tensor(11); t != nil {
			var err error
			if kind, err = kit.ScalarInt(t, "logits_processor"); err != nil {
				return err
			}
		}
		if kind == 1 {
			rules := op.Timestamps
			r.timestamps = &rules
		}
		return nil
	}
	first := func(r *beamRun, rows [][]float32) error {
		if r.timestamps != nil {
			if err := r.timestamps.check(r.words); err != nil {
				return err
			}
		}
		if !c.Wants(4) {
			return nil
		}
		if op.NoSpeech < 0 || op.NoSpeech >= r.words {
			return fail.Errorf("no_speech_token_id is %d, want a token of a vocabulary of %d", op.NoSpeech, r.words)
		}
		y, err := c.Output(4, tensor.TypeFloat32, r.batch)
		if err != nil {
			return err
		}
		if err := c.Reserve(4 * int64(r.words)); err != nil {
			return err
		}
		row := make([]float32, r.words)
		for b := range r.batch {
			copy(row, rows[b*r.beams])
			logSoftmaxRow(&r.meter, row)
			tensor.MustData[float32](y)[b] = float32(math.Exp(float64(row[op.NoSpeech])))
		}
		return nil
	}
	return op.run(c, setup, first)
}
