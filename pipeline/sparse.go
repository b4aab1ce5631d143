package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// SparseVector holds the numbers of a vector that are not zero.
type SparseVector struct {
	Indices []int64 // tokens of the vocabulary, ascending
	Values  []float32
}

// Dot returns the scalar product of two vectors, which is their similarity.
func (v SparseVector) Dot(w SparseVector) (sum float32) {
	for i, j := 0, 0; i < len(v.Indices) && j < len(w.Indices); {
		switch {
		case v.Indices[i] < w.Indices[j]:
			i++
		case v.Indices[i] > w.Indices[j]:
			j++
		default:
			sum += v.Values[i] * w.Values[j]
			i, j = i+1, j+1
		}
	}
	return sum
}

// SparseEmbedder returns sparse vectors for texts, a weight per token of the vocabulary, as
// SparseEncoder of sentence-transformers does (SPLADE).
type SparseEmbedder struct {
	model   *textModel
	sum     bool // sum of the tokens' weights, not the maximum
	twice   bool // the logarithm is taken twice
	prompts map[string]string
	prompt  string
}

// OpenSparseEmbedder opens the folder of a SPLADE model. Its modules.json has a Transformer for
// masked language modeling and SpladePooling.
func OpenSparseEmbedder(ctx context.Context, dir string, opts *TextOptions) (*SparseEmbedder, error) {
	if opts == nil {
		opts = &TextOptions{}
	}
	f, err := openFolder(dir, &opts.Options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &SparseEmbedder{}
	if err := e.open(ctx, f, opts); err != nil {
		e.Close()
		return nil, f.wrap(err)
	}
	return e, nil
}

func (e *SparseEmbedder) open(ctx context.Context, f *folder, opts *TextOptions) error {
	list, err := f.modules()
	if err != nil {
		return err
	}
	if len(list) != 2 || list[0].class() != "Transformer" && list[0].class() != "MLMTransformer" ||
		list[1].class() != "SpladePooling" {
		return errors.New("modules.json: want the modules Transformer and SpladePooling")
	}
	o, err := f.moduleConfig(&list[1])
	if err != nil {
		return err
	}
	strategy, activation := "max", "relu"
	o.get("pooling_strategy", &strategy)
	o.get("activation_function", &activation)
	if strategy != "max" && strategy != "sum" {
		o.fail("pooling_strategy", "%q is not supported", strategy)
	}
	if activation != "relu" && activation != "log1p_relu" {
		o.fail("activation_function", "%q is not supported", activation)
	}
	if o.err != nil {
		return o.err
	}
	e.sum, e.twice = strategy == "sum", activation == "log1p_relu"
	if e.prompts, e.prompt, _, err = f.prompts(); err != nil {
		return err
	}
	if e.model, err = f.transformer(ctx, &list[0], opts); err != nil {
		return err
	}
	if name := e.model.output("logits"); name != "" {
		e.model.outputs = []string{name}
	}
	if len(e.model.outputs) != 1 {
		return fmt.Errorf("the model has no output logits; it has %q", e.model.outputs)
	}
	return nil
}

// Close closes the session of the pipeline.
func (e *SparseEmbedder) Close() error { return closeAll(e.model, nil) }

// Tokenizer returns the tokenizer of the model, whose TokenOf names the indices of vectors.
func (e *SparseEmbedder) Tokenizer() *tokenizer.Tokenizer { return e.model.tok }

// Prompt returns the prompt that options select, "" for none. nil stands for the default prompt.
func (e *SparseEmbedder) Prompt(opts *EmbedOptions) (string, error) {
	if opts == nil {
		opts = &EmbedOptions{}
	}
	return opts.prompt(e.prompts, e.prompt)
}

// Embed returns a vector for each text. Of the options, those of prompts apply; nil stands for
// the default prompt.
func (e *SparseEmbedder) Embed(ctx context.Context, texts []string, opts *EmbedOptions) ([]SparseVector, error) {
	prompt, err := e.Prompt(opts)
	if err != nil {
		return nil, wrap("embed", err)
	}
	return e.embed(ctx, textInputs(ctx, e.model.tok, prepend(prompt, texts)))
}

// EmbedEncodings returns a vector for each encoding of [SparseEmbedder.Tokenizer].
func (e *SparseEmbedder) EmbedEncodings(ctx context.Context,
	encodings []*tokenizer.Encoding) ([]SparseVector, error) {
	return e.embed(ctx, encoded(encodings))
}

func (e *SparseEmbedder) embed(ctx context.Context, in inputs) ([]SparseVector, error) {
	vectors := make([]SparseVector, in.n)
	err := e.model.runInputs(ctx, in, func(b *textBatch, out []*tensor.Tensor) error {
		x, err := floats(out[0], b.rows, b.columns, -1)
		if err != nil {
			return err
		}
		width := out[0].Shape()[2]
		for r, tokens := range b.sequences(x, width) {
			vectors[b.index[r]] = e.pool(tokens, width)
		}
		return nil
	})
	return vectors, wrap("embed", err)
}

// pool returns the vector of a text by the logits of its tokens.
func (e *SparseEmbedder) pool(logits []float32, width int) SparseVector {
	weights := make([]float32, width)
	for from := 0; from+width <= len(logits); from += width {
		row := logits[from : from+width]
		for i, x := range row {
			switch {
			case !(x > 0):
			case e.sum:
				weights[i] += e.weight(x)
			case x > weights[i]:
				weights[i] = x
			}
		}
	}
	var v SparseVector
	for i, x := range weights {
		if x > 0 {
			if !e.sum { // the function of the maximum is the maximum of the function
				x = e.weight(x)
			}
			v.Indices, v.Values = append(v.Indices, int64(i)), append(v.Values, x)
		}
	}
	return v
}

// weight returns log(1+x), or that of it.
func (e *SparseEmbedder) weight(x float32) float32 {
	y := math.Log1p(float64(x))
	if e.twice {
		y = math.Log1p(y)
	}
	return float32(y)
}
