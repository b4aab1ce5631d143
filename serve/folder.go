package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// folderPlatform is the platform of model folders in metadata.
const folderPlatform = "onward_pipeline"

// textModel is the pipeline of a model folder.
type textModel struct {
	task      pipeline.Task
	whole     *tokenizer.Tokenizer // cuts off nothing
	tokens    [2]tokenizer.Options // that cut off the end and the beginning of long texts
	maxTokens int                  // of a text; 0: no limit
	pooling   string               // of an embedder
	labels    []string
	dims      int // numbers of a vector or scores of a text; 0: unknown
	cost      int // bytes of the result of a text, and of its labels in a response

	server *Server
	// prompt returns the text before each text; nil for models without prompts.
	prompt func(*pipeline.EmbedOptions) (string, error)
	// run returns a result for each encoding.
	run   func(context.Context, []*tokenizer.Encoding, textOptions) ([]textResult, error)
	close func() error
}

// textOptions are what a run needs to know besides the texts. Requests with equal ones are joined.
type textOptions struct {
	tokens     bool // vectors of tokens
	prompt     string
	noPrompt   bool
	dimensions int
	normalize  bool
	raw        bool // scores without the function after the model
}

// textResult is the result for a text. Which fields are set depends on the task.
type textResult struct {
	vector []float32
	tokens [][]float32
	sparse pipeline.SparseVector
	labels []pipeline.Label // the highest score first
	score  float32
}

// size returns the number of bytes of the numbers of a result.
func (r *textResult) size() int64 {
	n := 4*len(r.vector) + 12*len(r.sparse.Indices) + int(unsafe.Sizeof(pipeline.Label{}))*len(r.labels)
	for _, v := range r.tokens {
		n += 4*len(v) + int(unsafe.Sizeof(v))
	}
	return int64(n)
}

// Close closes the pipeline.
func (m *textModel) Close() error { return m.close() }

// IsModelFolder reports whether a folder holds the settings and the tokenizer of a model, as
// Hugging Face has it. A Model's Path can be such a folder.
func IsModelFolder(dir string) bool {
	has := func(names ...string) bool {
		for _, n := range names {
			if info, err := os.Stat(filepath.Join(dir, n)); err == nil && info.Mode().IsRegular() {
				return true
			}
		}
		return false
	}
	return has("config.json", "modules.json") && has("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model",
		"spiece.model", "sentencepiece.bpe.model")
}

// openFolder opens a model folder as a version.
func (s *Server) openFolder(ctx context.Context, name string, number int64, dir string,
	cfg *inference.ModelConfig) (opened *version, err error) {
	memory, err := s.configMemory(cfg)
	defer func() {
		if opened == nil {
			memory.release()
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	opening, kept, most, err := settingsCost(dir)
	if err == nil {
		err = memory.grow(opening)
	}
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	m, err := openTextModel(ctx, dir, &s.opts, max(most, 1), func(n int64) error {
		if n < 0 {
			memory.shrink(-n)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return memory.grow(n)
	})
	if err != nil {
		return nil, err
	}
	memory.shrink(opening - kept)
	m.server = s
	v := &version{model: name, number: number, config: proto.Clone(cfg).(*inference.ModelConfig), session: m, texts: m,
		created: time.Now(), memory: memory}
	in, out := []*spec{{name: "text", dtype: tensor.TypeString, dims: []int64{-1}}}, []*spec(nil)
	scores := int64(-1)
	if m.dims > 0 {
		scores = int64(m.dims)
	}
	switch m.task {
	case pipeline.TextRanking:
		in = append(in, &spec{name: "query", dtype: tensor.TypeString, dims: []int64{1}})
		out = []*spec{{name: "score", dtype: tensor.TypeFloat32, dims: []int64{-1}}}
	case pipeline.TextClassification:
		out = []*spec{{name: "label", dtype: tensor.TypeString, dims: []int64{-1, scores}},
			{name: "score", dtype: tensor.TypeFloat32, dims: []int64{-1, scores}}}
	case pipeline.FeatureExtraction:
		out = []*spec{{name: "embedding", dtype: tensor.TypeFloat32, dims: []int64{-1, scores}}}
	}
	v.inputs, v.outputs = newSpecs(in...), newSpecs(out...)
	c := v.config
	for _, x := range in {
		c.Input = append(c.Input, &inference.ModelInput{Name: x.name, DataType: configType(x.dtype), Dims: x.dims})
	}
	for _, x := range out {
		c.Output = append(c.Output, &inference.ModelOutput{Name: x.name, DataType: configType(x.dtype), Dims: x.dims})
	}
	c.Name, c.Platform, c.Backend = name, folderPlatform, "onward"
	if len(c.InstanceGroup) == 0 {
		c.InstanceGroup = []*inference.ModelInstanceGroup{{Name: name + "_0",
			Kind: inference.ModelInstanceGroup_KIND_CPU, Count: int32(max(s.opts.Instances, 1))}}
	}
	v.policy = policyOf(c, &s.opts)
	v.policy.maxBatch = s.opts.MaxBatchTokens
	v.scheduler = newScheduler(v.policy, nil)
	v.scheduler.gate, v.scheduler.texts, v.scheduler.server = s.gate, m, s
	return v, nil
}

// Bytes of memory for a byte of a JSON file with settings, while it is read and then.
const (
	settingsOpening = 48
	settingsKept    = 8
)

// settingsCost returns about what reading the settings of a folder and its modules allocates, what
// is kept of that, and the size of the largest file. The tokenizer reserves its files itself.
func settingsCost(dir string) (opening, kept, most int64, err error) {
	for _, pattern := range []string{"*", "*/*"} {
		names, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return 0, 0, 0, err
		}
		for _, name := range names {
			base := path.Base(name)
			settings := path.Ext(base) == ".json" && !slices.Contains(tokenizerFiles, base)
			if !slices.Contains([]string{".json", ".txt", ".model", ".spm", ".tiktoken", ".jinja"}, path.Ext(base)) {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || !info.Mode().IsRegular() {
				continue // an error if it is read
			}
			size := min(info.Size(), maxTokenizer)
			if most = max(most, size); settings {
				opening, kept = opening+settingsOpening*size, kept+settingsKept*size
			}
		}
	}
	return opening, kept, most, nil
}

// tokenizerFiles are the JSON files that tokenizers read.
var tokenizerFiles = []string{"tokenizer.json", "vocab.json", "tokenizer_config.json", "special_tokens_map.json",
	"added_tokens.json"}

// maxTokenizer bounds the files of a tokenizer: its limit by default.
const maxTokenizer = 256 << 20

// openTextModel opens the pipeline of a folder for its task. Files of its tokenizer have up to most
// bytes; reserve is called for what it takes.
func openTextModel(ctx context.Context, dir string, o *Options, most int64,
	reserve func(int64) error) (*textModel, error) {
	session := o.Session
	opts := pipeline.TextOptions{Options: pipeline.Options{Session: &session}, BatchTokens: o.MaxBatchTokens,
		Tokenizer: tokenizer.Options{MaxText: int(o.MaxBody), MaxFile: most, ReserveOpening: reserve}}
	task, err := pipeline.TaskOf(dir, &opts.Options)
	if err != nil {
		return nil, err
	}
	m := &textModel{task: task}
	var tok *tokenizer.Tokenizer
	switch task {
	case pipeline.FeatureExtraction:
		tok, err = m.openEmbedder(ctx, dir, opts)
	case pipeline.SparseEncoding:
		tok, err = m.openSparse(ctx, dir, opts)
	case pipeline.TextRanking:
		tok, err = m.openReranker(ctx, dir, opts)
	case pipeline.TextClassification:
		tok, err = m.openClassifier(ctx, dir, opts)
	default:
		return nil, fmt.Errorf("model folder %s: the task %s is not served; want one of %s", dir, task,
			[]pipeline.Task{pipeline.FeatureExtraction, pipeline.SparseEncoding, pipeline.TextRanking,
				pipeline.TextClassification})
	}
	if err != nil {
		return nil, err
	}
	m.cost = 4 * max(m.dims, 1)
	for _, l := range m.labels { // as the pipeline's result, twice while lists of the response grow, in JSON
		m.cost += 3*int(unsafe.Sizeof(pipeline.Label{})) + numberCost + textCost*len(l)
	}
	whole := tokenizer.Options{MaxText: opts.Tokenizer.MaxText, NoPadding: true, NoTruncation: true}
	m.tokens = [2]tokenizer.Options{whole, whole}
	if t := tok.Truncation(); t != nil {
		m.maxTokens = t.MaxLength
		for i := range m.tokens {
			m.tokens[i].NoTruncation = false
			m.tokens[i].Truncation = &tokenizer.Truncation{MaxLength: t.MaxLength, Strategy: t.Strategy, Left: i == 1,
				NoOverflow: true}
		}
	}
	if m.whole, err = tok.WithOptions(&whole); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// resultsOf makes results of the values of a pipeline.
func resultsOf[T any](l []T, err error, result func(T) textResult) ([]textResult, error) {
	if err != nil {
		return nil, err
	}
	r := make([]textResult, len(l))
	for i, x := range l {
		r[i] = result(x)
	}
	return r, nil
}

func (m *textModel) openEmbedder(ctx context.Context, dir string,
	opts pipeline.TextOptions) (*tokenizer.Tokenizer, error) {
	e, err := pipeline.OpenEmbedder(ctx, dir, &pipeline.EmbedderOptions{TextOptions: opts})
	if err != nil {
		return nil, err
	}
	m.close, m.dims, m.prompt = e.Close, e.Dimensions(), e.Prompt
	m.pooling = strings.Join(e.Pooling(), ",")
	m.run = func(ctx context.Context, l []*tokenizer.Encoding, o textOptions) ([]textResult, error) {
		if o.tokens {
			v, err := e.EmbedTokensOfEncodings(ctx, l)
			return resultsOf(v, err, func(v [][]float32) textResult { return textResult{tokens: v} })
		}
		v, err := e.EmbedEncodings(ctx, l, o.embed())
		return resultsOf(v, err, func(v []float32) textResult { return textResult{vector: v} })
	}
	return e.Tokenizer(), nil
}

func (m *textModel) openSparse(ctx context.Context, dir string,
	opts pipeline.TextOptions) (*tokenizer.Tokenizer, error) {
	e, err := pipeline.OpenSparseEmbedder(ctx, dir, &opts)
	if err != nil {
		return nil, err
	}
	m.close, m.pooling, m.prompt = e.Close, "splade", e.Prompt
	m.dims = e.Tokenizer().VocabSize()
	m.run = func(ctx context.Context, l []*tokenizer.Encoding, o textOptions) ([]textResult, error) {
		v, err := e.EmbedEncodings(ctx, l)
		return resultsOf(v, err, func(v pipeline.SparseVector) textResult { return textResult{sparse: v} })
	}
	return e.Tokenizer(), nil
}

// embed returns the options of an embedder.
func (o *textOptions) embed() *pipeline.EmbedOptions {
	return &pipeline.EmbedOptions{PromptName: o.prompt, NoPrompt: o.noPrompt, Dimensions: o.dimensions,
		Normalize: o.normalize, NoNormalize: !o.normalize}
}

func (m *textModel) openReranker(ctx context.Context, dir string,
	opts pipeline.TextOptions) (*tokenizer.Tokenizer, error) {
	r, err := pipeline.OpenReranker(ctx, dir, &pipeline.RerankerOptions{TextOptions: opts})
	if err != nil {
		return nil, err
	}
	m.close, m.dims, m.labels = r.Close, 1, []string{r.Label()}
	m.run = func(ctx context.Context, l []*tokenizer.Encoding, o textOptions) ([]textResult, error) {
		scores, err := r.ScoreEncodings(ctx, l, o.raw)
		return resultsOf(scores, err, func(score float32) textResult {
			return textResult{score: score, labels: []pipeline.Label{{Name: m.labels[0], Score: score}}}
		})
	}
	return r.Tokenizer(), nil
}

func (m *textModel) openClassifier(ctx context.Context, dir string,
	opts pipeline.TextOptions) (*tokenizer.Tokenizer, error) {
	c, err := pipeline.OpenTextClassifier(ctx, dir, &pipeline.ClassifierOptions{TextOptions: opts})
	if err != nil {
		return nil, err
	}
	m.close, m.labels = c.Close, c.Labels()
	m.dims = len(m.labels)
	m.run = func(ctx context.Context, l []*tokenizer.Encoding, o textOptions) ([]textResult, error) {
		labels, err := c.ClassifyEncodings(ctx, l, 0, o.raw)
		return resultsOf(labels, err, func(l []pipeline.Label) textResult { return textResult{labels: l} })
	}
	return c.Tokenizer(), nil
}
