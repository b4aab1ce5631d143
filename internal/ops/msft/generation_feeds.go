package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// generationFeeds holds the decoder's inputs for the next step. A decoder without an
// encoder (GPT-2) takes
//
//	input_ids, position_ids, attention_mask  int32 [row, length]
//	past of every layer                      [2, row, head, past length, size]
//
// and returns logits, [row, length, vocabulary], and the new pasts. A decoder with an
// encoder takes
//
//	input_ids               int32 [row, 1], or all tokens so far, [row, length]
//	encoder_attention_mask  int32 [row, encoder length]; not for speech
//	encoder_hidden_states   [row, encoder length, hidden]; may be missing
//	self-attention key and value, of every layer   [row, head, past length, size]
//	cross-attention key and value, of every layer  [row, head, encoder length, size]
//
// and returns logits and the new self-attention keys and values. Its encoder takes ids
// and mask, or features [batch, feature, frame], and optionally the initial decoder
// tokens. The encoder returns one of:
//
//   - the logits of the next token, its hidden states, and all keys and values
//   - only the cross-attention keys and values; then the decoder runs the first step
type generationFeeds struct {
	values       []tensor.Value // inputs of the decoder
	owned        []bool         // whether the memory of each value is reserved
	first, count int            // range of the pasts among the values, which each step replaces
	axis         int            // the axis of the rows in a past
	logits       *tensor.Tensor // returned by the encoder, until they are used
	positions    []int32        // positions of the next token; nil if the decoder takes none
	mask         [][]int32      // mask of the decoder's tokens, if it takes one
	whole        bool           // input_ids holds all tokens so far
}

const generationPast = 3 // index of the first past among the inputs of a decoder without an encoder

// encodedInputs returns, for a decoder with an encoder, the number of inputs before the
// pasts and the number of layers.
func (g *generation) encodedInputs(inputs int) (first, layers int, err error) {
	first = 2
	if g.Model == speechToText {
		first = 1
	}
	hidden := max(inputs-first, 0) % 4
	layers = (inputs - first) / 4
	if layers < 1 || hidden > 1 {
		return 0, 0,
			fail.Errorf("the decoder has %d inputs, want input_ids, the encoder's mask and hidden states, and four "+
				"pasts per layer", inputs)
	}
	first += hidden
	return first, layers, nil
}

// inferGraphs infers each subgraph once.
func (g *generation) inferGraphs(c *ir.InferContext) error {
	infer := func(name string, k int, in []ir.Type, outs func(n int) error) error {
		v := make([]ir.Value, len(in))
		for i := range v {
			v[i].Type = in[i]
		}
		out, err := c.InferGraph(k, v)
		if err != nil {
			return fail.Errorf("%s: %w", name, err)
		}
		return outs(len(out))
	}
	tokens := ir.TensorType(tensor.TypeInt32, ir.UnknownDims(2)...)
	if g.Encoder < 0 {
		graphs := []int{g.Decoder}
		if g.First != g.Decoder {
			graphs = append(graphs, g.First)
		}
		for _, k := range graphs {
			types := c.GraphInputs(k)
			past, err := pastType(types)
			if err != nil {
				return err
			}
			for i := range types {
				types[i] = tokens
				if i >= generationPast {
					types[i] = past
				}
			}
			if err := infer("decoder", k, types, func(n int) error {
				if n != len(types)-generationPast+1 {
					return fail.Errorf("the decoder has %d outputs, want logits and %d pasts", n,
						len(types)-generationPast)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}
	types := c.GraphInputs(g.Decoder)
	first, layers, err := g.encodedInputs(len(types))
	if err != nil {
		return err
	}
	for i, t := range types {
		types[i] = decoderInput(g.Model, first, i, t)
	}
	if err := infer("decoder", g.Decoder, types, func(n int) error {
		if n != 1+2*layers {
			return fail.Errorf("the decoder has %d outputs, want logits and %d pasts", n, 2*layers)
		}
		return nil
	}); err != nil {
		return err
	}
	types = c.GraphInputs(g.Encoder)
	if len(types) != 2 && (len(types) != 3 || g.Model == speechToText) {
		return fail.Errorf("the encoder has %d inputs, want input_ids and attention_mask, or features, and optionally "+
			"decoder_input_ids", len(types))
	}
	for i := range types {
		types[i] = tokens
	}
	if g.Model == speechToText {
		types[0] = ir.TensorType(c.Elem(0), ir.UnknownDims(3)...)
	}
	return infer("encoder", g.Encoder, types, func(n int) error {
		if n != 2+4*layers && (n != 2*layers || g.Model == speechToText) {
			return fail.Errorf("the encoder has %d outputs, which is inconsistent with a decoder of %d layers",
				n, layers)
		}
		return nil
	})
}

// pastType returns the type of the pasts of a decoder without an encoder, derived from
// the declared type of its first past.
func pastType(types []ir.Type) (ir.Type, error) {
	if len(types) <= generationPast {
		return ir.Type{},
			fail.Errorf("the decoder has %d inputs, want input_ids, position_ids, attention_mask and pasts", len(types))
	}
	s, elem := types[generationPast].Shape, types[generationPast].Elem
	if len(s) == 5 && (elem == tensor.TypeFloat32 || elem == tensor.TypeFloat16) {
		h, ok1 := s[2].Value()
		d, ok2 := s[4].Value()
		if ok1 && ok2 && h >= 0 && d >= 0 && s[0].Is(2) {
			return ir.TensorType(elem, ir.Known(2), ir.Unknown, s[2], ir.Unknown, s[4]), nil
		}
	}
	return ir.Type{},
		fail.Errorf("past of the decoder has type %s, want [2 batch heads length size] with known heads and size",
			types[generationPast])
}

// decoderInput returns the known part of the type of input i of a decoder with an
// encoder; t is the declared type.
func decoderInput(model, first, i int, t ir.Type) ir.Type {
	if i == 0 || i == 1 && model != speechToText {
		dims := ir.UnknownDims(2)
		if i == 0 && len(t.Shape) == 2 && t.Shape[1].Is(1) {
			dims[1] = t.Shape[1] // one token per step, not the whole sequence
		}
		return ir.TensorType(tensor.TypeInt32, dims...)
	}
	rank := 4
	if i < first {
		rank = 3
	}
	dims := ir.UnknownDims(rank)
	if len(t.Shape) == rank && rank == 4 {
		for _, axis := range []int{1, 3} {
			if _, ok := t.Shape[axis].Value(); ok {
				dims[axis] = t.Shape[axis]
			}
		}
	}
	elem := t.Elem
	if elem == 0 {
		elem = tensor.TypeFloat32
	}
	return ir.TensorType(elem, dims...)
}

// prepare creates the sequences and the inputs of the first step.
func (r *generationRun) prepare(c *ir.Call) error {
	if r.Encoder < 0 {
		return r.prepareDecoder(c)
	}
	return r.prepareEncoded(c)
}

func (r *generationRun) prepareDecoder(c *ir.Call) error {
	ids, f := c.Tensor(0), &r.feeds
	if ids.DType() != tensor.TypeInt32 || ids.Rank() != 2 || ids.Len() == 0 {
		return fail.Errorf("input_ids is %s with shape %v, want int32 [batch length], not empty",
			ids.DType(), ids.Shape())
	}
	given := c.Tensor(r.in.mask)
	if given != nil && !slices.Equal(given.Shape(), ids.Shape()) {
		return fail.Errorf("attention_mask has shape %v, want %v", given.Shape(), ids.Shape())
	}
	if err := r.begin(c, ids); err != nil {
		return err
	}
	n := len(r.sequences)
	f.positions = make([]int32, n)
	positions := make([]int32, n*r.prompt)
	f.mask = newSequences(n, r.most)
	for b, seq := range r.sequences {
		r.meter.Check(r.prompt)
		mask := f.mask[b][:r.prompt]
		for i, id := range seq {
			// Positions do not count padding, even where attention_mask includes it.
			if int(id) != r.Pad {
				mask[i] = 1
				positions[b*r.prompt+i] = f.positions[b]
				f.positions[b]++
			}
			if given != nil {
				mask[i] = tensor.MustData[int32](given)[b/r.beams*r.prompt+i]
			}
		}
		f.mask[b] = mask
	}
	sub := c.Node.Graphs[r.First]
	types := make([]ir.Type, len(sub.Inputs))
	for i, id := range sub.Inputs {
		types[i] = sub.Values[id].Type
	}
	past, err := pastType(types)
	if err != nil {
		return err
	}
	heads, _ := past.Shape[2].Value()
	size, _ := past.Shape[4].Value()
	f.values, f.owned = make([]tensor.Value, len(types)), make([]bool, len(types))
	f.first, f.count, f.axis = generationPast, len(types)-generationPast, 1
	if err := f.setIDs(c, 0, n, r.prompt, r.sequences...); err != nil {
		return err
	}
	if f.values[1], err = tensor.New(positions, n, r.prompt); err != nil {
		return err
	}
	for i := generationPast; i < len(types); i++ {
		if f.values[i], err = tensor.Zeros(past.Elem, 2, n, heads, 0, size); err != nil {
			return err
		}
	}
	return f.setIDs(c, 2, n, r.prompt, f.mask...)
}

// setIDs replaces value i by a matrix, in memory that it reserves.
func (f *generationFeeds) setIDs(c *ir.Call, i, rows, columns int, parts ...[]int32) error {
	if err := c.Reserve(4*int64(rows)*int64(columns) + tensor.SizeOf(&tensor.Tensor{})); err != nil {
		return err
	}
	t, err := tensor.New(slices.Concat(parts...), rows, columns)
	if err == nil {
		f.set(c, i, t)
	}
	return err
}

func (r *generationRun) prepareEncoded(c *ir.Call) error {
	x, f := c.Tensor(0), &r.feeds
	speech := r.Model == speechToText
	if rank := 2 + kit.BoolToInt(speech); x.Rank() != rank || x.Len() == 0 ||
		(x.DType() == tensor.TypeInt32) == speech {
		return fail.Errorf("input_ids is %s with shape %v, want %s, not empty", x.DType(), x.Shape(),
			map[bool]string{false: "int32 [batch length]", true: "float [batch feature frame]"}[speech])
	}
	encoder, decoder := c.Node.Graphs[r.Encoder], c.Node.Graphs[r.Decoder]
	first, layers, err := r.encodedInputs(len(decoder.Inputs))
	if err != nil {
		return err
	}
	batch := x.Dim(0)
	start := c.Tensor(r.in.decoderIDs)
	if r.in.decoderIDs == 0 || !speech {
		start = nil
	}
	if start == nil {
		if r.Start < 0 {
			return fail.Errorf("decoder_start_token_id is missing; the decoder requires a first token")
		}
		if err := c.Reserve(4 * int64(batch)); err != nil {
			return err
		}
		ids := make([]int32, batch)
		kit.RepeatOf(ids, int32(r.Start))
		if start, err = tensor.New(ids, batch, 1); err != nil {
			return err
		}
	}
	if start.Rank() != 2 || start.Dim(0) != batch || start.Dim(1) < 1 {
		return fail.Errorf("decoder_input_ids has shape %v, want [%d length]", start.Shape(), batch)
	}
	if err := r.begin(c, start); err != nil {
		return err
	}
	in := []tensor.Value{x, start}
	if !speech {
		mask, err := r.encoderMask(c, x)
		if err != nil {
			return err
		}
		in = []tensor.Value{x, mask, start}[:len(encoder.Inputs)]
	}
	out, err := c.RunGraph(r.Encoder, in)
	if err != nil {
		return fail.Errorf("encoder: %w", err)
	}
	got := make([]*tensor.Tensor, len(out))
	for i, v := range out {
		t, ok := v.(*tensor.Tensor)
		if !ok || t.Rank() < 3 || t.Dim(0) != batch || t.DType().Size() == 0 { // pickRows copies bytes
			return fail.Errorf("output %d of the encoder is %s, want a tensor of numbers of 8 bits or more, of rank 3 "+
				"or more, with a batch of %d", i, v, batch)
		}
		got[i] = t
	}
	// The inputs of the decoder are ids, the encoder's mask and hidden states, and pasts.
	n := len(r.sequences)
	f.values, f.owned = make([]tensor.Value, len(decoder.Inputs)), make([]bool, len(decoder.Inputs))
	f.first, f.count = first, 2*layers
	if shape := decoder.Values[decoder.Inputs[0]].Type.Shape; len(shape) == 2 && !shape[1].Is(1) {
		f.whole = true
	}
	if err := f.setIDs(c, 0, n, r.prompt, r.sequences...); err != nil {
		return err
	}
	spread := func(at int, t *tensor.Tensor, reserved bool) error {
		if r.beams == 1 {
			f.values[at], f.owned[at] = t, reserved
			return nil
		}
		origin := make([]int, n)
		for i := range origin {
			origin[i] = i / r.beams
		}
		wide, err := pickRows(c, t, 0, origin)
		if err != nil {
			return err
		}
		if reserved {
			c.Release(t)
		}
		f.values[at], f.owned[at] = wide, true
		return nil
	}
	if !speech {
		if err := spread(1, in[1].(*tensor.Tensor), c.Tensor(r.in.mask) == nil); err != nil {
			return err
		}
	}
	pasts := got
	hidden := first == 2 && speech || first == 3
	if len(got) == 2*layers && !speech { // only the cross-attention keys and values
		if hidden {
			return fail.Errorf("the decoder requires encoder_hidden_states, which the encoder does not return")
		}
		if got[0].Rank() != 4 {
			return fail.Errorf("output 0 of the encoder has shape %v, want [%d heads length size]",
				got[0].Shape(), batch)
		}
		for i := range 2 * layers {
			if f.values[first+i], err = tensor.Zeros(got[0].DType(), n, got[0].Dim(1), 0, got[0].Dim(3)); err != nil {
				return err
			}
		}
		first += 2 * layers
	} else if len(got) == 2+4*layers {
		f.logits, pasts = got[0], got[2:]
		if hidden {
			if err := spread(first-1, got[1], true); err != nil {
				return err
			}
		}
	} else {
		return fail.Errorf("the encoder has %d outputs, which is inconsistent with a decoder of %d layers",
			len(got), layers)
	}
	for i, t := range pasts {
		if t.Rank() != 4 {
			return fail.Errorf("past %d of the encoder has shape %v, want [%d heads length size]", i, t.Shape(), batch)
		}
		if err := spread(first+i, t, true); err != nil {
			return err
		}
	}
	return nil
}

// encoderMask returns the attention mask of the encoder: the given one, or one in memory that it
// reserves, which is 0 for the padding on the left.
func (r *generationRun) encoderMask(c *ir.Call, ids *tensor.Tensor) (*tensor.Tensor, error) {
	if given := c.Tensor(r.in.mask); given != nil {
		if !slices.Equal(given.Shape(), ids.Shape()) {
			return nil, fail.Errorf("attention_mask has shape %v, want %v", given.Shape(), ids.Shape())
		}
		return given, nil
	}
	if err := c.Reserve(4*int64(ids.Len()) + tensor.SizeOf(&tensor.Tensor{})); err != nil {
		return nil, err
	}
	m := make([]int32, ids.Len())
	for i := range m {
		if i%ids.Dim(1) > 0 && m[i-1] == 1 || int(tensor.MustData[int32](ids)[i]) != r.Pad {
			m[i] = 1
		}
	}
	return tensor.New(m, ids.Shape()...)
}

// run runs one step and returns its scores, which the caller releases.
func (f *generationFeeds) run(c *ir.Call, r *generationRun) (*tensor.Tensor, error) {
	if f.logits != nil {
		logits := f.logits
		f.logits = nil
		return logits, nil
	}
	k := r.Decoder
	if r.step == 1 {
		k = r.First
	}
	out, err := c.RunGraph(k, f.values)
	if err != nil {
		return nil, err
	}
	if len(out) != 1+f.count {
		return nil, fail.Errorf("the decoder has %d outputs, want logits and %d pasts", len(out), f.count)
	}
	logits, ok := out[0].(*tensor.Tensor)
	if !ok || logits.DType() != tensor.TypeFloat32 && logits.DType() != tensor.TypeFloat16 {
		return nil, fail.Errorf("the decoder returns scores %s, want float or float16", out[0])
	}
	if err := r.checkScores(logits); err != nil {
		return nil, err
	}
	for i, v := range out[1:] {
		was := f.values[f.first+i].(*tensor.Tensor)
		want := slices.Clone(was.Shape())
		length := len(want) - 2
		p, ok := v.(*tensor.Tensor)
		if ok && p.Rank() == len(want) {
			want[length] = p.Dim(length)
		}
		if !ok || p.DType() != was.DType() || !slices.Equal(p.Shape(), want) {
			return nil, fail.Errorf("the decoder returns the past %s, want %s %v, where only the length may differ",
				v, was.DType(), want)
		}
		f.set(c, f.first+i, v)
	}
	return logits, nil
}

// set replaces value i by v, whose memory is reserved, and releases the old value.
func (f *generationFeeds) set(c *ir.Call, i int, v tensor.Value) {
	if f.owned[i] {
		c.Release(f.values[i])
	}
	f.values[i], f.owned[i] = v, true
}

// advance prepares the next step. Sequence i is extended by token next[i] and takes the
// pasts of sequence origin[i], or keeps its own if origin is nil.
func (f *generationFeeds) advance(c *ir.Call, r *generationRun, next []int32, origin []int) (err error) {
	n := len(next)
	if f.whole {
		err = f.setIDs(c, 0, n, len(r.sequences[0]), r.sequences...)
	} else {
		err = f.setIDs(c, 0, n, 1, next)
	}
	if err != nil {
		return err
	}
	if f.positions != nil {
		if err := f.setIDs(c, 1, n, 1, f.positions); err != nil {
			return err
		}
		for i := range n {
			f.positions[i]++
			f.mask[i] = append(f.mask[i], 1)
		}
		if err := f.setIDs(c, 2, n, len(f.mask[0]), f.mask...); err != nil {
			return err
		}
	}
	if origin == nil || r.beams == 1 {
		return nil
	}
	for i := f.first; i < f.first+f.count; i++ {
		t, err := pickRows(c, f.values[i].(*tensor.Tensor), f.axis, origin)
		if err != nil {
			return err
		}
		f.set(c, i, t)
	}
	return nil
}

func (f *generationFeeds) release(c *ir.Call) {
	for i, v := range f.values {
		if f.owned[i] {
			c.Release(v)
		}
	}
}

// pickRows returns the rows of t with the indices origin along axis, in memory that it
// reserves.
func pickRows(c *ir.Call, t *tensor.Tensor, axis int, origin []int) (*tensor.Tensor, error) {
	shape := slices.Clone(t.Shape())
	rows := shape[axis]
	shape[axis] = len(origin)
	n, err := tensor.ByteLen(t.DType(), shape)
	if err != nil {
		return nil, err
	}
	if err := c.Reserve(int64(n) + tensor.SizeOf(&tensor.Tensor{})); err != nil {
		return nil, err
	}
	y, err := tensor.Zeros(t.DType(), shape...)
	if err != nil || n == 0 {
		return y, err
	}
	outer := kit.Product(shape[:axis])
	block := n / (outer * len(origin))
	src, dst := t.Bytes(), y.Bytes()
	meter := ir.Meter{C: c}
	for o := range outer {
		for i, from := range origin {
			meter.Check(block / 16)
			copy(dst[(o*len(origin)+i)*block:][:block], src[(o*rows+from)*block:])
		}
	}
	return y, nil
}
