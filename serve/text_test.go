package serve

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// folders returns a repository with a model folder for each task of package modelfolder.
func folders(t testing.TB, tasks ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, task := range tasks {
		if err := modelfolder.Write(filepath.Join(dir, task), task); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTextEndpoints answers requests of each endpoint, and refuses bad ones.
func TestTextEndpoints(t *testing.T) {
	s := newServer(t, folders(t, "embedder", "sparse", "reranker", "classifier"), nil)
	long := strings.Repeat("cat ", 100) // the model takes 64 tokens
	for _, c := range []struct {
		path, body string
		status     int
		want       string // contained in the response
	}{
		{"/v1/embeddings", `{"input":"a cat","dimensions":1}`, 200,
			`{"data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"embedder","object":"list","usage":{"prompt_tokens":4,"total_tokens":4}}`},
		{"/v1/embeddings", `{"input":["a","cat"],"model":"embedder","user":"u","encoding_format":"float"}`, 200, `"index":1`},
		{"/v1/embeddings", `{"input":[2,5,8,3],"dimensions":1,"encoding_format":"base64"}`, 200, `"embedding":"AACAPw=="`},
		{"/v1/embeddings", `{"input":[[2,5],[3]]}`, 200, `"prompt_tokens":3`},
		{"/v1/embeddings", `{"input":"` + long + `"}`, 200, `"prompt_tokens":64`},
		{"/v1/embeddings", `{"input":"a","model":"b"}`, 404, `"code":"model_not_found"`},
		{"/v1/embeddings", `{"input":"a","model":"reranker"}`, 404, `model \"reranker\" is not for [feature-extraction]`},
		{"/v1/embeddings", `{"input":[]}`, 400, `"error_type":"Empty"`},
		{"/v1/embeddings", `{"model":"embedder"}`, 400, `want the members [\"input\"]`},
		{"/v1/embeddings", `{"input":1}`, 400, `want a string or an array`},
		{"/v1/embeddings", `{"input":[1,"a"]}`, 400, `want the id of a token`},
		{"/v1/embeddings", `{"input":["a",1]}`, 400, `want a string or an array of ids`},
		{"/v1/embeddings", `{"input":[99999999]}`, 400, `token 99999999 is not in the vocabulary`},
		{"/v1/embeddings", `{"input":"a","dimensions":5}`, 400, `dimensions is 5, want at most 4`},
		{"/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, 400, `want \"float\" or \"base64\"`},
		{"/v1/embeddings", `{"input":"a","extra":1}`, 400, `unknown member \"extra\"`},
		{"/v1/embeddings", `{"input":"a","prompt_name":"query"}`, 400, `there is no prompt \"query\"`},
		{"/v1/embeddings", `{`, 400, `failed to parse`},
		{"/v1/rerank", `{"query":"a cat","documents":["the dog",{"text":"a cat sits"}],"top_n":1,"return_documents":true}`, 200,
			`"results":[{"index":1,"relevance_score":0.8807971,"document":{"text":"a cat sits"}}]`},
		{"/v2/rerank", `{"query":"a","documents":[1]}`, 400, `want a string`},
		{"/embed", `{"inputs":["a cat","a cat"],"dimensions":1}`, 200, `[[1],[1]]`},
		{"/embed", `{"inputs":"cat","normalize":false,"truncation_direction":"Left"}`, 200, `[[1.4`},
		{"/embed", `{"inputs":"` + long + `","truncate":false}`, 413, `"error_type":"Validation"`},
		{"/embed", `{"inputs":[]}`, 400, `"error_type":"Empty"`},
		{"/embed_all", `{"inputs":[[]]}`, 400, `"error_type":"Empty"`},
		{"/embed", `{"inputs":null}`, 422, `want a string or an array`},
		{"/embed", `{"inputs":"a","truncation_direction":"up"}`, 422, `want \"left\" or \"right\"`},
		{"/embed_all", `{"inputs":"a cat"}`, 200, `[[[0.1,0.1,0.1,0.1],[0,0,0,0],[4,1,0,0],[0.1,0.1,0.1,0.1]]]`},
		{"/embed_sparse", `{"inputs":"cats"}`, 200, `[[{"index":8,"value":0.91629076},{"index":9,"value":1.0986123}]]`},
		{"/models/sparse", `{"inputs":["cat"]}`, 200, `[[{"index":8,`},
		{"/models/sparse/embed_sparse", `{"inputs":"a","prompt_name":"query"}`, 422, `there is no prompt`},
		{"/models/embedder/embed_sparse", `{"inputs":"cats"}`, 424, `"error_type":"Backend"`},
		{"/rerank", `{"query":"a cat","texts":["the dog","a cat sits"],"return_text":true,"raw_scores":true}`, 200,
			`[{"index":1,"text":"a cat sits","score":2},{"index":0,"text":"the dog","score":0}]`},
		{"/rerank", `{"query":"a cat","texts":[]}`, 400, `"error_type":"Empty"`},
		{"/predict", `{"inputs":"good"}`, 422, `want one of [\"classifier\" \"reranker\"]`},
		{"/models/classifier/predict", `{"inputs":"good","raw_scores":true}`, 200,
			`[{"score":2,"label":"POSITIVE"},{"score":-2,"label":"NEGATIVE"}]`},
		{"/models/classifier/predict", `{"inputs":[["good"],["bad","good"]],"raw_scores":true}`, 200,
			`[[{"score":2,"label":"POSITIVE"},{"score":-2,"label":"NEGATIVE"}],[{"score":0,"label":"NEGATIVE"},{"score":0,"label":"POSITIVE"}]]`},
		{"/models/reranker/predict", `{"inputs":["a cat","a cat sits"],"raw_scores":true}`, 200, `[{"score":2,"label":"LABEL_0"}]`},
		{"/models/classifier/predict", `{"inputs":["a","b","c"]}`, 422, `more than 2 texts`},
		{"/models/classifier/embed", `{"inputs":"a"}`, 424, `"error_type":"Backend"`},
		{"/similarity", `{"inputs":{"source_sentence":"cat","sentences":["cat","city"]}}`, 200, `[1`},
		{"/similarity", `{"inputs":{"source_sentence":"cat","sentences":[]}}`, 400, `"error_type":"Empty"`},
		{"/models/embedder/tokenize", `{"inputs":"a cat"}`, 200,
			`{"id":8,"text":"cat","special":false,"start":2,"stop":5},{"id":3,"text":"[SEP]","special":true,"start":null,"stop":null}]]`},
		{"/models/embedder/tokenize", `{"inputs":["cat"],"add_special_tokens":false}`, 200, `[[{"id":8,`},
		{"/models/embedder/decode", `{"ids":[2,5,8,3,0]}`, 200, `["a cat"]`},
		{"/models/embedder/decode", `{"ids":[[2,5,8,3]],"skip_special_tokens":false}`, 200, `["[CLS] a cat [SEP]"]`},
		{"/tokenize", `{"inputs":"a"}`, 422, `several are served: want one of`},
		{"/models/embedder", `{"inputs":"a cat","dimensions":1}`, 200, `[[1]]`},
	} {
		w := call(s, "POST", c.path, []byte(c.body))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %.80s: %d %s\nwant %d %s", c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
	if m := get(t, s, "/v1/models")["data"].([]any); len(m) != 4 {
		t.Errorf("/v1/models: %v, want 4 models", m)
	}
	info := get(t, s, "/models/classifier/info")
	want := map[string]any{"classifier": map[string]any{"id2label": map[string]any{"0": "NEGATIVE", "1": "POSITIVE"},
		"label2id": map[string]any{"NEGATIVE": 0.0, "POSITIVE": 1.0}}}
	if fmt.Sprint(info["model_type"]) != fmt.Sprint(want) {
		t.Errorf("info: %v, want %v", info["model_type"], want)
	}
}

// TestTextTensors runs model folders by tensors of texts.
func TestTextTensors(t *testing.T) {
	s := newServer(t, folders(t, "embedder", "reranker", "classifier"), nil)
	for _, c := range []struct{ model, body, want string }{
		{"embedder", `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a cat"]}]}`,
			`"name":"embedding","datatype":"FP32","shape":[1,4]`},
		{"reranker", `{"inputs":[{"name":"query","shape":[1],"datatype":"BYTES","data":["a cat"]},
			{"name":"text","shape":[2],"datatype":"BYTES","data":["dog","cat"]}]}`, `"shape":[2],"data":[0.5,0.7310586]`},
		{"classifier", `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["good"]}]}`,
			`"datatype":"BYTES","shape":[1,2],"data":["POSITIVE","NEGATIVE"]`},
		{"embedder", `{"inputs":[{"name":"text","shape":[0],"datatype":"BYTES","data":[]}]}`, `"shape":[0,4]`},
	} {
		w := call(s, "POST", "/v2/models/"+c.model+"/infer", []byte(c.body))
		if w.Code != 200 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %s", c.model, w.Code, w.Body, c.want)
		}
	}
	if m := get(t, s, "/v2/models/embedder"); m["platform"] != folderPlatform {
		t.Errorf("metadata: %v", m)
	}
}

// TestTextBatches sends requests of different lengths and options at the same time. All answers
// are those of requests alone, and the texts run together.
func TestTextBatches(t *testing.T) {
	s := newServer(t, folders(t, "embedder"), &Options{MaxBatchTokens: 64, MaxRuns: 1})
	texts := []string{"a cat", "the dog sits on the mat", "paris", "", "good food in berlin"}
	embed := func(text string, normalize bool) ([]float32, error) {
		body, _ := json.Marshal(map[string]any{"inputs": text, "normalize": normalize})
		w := call(s, "POST", "/embed", body)
		var v [][]float32
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 {
			return nil, fmt.Errorf("%d %s", w.Code, w.Body)
		}
		return v[0], nil
	}
	want := map[string][]float32{}
	for _, text := range texts {
		for _, n := range []bool{false, true} {
			v, err := embed(text, n)
			if err != nil {
				t.Fatal(err)
			}
			want[fmt.Sprint(text, n)] = v
		}
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for k := range 20 {
				text, n := texts[(i+k)%len(texts)], i%2 == 0
				if v, err := embed(text, n); err != nil || !slices.Equal(v, want[fmt.Sprint(text, n)]) {
					t.Errorf("%q: %v, %v, want %v", text, v, err, want[fmt.Sprint(text, n)])
				}
			}
		})
	}
	wg.Wait()
	statistics := func() *inference.ModelStatistics {
		v, err := s.acquire("embedder", "")
		if err != nil {
			t.Fatal(err)
		}
		defer v.release()
		return v.statistics()
	}
	m := statistics()
	if m.InferenceCount != 650 || m.ExecutionCount > 650 || m.InferenceStats.Success.Count != 650 {
		t.Errorf("%d texts, %d runs, %d requests, want 650 texts and requests", m.InferenceCount, m.ExecutionCount,
			m.InferenceStats.Success.Count)
	}
	// A request with more tokens than a batch has several runs.
	many := slices.Repeat([]string{"a cat"}, 100)
	body, _ := json.Marshal(map[string]any{"inputs": many})
	if w := call(s, "POST", "/embed", body); w.Code != 200 || w.Header().Get("X-Compute-Tokens") != "400" {
		t.Errorf("%d %.100s, tokens %s", w.Code, w.Body, w.Header().Get("X-Compute-Tokens"))
	}
	if n := statistics(); n.ExecutionCount-m.ExecutionCount != 7 { // 16 texts of 4 tokens in 64
		t.Errorf("%d runs for 100 texts, want 7", n.ExecutionCount-m.ExecutionCount)
	}
}

// TestTextLimits bounds requests before they are decoded.
func TestTextLimits(t *testing.T) {
	repo := folders(t, "embedder")
	s := newServer(t, repo, &Options{Tokens: []string{"secret"}})
	local := newServer(t, repo, &Options{Hosts: []string{}})
	for _, path := range []string{"/embed", "/v1/embeddings", "/", "/info", "/v1/models"} {
		method := "POST"
		if path == "/info" || path == "/v1/models" {
			method = "GET"
		}
		if w := call(s, method, path, []byte("{")); w.Code != 401 {
			t.Errorf("%s without a token: %d %s, want 401 before the body is decoded", path, w.Code, w.Body)
		}
		if w := call(local, method, path, []byte("{")); w.Code != 403 {
			t.Errorf("%s with another Host: %d %s, want 403", path, w.Code, w.Body)
		}
	}
	if w := call(s, "GET", "/health", nil); w.Code != 200 {
		t.Errorf("/health: %d", w.Code)
	}
	s = newServer(t, repo, &Options{MaxBody: 100, TotalMemory: 1 << 20})
	if w := call(s, "POST", "/embed", []byte(`{"inputs":"`+strings.Repeat("a ", 100)+`"}`)); w.Code != 413 {
		t.Errorf("a large body: %d %s, want 413", w.Code, w.Body)
	}
	s = newServer(t, repo, &Options{TotalMemory: 1 << 20})
	if w := call(s, "POST", "/embed", []byte(`{"inputs":"`+strings.Repeat("a ", 20000)+`"}`)); w.Code != 413 {
		t.Errorf("a text whose tokens exceed the memory: %d %s, want 413", w.Code, w.Body)
	}
	many, _ := json.Marshal(map[string]any{"input": slices.Repeat([]string{"a"}, maxTexts+1)})
	s = newServer(t, repo, nil)
	if w := call(s, "POST", "/v1/embeddings", many); w.Code != 400 ||
		!strings.Contains(w.Body.String(), "more than 2048 texts") {
		t.Errorf("many texts: %d %s, want 400", w.Code, w.Body)
	}
	if used := s.memory.Used(); used > 1<<20 {
		t.Errorf("%d bytes are reserved after the requests", used)
	}
}

// TestTextBase64 decodes a vector as OpenAI's client does.
func TestTextBase64(t *testing.T) {
	s := newServer(t, folders(t, "embedder"), nil)
	w := call(s, "POST", "/v1/embeddings", []byte(`{"input":"paris","encoding_format":"base64"}`))
	var r struct{ Data []struct{ Embedding string } }
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(r.Data[0].Embedding)
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.FromBytes(tensor.TypeFloat32, b, 4)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, v := range tensor.MustData[float32](x) {
		sum += float64(v) * float64(v)
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("the square of the vector's length is %g, want 1", sum)
	}
}

// TestFolderModels serves a folder as a model of the options, and says why one is not served.
func TestFolderModels(t *testing.T) {
	repo := folders(t, "embedder", "mask")
	s := newServer(t, "", &Options{Models: []Model{{Name: "e", Path: filepath.Join(repo, "embedder")}}})
	if w := call(s, "POST", "/embed", []byte(`{"inputs":"a cat"}`)); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	_, err := New(t.Context(), "", quiet(&Options{Models: []Model{{Name: "m", Path: filepath.Join(repo, "mask")}}}))
	if err == nil || !strings.Contains(err.Error(), "the task fill-mask is not served") {
		t.Errorf("got %v, want an error that names the task", err)
	}
}
