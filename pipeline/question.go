package pipeline

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// QuestionOptions configure [OpenQuestionAnswerer].
type QuestionOptions struct {
	TextOptions // MaxTokens is that of a window: question, context and special tokens. Default: 384
	// Stride is the number of tokens of the context that windows share. Default: 128, or half of
	// MaxTokens if that is less.
	Stride int
}

// AnswerOptions configure one call of a [QuestionAnswerer].
type AnswerOptions struct {
	Top       int  // how many answers are returned. Default: 1
	MaxLength int  // tokens of an answer. Default: 15
	NoAnswer  bool // an empty answer is possible, for models trained on questions without answers
	// Tokens lets answers begin and end within words. By default they are whole words.
	Tokens bool
}

// Answer is a part of a context that answers a question.
type Answer struct {
	Text               string // empty if the context has no answer
	Score              float32
	Start, End         int // in bytes
	StartRune, EndRune int // in runes, as Python counts
}

// QuestionAnswerer finds answers in contexts, as the pipeline question-answering of
// transformers 4 does.
type QuestionAnswerer struct{ model *textModel }

// OpenQuestionAnswerer opens the folder of a model for extractive question answering, whose
// outputs are start_logits and end_logits.
func OpenQuestionAnswerer(ctx context.Context, dir string, opts *QuestionOptions) (*QuestionAnswerer, error) {
	o := QuestionOptions{}
	if opts != nil {
		o = *opts
	}
	limited := o.MaxTokens > 0
	m, config, err := openText(ctx, dir, &o.TextOptions, "start_logits", "end_logits")
	if err != nil {
		return nil, err
	}
	if !limited && (m.maxTokens == 0 || m.maxTokens > 384) {
		m.maxTokens = 384
	}
	if o.Stride <= 0 {
		o.Stride = min(128, m.maxTokens/2)
	}
	strategy := "OnlySecond"
	if m.padLeft { // the context is first
		strategy = "OnlyFirst"
	}
	if config.err == nil {
		config.err = m.window(o.Stride, strategy)
	}
	return &QuestionAnswerer{m}, m.closeAfter(config.err)
}

// Close closes the session of the pipeline.
func (q *QuestionAnswerer) Close() error { return q.model.session.Close() }

// Answer returns the best answers to a question in a context, and their scores.
func (q *QuestionAnswerer) Answer(ctx context.Context, question, context string,
	opts *AnswerOptions) ([]Answer, error) {
	lists, err := q.AnswerBatch(ctx, [][2]string{{question, context}}, opts)
	if err != nil {
		return nil, err
	}
	return lists[0], nil
}

// AnswerBatch is Answer for several pairs of a question and a context.
func (q *QuestionAnswerer) AnswerBatch(ctx context.Context, pairs [][2]string,
	opts *AnswerOptions) ([][]Answer, error) {
	o := AnswerOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Top <= 0 {
		o.Top = 1
	}
	if o.MaxLength <= 0 {
		o.MaxLength = 15
	}
	result := make([][]Answer, len(pairs))
	for from := 0; from < len(pairs); from += chunk {
		to := min(from+chunk, len(pairs))
		if err := q.answer(ctx, pairs[from:to], result[from:to], &o); err != nil {
			return nil, wrap("answer", err)
		}
	}
	return result, nil
}

// spans holds the answers of a window.
type spans struct {
	answers []Answer
	null    float32 // score of no answer
}

func (q *QuestionAnswerer) answer(ctx context.Context, pairs [][2]string, result [][]Answer, o *AnswerOptions) error {
	texts := slices.Clone(pairs)
	contextAt := 1
	if q.model.padLeft {
		contextAt = 0
		for i, p := range pairs {
			texts[i] = [2]string{p[1], p[0]}
		}
	}
	encodings, err := q.model.tok.EncodePairs(ctx, texts)
	if err != nil {
		return err
	}
	windows, of := flatten(encodings)
	found := make([]spans, len(windows))
	err = q.model.run(ctx, windows, func(b *textBatch, out []*tensor.Tensor) error {
		start, err := floats(out[0], b.rows, b.columns)
		if err != nil {
			return err
		}
		end, err := floats(out[1], b.rows, b.columns)
		if err != nil {
			return err
		}
		starts, ends := b.sequences(start, 1), b.sequences(end, 1)
		for r, i := range b.index {
			found[i] = q.spans(windows[i], int8(contextAt), starts[r], ends[r], o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	null := make([]float32, len(pairs))
	for i := range null {
		null[i] = 1
	}
	for w, s := range found {
		i := of[w]
		null[i] = min(null[i], s.null)
		for _, a := range s.answers {
			a.Text = pairs[i][1][a.Start:a.End]
			k := slices.IndexFunc(result[i], func(b Answer) bool { return strings.EqualFold(a.Text, b.Text) })
			if k >= 0 {
				result[i][k].Score += a.Score // the same answer elsewhere
				continue
			}
			result[i] = append(result[i], a)
		}
	}
	for i, list := range result {
		if o.NoAnswer {
			list = append(list, Answer{Score: null[i]})
		}
		slices.SortStableFunc(list, func(a, b Answer) int { return descending(a.Score, b.Score) })
		result[i] = list[:min(o.Top, len(list))]
		for k := range result[i] {
			a := &result[i][k]
			a.StartRune = utf8.RuneCountInString(pairs[i][1][:a.Start])
			a.EndRune = a.StartRune + utf8.RuneCountInString(a.Text)
		}
	}
	return nil
}

// spans returns the best answers within a window.
func (q *QuestionAnswerer) spans(e *tokenizer.Encoding, sequence int8, start, end []float32, o *AnswerOptions) spans {
	cls := int64(-1)
	if id, ok := q.model.tok.IDOf(q.model.tok.Config().Classifier); ok {
		cls = id
	}
	open := make([]bool, e.Len()) // tokens of the context and the classifier token
	for i := range open {
		open[i] = e.Sequences[i] == sequence || e.IDs[i] == cls
	}
	p, s := probabilities(start, open), probabilities(end, open)
	result := spans{}
	if len(p) == 0 {
		return result
	}
	result.null = p[0] * s[0]
	p[0], s[0] = 0, 0
	type span struct {
		from, to int
		score    float32
	}
	var best []span
	keep := o.Top*2 + 10 // several may be of the same words
	if o.Tokens {
		keep = o.Top
	}
	for i := range p {
		for j := i; j < min(i+o.MaxLength, len(s)); j++ {
			score := p[i] * s[j]
			if !open[i] || !open[j] || score == 0 || len(best) == keep && score <= best[keep-1].score {
				continue
			}
			at, _ := slices.BinarySearchFunc(best, score, func(b span, x float32) int {
				if b.score >= x {
					return -1
				}
				return 1
			})
			best = slices.Insert(best, at, span{i, j, score})
			best = best[:min(len(best), keep)]
		}
	}
	for _, b := range best {
		a := Answer{Score: b.score, Start: e.Offsets[b.from][0], End: e.Offsets[b.to][1]}
		if !o.Tokens {
			a.Start, a.End = wordStart(e, b.from), wordEnd(e, b.to)
		}
		if a.Start <= a.End {
			result.answers = append(result.answers, a)
		}
	}
	return result
}

// wordStart returns where the word of a token begins, in the tokens of the window.
func wordStart(e *tokenizer.Encoding, i int) int {
	for e.Words[i] >= 0 && i > 0 && e.Words[i-1] == e.Words[i] && e.Sequences[i-1] == e.Sequences[i] {
		i--
	}
	return e.Offsets[i][0]
}

// wordEnd returns where the word of a token ends.
func wordEnd(e *tokenizer.Encoding, i int) int {
	for e.Words[i] >= 0 && i+1 < e.Len() && e.Words[i+1] == e.Words[i] && e.Sequences[i+1] == e.Sequences[i] {
		i++
	}
	return e.Offsets[i][1]
}

// probabilities returns the softmax of the open positions; the others have a logit of −10,000.
func probabilities(logits []float32, open []bool) []float32 {
	p := make([]float32, len(logits))
	for i, x := range logits {
		if p[i] = x; !open[i] {
			p[i] = -10000
		}
	}
	softmax(p)
	return p
}
