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

// MultiVectorEmbedder returns a vector for each token of a text, as MultiVectorEncoder of
// sentence-transformers does (ColBERT). [MaxSim] compares a query with a document.
type MultiVectorEmbedder struct {
	model           *textModel
	steps           []*step
	query, document *tokenizer.Tokenizer
	expansion       *expansion // nil: queries are not filled up
	prompts         map[string]string
	prompt          string

	skip                    map[int64]bool // tokens that are left out
	skipQuery, skipDocument bool
	keep                    map[int64]bool // if not nil, the only tokens of documents that count
}

// expansion says how queries are filled up with tokens, whose vectors count.
type expansion struct {
	length int
	fixed  bool // longer queries are cut off
	attend bool // other tokens attend to them
	id     int64
}

// OpenMultiVectorEmbedder opens the folder of a ColBERT model, as sentence-transformers 6 saves it.
// Its modules.json has Transformer, then Dense and Normalize for the vectors of tokens, and
// MultiVectorMask.
func OpenMultiVectorEmbedder(ctx context.Context, dir string, opts *TextOptions) (*MultiVectorEmbedder, error) {
	if opts == nil {
		opts = &TextOptions{}
	}
	f, err := openFolder(dir, &opts.Options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &MultiVectorEmbedder{}
	if err := e.open(ctx, f, opts); err != nil {
		e.Close()
		return nil, f.wrap(err)
	}
	return e, nil
}

// Close closes the sessions of the pipeline.
func (e *MultiVectorEmbedder) Close() error { return closeAll(e.model, e.steps) }

func (e *MultiVectorEmbedder) open(ctx context.Context, f *folder, opts *TextOptions) error {
	list, err := f.modules()
	if err != nil {
		return err
	}
	if len(list) == 0 || list[0].class() != "Transformer" {
		return errors.New("modules.json: want a first module Transformer")
	}
	if e.prompts, e.prompt, _, err = f.prompts(); err != nil {
		return err
	}
	if e.model, err = f.transformer(ctx, &list[0], opts); err != nil {
		return err
	}
	name := e.model.output("last_hidden_state", "token_embeddings")
	if name == "" && len(e.model.outputs) == 1 {
		name = e.model.outputs[0]
	}
	if name == "" {
		return fmt.Errorf("the model has no output last_hidden_state; it has %q", e.model.outputs)
	}
	e.model.outputs = []string{name}
	masked := false
	for i := range list[1:] {
		m := &list[i+1]
		o, err := f.moduleConfig(m)
		if err != nil {
			return err
		}
		in := "sentence_embedding"
		o.get("module_input_name", &in)
		var s *step
		switch class := m.class(); {
		case class == "MultiVectorMask":
			masked = true
			err = e.setMask(o)
		case class == "Dense" && in == "token_embeddings":
			s, err = f.dense(ctx, m, o)
		case class == "Normalize" && in == "token_embeddings":
			s = normalizeStep()
		default:
			err = fmt.Errorf("modules.json: module %s of %s is not supported", m.Type, in)
		}
		if err != nil {
			return err
		}
		if s != nil {
			e.steps = append(e.steps, s)
		}
	}
	if !masked {
		return errors.New("modules.json has no module MultiVectorMask; save the model by sentence-transformers 6")
	}
	return e.setLengths(f, &list[0])
}

// setMask reads the configuration of MultiVectorMask.
func (e *MultiVectorEmbedder) setMask(o *object) error {
	var words []string
	tasks := oneOrMore{"document"}
	var keep []int64
	o.get("skiplist_words", &words)
	o.get("skiplist_tasks", &tasks)
	if o.get("keep_only_token_ids", &keep); len(keep) > 0 {
		e.keep = map[int64]bool{}
	}
	for _, id := range keep {
		e.keep[id] = true
	}
	e.skip = map[int64]bool{}
	for _, w := range words {
		if id, ok := e.model.tok.IDOf(w); ok {
			e.skip[id] = true
		}
	}
	e.skipQuery, e.skipDocument = slices.Contains(tasks, "query"), slices.Contains(tasks, "document")
	return o.err
}

// setLengths reads the limits of queries and documents, and how queries are filled up.
func (e *MultiVectorEmbedder) setLengths(f *folder, m *module) error {
	f, err := f.sub(m.Path)
	if err != nil {
		return err
	}
	o, err := f.json("sentence_bert_config.json")
	if err != nil {
		return err
	}
	query, document := e.model.maxTokens, e.model.maxTokens
	o.get("query_length", &query)
	o.get("document_length", &document)
	if o.has("query_expansion") {
		x := o.object("query_expansion")
		strategy, token := "", ""
		e.expansion = &expansion{}
		x.get("strategy", &strategy)
		x.get("length", &e.expansion.length)
		x.get("attend", &e.expansion.attend)
		x.get("token", &token)
		for _, t := range []string{token, e.model.tok.Config().Mask, e.model.tok.Config().EOS} {
			if t != "" {
				token = t
				break
			}
		}
		var ok bool
		if e.expansion.id, ok = e.model.tok.IDOf(token); !ok {
			x.fail("token", "%q is not a token", token)
		}
		if strategy != "fixed" && strategy != "min" {
			x.fail("strategy", "%q is not supported", strategy)
		}
		if n := e.expansion.length; n < 1 || n > math.MaxInt16 || e.model.maxTokens > 0 && n > e.model.maxTokens {
			x.fail("length", "%d is not between 1 and the number of tokens of an input, %d", n, e.model.maxTokens)
		}
		if e.model.padLeft {
			x.fail("strategy", "padding on the left is not supported")
		}
		if e.expansion.fixed = strategy == "fixed"; e.expansion.fixed {
			query = e.expansion.length
		}
		if o.err == nil {
			o.err = x.err
		}
	}
	if o.err != nil {
		return o.err
	}
	document = smaller(document, e.model.maxTokens)
	if err := e.model.limit(smaller(query, e.model.maxTokens)); err != nil {
		return err
	}
	e.query = e.model.tok
	err = e.model.limit(document)
	e.document = e.model.tok
	return err
}

// smaller returns the smaller of two limits; 0 stands for no limit.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// EmbedQueries returns the vectors of each text's tokens, with the prompt named "query" if there
// is one, and filled up with mask tokens if the folder says so.
func (e *MultiVectorEmbedder) EmbedQueries(ctx context.Context, texts []string) ([][][]float32, error) {
	return e.embed(ctx, texts, true, "query")
}

// EmbedDocuments returns the vectors of each text's tokens, with the first of the prompts named
// "document", "passage" and "corpus" that the model has.
func (e *MultiVectorEmbedder) EmbedDocuments(ctx context.Context, texts []string) ([][][]float32, error) {
	return e.embed(ctx, texts, false, "document", "passage", "corpus")
}

func (e *MultiVectorEmbedder) embed(ctx context.Context, texts []string, query bool,
	prompts ...string) ([][][]float32, error) {
	prompt := e.prompts[e.prompt]
	for _, name := range prompts {
		if p, ok := e.prompts[name]; ok {
			prompt = p
			break
		}
	}
	texts = prepend(prompt, texts)
	vectors := make([][][]float32, len(texts))
	encode := func(lo, hi int) ([]*tokenizer.Encoding, error) {
		if !query {
			return e.document.EncodeBatch(ctx, texts[lo:hi])
		}
		list, err := e.query.EncodeBatch(ctx, texts[lo:hi])
		for _, enc := range list {
			e.expansion.expand(enc)
		}
		return list, err
	}
	err := e.model.runInputs(ctx, inputs{len(texts), encode}, func(b *textBatch, out []*tensor.Tensor) error {
		x, err := floats(out[0], b.rows, b.columns, -1)
		if err != nil {
			return err
		}
		width := out[0].Shape()[2]
		x = slices.Concat(b.sequences(x, width)...)
		for _, s := range e.steps {
			if s.in > 0 && s.in != width {
				return fmt.Errorf("a module takes vectors of %d numbers, got %d", s.in, width)
			}
			if x, err = s.run(ctx, x, width); err != nil {
				return err
			}
			if s.out > 0 {
				width = s.out
			}
		}
		for r, enc := range b.encodings {
			list := [][]float32{}
			for _, id := range enc.IDs {
				if e.counts(id, query) {
					list = append(list, x[:width:width])
				}
				x = x[width:]
			}
			vectors[b.index[r]] = list
		}
		return nil
	})
	return vectors, wrap("embed", err)
}

// counts reports whether the vector of a token is returned.
func (e *MultiVectorEmbedder) counts(id int64, query bool) bool {
	if query {
		return !e.skipQuery || !e.skip[id]
	}
	return !(e.skipDocument && e.skip[id]) && (e.keep == nil || e.keep[id])
}

// expand fills up a query.
func (x *expansion) expand(e *tokenizer.Encoding) {
	if x == nil {
		return
	}
	mask := int64(0)
	if x.attend {
		mask = 1
	}
	for e.Len() < x.length {
		e.IDs, e.Mask, e.TypeIDs = append(e.IDs, x.id), append(e.Mask, mask), append(e.TypeIDs, 0)
	}
}

// MaxSim returns the similarity of a query and a document: the sum, over the vectors of the
// query, of the largest scalar product with a vector of the document.
func MaxSim(query, document [][]float32) (sum float32) {
	if len(document) == 0 {
		return 0
	}
	for _, q := range query {
		best := float32(math.Inf(-1))
		for _, d := range document {
			dot := float32(0)
			for i, x := range q {
				dot += x * d[i]
			}
			best = max(best, dot)
		}
		sum += best
	}
	return sum
}
