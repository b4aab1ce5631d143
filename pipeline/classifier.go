package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// Label is a class with its score.
type Label struct {
	Name  string
	Score float32
}

// ClassifierOptions configure [OpenTextClassifier].
type ClassifierOptions struct {
	TextOptions
	// Function makes scores of the outputs of the model: "softmax", "sigmoid" or "none". Default:
	// as transformers does: "none" if problem_type of config.json is regression, "sigmoid" for
	// multi_label_classification or one label, else "softmax".
	Function string
}

// TextClassifier assigns labels to texts or pairs of texts, as the pipeline text-classification
// of transformers does.
type TextClassifier struct {
	model    *textModel
	labels   []string
	function string
}

// openText opens a folder whose model has the given outputs. Outputs without a name are the
// only one of that rank.
func openText(ctx context.Context, dir string, opts *TextOptions, outputs ...string) (*textModel, *object, error) {
	f, err := openFolder(dir, &opts.Options)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	config, err := f.json("config.json")
	if err != nil {
		return nil, nil, f.wrap(err)
	}
	m, err := openTextModel(ctx, f, config, opts)
	if err != nil {
		return nil, nil, f.wrap(err)
	}
	for i, name := range outputs {
		if len(outputs) == 1 && len(m.outputs) == 1 {
			outputs[i] = m.outputs[0] // whatever its name is
		} else if m.output(name) == "" {
			m.session.Close()
			return nil, nil, f.wrap(fmt.Errorf("the model has no output %s; it has %q", name, m.outputs))
		}
	}
	m.outputs = outputs
	return m, config, nil
}

// close closes the model if err is not nil.
func (m *textModel) closeAfter(err error) error {
	if err != nil {
		m.session.Close()
	}
	return err
}

// OpenTextClassifier opens the folder of a model for sequence classification.
func OpenTextClassifier(ctx context.Context, dir string, opts *ClassifierOptions) (*TextClassifier, error) {
	if opts == nil {
		opts = &ClassifierOptions{}
	}
	m, config, err := openText(ctx, dir, &opts.TextOptions, "logits")
	if err != nil {
		return nil, err
	}
	c := &TextClassifier{model: m, labels: config.labels(), function: opts.Function}
	if c.function == "" {
		c.function = defaultFunction(config, len(c.labels))
	}
	if config.err == nil && !slices.Contains([]string{"softmax", "sigmoid", "none"}, c.function) {
		config.err = fmt.Errorf("function %q is not supported; use softmax, sigmoid or none", c.function)
	}
	return c, m.closeAfter(config.err)
}

// defaultFunction returns the function that transformers applies to outputs for n labels.
func defaultFunction(config *object, n int) string {
	kind := ""
	if config.get("problem_type", &kind); kind == "regression" {
		return "none"
	}
	if kind == "multi_label_classification" || n == 1 {
		return "sigmoid"
	}
	return "softmax"
}

// Close closes the session of the pipeline.
func (c *TextClassifier) Close() error { return c.model.session.Close() }

// Labels returns the names of the classes.
func (c *TextClassifier) Labels() []string { return slices.Clone(c.labels) }

// Classify returns the labels of each text with their scores, the highest first. top limits
// their number; 0 returns all.
func (c *TextClassifier) Classify(ctx context.Context, texts []string, top int) ([][]Label, error) {
	return c.classify(ctx, textInputs(ctx, c.model.tok, texts), top, c.function)
}

// ClassifyPairs is Classify for pairs of texts.
func (c *TextClassifier) ClassifyPairs(ctx context.Context, pairs [][2]string, top int) ([][]Label, error) {
	return c.classify(ctx, c.model.pairs(ctx, pairs), top, c.function)
}

// ClassifyEncodings is Classify for encodings of [TextClassifier.Tokenizer]. If raw is set, scores
// are the outputs of the model.
func (c *TextClassifier) ClassifyEncodings(ctx context.Context, encodings []*tokenizer.Encoding,
	top int, raw bool) ([][]Label, error) {
	function := c.function
	if raw {
		function = "none"
	}
	return c.classify(ctx, encoded(encodings), top, function)
}

// Tokenizer returns the tokenizer of the model. It cuts off long texts and adds no padding.
func (c *TextClassifier) Tokenizer() *tokenizer.Tokenizer { return c.model.tok }

func (c *TextClassifier) classify(ctx context.Context, in inputs, top int, function string) ([][]Label, error) {
	result := make([][]Label, in.n)
	err := c.model.runInputs(ctx, in, func(b *textBatch, out []*tensor.Tensor) error {
		rows, err := b.logits(out[0], len(c.labels))
		if err != nil {
			return err
		}
		for r, i := range b.index {
			apply(function, rows[r])
			if result[i], err = ranked(ctx, c.labels, rows[r], top); err != nil {
				return err
			}
		}
		return nil
	})
	return result, wrap("classify", err)
}

// logits returns a row of n numbers for each text, or of any number if n is 0.
func (b *textBatch) logits(t *tensor.Tensor, n int) ([][]float32, error) {
	if n == 0 {
		n = -1
	}
	x, err := floats(t, b.rows, n)
	if err != nil {
		return nil, err
	}
	width := t.Shape()[1]
	if width == 0 {
		return nil, errors.New("the model returns no scores")
	}
	return slices.Collect(slices.Chunk(x[:len(b.index)*width], width)), nil
}

// ranked returns labels by descending score. It ends early with the context, since models may have
// millions of classes.
func ranked(ctx context.Context, names []string, scores []float32, top int) ([]Label, error) {
	list := make([]Label, len(scores))
	for i, s := range scores {
		list[i].Score = s
		if i < len(names) {
			list[i].Name = names[i]
		} else {
			list[i].Name = fmt.Sprintf("LABEL_%d", i)
		}
	}
	err := ctx.Err()
	compared := 0
	slices.SortStableFunc(list, func(a, b Label) int {
		if compared++; compared%(1<<16) == 0 && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0 // the rest is quick
		}
		return descending(a.Score, b.Score)
	})
	if top > 0 && top < len(list) {
		list = list[:top]
	}
	return list, err
}

// descending compares two scores so that the higher is first, and NaN last.
func descending(a, b float32) int {
	switch {
	case a > b || b != b && a == a:
		return -1
	case a < b || a != a && b == b:
		return 1
	}
	return 0
}

// apply applies a function to scores in place.
func apply(function string, x []float32) {
	switch function {
	case "softmax":
		softmax(x)
	case "sigmoid":
		for i, v := range x {
			x[i] = float32(1 / (1 + math.Exp(-float64(v))))
		}
	}
}

// softmax replaces x by exp(x)/Σexp(x).
func softmax(x []float32) {
	if len(x) == 0 {
		return
	}
	top, sum := slices.Max(x), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v - top))
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v-top)) / sum)
	}
}

// wrap adds what failed to an error.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
