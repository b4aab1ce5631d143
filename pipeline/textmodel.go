package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// textModel is a model whose inputs are tokens, with its tokenizer.
type textModel struct {
	session *onward.Session
	tok     *tokenizer.Tokenizer // cuts off long texts and adds no padding
	inputs  []textInput
	outputs []string // those that runs return

	maxTokens int // 0: no limit
	padID     int64
	padLeft   bool
	rows      int                  // size of a batch, 0 if any
	columns   int                  // tokens of a row, 0 if any
	budget    int                  // tokens of a run
	memory    *onward.MemoryBudget // of the inputs of runs; set by use
	unpadded  bool                 // rows of a batch are equally long, because padding would change results
	threads   int                  // runs at a time, each on one thread; 1: one run at a time on all threads
}

// textInput is an input of a model and how it is filled.
type textInput struct {
	onward.NodeArg
	dtype tensor.DType
	fill  func(b *textBatch) []int64 // nil: an empty or false tensor
}

// textBatch is the input of one run: rows of equally many tokens.
type textBatch struct {
	index         []int // of the texts, in a call
	encodings     []*tokenizer.Encoding
	rows, columns int // rows ≥ len(index) if the size of a batch is fixed
	left          bool
	padID         int64
	ids, mask     []int64
}

// values returns one number per token, with pad for padding.
func (b *textBatch) values(pad int64, of func(*tokenizer.Encoding) []int64) []int64 {
	v := make([]int64, b.rows*b.columns)
	for r := range b.rows {
		row := v[r*b.columns:][:b.columns]
		n := 0
		if r < len(b.encodings) {
			ids := of(b.encodings[r])
			n = len(ids)
			copy(row[b.start(n):], ids)
		}
		if b.left {
			row = row[:b.columns-n]
		} else {
			row = row[n:]
		}
		for i := range row {
			row[i] = pad
		}
	}
	return v
}

// start returns the column of the first of n tokens.
func (b *textBatch) start(n int) int {
	if b.left {
		return b.columns - n
	}
	return 0
}

// positions counts the tokens of each row. Padding has position 0 on the right, 1 on the left.
func (b *textBatch) positions() []int64 {
	v := make([]int64, len(b.mask))
	for i := range v {
		switch {
		case i%b.columns > 0 && b.mask[i] != 0 && b.mask[i-1] != 0:
			v[i] = v[i-1] + 1
		case b.mask[i] == 0 && b.left:
			v[i] = 1
		}
	}
	return v
}

// textFills holds the inputs with a value per token.
var textFills = map[string]func(b *textBatch) []int64{
	"input_ids":      func(b *textBatch) []int64 { return b.ids },
	"attention_mask": func(b *textBatch) []int64 { return b.mask },
	"token_type_ids": func(b *textBatch) []int64 {
		return b.values(0, func(e *tokenizer.Encoding) []int64 { return e.TypeIDs })
	},
	"position_ids": (*textBatch).positions,
}

// seesPadding holds the types of models whose results change with padding, although they have an
// attention mask: by convolutions, averages of neighbors, or strides.
var seesPadding = []string{"convbert", "fnet", "funnel", "longformer", "mobilebert", "nystromformer", "reformer",
	"yoso"}

// openTextModel opens the tokenizer and the model of a folder. config is its config.json.
func openTextModel(ctx context.Context, f *folder, config *object, opts *TextOptions) (*textModel, error) {
	m := &textModel{budget: opts.BatchTokens, maxTokens: opts.MaxTokens}
	tok, err := tokenizer.OpenFS(f.fs, "", &opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	if m.maxTokens <= 0 {
		m.maxTokens = positions(config)
		if n := tok.Config().ModelMaxLength; n > 0 && (m.maxTokens == 0 || n < m.maxTokens) {
			m.maxTokens = n
		}
	}
	m.tok = tok
	m.findPadding(config)
	kind := ""
	config.get("model_type", &kind)
	m.unpadded = slices.Contains(seesPadding, kind)
	if config.err != nil {
		return nil, config.err
	}
	if err := m.limit(m.maxTokens); err != nil {
		return nil, err
	}
	m.session, err = f.session(ctx, "model", func(s *onward.Session) error {
		probe := *m
		if err := probe.use(s); err != nil {
			return err
		}
		encodings, err := probe.tok.EncodeBatch(ctx, slices.Repeat([]string{strings.Repeat("a b c d ", 6)}, 8))
		if err != nil {
			return err
		}
		return probe.run(ctx, encodings, func(*textBatch, []*tensor.Tensor) error { return nil })
	})
	if err != nil {
		return nil, err
	}
	if err := m.use(m.session); err != nil {
		m.session.Close()
		return nil, err
	}
	return m, nil
}

// positions returns the number of tokens that the position embeddings of a model allow, or 0.
func positions(config *object) int {
	n, pad, kind := 0, 1, ""
	config.get("max_position_embeddings", &n)
	config.get("pad_token_id", &pad)
	config.get("model_type", &kind)
	switch kind {
	case "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text", "ibert",
		"luke", "roberta-prelayernorm", "xmod":
		n -= pad + 1 // the first positions are those of padding
	}
	return max(n, 0)
}

// findPadding finds the token and the side of padding.
func (m *textModel) findPadding(config *object) {
	c := m.tok.Config()
	m.padLeft = c.PaddingLeft
	var id *int64
	config.get("pad_token_id", &id)
	if id != nil {
		m.padID = *id
	}
	if p := m.tok.Padding(); p != nil {
		m.padID = int64(p.ID)
	}
	if id, ok := m.tok.IDOf(c.Pad); ok && c.Pad != "" {
		m.padID = id
	}
}

// limit sets the number of tokens of an input, 0 for no limit.
func (m *textModel) limit(n int) (err error) {
	m.maxTokens = n
	o := &tokenizer.Options{NoPadding: true, NoTruncation: n <= 0}
	if n > 0 {
		o.Truncation = &tokenizer.Truncation{MaxLength: n, Left: m.tok.Config().TruncateLeft, NoOverflow: true}
	}
	m.tok, err = m.tok.WithOptions(o)
	return err
}

// use prepares m for the inputs of a session. All outputs are returned.
func (m *textModel) use(s *onward.Session) error {
	m.session, m.inputs, m.outputs = s, nil, nil
	for _, o := range s.Outputs() {
		m.outputs = append(m.outputs, o.Name)
	}
	ids, masked := false, false
	for _, arg := range s.Inputs() {
		in := textInput{NodeArg: arg, dtype: arg.ElementType().Elem, fill: textFills[arg.Name]}
		if in.fill == nil && !strings.HasPrefix(arg.Name, "past_") && arg.Name != "use_cache_branch" {
			return fmt.Errorf("input %q of the model is not supported in pipelines of text", arg.Name)
		}
		masked = masked || arg.Name == "attention_mask"
		if arg.Name == "input_ids" {
			ids = true
			if len(arg.Shape) != 2 {
				return fmt.Errorf("input_ids has rank %d, want 2", len(arg.Shape))
			}
			m.rows, m.columns = sizeOf(arg.Shape[0]), sizeOf(arg.Shape[1])
		}
		m.inputs = append(m.inputs, in)
	}
	if !ids {
		return fmt.Errorf("the model has no input input_ids")
	}
	m.unpadded = m.unpadded || !masked
	m.threads = 1
	budget := 2048
	if p := s.Provider(); p == "cpu" || p == "reference" {
		budget = 512 // activations stay in the caches, and batches need less padding
		if m.threads = s.Options().Threads; m.threads <= 0 {
			m.threads = runtime.GOMAXPROCS(0)
		}
	}
	if m.budget <= 0 {
		m.budget = budget
	}
	limits := s.Options().Limits
	if m.memory = limits.Budget; m.memory == nil {
		m.memory = onward.NewMemoryBudget(cmp.Or(limits.MaxMemory, tensor.DefaultLimit))
	}
	size, err := m.reserve(max(m.rows, 1), max(m.columns, 1)) // no run takes less
	if err != nil {
		return err
	}
	m.memory.Release(size)
	if m.columns > 0 && (m.maxTokens == 0 || m.maxTokens > m.columns) {
		return m.limit(m.columns)
	}
	return nil
}

// sizeOf returns a fixed size, or 0.
func sizeOf(d onward.Dim) int { return int(min(max(d.Value, 0), math.MaxInt)) }

// output returns the first of names that is an output of the session, or "".
func (m *textModel) output(names ...string) string {
	for _, n := range names {
		if slices.ContainsFunc(m.session.Outputs(), func(a onward.NodeArg) bool { return a.Name == n }) {
			return n
		}
	}
	return ""
}

// chunk is the number of texts that are tokenized before the model runs.
const chunk = 4096

// inputs are the n inputs of a call. encode returns the encodings of a range of them.
type inputs struct {
	n      int
	encode func(lo, hi int) ([]*tokenizer.Encoding, error)
}

// textInputs returns texts as inputs.
func textInputs(ctx context.Context, tok *tokenizer.Tokenizer, texts []string) inputs {
	return inputs{len(texts), func(lo, hi int) ([]*tokenizer.Encoding, error) {
		return tok.EncodeBatch(ctx, texts[lo:hi])
	}}
}

// encoded returns encodings as inputs.
func encoded(list []*tokenizer.Encoding) inputs {
	return inputs{len(list), func(lo, hi int) ([]*tokenizer.Encoding, error) { return list[lo:hi], nil }}
}

// runTexts calls fn with the outputs for batches of texts. Calls of fn may be concurrent.
func (m *textModel) runTexts(ctx context.Context, texts []string,
	fn func(*textBatch, []*tensor.Tensor) error) error {
	return m.runInputs(ctx, textInputs(ctx, m.tok, texts), fn)
}

// pairs returns pairs of texts as inputs.
func (m *textModel) pairs(ctx context.Context, pairs [][2]string) inputs {
	return inputs{len(pairs), func(lo, hi int) ([]*tokenizer.Encoding, error) {
		return m.tok.EncodePairs(ctx, pairs[lo:hi])
	}}
}

// runInputs is runTexts for inputs of any kind.
func (m *textModel) runInputs(ctx context.Context, in inputs, fn func(*textBatch, []*tensor.Tensor) error) error {
	for lo := 0; lo < in.n; lo += chunk {
		encodings, err := in.encode(lo, min(lo+chunk, in.n))
		if err != nil {
			return err
		}
		err = m.run(ctx, encodings, func(b *textBatch, out []*tensor.Tensor) error {
			for i := range b.index {
				b.index[i] += lo
			}
			return fn(b, out)
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// run calls fn with the outputs for batches of encodings. Calls of fn may be concurrent.
func (m *textModel) run(ctx context.Context, encodings []*tokenizer.Encoding,
	fn func(*textBatch, []*tensor.Tensor) error) error {
	batches := m.split(encodings)
	workers := min(m.threads, len(batches))
	opts := &onward.RunOptions{Outputs: m.outputs, OnlyPathToFetches: true, Serial: workers > 1}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	work := func() {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(batches) {
				return
			}
			if err := contained(func() error { return m.runBatch(ctx, batches[i], opts, fn) }); err != nil {
				cancel(err)
			}
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (m *textModel) runBatch(ctx context.Context, b *textBatch, opts *onward.RunOptions,
	fn func(*textBatch, []*tensor.Tensor) error) error {
	size, err := m.reserve(b.rows, b.columns)
	if err != nil {
		return err
	}
	defer m.memory.Release(size)
	b.left, b.padID = m.padLeft, m.padID
	b.ids = b.values(m.padID, func(e *tokenizer.Encoding) []int64 { return e.IDs })
	b.mask = b.values(0, func(e *tokenizer.Encoding) []int64 { return e.Mask })
	feed := onward.Values{}
	for _, in := range m.inputs {
		t, err := in.tensor(b)
		if err != nil {
			return fmt.Errorf("input %s: %w", in.Name, err)
		}
		feed[in.Name] = t
	}
	values, err := m.session.Run(ctx, feed, opts)
	if err != nil {
		return err
	}
	out := make([]*tensor.Tensor, len(m.outputs))
	for i, name := range m.outputs {
		t, ok := values[name].(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("output %s is not a tensor", name)
		}
		out[i] = t
	}
	return fn(b, out)
}

// reserve takes the memory of the inputs of a run: the numbers of the tokens, and for each input a
// list and its conversion.
func (m *textModel) reserve(rows, columns int) (int64, error) {
	n, err := tensor.Elements([]int{rows, columns, 8 * (2 + 2*len(m.inputs))})
	if err == nil {
		err = m.memory.Reserve(int64(n))
	}
	if err != nil {
		return 0, fmt.Errorf("inputs of %d rows of %d tokens: %w", rows, columns, err)
	}
	return int64(n), nil
}

// tensor returns the value of an input.
func (in *textInput) tensor(b *textBatch) (*tensor.Tensor, error) {
	if in.fill == nil {
		return in.empty(b.rows)
	}
	return asInput(in.NodeArg, in.fill(b), b.rows, b.columns)
}

// empty returns a state of no tokens, or the flag that there is one.
func (in *textInput) empty(rows int) (*tensor.Tensor, error) {
	if in.Name == "use_cache_branch" {
		return tensor.Zeros(in.dtype, 1)
	}
	shape := make([]int, len(in.Shape))
	for i, d := range in.Shape {
		shape[i] = int(max(d.Value, 0))
		if i == 0 && d.Value < 0 {
			shape[i] = rows
		}
	}
	if n, err := tensor.Elements(shape); err != nil || n != 0 {
		return nil, fmt.Errorf("shape %v of a state without tokens is not empty", in.Shape)
	}
	return tensor.Zeros(in.dtype, shape...)
}

// Each thread gets a batch, if the batches then have at least this many tokens: reading the
// weights takes as long for fewer.
const leastTokens = 128

// split makes batches of inputs of similar length, longest first.
func (m *textModel) split(encodings []*tokenizer.Encoding) []*textBatch {
	order := make([]int, len(encodings))
	total := 0
	for i, e := range encodings {
		order[i] = i
		total += e.Len()
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(encodings[b].Len(), encodings[a].Len()) })
	budget := min(m.budget, max(total/m.threads+1, leastTokens))
	var batches []*textBatch
	for len(order) > 0 {
		longest := max(encodings[order[0]].Len(), m.columns, 1)
		n := 1
		for n < len(order) && (n+1)*longest <= budget && n != m.rows &&
			(n*longest < leastTokens || 8*encodings[order[n]].Len() >= 7*longest) &&
			(!m.unpadded || encodings[order[n]].Len() == encodings[order[0]].Len()) {
			n++
		}
		b := &textBatch{index: order[:n:n], rows: max(n, m.rows), columns: longest}
		for _, i := range b.index {
			b.encodings = append(b.encodings, encodings[i])
		}
		batches, order = append(batches, b), order[n:]
	}
	return batches
}

// floats returns the elements of an output as float32. Its rank must be that of shape, and its
// sizes those that are not negative.
func floats(t *tensor.Tensor, shape ...int) ([]float32, error) {
	got := t.Shape()
	ok := len(got) == len(shape)
	for i := range shape {
		ok = ok && (shape[i] < 0 || shape[i] == got[i])
	}
	if !ok {
		return nil, fmt.Errorf("output has shape %v, want %v", got, shape)
	}
	return asFloats(t)
}
