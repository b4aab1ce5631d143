package serve

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/tokenizer"
)

// teiEndpoints returns the endpoints of Text Embeddings Inference 1.9
// (https://huggingface.github.io/text-embeddings-inference).
func teiEndpoints() []textEndpoint {
	inputs := []string{"inputs"}
	common := []string{"truncate", "truncation_direction"}
	prompts := append(slices.Clone(common), "prompt_name")
	embed := append(slices.Clone(prompts), "normalize", "dimensions")
	return []textEndpoint{
		{teiPaths("embed"), inputs, embed, teiEmbed, teiError},
		{teiPaths("embed_all"), inputs, prompts, teiEmbedAll, teiError},
		{teiPaths("embed_sparse"), inputs, prompts, teiEmbedSparse, teiError},
		{teiPaths("rerank"), []string{"query", "texts"}, append(slices.Clone(common), "raw_scores", "return_text"),
			teiRerank, teiError},
		{teiPaths("predict"), []string{"inputs:pairs"}, append(slices.Clone(common), "raw_scores"), teiPredict,
			teiError},
		{teiPaths("similarity"), []string{"inputs:sentences"}, []string{"parameters"}, teiSimilarity, teiError},
		{teiPaths("tokenize"), inputs, []string{"add_special_tokens", "prompt_name"}, teiTokenize, teiError},
		{teiPaths("decode"), []string{"ids"}, []string{"skip_special_tokens"}, teiDecode, teiError},
	}
}

// teiPaths returns the paths of an endpoint: of the only model for it, and of a model by its name.
func teiPaths(name string) []string { return []string{"/" + name, "/models/{model}/" + name} }

// embedder returns the model for vectors.
func (c *textContext) embedder() (*version, error) {
	return c.s.folder(c.model, pipeline.FeatureExtraction)
}

func teiEmbed(c *textContext, q *textRequest) (any, error) {
	v, err := c.embedder()
	if err != nil {
		return nil, err
	}
	defer v.release()
	a, err := c.run(v, q, textOptions{dimensions: q.dimensions, normalize: !q.plain})
	if err != nil {
		return nil, err
	}
	return vectorsOf(a), nil
}

func vectorsOf(a *answer) [][]float32 {
	vectors := make([][]float32, len(a.results))
	for i := range a.results {
		vectors[i] = a.results[i].vector
	}
	return vectors
}

func teiEmbedAll(c *textContext, q *textRequest) (any, error) {
	v, err := c.embedder()
	if err != nil {
		return nil, err
	}
	defer v.release()
	a, err := c.run(v, q, textOptions{tokens: true})
	if err != nil {
		return nil, err
	}
	all := make([][][]float32, len(a.results))
	for i := range a.results {
		all[i] = a.results[i].tokens
	}
	return all, nil
}

// weightJSON is a number of a sparse vector.
type weightJSON struct {
	Index int64   `json:"index"`
	Value float32 `json:"value"`
}

func teiEmbedSparse(c *textContext, q *textRequest) (any, error) {
	v, err := c.s.folder(c.model, pipeline.SparseEncoding)
	if err != nil {
		return nil, err
	}
	defer v.release()
	a, err := c.run(v, q, textOptions{})
	if err != nil {
		return nil, err
	}
	all := make([][]weightJSON, len(a.results))
	for i := range a.results {
		s := &a.results[i].sparse
		all[i] = make([]weightJSON, len(s.Indices))
		for k, index := range s.Indices {
			all[i][k] = weightJSON{index, s.Values[k]}
		}
	}
	return all, nil
}

// rankJSON is a text with its score.
type rankJSON struct {
	Index int     `json:"index"`
	Text  *string `json:"text,omitempty"`
	Score float32 `json:"score"`
}

// rank returns the texts of a request by descending score.
func (c *textContext) rank(q *textRequest) ([]rankJSON, *version, *answer, error) {
	v, err := c.s.folder(c.model, pipeline.TextRanking)
	if err != nil {
		return nil, nil, nil, err
	}
	defer v.release()
	if err := countTexts(len(q.texts)); err != nil {
		return nil, nil, nil, err
	}
	for _, text := range q.texts {
		q.inputs = append(q.inputs, textInput{text: q.query, second: text, pair: true})
	}
	a, err := c.run(v, q, textOptions{})
	if err != nil {
		return nil, nil, nil, err
	}
	list := make([]rankJSON, len(a.results))
	for i := range a.results {
		list[i] = rankJSON{Index: i, Score: a.results[i].score}
		if q.withText {
			list[i].Text = &q.texts[i]
		}
	}
	slices.SortStableFunc(list, func(a, b rankJSON) int { return cmp.Compare(b.Score, a.Score) })
	return list, v, a, nil
}

func teiRerank(c *textContext, q *textRequest) (any, error) {
	list, _, _, err := c.rank(q)
	return list, err
}

// predictionJSON is a label with its score.
type predictionJSON struct {
	Score float32 `json:"score"`
	Label string  `json:"label"`
}

// teiPredict returns a list of labels for a text or pair, and a list of such lists for several.
func teiPredict(c *textContext, q *textRequest) (any, error) {
	v, err := c.s.folder(c.model, pipeline.TextClassification, pipeline.TextRanking)
	if err != nil {
		return nil, err
	}
	defer v.release()
	a, err := c.run(v, q, textOptions{})
	if err != nil {
		return nil, err
	}
	all := make([][]predictionJSON, len(a.results))
	for i := range a.results {
		for _, l := range a.results[i].labels {
			all[i] = append(all[i], predictionJSON{l.Score, l.Name})
		}
	}
	if q.single {
		return all[0], nil
	}
	return all, nil
}

// teiSimilarity returns the cosine of the vectors of a sentence and others.
func teiSimilarity(c *textContext, q *textRequest) (any, error) {
	v, err := c.embedder()
	if err != nil {
		return nil, err
	}
	defer v.release()
	if len(q.texts) > 0 {
		q.inputs = []textInput{{text: q.query}}
	}
	for _, s := range q.texts {
		q.inputs = append(q.inputs, textInput{text: s})
	}
	a, err := c.run(v, q, textOptions{normalize: true})
	if err != nil {
		return nil, err
	}
	scores := make([]float32, 0, len(q.texts))
	for _, r := range a.results[1:] {
		sum := float32(0)
		for i, x := range r.vector {
			sum += x * a.results[0].vector[i]
		}
		scores = append(scores, sum)
	}
	return scores, nil
}

// tokenJSONCost is the memory of a tokenJSON and of its JSON of about 70 bytes without the text,
// which takes four times that (see numberCost).
const tokenJSONCost = 384

// tokenJSON is a token of a text. Start and Stop are bytes.
type tokenJSON struct {
	ID      int64  `json:"id"`
	Text    string `json:"text"`
	Special bool   `json:"special"`
	Start   *int   `json:"start"`
	Stop    *int   `json:"stop"`
}

func teiTokenize(c *textContext, q *textRequest) (any, error) {
	v, err := c.s.folder(c.model)
	if err != nil {
		return nil, err
	}
	defer v.release()
	m := v.texts
	for i := range q.inputs {
		if q.inputs[i].ids != nil {
			return nil, errorf(InvalidArgument, "input %d is of ids, want a text", i)
		}
	}
	whole := *m
	whole.tokens[0] = tokenizer.Options{MaxText: m.tokens[0].MaxText, NoPadding: true, NoTruncation: true,
		NoSpecialTokens: q.bare}
	list, err := whole.encode(c, &textCall{inputs: q.inputs, options: textOptions{prompt: q.prompt,
		noPrompt: q.prompt == ""}}, c.memory)
	if err != nil {
		return nil, err
	}
	prompt := ""
	if q.prompt != "" { // encode has checked it
		if prompt, err = m.prompt(&pipeline.EmbedOptions{PromptName: q.prompt}); err != nil {
			return nil, invalid(err)
		}
	}
	all := make([][]tokenJSON, len(list))
	for i, e := range list {
		if err := c.memory.grow(tokenJSONCost * int64(e.Len())); err != nil {
			return nil, err
		}
		text, size := prompt+q.inputs[i].text, int64(0)
		all[i] = make([]tokenJSON, e.Len())
		for k, id := range e.IDs {
			t := tokenJSON{ID: id, Text: e.Tokens[k], Special: e.Special[k]}
			if !t.Special {
				t.Start, t.Stop = &e.Offsets[k][0], &e.Offsets[k][1]
				t.Text = text[*t.Start:*t.Stop]
			}
			all[i][k] = t
			size += int64(len(t.Text)) // tokens of bytes that share a character have all of it
		}
		if err := c.memory.grow(textCost * size); err != nil {
			return nil, err
		}
		if c.Err() != nil {
			return nil, classify(context.Cause(c))
		}
	}
	return all, nil
}

func teiDecode(c *textContext, q *textRequest) (any, error) {
	v, err := c.s.folder(c.model)
	if err != nil {
		return nil, err
	}
	defer v.release()
	if len(q.ids) == 0 {
		return nil, &Error{InvalidArgument, errNoTexts}
	}
	texts := make([]string, len(q.ids))
	for i, ids := range q.ids {
		if texts[i], err = v.texts.decode(c, ids, !q.withSpecial, c.memory); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// postRoot answers requests without a path, which Hugging Face's clients send, by the task of the
// only model folder.
func (s *Server) postRoot(w http.ResponseWriter, r *http.Request) error {
	v, err := s.folder(r.PathValue("model"))
	if err != nil {
		return err
	}
	path := map[pipeline.Task]string{pipeline.FeatureExtraction: "/embed", pipeline.SparseEncoding: "/embed_sparse",
		pipeline.TextRanking: "/rerank", pipeline.TextClassification: "/predict"}[v.texts.task]
	v.release()
	for _, e := range teiEndpoints() {
		if e.paths[0] == path {
			return s.serveText(w, r, &e)
		}
	}
	return errorf(NotFound, "no such resource")
}

// getInfo describes a model folder, as Text Embeddings Inference does.
func (s *Server) getInfo(w http.ResponseWriter, r *http.Request) error {
	v, err := s.folder(r.PathValue("model"))
	if err != nil {
		return err
	}
	defer v.release()
	m := v.texts
	labels := func() any {
		names, ids := map[string]string{}, map[string]int{}
		for i, l := range m.labels {
			names[fmt.Sprint(i)], ids[l] = l, i
		}
		return map[string]any{"id2label": names, "label2id": ids}
	}
	kind := map[string]any{}
	switch m.task {
	case pipeline.TextRanking:
		kind["reranker"] = labels()
	case pipeline.TextClassification:
		kind["classifier"] = labels()
	default:
		kind["embedding"] = map[string]string{"pooling": m.pooling}
	}
	limit := m.maxTokens
	if limit == 0 {
		limit = math.MaxInt32
	}
	info := map[string]any{"model_id": v.model, "model_sha": nil, "model_dtype": "float32",
		"served_model_name": v.model, "model_type": kind, "max_concurrent_requests": s.opts.MaxRequests,
		"max_input_length": limit, "max_batch_tokens": s.opts.MaxBatchTokens, "max_batch_requests": nil,
		"max_client_batch_size": maxTexts, "auto_truncate": true, "tokenization_workers": runtime.GOMAXPROCS(0),
		"version": onward.Version(), "sha": nil, "docker_label": nil}
	return s.describe(w, &s.describing, func(*reservation) (any, error) { return info, nil })
}
