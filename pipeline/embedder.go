package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// EmbedderOptions configure [OpenEmbedder].
type EmbedderOptions struct {
	TextOptions
	// Pooling says how the vectors of tokens become one: "cls", "max", "mean",
	// "mean_sqrt_len_tokens", "weightedmean", "lasttoken", or several of them, which are
	// concatenated. Default: as modules.json says. A folder without modules.json needs it, unless
	// its model has an output sentence_embedding.
	Pooling []string
	// Normalize divides every vector by its length, also if modules.json does not say so.
	Normalize bool
}

// EmbedOptions configure one call of an [Embedder].
type EmbedOptions struct {
	// Prompt precedes each text. It takes precedence over PromptName.
	Prompt string
	// PromptName selects one of the prompts of config_sentence_transformers.json. Default: its
	// default_prompt_name.
	PromptName string
	// NoPrompt adds no prompt.
	NoPrompt bool
	// Dimensions keeps only the first numbers of each vector, for models that are trained for that
	// (Matryoshka). The vectors are not normalized again, unless Normalize is set.
	Dimensions int
	// Normalize divides every vector by its length.
	Normalize bool
	// NoNormalize leaves out the modules Normalize of the folder.
	NoNormalize bool
}

// Embedder returns vectors for texts, as sentence-transformers does.
type Embedder struct {
	model      *textModel // nil for a static embedding
	static     *staticEmbedding
	pooling    *pooling // nil if the model pools
	steps      []*step
	dimensions int
	normalize  bool
	prompts    map[string]string
	prompt     string // name of the default
	similarity string
}

// OpenEmbedder opens the folder of an embedding model. It needs an ONNX file, the tokenizer, and
// the settings of sentence-transformers: modules.json with the folders that it names, and
// sentence_bert_config.json and config_sentence_transformers.json if the model has them.
//
// Modules may be Transformer or StaticEmbedding first, then Pooling, Dense, LayerNorm, Normalize
// and Dropout. A model that has an output sentence_embedding, and not the vectors of tokens, is
// taken to contain all but Normalize.
func OpenEmbedder(ctx context.Context, dir string, opts *EmbedderOptions) (*Embedder, error) {
	if opts == nil {
		opts = &EmbedderOptions{}
	}
	f, err := openFolder(dir, &opts.Options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &Embedder{normalize: opts.Normalize}
	if err := e.open(ctx, f, opts); err != nil {
		e.Close()
		return nil, f.wrap(err)
	}
	return e, nil
}

// Close closes the sessions of the pipeline.
func (e *Embedder) Close() error {
	if e.static != nil {
		e.static.memory.keep(0)
	}
	return closeAll(e.model, e.steps)
}

// closeAll closes the sessions of a pipeline that may not be open.
func closeAll(m *textModel, steps []*step) error {
	var err error
	if m != nil && m.session != nil {
		err = m.session.Close()
	}
	for _, s := range steps {
		if s.close != nil {
			err = errors.Join(err, s.close())
		}
	}
	return err
}

func (e *Embedder) open(ctx context.Context, f *folder, opts *EmbedderOptions) error {
	list, err := f.modules()
	if err != nil {
		return err
	}
	if e.prompts, e.prompt, e.similarity, err = f.prompts(); err != nil {
		return err
	}
	first := module{Type: "Transformer"}
	if len(list) > 0 {
		first, list = list[0], list[1:]
	}
	switch first.class() {
	case "Transformer":
		if e.model, err = f.transformer(ctx, &first, &opts.TextOptions); err != nil {
			return err
		}
		if err := e.findOutput(first.Type != "Transformer", opts.Pooling); err != nil {
			return err
		}
	case "StaticEmbedding":
		if e.static, err = f.staticEmbedding(&first, opts); err != nil {
			return err
		}
		e.dimensions = e.static.width
	default:
		return fmt.Errorf("modules.json: a first module of type %s is not supported", first.Type)
	}
	for i := range list {
		if err := e.add(ctx, f, &list[i], opts.Pooling); err != nil {
			return err
		}
	}
	if e.model != nil && len(list) > 0 && e.pooling != nil && e.pooling.modes == nil {
		return errors.New("modules.json has no module Pooling")
	}
	return nil
}

// findOutput selects the output of the model, and the pooling if it has the vectors of tokens.
// fromModules says that the modules of the folder follow.
func (e *Embedder) findOutput(fromModules bool, modes []string) error {
	m := e.model
	tokens, width := m.output("last_hidden_state", "token_embeddings"), 0
	pooled := m.output("sentence_embedding", "text_embeds")
	var ranks [4][]string
	for _, o := range m.session.Outputs() {
		if n := len(o.Shape); n < len(ranks) && o.Name != "logits" { // scores of classes or tokens
			ranks[n] = append(ranks[n], o.Name)
		}
	}
	if tokens == "" && len(ranks[3]) == 1 {
		tokens = ranks[3][0]
	}
	if pooled == "" && tokens == "" && len(ranks[2]) == 1 {
		pooled = ranks[2][0]
	}
	switch {
	case len(modes) > 0 || fromModules && tokens != "":
		if tokens == "" {
			return errors.New("pooling needs the vectors of tokens, and the model has no output last_hidden_state")
		}
		for _, mode := range modes {
			if !isPoolingMode(mode) {
				return fmt.Errorf("pooling %q is not supported", mode)
			}
		}
		e.pooling = &pooling{modes: modes}
		m.outputs = []string{tokens}
	case pooled != "":
		m.outputs = []string{pooled}
	case tokens != "":
		return errors.New("there is no modules.json, which says how the vectors of tokens become one; " +
			"set EmbedderOptions.Pooling, or --pooling of onward predict, as the documentation of the model says")
	default:
		return errors.New("the model has no output last_hidden_state or sentence_embedding")
	}
	for _, o := range m.session.Outputs() {
		if o.Name == m.outputs[0] && len(o.Shape) > 0 {
			width = int(max(o.Shape[len(o.Shape)-1].Value, 0))
		}
	}
	e.dimensions = width
	if e.pooling != nil && len(modes) > 0 {
		e.dimensions *= len(modes)
	}
	return nil
}

// add adds a module after the first.
func (e *Embedder) add(ctx context.Context, f *folder, m *module, modes []string) error {
	o, err := f.moduleConfig(m)
	if err != nil {
		return err
	}
	inside := e.model != nil && e.pooling == nil // the model contains the modules but Normalize
	class := m.class()
	if class == "Dense" || class == "Normalize" {
		if in := "sentence_embedding"; o.get("module_input_name", &in) && in != "sentence_embedding" {
			return fmt.Errorf("%s: field \"module_input_name\": %q is not supported", o.name, in)
		}
	}
	var s *step
	switch {
	case class == "Pooling" && e.pooling != nil:
		p := parsePooling(o)
		if o.err != nil {
			return o.err
		}
		if len(modes) > 0 {
			p.modes = modes
		} else {
			e.dimensions *= len(p.modes)
		}
		*e.pooling = p
		return nil
	case class == "Normalize":
		s = normalizeStep()
	case class == "Dropout" || inside && (class == "Pooling" || class == "Dense" || class == "LayerNorm"):
		return nil
	case class == "Dense":
		s, err = f.dense(ctx, m, o)
	case class == "LayerNorm":
		s, err = f.layerNorm(ctx, m, o)
	default:
		return fmt.Errorf("modules.json: module %s is not supported", m.Type)
	}
	if err != nil {
		return err
	}
	e.steps = append(e.steps, s)
	if s.in > 0 {
		if e.dimensions > 0 && e.dimensions != s.in {
			return fmt.Errorf("modules.json: module %s takes vectors of %d numbers, the one before returns %d",
				m.Path, s.in, e.dimensions)
		}
		e.dimensions = s.out
	}
	return nil
}

// prompts reads config_sentence_transformers.json.
func (f *folder) prompts() (prompts map[string]string, name, similarity string, err error) {
	o, err := f.json("config_sentence_transformers.json")
	if err != nil {
		return nil, "", "", err
	}
	o.get("prompts", &prompts)
	o.get("default_prompt_name", &name)
	similarity = "cosine"
	o.get("similarity_fn_name", &similarity)
	if _, ok := prompts[name]; !ok && name != "" {
		o.fail("default_prompt_name", "there is no prompt %q", name)
	}
	if !slices.Contains([]string{"cosine", "dot", "euclidean", "manhattan", "maxsim"}, similarity) {
		o.fail("similarity_fn_name", "%q is not supported", similarity)
	}
	return prompts, name, similarity, o.err
}

// transformer opens the module Transformer.
func (f *folder) transformer(ctx context.Context, m *module, opts *TextOptions) (*textModel, error) {
	f, err := f.sub(m.Path)
	if err != nil {
		return nil, err
	}
	var bert *object
	for _, name := range []string{"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"} {
		if bert, err = f.json("sentence_" + name + "_config.json"); err != nil || bert.fields != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	o := *opts
	lower := false
	bert.get("do_lower_case", &lower)
	if o.MaxTokens == 0 {
		bert.get("max_seq_length", &o.MaxTokens)
		text := bert.object("processing_kwargs").object("text")
		text.get("max_length", &o.MaxTokens)
		if bert.err == nil {
			bert.err = text.err
		}
	}
	if bert.err != nil {
		return nil, bert.err
	}
	o.Tokenizer.Lowercase = lower
	config, err := f.json("config.json")
	if err != nil {
		return nil, err
	}
	return openTextModel(ctx, f, config, &o)
}

// Dimensions returns the number of numbers of a vector, or 0 if the model does not say it.
func (e *Embedder) Dimensions() int { return e.dimensions }

// MaxTokens returns the number of tokens after which a text is cut off, 0 if there is no limit.
func (e *Embedder) MaxTokens() int {
	if e.model == nil {
		return 0
	}
	return e.model.maxTokens
}

// Similarity names the function that compares vectors: cosine, dot, euclidean or manhattan.
func (e *Embedder) Similarity() string { return e.similarity }

// Pooling returns how the vectors of tokens become one, see [EmbedderOptions]. It is empty if the
// model contains that step.
func (e *Embedder) Pooling() []string {
	if e.pooling == nil {
		return nil
	}
	return slices.Clone(e.pooling.modes)
}

// Prompts returns the prompts of the model by name.
func (e *Embedder) Prompts() map[string]string { return maps.Clone(e.prompts) }

// Tokenizer returns the tokenizer of the model. It cuts off long texts and adds no padding.
func (e *Embedder) Tokenizer() *tokenizer.Tokenizer {
	if e.static != nil {
		return e.static.tok
	}
	return e.model.tok
}

// Embed returns a vector for each text, with the default prompt of the model if it has one.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.EmbedWith(ctx, texts, nil)
}

// EmbedQueries returns a vector for each text, with the prompt named "query" if there is one.
func (e *Embedder) EmbedQueries(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embedAs(ctx, texts, "query")
}

// EmbedDocuments returns a vector for each text, with the first of the prompts named "document",
// "passage" and "corpus" that the model has.
func (e *Embedder) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embedAs(ctx, texts, "document", "passage", "corpus")
}

func (e *Embedder) embedAs(ctx context.Context, texts []string, names ...string) ([][]float32, error) {
	for _, name := range names {
		if _, ok := e.prompts[name]; ok {
			return e.EmbedWith(ctx, texts, &EmbedOptions{PromptName: name})
		}
	}
	return e.EmbedWith(ctx, texts, nil)
}

// EmbedWith returns a vector for each text.
func (e *Embedder) EmbedWith(ctx context.Context, texts []string, opts *EmbedOptions) ([][]float32, error) {
	if opts == nil {
		opts = &EmbedOptions{}
	}
	prompt, err := e.Prompt(opts)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return e.embed(ctx, e.texts(ctx, prepend(prompt, texts)), prompt, opts)
}

// EmbedEncodings returns a vector for each encoding of [Embedder.Tokenizer]. The text of an
// encoding has the prompt that opts selects, see [Embedder.Prompt], before it.
func (e *Embedder) EmbedEncodings(ctx context.Context, encodings []*tokenizer.Encoding,
	opts *EmbedOptions) ([][]float32, error) {
	if opts == nil {
		opts = &EmbedOptions{}
	}
	prompt, err := e.Prompt(opts)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return e.embed(ctx, encoded(encodings), prompt, opts)
}

// Prompt returns the prompt that options select, "" for none. nil stands for the default prompt.
func (e *Embedder) Prompt(opts *EmbedOptions) (string, error) {
	if opts == nil {
		opts = &EmbedOptions{}
	}
	return opts.prompt(e.prompts, e.prompt)
}

// texts returns the inputs of a call for texts.
func (e *Embedder) texts(ctx context.Context, texts []string) inputs {
	return textInputs(ctx, e.Tokenizer(), texts)
}

func (e *Embedder) embed(ctx context.Context, in inputs, prompt string, opts *EmbedOptions) ([][]float32, error) {
	if opts.Dimensions < 0 || e.dimensions > 0 && opts.Dimensions > e.dimensions {
		return nil, fmt.Errorf("embed: dimensions must be at most %d, got %d", e.dimensions, opts.Dimensions)
	}
	vectors := make([][]float32, in.n)
	err := e.pooled(ctx, in, prompt, func(index []int, x []float32) error {
		if len(x) == 0 {
			return errNoNumbers
		}
		for _, s := range e.steps {
			if s.normalizes && opts.NoNormalize {
				continue
			}
			width := len(x) / len(index)
			if s.in > 0 && s.in != width {
				return fmt.Errorf("a module takes vectors of %d numbers, got %d", s.in, width)
			}
			var err error
			if x, err = s.run(ctx, x, width); err != nil {
				return err
			}
		}
		width := len(x) / len(index)
		for r, i := range index {
			v := x[r*width:][:width:width]
			if opts.Dimensions > 0 && opts.Dimensions < width {
				v = slices.Clone(v[:opts.Dimensions])
			}
			if opts.Normalize || e.normalize {
				normalize(v)
			}
			vectors[i] = v
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return vectors, nil
}

var errNoNumbers = errors.New("the model returns vectors without numbers")

// pooled calls fn with the vectors of batches of texts, as they are before the modules after
// Pooling. Calls of fn may be concurrent.
func (e *Embedder) pooled(ctx context.Context, in inputs, prompt string,
	fn func(index []int, x []float32) error) error {
	if e.static != nil {
		return e.static.embed(ctx, in, fn)
	}
	skip := 0
	if e.pooling != nil && e.pooling.withoutPrompt && prompt != "" {
		enc, err := e.model.tok.EncodeContext(ctx, prompt)
		if err != nil {
			return err
		}
		if skip = enc.Len(); skip > 0 && enc.Special[skip-1] {
			skip--
		}
	}
	return e.model.runInputs(ctx, in, func(b *textBatch, out []*tensor.Tensor) error {
		n := len(b.index)
		if e.pooling == nil {
			x, err := floats(out[0], b.rows, -1)
			if err != nil {
				return err
			}
			return fn(b.index, x[:n*len(x)/b.rows])
		}
		x, err := floats(out[0], b.rows, b.columns, -1)
		if err != nil {
			return err
		}
		width := out[0].Shape()[2]
		if width == 0 {
			return errNoNumbers
		}
		vectors := make([]float32, 0, n*width*len(e.pooling.modes))
		for _, tokens := range b.sequences(x, width) {
			vectors = e.pooling.pool(vectors, tokens, width, skip)
		}
		return fn(b.index, vectors)
	})
}

// EmbedTokens returns the vectors of the tokens of each text, special tokens included, before
// pooling.
func (e *Embedder) EmbedTokens(ctx context.Context, texts []string, opts *EmbedOptions) ([][][]float32, error) {
	prompt, err := e.Prompt(opts)
	if err != nil {
		return nil, fmt.Errorf("embed tokens: %w", err)
	}
	return e.embedTokens(ctx, e.texts(ctx, prepend(prompt, texts)))
}

// EmbedTokensOfEncodings is EmbedTokens for encodings of [Embedder.Tokenizer].
func (e *Embedder) EmbedTokensOfEncodings(ctx context.Context,
	encodings []*tokenizer.Encoding) ([][][]float32, error) {
	return e.embedTokens(ctx, encoded(encodings))
}

func (e *Embedder) embedTokens(ctx context.Context, in inputs) ([][][]float32, error) {
	if e.pooling == nil {
		return nil, errors.New("embed tokens: the model returns one vector for each text")
	}
	vectors := make([][][]float32, in.n)
	err := e.model.runInputs(ctx, in, func(b *textBatch, out []*tensor.Tensor) error {
		x, err := floats(out[0], b.rows, b.columns, -1)
		if err != nil {
			return err
		}
		width := out[0].Shape()[2]
		for r, tokens := range b.sequences(x, width) {
			vectors[b.index[r]] = slices.Collect(slices.Chunk(tokens, max(width, 1)))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("embed tokens: %w", err)
	}
	return vectors, nil
}

// prompt returns the prompt of a call.
func (o *EmbedOptions) prompt(prompts map[string]string, name string) (string, error) {
	if o.NoPrompt || o.Prompt != "" {
		return o.Prompt, nil
	}
	if o.PromptName != "" {
		name = o.PromptName
	}
	p, ok := prompts[name]
	if !ok && name != "" {
		return "", fmt.Errorf("there is no prompt %q; the model has %q", name, sortedKeys(prompts))
	}
	return p, nil
}

// prepend returns the texts with a prompt before each.
func prepend(prompt string, texts []string) []string {
	if prompt == "" {
		return texts
	}
	list := make([]string, len(texts))
	for i, t := range texts {
		list[i] = prompt + t
	}
	return list
}
