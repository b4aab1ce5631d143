package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// Aggregation says how labels of tokens become entities.
type Aggregation string

// The aggregations. Those from AggregateFirst on give all tokens of a word one label.
const (
	AggregateNone    Aggregation = ""        // an entity per token, with the label of the model
	AggregateSimple  Aggregation = "simple"  // tokens side by side with the same label
	AggregateFirst   Aggregation = "first"   // the label of a word's first token
	AggregateAverage Aggregation = "average" // the label of the highest mean score
	AggregateMax     Aggregation = "max"     // the label of the token with the highest score
)

// TokenClassifierOptions configure [OpenTokenClassifier].
type TokenClassifierOptions struct {
	TextOptions
	// Aggregation says how labels of tokens become entities. Default: AggregateNone.
	Aggregation Aggregation
	// IgnoreLabels are labels that are left out. Default: "O".
	IgnoreLabels []string
	// Stride divides long texts into windows that share this number of tokens. Default: texts are
	// cut off.
	Stride int
}

// Entity is a part of a text with its label.
type Entity struct {
	Label              string // without B- or I-, unless the aggregation is AggregateNone
	Score              float32
	Text               string // the part of the text
	Start, End         int    // in bytes
	StartRune, EndRune int    // in runes, as Python counts
	Token              int    // index of the first token
}

// TokenClassifier finds entities in texts, as the pipeline token-classification of transformers
// does.
type TokenClassifier struct {
	model  *textModel
	labels []string
	opts   TokenClassifierOptions
}

// OpenTokenClassifier opens the folder of a model for token classification.
func OpenTokenClassifier(ctx context.Context, dir string, opts *TokenClassifierOptions) (*TokenClassifier, error) {
	c := &TokenClassifier{}
	if opts != nil {
		c.opts = *opts
	}
	if !slices.Contains([]Aggregation{AggregateNone, AggregateSimple, AggregateFirst, AggregateAverage, AggregateMax},
		c.opts.Aggregation) {
		return nil, fmt.Errorf("aggregation %q is not supported", c.opts.Aggregation)
	}
	if c.opts.IgnoreLabels == nil {
		c.opts.IgnoreLabels = []string{"O"}
	}
	var config *object
	var err error
	if c.model, config, err = openText(ctx, dir, &c.opts.TextOptions, "logits"); err != nil {
		return nil, err
	}
	c.labels = config.labels()
	if config.err == nil && len(c.labels) == 0 {
		config.fail("id2label", "there are no labels")
	}
	if config.err == nil && c.opts.Stride > 0 {
		config.err = c.model.window(c.opts.Stride, "")
	}
	return c, c.model.closeAfter(config.err)
}

// window divides long texts into windows that share stride tokens.
func (m *textModel) window(stride int, strategy string) (err error) {
	if m.maxTokens <= 0 {
		return errors.New("windows need the largest number of tokens, which the folder does not say; set MaxTokens")
	}
	m.tok, err = m.tok.WithOptions(&tokenizer.Options{NoPadding: true, Truncation: &tokenizer.Truncation{
		MaxLength: m.maxTokens, Stride: stride, Strategy: strategy}})
	return err
}

// Close closes the session of the pipeline.
func (c *TokenClassifier) Close() error { return c.model.session.Close() }

// Labels returns the names of the classes.
func (c *TokenClassifier) Labels() []string { return slices.Clone(c.labels) }

// Classify returns the entities of each text in order.
func (c *TokenClassifier) Classify(ctx context.Context, texts []string) ([][]Entity, error) {
	result := make([][]Entity, len(texts))
	for from := 0; from < len(texts); from += chunk {
		to := min(from+chunk, len(texts))
		if err := c.classify(ctx, texts[from:to], result[from:to]); err != nil {
			return nil, wrap("classify tokens", err)
		}
	}
	return result, nil
}

func (c *TokenClassifier) classify(ctx context.Context, texts []string, result [][]Entity) error {
	encodings, err := c.model.tok.EncodeBatch(ctx, texts)
	if err != nil {
		return err
	}
	windows, of := flatten(encodings)
	found := make([][]Entity, len(windows))
	err = c.model.run(ctx, windows, func(b *textBatch, out []*tensor.Tensor) error {
		width := len(c.labels)
		x, err := floats(out[0], b.rows, b.columns, width)
		if err != nil {
			return err
		}
		for r, rows := range b.sequences(x, width) {
			i := b.index[r]
			found[i] = c.entities(texts[of[i]], windows[i], rows)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, list := range found {
		result[of[i]] = append(result[of[i]], list...)
	}
	for i := range result {
		if len(encodings[i].Overflow) > 0 {
			result[i] = withoutOverlap(result[i])
		}
		countRunes(texts[i], result[i])
	}
	return nil
}

// flatten returns the windows of encodings, and the encoding that each belongs to.
func flatten(encodings []*tokenizer.Encoding) (windows []*tokenizer.Encoding, of []int) {
	for i, e := range encodings {
		windows, of = append(windows, e), append(of, i)
		for _, o := range e.Overflow {
			windows, of = append(windows, o), append(of, i)
		}
	}
	return windows, of
}

// countRunes fills the offsets in runes.
func countRunes(text string, list []Entity) {
	for i := range list {
		e := &list[i]
		e.Text = text[e.Start:e.End]
		e.StartRune = utf8.RuneCountInString(text[:e.Start])
		e.EndRune = e.StartRune + utf8.RuneCountInString(e.Text)
	}
}

// withoutOverlap keeps the longest of entities that overlap, and of equally long ones that with
// the higher score.
func withoutOverlap(list []Entity) []Entity {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Entity) int { return cmp.Compare(a.Start, b.Start) })
	var kept []Entity
	last := list[0]
	for _, e := range list {
		if last.Start <= e.Start && e.Start < last.End {
			if n, m := e.End-e.Start, last.End-last.Start; n > m || n == m && e.Score > last.Score {
				last = e
			}
		} else {
			kept = append(kept, last)
			last = e
		}
	}
	return append(kept, last)
}

// scored is a token, or a word, with its scores.
type scored struct {
	Entity
	scores  []float32
	subword bool // continues a word
}

// entities returns the entities of a window. rows holds the outputs for its tokens.
func (c *TokenClassifier) entities(text string, e *tokenizer.Encoding, rows []float32) []Entity {
	n := len(c.labels)
	var tokens []scored
	for i := range e.Len() {
		if e.Special[i] {
			continue
		}
		t := scored{scores: rows[i*n:][:n]}
		softmax(t.scores)
		t.Start, t.End, t.Token = e.Offsets[i][0], e.Offsets[i][1], i
		t.subword = c.subword(text, e, i)
		tokens = append(tokens, t)
	}
	if c.opts.Aggregation == AggregateNone || c.opts.Aggregation == AggregateSimple {
		for i := range tokens {
			tokens[i].pick(c.labels)
		}
	} else {
		tokens = c.words(tokens)
	}
	var list []Entity
	for i := 0; i < len(tokens); {
		j := i + 1
		if c.opts.Aggregation != AggregateNone {
			for j < len(tokens) && continues(tokens[j].Label, tokens[j-1].Label) {
				j++
			}
		}
		if g := c.group(tokens[i:j]); !slices.Contains(c.opts.IgnoreLabels, g.Label) {
			list = append(list, g)
		}
		i = j
	}
	return list
}

// subword reports whether a token continues a word: by its prefix, or without such prefixes if no
// space precedes it.
func (c *TokenClassifier) subword(text string, e *tokenizer.Encoding, i int) bool {
	tok := c.model.tok
	from, to := e.Offsets[i][0], e.Offsets[i][1]
	if unk := tok.Config().Unknown; unk != "" {
		if id, ok := tok.IDOf(unk); ok && id == e.IDs[i] {
			return false
		}
	}
	if tok.SubwordPrefix() != "" {
		return utf8.RuneCountInString(e.Tokens[i]) != utf8.RuneCountInString(text[from:to])
	}
	if from == 0 {
		return false
	}
	_, before := utf8.DecodeLastRuneInString(text[:from])
	_, first := utf8.DecodeRuneInString(text[from:])
	return !strings.Contains(text[from-before:from+first], " ")
}

// pick sets the label with the highest score.
func (s *scored) pick(labels []string) {
	best := 0
	for i, v := range s.scores {
		if v > s.scores[best] {
			best = i
		}
	}
	s.Label, s.Score = labels[best], s.scores[best]
}

// words joins the tokens of each word.
func (c *TokenClassifier) words(tokens []scored) []scored {
	var words []scored
	for i := 0; i < len(tokens); {
		j := i + 1
		for j < len(tokens) && tokens[j].subword {
			j++
		}
		w, parts := tokens[i], tokens[i:j]
		w.End = tokens[j-1].End
		switch c.opts.Aggregation {
		case AggregateMax:
			for _, p := range parts {
				if slices.Max(p.scores) > slices.Max(w.scores) {
					w.scores = p.scores
				}
			}
		case AggregateAverage:
			mean := make([]float32, len(c.labels))
			for _, p := range parts {
				for k, v := range p.scores {
					mean[k] += v / float32(len(parts))
				}
			}
			w.scores = mean
		}
		w.pick(c.labels)
		words = append(words, w)
		i = j
	}
	return words
}

// tag returns a label without B- or I-, and whether it begins an entity.
func tag(label string) (name string, begins bool) {
	if s, ok := strings.CutPrefix(label, "B-"); ok {
		return s, true
	}
	return strings.TrimPrefix(label, "I-"), false
}

// continues reports whether a label continues the entity of the one before it.
func continues(label, before string) bool {
	name, begins := tag(label)
	last, _ := tag(before)
	return name == last && !begins
}

// group makes an entity of tokens.
func (c *TokenClassifier) group(tokens []scored) Entity {
	g := tokens[0].Entity
	if c.opts.Aggregation == AggregateNone {
		return g
	}
	if _, name, ok := strings.Cut(g.Label, "-"); ok {
		g.Label = name
	}
	sum := 0.0
	for _, t := range tokens {
		sum += float64(t.Score)
	}
	g.Score, g.End = float32(sum/float64(len(tokens))), tokens[len(tokens)-1].End
	return g
}
