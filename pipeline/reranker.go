package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// RerankerOptions configure [OpenReranker].
type RerankerOptions struct {
	TextOptions
	// Function makes scores of the outputs of the model: "sigmoid" or "none". Default: as the
	// folder says, else "sigmoid".
	Function string
}

// Reranker scores how well documents answer a query, as CrossEncoder of sentence-transformers
// does.
type Reranker struct {
	model    *textModel
	function string
	label    string
}

// Ranked is a document in the order of its score.
type Ranked struct {
	Index int // in the list of documents
	Score float32
}

// OpenReranker opens the folder of a cross-encoder: a model for sequence classification with one
// label.
func OpenReranker(ctx context.Context, dir string, opts *RerankerOptions) (*Reranker, error) {
	if opts == nil {
		opts = &RerankerOptions{}
	}
	function, err := rerankerFunction(dir, &opts.Options)
	if err != nil {
		return nil, err
	}
	m, config, err := openText(ctx, dir, &opts.TextOptions, "logits")
	if err != nil {
		return nil, err
	}
	if n := len(config.labels()); config.err == nil && n > 1 {
		config.err = fmt.Errorf("a reranker has one label, the model has %d; OpenTextClassifier takes it", n)
	}
	for _, f := range []string{opts.Function, function, crossEncoderFunction(config), "sigmoid"} {
		if f != "" {
			function = f
			break
		}
	}
	if config.err == nil && function != "sigmoid" && function != "none" {
		config.err = fmt.Errorf("function %q is not supported; use sigmoid or none", function)
	}
	r := &Reranker{model: m, function: function, label: "LABEL_0"}
	if l := config.labels(); len(l) == 1 {
		r.label = l[0]
	}
	return r, m.closeAfter(config.err)
}

// rerankerFunction returns activation_fn of config_sentence_transformers.json, and checks
// modules.json.
func rerankerFunction(dir string, opts *Options) (string, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return "", err
	}
	defer f.Close()
	list, err := f.modules()
	if err != nil {
		return "", f.wrap(err)
	}
	for _, m := range list {
		if m.class() != "Transformer" || m.Path != "" {
			return "", f.wrap(fmt.Errorf("modules.json: module %s is not supported in a reranker", m.Type))
		}
	}
	o, err := f.json("config_sentence_transformers.json")
	if err != nil {
		return "", f.wrap(err)
	}
	name, prompt := "", ""
	o.get("activation_fn", &name)
	if o.get("default_prompt_name", &prompt); prompt != "" {
		o.fail("default_prompt_name", "prompts of rerankers are not supported")
	}
	return function(o, "activation_fn", name), f.wrap(o.err)
}

// crossEncoderFunction returns the function that config.json names.
func crossEncoderFunction(config *object) string {
	name := ""
	sub := config.object("sentence_transformers")
	if sub.get("activation_fn", &name); name != "" {
		f := function(sub, "activation_fn", name)
		if config.err == nil {
			config.err = sub.err
		}
		return f
	}
	config.get("sbert_ce_default_activation_function", &name)
	return function(config, "sbert_ce_default_activation_function", name)
}

// function returns "sigmoid" or "none" for a class of torch.nn.
func function(o *object, field, class string) string {
	switch class[strings.LastIndexByte(class, '.')+1:] {
	case "":
		return ""
	case "Sigmoid":
		return "sigmoid"
	case "Identity":
		return "none"
	}
	o.fail(field, "%q is not supported", class)
	return ""
}

// Close closes the session of the pipeline.
func (r *Reranker) Close() error { return r.model.session.Close() }

// Score returns the score of each pair of a query and a document.
func (r *Reranker) Score(ctx context.Context, pairs [][2]string) ([]float32, error) {
	return r.score(ctx, r.model.pairs(ctx, pairs), r.function)
}

// ScoreEncodings returns the score of each encoding of a pair by [Reranker.Tokenizer]. If raw is
// set, scores are the outputs of the model.
func (r *Reranker) ScoreEncodings(ctx context.Context, encodings []*tokenizer.Encoding, raw bool) ([]float32, error) {
	function := r.function
	if raw {
		function = "none"
	}
	return r.score(ctx, encoded(encodings), function)
}

func (r *Reranker) score(ctx context.Context, in inputs, function string) ([]float32, error) {
	scores := make([]float32, in.n)
	err := r.model.runInputs(ctx, in, func(b *textBatch, out []*tensor.Tensor) error {
		rows, err := b.logits(out[0], 1)
		if err != nil {
			return err
		}
		for k, i := range b.index {
			apply(function, rows[k])
			scores[i] = rows[k][0]
		}
		return nil
	})
	return scores, wrap("rerank", err)
}

// Label returns the name of the score in config.json.
func (r *Reranker) Label() string { return r.label }

// Tokenizer returns the tokenizer of the model. It cuts off long pairs and adds no padding.
func (r *Reranker) Tokenizer() *tokenizer.Tokenizer { return r.model.tok }

// Rerank returns the documents in the order of their scores, the highest first.
func (r *Reranker) Rerank(ctx context.Context, query string, documents []string) ([]Ranked, error) {
	pairs := make([][2]string, len(documents))
	for i, d := range documents {
		pairs[i] = [2]string{query, d}
	}
	scores, err := r.Score(ctx, pairs)
	if err != nil {
		return nil, err
	}
	list := make([]Ranked, len(scores))
	for i, s := range scores {
		list[i] = Ranked{i, s}
	}
	slices.SortStableFunc(list, func(a, b Ranked) int { return descending(a.Score, b.Score) })
	return list, nil
}
