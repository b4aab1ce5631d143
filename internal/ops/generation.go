package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// generation is what the text generating operators of com.microsoft share: they
// run a decoder again and again and add a token to every sequence each time. The
// decoder takes input_ids, position_ids and attention_mask, [batch, length] each,
// and the past of every layer, [2, batch, heads, past length, size]; it returns
// the scores of the next token, [batch, length, vocabulary], and the new pasts.
type generation struct {
	Decoder, First int // subgraphs; First, for the first step, may be the same
	EOS, Pad       int
	NGram          int // n-grams of this size may not repeat; 0: none
}

func readGeneration(a *Attrs) generation {
	a.Require("eos_token_id", "pad_token_id")
	g := generation{EOS: a.Int("eos_token_id", 0), Pad: a.Int("pad_token_id", 0), NGram: a.Int("no_repeat_ngram_size", 0), Decoder: a.Graph("decoder")}
	g.First = g.Decoder
	if a.Has("init_decoder") {
		g.First = a.Graph("init_decoder")
	}
	if a.Int("model_type", 0) != 0 || a.Has("encoder") {
		a.Errorf("only decoders without an encoder are supported: model_type 0")
	}
	if g.NGram < 0 || g.EOS > math.MaxInt32 || g.Pad > math.MaxInt32 || g.EOS < math.MinInt32 || g.Pad < math.MinInt32 {
		a.Errorf("no_repeat_ngram_size is %d, eos_token_id %d and pad_token_id %d", g.NGram, g.EOS, g.Pad)
	}
	a.Ignore("vocab_size", "decoder_start_token_id", "encoder")
	return g
}

const generationPast = 3 // inputs of a decoder before the pasts

// pastShape returns the number of heads and their size by the declared type of a
// past.
func pastShape(types []ir.Type) (heads, size int, err error) {
	if len(types) <= generationPast {
		return 0, 0, fmt.Errorf("the decoder has %d inputs, want input_ids, position_ids, attention_mask and pasts", len(types))
	}
	s := types[generationPast].Shape
	if len(s) == 5 {
		h, ok1 := s[2].Value()
		d, ok2 := s[4].Value()
		if ok1 && ok2 && h >= 0 && d >= 0 && s[0].Is(2) {
			return h, d, nil
		}
	}
	return 0, 0, fmt.Errorf("a past of the decoder is %s, want [2 batch heads length size] with known heads and size", types[generationPast])
}

// Infer infers the decoders once each.
func (g *generation) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	batch := ir.Unknown
	if s := c.Shape(0); len(s) == 2 {
		batch = s[0]
	}
	if t := c.Const(1); t != nil && t.DType() == tensor.TypeInt32 && t.Len() == 1 {
		n = ir.Known(max(0, int(tensor.Of[int32](t)[0])))
	}
	c.SetOut(0, ir.TensorType(tensor.TypeInt32, batch, n))
	graphs := []int{g.Decoder}
	if g.First != g.Decoder {
		graphs = append(graphs, g.First)
	}
	for _, k := range graphs {
		types := c.GraphInputs(k)
		heads, size, err := pastShape(types)
		if err != nil {
			return err
		}
		in := make([]ir.Value, len(types))
		for i := range in {
			in[i].Type = ir.TensorType(tensor.TypeInt32, ir.UnknownDims(2)...)
			if i >= generationPast {
				in[i].Type = ir.TensorType(tensor.TypeFloat32, ir.Known(2), ir.Unknown, ir.Known(heads), ir.Unknown, ir.Known(size))
			}
		}
		out, err := c.InferGraph(k, in)
		if err != nil {
			return err
		}
		if len(out) != len(in)-generationPast+1 {
			return fmt.Errorf("the decoder has %d outputs, want logits and %d pasts", len(out), len(in)-generationPast)
		}
	}
	return nil
}

// generationRun is a generation at work.
type generationRun struct {
	*generation
	batch, prompt, most int
	heads, size         int // of the pasts
	least               int
	penalty             float32
	vocab, prefix       *tensor.Tensor // masks of allowed tokens, or nil
	sequences           [][]int32
	positions           []int32 // of the next token
	mask                [][]int32
	done                []bool
	values              []tensor.Value // what the decoder gets
	owned               []bool         // values that the decoder made
	step                int
	rows                []float32 // scores of the last step
}

// newRun reads the inputs that all generations have: input_ids, max_length,
// min_length, repetition_penalty, vocab_mask, prefix_vocab_mask, attention_mask.
func (g *generation) newRun(c *ir.Call) (*generationRun, error) {
	ids := c.Tensor(0)
	if ids.Rank() != 2 || ids.Len() == 0 {
		return nil, fmt.Errorf("input_ids has shape %v, want [batch length], not empty", ids.Shape())
	}
	r := &generationRun{generation: g, batch: ids.Dim(0), prompt: ids.Dim(1), penalty: 1, vocab: c.Tensor(4), prefix: c.Tensor(5)}
	var err error
	if r.most, err = scalarInt(c.Tensor(1), "max_length"); err != nil {
		return nil, err
	}
	if r.most <= r.prompt {
		return nil, fmt.Errorf("max_length is %d, want more than the %d tokens of input_ids", r.most, r.prompt)
	}
	if t := c.Tensor(2); t != nil {
		if r.least, err = scalarInt(t, "min_length"); err != nil {
			return nil, err
		}
	}
	if t := c.Tensor(3); t != nil {
		if r.penalty, err = oneScale(c, "repetition_penalty", t); err != nil {
			return nil, err
		}
		if !(r.penalty > 0) {
			return nil, fmt.Errorf("repetition_penalty is %v, want more than 0", r.penalty)
		}
	}
	given := c.Tensor(6)
	if given != nil && !slices.Equal(given.Shape(), ids.Shape()) {
		return nil, fmt.Errorf("attention_mask has shape %v, want %v", given.Shape(), ids.Shape())
	}
	// Sequences and masks, and what the decoder gets of them.
	if r.most > math.MaxInt32 || r.batch > math.MaxInt32 {
		return nil, fmt.Errorf("%d sequences of %d tokens are too many", r.batch, r.most)
	}
	if err := c.Reserve(16 * int64(r.batch) * int64(r.most)); err != nil {
		return nil, err
	}
	r.positions, r.done = make([]int32, r.batch), make([]bool, r.batch)
	place := make([]int32, ids.Len())
	for b := range r.batch {
		seq := tensor.Of[int32](ids)[b*r.prompt:][:r.prompt]
		mask := make([]int32, r.prompt, r.most)
		for i, id := range seq {
			// Padding counts for the positions, whatever attention_mask says.
			if int(id) != r.Pad {
				mask[i] = 1
				place[b*r.prompt+i] = r.positions[b]
				r.positions[b]++
			}
			if given != nil {
				mask[i] = tensor.Of[int32](given)[b*r.prompt+i]
			}
		}
		r.sequences = append(r.sequences, append(make([]int32, 0, r.most), seq...))
		r.mask = append(r.mask, mask)
	}
	sub := c.Node.Graphs[g.First]
	types := make([]ir.Type, len(sub.Inputs))
	for i, id := range sub.Inputs {
		types[i] = sub.Values[id].Type
	}
	if r.heads, r.size, err = pastShape(types); err != nil {
		return nil, err
	}
	r.values, r.owned = make([]tensor.Value, len(types)), make([]bool, len(types))
	r.values[0] = ids
	if r.values[1], err = tensor.New(place, r.batch, r.prompt); err != nil {
		return nil, err
	}
	for i := generationPast; i < len(types); i++ {
		if r.values[i], err = tensor.Zeros(tensor.TypeFloat32, 2, r.batch, r.heads, 0, r.size); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// scores runs the decoder and returns the scores of the next token of every
// sequence; they are valid until the next call.
func (r *generationRun) scores(c *ir.Call) (rows [][]float32, err error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	r.step++
	flat := make([]int32, 0, r.batch*len(r.mask[0]))
	for _, m := range r.mask {
		flat = append(flat, m...)
	}
	if r.values[2], err = tensor.New(flat, r.batch, len(r.mask[0])); err != nil {
		return nil, err
	}
	k := r.Decoder
	if r.step == 1 {
		k = r.First
	}
	out, err := c.RunGraph(k, r.values)
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", r.step, err)
	}
	logits, ok := out[0].(*tensor.Tensor)
	if !ok || logits.DType() != tensor.TypeFloat32 || logits.Rank() != 3 || logits.Dim(0) != r.batch || logits.Dim(1) < 1 || logits.Dim(2) < 1 {
		return nil, fmt.Errorf("step %d: the decoder returns scores %v, want float [%d length vocabulary]", r.step, out[0], r.batch)
	}
	if len(out) != len(r.values)-generationPast+1 {
		return nil, fmt.Errorf("step %d: the decoder has %d outputs, want logits and %d pasts", r.step, len(out), len(r.values)-generationPast)
	}
	for i, v := range out[1:] {
		at := generationPast + i
		if p, ok := v.(*tensor.Tensor); !ok || p.DType() != tensor.TypeFloat32 || p.Rank() != 5 ||
			!slices.Equal([]int{p.Dim(0), p.Dim(1), p.Dim(2), p.Dim(4)}, []int{2, r.batch, r.heads, r.size}) {
			return nil, fmt.Errorf("step %d: the decoder returns the past %v, want float [2 %d %d length %d]", r.step, v, r.batch, r.heads, r.size)
		}
		if r.owned[at] {
			c.Release(r.values[at])
		}
		r.values[at], r.owned[at] = v, true
	}
	n, words := logits.Dim(1), logits.Dim(2)
	if err := r.checkMasks(words); err != nil {
		return nil, err
	}
	all := tensor.Of[float32](logits)
	if len(r.rows) != r.batch*words {
		if err := c.Reserve(4 * int64(r.batch) * int64(words)); err != nil {
			return nil, err
		}
		r.rows = make([]float32, r.batch*words)
	}
	for b := range r.batch {
		row := r.rows[b*words:][:words]
		copy(row, all[(b*n+n-1)*words:])
		r.process(b, row)
		rows = append(rows, row)
	}
	c.Release(out[0])
	return rows, nil
}

func (r *generationRun) checkMasks(words int) error {
	if r.vocab != nil && r.vocab.Len() != words {
		return fmt.Errorf("vocab_mask has shape %v for a vocabulary of %d", r.vocab.Shape(), words)
	}
	if r.prefix != nil && r.prefix.Len() != words*r.batch {
		return fmt.Errorf("prefix_vocab_mask has shape %v, want [%d %d]", r.prefix.Shape(), r.batch, words)
	}
	return nil
}

// process applies penalties and bans to the scores of one sequence.
func (r *generationRun) process(b int, row []float32) {
	const never = -math.MaxFloat32
	seq := r.sequences[b]
	if r.penalty != 1 {
		seen := map[int32]bool{}
		for _, id := range seq {
			if id < 0 || int(id) >= len(row) || seen[id] {
				continue
			}
			seen[id] = true
			if row[id] < 0 {
				row[id] *= r.penalty
			} else {
				row[id] /= r.penalty
			}
		}
	}
	if n := r.NGram; n > 0 && n <= len(seq) {
		last := seq[len(seq)-(n-1):]
		for i := 0; i+n <= len(seq); i++ {
			if id := seq[i+n-1]; slices.Equal(seq[i:i+n-1], last) && id >= 0 && int(id) < len(row) {
				row[id] = never
			}
		}
	}
	if r.vocab != nil {
		for i, v := range tensor.Of[int32](r.vocab) {
			if v == 0 {
				row[i] = never
			}
		}
	}
	if r.prefix != nil && r.step == 1 {
		for i, v := range tensor.Of[int32](r.prefix)[b*len(row):][:len(row)] {
			if v == 0 {
				row[i] = never
			}
		}
	}
	if len(seq) < r.least && r.EOS >= 0 && r.EOS < len(row) {
		row[r.EOS] = never
	}
}

// add appends a token to every sequence and reports whether the generation goes
// on. The end of a sequence, and what follows, is padding.
func (r *generationRun) add(next []int32) (more bool, err error) {
	for b, id := range next {
		if r.done[b] || int(id) == r.EOS {
			r.done[b] = true
			next[b] = int32(r.Pad)
		}
		r.sequences[b] = append(r.sequences[b], next[b])
		r.mask[b] = append(r.mask[b], 1)
		more = more || !r.done[b]
	}
	if !more || len(r.sequences[0]) >= r.most {
		return false, nil
	}
	if r.values[0], err = tensor.New(next, r.batch, 1); err != nil {
		return false, err
	}
	r.values[1], err = tensor.New(slices.Clone(r.positions), r.batch, 1)
	for b := range r.positions {
		r.positions[b]++
	}
	return true, err
}

// finish writes the sequences. Where all ended early, the rest is −1, as ONNX
// Runtime has it.
func (r *generationRun) finish(c *ir.Call) error {
	for i, v := range r.values {
		if r.owned[i] {
			c.Release(v)
		}
	}
	y, err := c.Output(0, tensor.TypeInt32, r.batch, r.most)
	if err != nil {
		return err
	}
	dst := tensor.Of[int32](y)
	repeatOf(dst, -1)
	for b, s := range r.sequences {
		copy(dst[b*r.most:][:r.most], s)
	}
	return nil
}
