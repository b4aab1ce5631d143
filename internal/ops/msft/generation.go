package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Values of the attribute model_type of the text generation operators.
const (
	decoderOnly    = 0 // for example GPT-2
	encoderDecoder = 1 // for example T5 and BART
	speechToText   = 2 // for example Whisper
)

// generation is the common part of the text generation operators of com.microsoft. They run a
// decoder repeatedly and append one token to every sequence per step. generationFeeds describes the
// decoder's inputs and outputs.
type generation struct {
	Model          int // decoderOnly, encoderDecoder or speechToText
	Decoder, First int // subgraphs; First runs the first step and may equal Decoder
	Encoder        int // subgraph; −1 if it is missing
	EOS, Pad       int
	Start          int // first token of the decoder; −1 if it is missing
	NGram          int // n-grams of this size may not repeat; 0: no limit
	Vocab          int // number of leading logits used; 0: all
	in             generationInputs
}

// generationInputs holds the input indices that differ between the operators; 0 if the
// operator has no such input.
type generationInputs struct {
	penalty, vocab, prefix, mask, decoderIDs, temperature int
}

func readGeneration(a *kit.Attrs, model int, in generationInputs) generation {
	a.Require("eos_token_id", "pad_token_id", "decoder")
	g := generation{Model: a.Int("model_type", model), EOS: a.Int("eos_token_id", 0), Pad: a.Int("pad_token_id", 0),
		Start: a.Int("decoder_start_token_id", -1), NGram: a.Int("no_repeat_ngram_size", 0),
		Vocab:   max(a.Int("vocab_size", -1), 0),
		Decoder: a.Graph("decoder"), Encoder: -1, in: in}
	g.First = g.Decoder
	switch g.Model {
	case decoderOnly:
		if a.Has("init_decoder") {
			g.First = a.Graph("init_decoder")
		}
		a.Ignore("encoder")
	case encoderDecoder, speechToText:
		a.Require("encoder")
		if a.Has("encoder") {
			g.Encoder = a.Graph("encoder")
		}
		a.Ignore("init_decoder")
	default:
		a.Errorf("model_type is %d, want 0 (decoder), 1 (text encoder and decoder) or 2 (speech encoder and decoder)",
			g.Model)
	}
	if g.NGram < 0 || g.EOS > math.MaxInt32 || g.Pad > math.MaxInt32 || g.EOS < math.MinInt32 ||
		g.Pad < math.MinInt32 ||
		g.Start > math.MaxInt32 || g.Start < math.MinInt32 || g.Vocab > math.MaxInt32 {
		a.Errorf("want no_repeat_ngram_size >= 0 and 32-bit token ids, got no_repeat_ngram_size %d, eos_token_id %d, "+
			"pad_token_id %d, decoder_start_token_id %d and vocab_size %d",
			g.NGram, g.EOS, g.Pad, g.Start, g.Vocab)
	}
	return g
}

// inferSequences infers each subgraph once and returns the dimensions batch and
// max_length.
func (g *generation) inferSequences(c *ir.InferContext) (batch, most ir.Dim, err error) {
	if s := c.Shape(0); len(s) > 0 {
		batch = s[0]
	} else {
		batch = ir.Unknown
	}
	most = ir.Unknown
	if t := c.Const(1); t != nil && t.DType() == tensor.TypeInt32 && t.Len() == 1 {
		most = ir.Known(max(0, int(tensor.MustData[int32](t)[0])))
	}
	return batch, most, g.inferGraphs(c)
}

// Infer implements [ir.Operator] for operators that return one sequence per batch entry.
func (g *generation) Infer(c *ir.InferContext) error {
	batch, most, err := g.inferSequences(c)
	c.SetOut(0, ir.TensorType(tensor.TypeInt32, batch, most))
	return err
}

// generationRun is the state of one run of a generation.
type generationRun struct {
	*generation
	feeds                generationFeeds
	batch, beams         int // sequence index: batch entry · beams + beam
	prompt, most, least  int
	penalty, temperature float32
	vocab, prefix        *tensor.Tensor // masks of allowed tokens, or nil
	presence             *tensor.Tensor // mask of tokens whose scores are reduced by presencePenalty, or nil
	presencePenalty      float32
	timestamps           *timestampRules
	sequences            [][]int32
	done                 []bool // whether each sequence has ended, for searches without beams
	step, words          int
	rows                 []float32 // scores of the last step, [sequence, words]
	seen                 []bool    // whether a sequence contains each token
	meter                ir.Meter
}

// newRun reads the inputs that all generation operators share and prepares the first step
// for beams sequences per batch entry.
func (g *generation) newRun(c *ir.Call, beams int) (*generationRun, error) {
	r := &generationRun{generation: g, beams: beams, penalty: 1, temperature: 1, meter: ir.Meter{C: c}}
	var err error
	if r.most, err = kit.ScalarInt(c.Tensor(1), "max_length"); err != nil {
		return nil, err
	}
	if t := c.Tensor(2); t != nil {
		if r.least, err = kit.ScalarInt(t, "min_length"); err != nil {
			return nil, err
		}
	}
	for _, f := range []struct {
		name string
		at   int
		dst  *float32
	}{{"repetition_penalty", g.in.penalty, &r.penalty}, {"temperature", g.in.temperature, &r.temperature}} {
		if f.at == 0 || c.Tensor(f.at) == nil {
			continue
		}
		if *f.dst, err = oneScale(c, f.name, c.Tensor(f.at)); err != nil {
			return nil, err
		}
		if !(*f.dst > 0) {
			return nil, fail.Errorf("%s must be positive, got %v", f.name, *f.dst)
		}
	}
	r.vocab, r.prefix = c.Tensor(g.in.vocab), c.Tensor(g.in.prefix)
	if err := r.prepare(c); err != nil {
		return nil, err
	}
	r.done = make([]bool, len(r.sequences))
	return r, nil
}

// begin creates the sequences: beams copies of each row of ids, [batch, prompt].
func (r *generationRun) begin(c *ir.Call, ids *tensor.Tensor) error {
	r.batch, r.prompt = ids.Dim(0), ids.Dim(1)
	if r.most <= r.prompt {
		return fail.Errorf("max_length is %d, want more than the length of the prompt, %d", r.most, r.prompt)
	}
	if r.least >= r.most {
		return fail.Errorf("min_length is %d, want less than max_length, %d", r.least, r.most)
	}
	rows := int64(r.batch) * int64(r.beams)
	if r.most > math.MaxInt32 || rows > mostTokens/int64(r.most) {
		return fail.Errorf("%d sequences of %d tokens exceed %d tokens", rows, r.most, int64(mostTokens))
	}
	// This reserves the tokens of the sequences, of those of the next step and of the hypotheses,
	// masks and positions, and 256 bytes per sequence for slices, candidates and scores.
	if err := c.Reserve(rows * (20*int64(r.most) + 256)); err != nil {
		return err
	}
	r.sequences = newSequences(int(rows), r.most)
	for i := range r.sequences {
		r.meter.Check(r.prompt)
		r.sequences[i] = append(r.sequences[i], tensor.MustData[int32](ids)[i/r.beams*r.prompt:][:r.prompt]...)
	}
	return nil
}

// mostTokens is the largest number of tokens of all sequences.
const mostTokens = 1 << 48

// newSequences returns n empty sequences in one block, each with a capacity of most tokens.
func newSequences(n, most int) [][]int32 {
	block, s := make([]int32, n*most), make([][]int32, n)
	for i := range s {
		s[i] = block[i*most:][:0:most]
	}
	return s
}

// scores runs the next step and returns the decoder's scores of the next token for every
// sequence. They are valid until the next call.
func (r *generationRun) scores(c *ir.Call) ([][]float32, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	r.step++
	logits, err := r.feeds.run(c, r)
	if err != nil {
		return nil, fail.Errorf("step %d: %w", r.step, err)
	}
	if err := r.checkScores(logits); err != nil {
		return nil, fail.Errorf("step %d: %w", r.step, err)
	}
	n := len(r.sequences)
	length, all := logits.Dim(1), logits.Dim(2)
	words := all
	if r.Vocab > 0 {
		words = r.Vocab
	}
	if words > all || r.step > 1 && words != r.words {
		return nil, fail.Errorf("step %d: the decoder returns scores of %d tokens, want %d", r.step,
			all, max(r.Vocab, r.words))
	}
	if r.step == 1 {
		if err := r.checkMasks(words); err != nil {
			return nil, err
		}
		if err := c.Reserve((4*int64(n) + 1) * int64(words)); err != nil {
			return nil, err
		}
		r.words, r.rows, r.seen = words, make([]float32, n*words), make([]bool, words)
	}
	wide, err := kit.RealIn[float32](c, logits)
	if err != nil {
		return nil, err
	}
	rows := make([][]float32, n)
	for i := range rows {
		at := i
		if logits.Dim(0) != n {
			at = i / r.beams
		}
		r.meter.Check(words / 4)
		rows[i] = r.rows[i*words:][:words]
		ir.Copy(c, rows[i], wide[(at*length+length-1)*all:][:words])
	}
	c.Release(logits)
	return rows, nil
}

func (r *generationRun) checkScores(logits *tensor.Tensor) error {
	n := len(r.sequences)
	if logits.Rank() != 3 || logits.Dim(1) < 1 || logits.Dim(2) < 1 || logits.Dim(0) != n &&
		(logits.Dim(0) != r.batch || r.step != 1) {
		return fail.Errorf("the decoder returns scores with shape %v, want [%d length vocabulary]", logits.Shape(), n)
	}
	return nil
}

func (r *generationRun) checkMasks(words int) error {
	for _, m := range []struct {
		name string
		t    *tensor.Tensor
		rows int
	}{{"vocab_mask", r.vocab, 1}, {"prefix_vocab_mask", r.prefix, r.batch}, {"presence_mask", r.presence, r.batch}} {
		if m.t != nil && m.t.Len() != m.rows*words {
			return fail.Errorf("%s has shape %v, want %d rows of %d tokens", m.name, m.t.Shape(), m.rows, words)
		}
	}
	return nil
}

// add appends a token to every sequence of a search without beams and reports whether
// generation continues. It appends padding to sequences that have ended, and instead of
// the end token.
func (r *generationRun) add(c *ir.Call, next []int32) (more bool, err error) {
	for b, id := range next {
		if r.done[b] || int(id) == r.EOS {
			r.done[b] = true
			next[b] = int32(r.Pad)
		}
		r.sequences[b] = append(r.sequences[b], next[b])
		more = more || !r.done[b]
	}
	if !more || len(r.sequences[0]) >= r.most {
		return false, nil
	}
	return true, r.feeds.advance(c, r, next, nil)
}

// finish writes the sequences of a search without beams, padded to max_length.
func (r *generationRun) finish(c *ir.Call) error {
	r.feeds.release(c)
	y, err := c.Output(0, tensor.TypeInt32, r.batch, r.most)
	if err != nil {
		return err
	}
	dst := tensor.MustData[int32](y)
	kit.RepeatOf(dst, int32(r.Pad))
	for b, s := range r.sequences {
		copy(dst[b*r.most:][:r.most], s)
	}
	return nil
}
