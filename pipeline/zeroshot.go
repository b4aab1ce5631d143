package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// ZeroShotOptions configure one call of a [ZeroShotClassifier].
type ZeroShotOptions struct {
	// Template makes a hypothesis of a label, in place of {}. Default: "This example is {}."
	Template string
	// MultiLabel scores each label alone. By default the scores of a text add up to 1.
	MultiLabel bool
}

// ZeroShotClassifier assigns labels that the caller chooses, as the pipeline
// zero-shot-classification of transformers does: with a model that was trained to decide whether a
// text entails a hypothesis.
type ZeroShotClassifier struct {
	model                     *textModel
	entailment, contradiction int
	labels                    int
}

// OpenZeroShotClassifier opens the folder of a model for natural language inference. One of its
// labels begins with "entail", in any case.
func OpenZeroShotClassifier(ctx context.Context, dir string, opts *TextOptions) (*ZeroShotClassifier, error) {
	if opts == nil {
		opts = &TextOptions{}
	}
	m, config, err := openText(ctx, dir, opts, "logits")
	if err != nil {
		return nil, err
	}
	names := config.labels()
	c := &ZeroShotClassifier{model: m, labels: len(names)}
	c.entailment = slices.IndexFunc(names, func(s string) bool {
		return strings.HasPrefix(strings.ToLower(s), "entail")
	})
	if c.entailment == 0 {
		c.contradiction = len(names) - 1
	}
	if config.err == nil && (c.entailment < 0 || len(names) < 2) {
		config.fail("id2label", "want the label entailment and another, got %q", names)
	}
	if m.maxTokens > 0 && config.err == nil { // the hypothesis stays whole
		m.tok, config.err = m.tok.WithOptions(&tokenizer.Options{NoPadding: true, Truncation: &tokenizer.Truncation{
			MaxLength: m.maxTokens, Strategy: "OnlyFirst", Left: m.tok.Config().TruncateLeft, NoOverflow: true}})
	}
	return c, m.closeAfter(config.err)
}

// Close closes the session of the pipeline.
func (c *ZeroShotClassifier) Close() error { return c.model.session.Close() }

// Classify returns the given labels for each text with their scores, the highest first.
func (c *ZeroShotClassifier) Classify(ctx context.Context, texts, labels []string,
	opts *ZeroShotOptions) ([][]Label, error) {
	o := ZeroShotOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Template == "" {
		o.Template = "This example is {}."
	}
	if !strings.Contains(o.Template, "{}") {
		return nil, fmt.Errorf("zero-shot classify: the template %q has no {}", o.Template)
	}
	if len(labels) == 0 {
		return nil, errors.New("zero-shot classify: there are no labels")
	}
	pairs := make([][2]string, 0, len(texts)*len(labels))
	for _, t := range texts {
		for _, l := range labels {
			pairs = append(pairs, [2]string{t, strings.Replace(o.Template, "{}", l, 1)})
		}
	}
	alone := o.MultiLabel || len(labels) == 1
	scores := make([]float32, len(pairs))
	err := c.model.runInputs(ctx, c.model.pairs(ctx, pairs), func(b *textBatch, out []*tensor.Tensor) error {
		rows, err := b.logits(out[0], c.labels)
		if err != nil {
			return err
		}
		for r, i := range b.index {
			scores[i] = rows[r][c.entailment]
			if alone {
				scores[i] = float32(1 / (1 + math.Exp(float64(rows[r][c.contradiction]-scores[i]))))
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrap("zero-shot classify", err)
	}
	result := make([][]Label, len(texts))
	for i := range texts {
		row := scores[i*len(labels):][:len(labels)]
		if !alone {
			softmax(row)
		}
		if result[i], err = ranked(ctx, labels, row, 0); err != nil {
			return nil, wrap("zero-shot classify", err)
		}
	}
	return result, nil
}
