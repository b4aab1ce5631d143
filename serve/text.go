package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

const (
	maxTexts  = 2048 // texts of a request
	tokenCost = 64   // the memory of a token that is given by its id
)

// textInput is a text, a pair of texts, or the ids of tokens.
type textInput struct {
	text, second string
	pair         bool
	ids          []int64
}

// textCall is a call of a model folder.
type textCall struct {
	inputs  []textInput
	cut     bool // cut off long texts; else they are errors
	left    bool // cut off the beginning
	options textOptions
}

// encode returns the tokens of the texts.
func (m *textModel) encode(ctx context.Context, c *textCall, memory *reservation) ([]*tokenizer.Encoding, error) {
	if err := countTexts(len(c.inputs)); err != nil {
		return nil, err
	}
	prompt := ""
	if m.prompt != nil {
		var err error
		if prompt, err = m.prompt(c.options.embed()); err != nil {
			return nil, invalid(err)
		}
		if m.dims > 0 && c.options.dimensions > m.dims {
			return nil, errorf(InvalidArgument, "dimensions is %d, want at most %d", c.options.dimensions, m.dims)
		}
	} else if c.options.prompt != "" {
		return nil, errorf(InvalidArgument, "the model has no prompts")
	}
	side := 0
	if c.left {
		side = 1
	}
	list := make([]*tokenizer.Encoding, len(c.inputs))
	var texts []string
	var pairs [][2]string
	prompted := func(text string) error {
		if prompt != "" {
			if err := memory.grow(int64(len(prompt) + len(text))); err != nil {
				return err
			}
		}
		texts = append(texts, prompt+text)
		return nil
	}
	for i := range c.inputs {
		in := &c.inputs[i]
		switch {
		case in.ids != nil:
			e, err := m.encodeIDs(in.ids, prompt, side, memory)
			if err != nil {
				return nil, err
			}
			if e == nil { // with a prompt, ids become a text
				if in.text, err = m.decode(ctx, in.ids, true, memory); err != nil {
					return nil, err
				}
				if err := prompted(in.text); err != nil {
					return nil, err
				}
			}
			list[i] = e
		case in.pair:
			pairs = append(pairs, [2]string{in.text, in.second})
		default:
			if err := prompted(in.text); err != nil {
				return nil, err
			}
		}
	}
	var mu sync.Mutex
	o := m.tokens[side]
	o.Reserve = func(n int64) error {
		mu.Lock()
		defer mu.Unlock()
		return memory.grow(n)
	}
	tok, err := m.whole.WithOptions(&o)
	if err != nil {
		return nil, err
	}
	single, err := tok.EncodeBatch(ctx, texts)
	if err != nil {
		return nil, textError(ctx, err)
	}
	double, err := tok.EncodePairs(ctx, pairs)
	if err != nil {
		return nil, textError(ctx, err)
	}
	for i := range list {
		switch {
		case list[i] != nil:
		case c.inputs[i].pair:
			list[i], double = double[0], double[1:]
		default:
			list[i], single = single[0], single[1:]
		}
		if list[i].Truncated && !c.cut {
			return nil, errorf(TooLarge, "text %d has more than %d tokens", i, m.maxTokens)
		}
	}
	return list, nil
}

// encodeIDs returns an encoding of ids, which are the model's input as they are. It returns nil if
// a prompt precedes them.
func (m *textModel) encodeIDs(ids []int64, prompt string, side int,
	memory *reservation) (*tokenizer.Encoding, error) {
	if len(ids) == 0 {
		return nil, &Error{InvalidArgument, errNoTexts}
	}
	for _, id := range ids {
		if _, ok := m.whole.TokenOf(id); !ok {
			return nil, errorf(InvalidArgument, "token %d is not in the vocabulary of %d tokens", id,
				m.whole.VocabSize())
		}
	}
	if prompt != "" {
		return nil, nil
	}
	if err := memory.grow(tokenCost * int64(len(ids))); err != nil {
		return nil, err
	}
	e := &tokenizer.Encoding{IDs: ids}
	if n := m.maxTokens; n > 0 && len(ids) > n {
		e.Truncated = true
		if e.IDs = ids[:n]; side == 1 {
			e.IDs = ids[len(ids)-n:]
		}
	}
	e.TypeIDs, e.Mask = make([]int64, len(e.IDs)), slices.Repeat([]int64{1}, len(e.IDs))
	e.Special, e.Offsets = make([]bool, len(e.IDs)), make([][2]int, len(e.IDs))
	return e, nil
}

// decode returns the text of ids.
func (m *textModel) decode(ctx context.Context, ids []int64, skipSpecial bool, memory *reservation) (string, error) {
	size := 1024
	for i, id := range ids {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return "", classify(context.Cause(ctx))
		}
		token, _ := m.whole.TokenOf(id)
		size += 2 * (len(token) + 1) // decoders replace parts
	}
	// Decoders copy the text about four times. The response has it as well.
	if err := memory.grow(16*int64(len(ids)) + (4+textCost)*int64(size)); err != nil {
		return "", err
	}
	tok, err := m.whole.WithOptions(&tokenizer.Options{MaxText: size})
	if err != nil {
		return "", err
	}
	text, err := tok.DecodeContext(ctx, ids, skipSpecial)
	if err != nil {
		return "", textError(ctx, err)
	}
	return text, nil
}

// textError returns an error of a tokenizer with its class.
func textError(ctx context.Context, err error) error {
	var e *Error // of the memory
	switch {
	case ctx.Err() != nil:
		return classify(context.Cause(ctx))
	case errors.As(err, &e):
		return e
	}
	return invalid(err)
}

// answer is the result of a call.
type answer struct {
	results   []textResult
	tokens    int
	tokenized time.Duration
	job       *job // times of the call
}

// runCall encodes and runs the texts of a call, and counts it. received is when the request came.
func (s *Server) runCall(ctx context.Context, v *version, c *textCall, memory *reservation,
	received time.Time) (*answer, error) {
	r := &request{model: v.model, received: received}
	ctx, end := s.trace(ctx, v, r)
	a, err := v.runTexts(ctx, c, memory)
	var j *job
	if err == nil {
		j = a.job
		s.metrics.tokens.WithLabelValues(v.labels()...).Add(float64(a.tokens))
	} else {
		err = classify(err)
		s.errors.add(v.model, err)
	}
	v.stats.record(r, j, err)
	s.metrics.record(v, r, j, err)
	end(j, err)
	return a, err
}

// runTexts encodes and runs the texts of a call: as one job if their tokens fit in a batch, else
// as several, one after another, so that other requests have their turn.
func (v *version) runTexts(ctx context.Context, c *textCall, memory *reservation) (*answer, error) {
	start := time.Now()
	m := v.texts
	texts, err := m.encode(ctx, c, memory)
	if err != nil {
		return nil, err
	}
	a := &answer{tokenized: time.Since(start), results: make([]textResult, 0, len(texts))}
	a.job = &job{size: len(texts), queued: time.Now()}
	a.job.started, a.job.inputDone, a.job.inferDone = a.job.queued, a.job.queued, a.job.queued
	for _, t := range texts {
		a.tokens += t.Len()
	}
	rows := len(texts)
	if c.options.tokens {
		rows = a.tokens
	}
	reserved, size := int64(rows)*int64(m.cost), int64(0)
	if err := memory.grow(reserved); err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%+v", c.options)
	for first := true; len(texts) > 0; first = false {
		n, cost := 0, 0
		for n < len(texts) && (n == 0 || cost+texts[n].Len() <= v.policy.maxBatch) {
			cost += texts[n].Len()
			n++
		}
		j := &job{ctx: ctx, texts: texts[:n:n], options: c.options, key: key, size: n, cost: cost,
			level: v.policy.priority}
		if err := v.scheduler.submit(j); err != nil {
			return nil, err
		}
		for i := range j.results {
			size += j.results[i].size()
		}
		if size > reserved { // the model does not say how long vectors are, or those of tokens are longer
			if err := memory.grow(size - reserved); err != nil {
				return nil, err
			}
			reserved = size
		}
		if a.results = append(a.results, j.results...); first {
			a.job.queued, a.job.started, a.job.inputDone = j.queued, j.started, j.inputDone
		}
		a.job.inferDone, a.job.batch = j.inferDone, j.batch
		a.job.executions += j.executions
		texts = texts[n:]
	}
	a.job.finished = time.Now()
	return a, nil
}

// runTensors runs a job whose inputs are tensors of texts.
func (v *version) runTensors(j *job) error {
	values := func(name string) []string {
		t, _ := j.feed[name].(*tensor.Tensor)
		return tensor.MustData[string](t)
	}
	if len(v.outputs.list) == 0 {
		return errorf(Unsupported, "vectors of %s are not tensors; /embed_sparse returns them", v.texts.task)
	}
	c := &textCall{cut: true, options: textOptions{normalize: true}}
	texts := values("text")
	if err := countTexts(len(texts)); err != nil {
		return err
	}
	for _, s := range texts {
		in := textInput{text: s}
		if v.texts.task == pipeline.TextRanking {
			in = textInput{text: values("query")[0], second: s, pair: true}
		}
		c.inputs = append(c.inputs, in)
	}
	memory := &reservation{s: v.texts.server}
	defer memory.release()
	a, err := v.runTexts(j.ctx, c, memory)
	if err != nil {
		return err
	}
	v.texts.server.metrics.tokens.WithLabelValues(v.labels()...).Add(float64(a.tokens))
	j.size, j.queued, j.started, j.inputDone = a.job.size, a.job.queued, a.job.started, a.job.inputDone
	j.inferDone, j.finished, j.executions, j.batch = a.job.inferDone, a.job.finished, a.job.executions, a.job.batch
	if j.out, err = v.texts.tensors(a.results); err != nil {
		return err
	}
	return v.scheduler.keep(j.out, j)
}

// tensors returns results as the outputs of the model.
func (m *textModel) tensors(results []textResult) (onward.Values, error) {
	var numbers []float32
	var names []string
	width := max(m.dims, 0)
	for i := range results {
		r := &results[i]
		numbers = append(numbers, r.vector...)
		for _, l := range r.labels {
			numbers, names = append(numbers, l.Score), append(names, l.Name)
		}
	}
	if len(results) > 0 {
		width = len(numbers) / len(results)
	}
	shape := []int{len(results), width}
	if m.task == pipeline.TextRanking {
		shape = shape[:1]
	}
	scores, err := tensor.New(numbers, shape...)
	if err != nil {
		return nil, err
	}
	switch m.task {
	case pipeline.TextRanking:
		return onward.Values{"score": scores}, nil
	case pipeline.TextClassification:
		labels, err := tensor.New(names, shape...)
		return onward.Values{"label": labels, "score": scores}, err
	}
	return onward.Values{"embedding": scores}, nil
}
