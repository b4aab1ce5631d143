package serve

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"

	"github.com/onward-ml/onward/pipeline"
)

// openAIEndpoints returns the endpoints of OpenAI (https://platform.openai.com/docs/api-reference),
// and those of Cohere and Jina for ranks.
func openAIEndpoints() []textEndpoint {
	ranks := []string{"model", "top_n", "return_documents"}
	return []textEndpoint{
		{[]string{"/v1/embeddings", "/embeddings"}, []string{"input"},
			[]string{"model", "encoding_format", "dimensions", "user", "prompt_name"}, openAIEmbed, openAIError},
		{[]string{"/v1/rerank", "/v2/rerank"}, []string{"query", "documents"}, ranks, postRerank, openAIError},
	}
}

// usageJSON counts tokens.
type usageJSON struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

type embeddingJSON struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64 of float32, little-endian
}

func openAIEmbed(c *textContext, q *textRequest) (any, error) {
	v, err := c.embedder()
	if err != nil {
		return nil, err
	}
	defer v.release()
	a, err := c.run(v, q, textOptions{dimensions: q.dimensions, normalize: true})
	if err != nil {
		return nil, err
	}
	data := make([]embeddingJSON, len(a.results))
	for i, vector := range vectorsOf(a) {
		data[i] = embeddingJSON{"embedding", i, vector}
		if q.base64 {
			b := make([]byte, 0, 4*len(vector))
			for _, x := range vector {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			data[i].Embedding = base64.StdEncoding.EncodeToString(b)
		}
	}
	return map[string]any{"object": "list", "data": data, "model": v.model, "usage": usageJSON{a.tokens, a.tokens}}, nil
}

// rankedJSON is a document with its score.
type rankedJSON struct {
	Index    int               `json:"index"`
	Score    float32           `json:"relevance_score"`
	Document map[string]string `json:"document,omitempty"`
}

// postRerank has the members of Jina's and Cohere's responses.
func postRerank(c *textContext, q *textRequest) (any, error) {
	withText := q.withText
	q.withText = true
	list, v, a, err := c.rank(q)
	if err != nil {
		return nil, err
	}
	if q.top > 0 {
		list = list[:min(q.top, len(list))]
	}
	results := make([]rankedJSON, len(list))
	for i, r := range list {
		results[i] = rankedJSON{Index: r.Index, Score: r.Score}
		if withText {
			results[i].Document = map[string]string{"text": *r.Text}
		}
	}
	return map[string]any{"id": "rerank", "object": "list", "model": v.model, "results": results,
		"usage": usageJSON{a.tokens, a.tokens}, "meta": map[string]any{"api_version": map[string]string{"version": "1"},
			"billed_units": map[string]int{"search_units": 1}}}, nil
}

// getModels lists the model folders, as OpenAI does.
func (s *Server) getModels(w http.ResponseWriter, _ *http.Request) error {
	type modelJSON struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		Owner   string `json:"owned_by"`
	}
	return s.describe(w, &s.describing, func(*reservation) (any, error) {
		list := []modelJSON{}
		for _, v := range s.all() {
			if v.is([]pipeline.Task(nil)) && (len(list) == 0 || list[len(list)-1].ID != v.model) {
				list = append(list, modelJSON{v.model, "model", v.created.Unix(), s.opts.Name})
			}
			v.release()
		}
		return map[string]any{"object": "list", "data": list}, nil
	})
}
