package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// TestLongPairsKeepTheMemory sends pairs of two long texts. Every window of one with every window
// of the other would take gigabytes.
func TestLongPairsKeepTheMemory(t *testing.T) {
	s := newServer(t, folders(t, "reranker"), nil)
	long := strings.Repeat("cat ", 10_000)
	for _, c := range []struct {
		truncate bool
		code     int
	}{{true, 200}, {false, 413}} {
		body := fmt.Sprintf(`{"query":%q,"texts":[%q],"truncate":%v}`, long, long, c.truncate)
		n := allocated(func() {
			if w := call(s, "POST", "/rerank", []byte(body)); w.Code != c.code {
				t.Errorf("truncate %v: %d %.200s, want %d", c.truncate, w.Code, w.Body, c.code)
			}
		})
		if limit := int64(256 * len(body)); n > limit {
			t.Errorf("truncate %v: a body of %d bytes allocates %d, want at most %d", c.truncate, len(body), n, limit)
		}
	}
}

// byteTokenizer is a tokenizer whose unknown characters in a row become tokens of bytes, each with
// the offsets of all.
func byteTokenizer() []byte {
	pieces := []any{[]any{"[UNK]", 0}, []any{"[PAD]", 0}, []any{"[CLS]", 0}, []any{"[SEP]", 0}, []any{"a", -1},
		[]any{strings.Repeat("long", 1000), -9}}
	for b := range 256 {
		pieces = append(pieces, []any{fmt.Sprintf("<0x%02X>", b), -2})
	}
	text, err := json.Marshal(map[string]any{"version": "1.0", "decoder": map[string]any{"type": "Replace",
		"pattern": map[string]string{"String": "a"}, "content": strings.Repeat("b", 10_000)},
		"model": map[string]any{"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": pieces}})
	if err != nil {
		panic(err)
	}
	return text
}

// TestTextsKeepTheMemory sends texts and ids whose tokens or responses are much larger than they
// are.
func TestTextsKeepTheMemory(t *testing.T) {
	repo := folders(t, "embedder")
	write(t, filepath.Join(repo, "bytes", "tokenizer.json"), byteTokenizer())
	for _, file := range []string{"config.json", "modules.json", "onnx/model.onnx", "1_Pooling/config.json"} {
		data, err := os.ReadFile(filepath.Join(repo, "embedder", file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(repo, "bytes", file), data)
	}
	const total = 32 << 20
	s := newServer(t, repo, &Options{TotalMemory: total})
	held := s.memory.Used()
	for _, c := range []struct{ name, path, body string }{
		{"a token for each byte", "/models/embedder/embed", `{"inputs":"` + strings.Repeat("!", 200_000) + `"}`},
		{"two texts", "/models/embedder/embed", `{"inputs":["` + strings.Repeat("!", 90_000) + `","` +
			strings.Repeat("?", 90_000) + `"]}`},
		{"tokens with the offsets of all", "/models/bytes/tokenize", `{"inputs":"` + strings.Repeat("é", 5_000) + `"}`},
		{"long tokens", "/models/bytes/decode", `{"ids":[5` + strings.Repeat(",5", 10_000) + `]}`},
		{"long replacements", "/models/bytes/decode", `{"ids":[4` + strings.Repeat(",4", 100_000) + `]}`},
	} {
		n := allocated(func() {
			if w := call(s, "POST", c.path, []byte(c.body)); w.Code < 400 || w.Code > 499 {
				t.Errorf("%s: %d %.200s, want that it is refused", c.name, w.Code, w.Body)
			}
		})
		if n > 4*total {
			t.Errorf("%s: %d bytes are allocated, with %d for all requests", c.name, n, total)
		}
		if n := s.memory.Used(); n != held {
			t.Errorf("%s: %d bytes are reserved after the request, want %d", c.name, n, held)
		}
	}
	for _, c := range []struct{ path, body string }{
		{"/models/embedder/embed", `{"inputs":"` + strings.Repeat("a cat ", 10_000) + `"}`},
		{"/models/bytes/tokenize", `{"inputs":"aéa"}`}, {"/models/bytes/decode", `{"ids":[5,5]}`},
	} {
		if w := call(s, "POST", c.path, []byte(c.body)); w.Code != 200 {
			t.Errorf("%.60s: %d %.200s", c.body, w.Code, w.Body)
		}
	}
}

// TestManyTextsAreRefusedUnread sends more texts than a request may have. They take no memory
// besides the body and, of tensors, the strings.
func TestManyTextsAreRefusedUnread(t *testing.T) {
	s := newServer(t, folders(t, "embedder", "sparse", "reranker", "classifier"), nil)
	const n = 200_000
	list := `["a"` + strings.Repeat(`,"a"`, n) + `]`
	pairs := `[["a"]` + strings.Repeat(`,["a"]`, n) + `]`
	for path, body := range map[string]string{
		"/v1/embeddings":             `{"input":` + list + `}`,
		"/rerank":                    `{"query":"a","texts":` + list + `}`,
		"/v1/rerank":                 `{"query":"a","documents":` + list + `}`,
		"/models/classifier/predict": `{"inputs":` + pairs + `}`,
		"/similarity":                `{"inputs":{"source_sentence":"a","sentences":` + list + `}}`,
		"/models/embedder/decode":    `{"ids":[[1]` + strings.Repeat(",[1]", n) + `]}`,
	} {
		k := allocated(func() {
			if w := call(s, "POST", path, []byte(body)); w.Code != 413 && w.Code != 400 {
				t.Errorf("%s: %d %.200s, want that it is refused", path, w.Code, w.Body)
			}
		})
		if limit := int64(6 * len(body)); k > limit {
			t.Errorf("%s: a body of %d bytes allocates %d, want at most %d", path, len(body), k, limit)
		}
	}
	tensor := fmt.Sprintf(`{"inputs":[{"name":"text","shape":[%d],"datatype":"BYTES","data":%s}]}`, n+1, list)
	k := allocated(func() {
		if w := call(s, "POST", "/v2/models/embedder/infer", []byte(tensor)); w.Code < 400 || w.Code > 499 {
			t.Errorf("tensor: %d %.200s, want that it is refused", w.Code, w.Body)
		}
	})
	if limit := int64(80 * len(tensor)); k > limit {
		t.Errorf("a tensor of %d bytes allocates %d, want at most %d", len(tensor), k, limit)
	}
}

// countedContext ends when it has been asked a number of times.
type countedContext struct {
	context.Context
	left int
}

func (c *countedContext) Err() error {
	if c.left--; c.left >= 0 {
		return nil
	}
	return context.Canceled
}

// TestDecodingAsksTheContext checks that decoding one long list of ids ends with its context.
func TestDecodingAsksTheContext(t *testing.T) {
	s := newServer(t, folders(t, "embedder"), nil)
	v, err := s.folder("embedder")
	if err != nil {
		t.Fatal(err)
	}
	defer v.release()
	ids := slices.Repeat([]int64{5}, 1<<20)
	for _, left := range []int{0, 5, 20, 30} {
		memory := &reservation{s: s}
		ctx := &countedContext{Context: t.Context(), left: left}
		_, err := v.texts.decode(ctx, ids, true, memory)
		if !errors.Is(err, context.Canceled) || ctx.left < -3 {
			t.Errorf("after %d questions the context ends: error %v, %d questions after it", left, err, -ctx.left-1)
		}
		memory.release()
	}
}

// TestTokenizersCount loads a folder with a vocabulary of some megabytes, which counts until the
// model is unloaded, and is refused if there is no memory for it.
func TestTokenizersCount(t *testing.T) {
	vocabulary := map[string]int{"[UNK]": 0, "[PAD]": 1, "[CLS]": 2, "[SEP]": 3}
	for i := range 100_000 {
		vocabulary[fmt.Sprint(i)] = len(vocabulary)
	}
	text, err := json.Marshal(map[string]any{"version": "1.0",
		"model": map[string]any{"type": "WordLevel", "unk_token": "[UNK]", "vocab": vocabulary}})
	if err != nil {
		t.Fatal(err)
	}
	for _, total := range []int64{16 << 20, 64 << 20} {
		repo := folders(t, "embedder")
		s := newServer(t, repo, &Options{TotalMemory: total, AllowModelControl: true})
		write(t, filepath.Join(repo, "embedder", "tokenizer.json"), text)
		held := s.memory.Used()
		err := s.load(t.Context(), "embedder", nil)
		if total == 16<<20 {
			if err == nil || !strings.Contains(err.Error(), "opening the tokenizer: the request takes") {
				t.Errorf("a tokenizer of %d bytes with a memory of %d: %v", len(text), total, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := s.memory.Used(); n < held+int64(len(text))*4 {
			t.Errorf("a tokenizer of %d bytes counts %d", len(text), n-held)
		}
		if err := s.unload(t.Context(), "embedder"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "its memory is given back", func() bool { return s.memory.Used() < held })
	}
}

// TestPromptsCount sends many short texts to a model with a long prompt.
func TestPromptsCount(t *testing.T) {
	repo := folders(t, "embedder")
	write(t, filepath.Join(repo, "embedder", "config_sentence_transformers.json"),
		[]byte(`{"prompts":{"long":"`+strings.Repeat("a cat ", 10_000)+`"},"default_prompt_name":"long"}`))
	const total = 32 << 20
	s := newServer(t, repo, &Options{TotalMemory: total})
	body := `{"inputs":["a"` + strings.Repeat(`,"a"`, 1000) + `]}`
	n := allocated(func() {
		if w := call(s, "POST", "/embed", []byte(body)); w.Code != 413 && w.Code != 429 {
			t.Errorf("%d %.200s, want that it is refused", w.Code, w.Body)
		}
	})
	if n > 2*total {
		t.Errorf("%d bytes are allocated, with %d for all requests", n, total)
	}
}

// TestVectorsOfUnknownWidthCount embeds texts as vectors of a width that the model does not state.
func TestVectorsOfUnknownWidthCount(t *testing.T) {
	repo := folders(t, "embedder")
	dir := filepath.Join(repo, "embedder")
	if err := os.Remove(filepath.Join(dir, "modules.json")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), []byte(`{"architectures":["BertModel"],"model_type":"bert"}`))
	b := onnx.NewModel("wide").Opset("", 21)
	b.Input("input_ids", onnx.Int64, "n", "s").Initializer("width", []int64{1, 1 << 16}, 2)
	b.Initializer("axes", []int64{1}, 1)
	b.Node("Cast", []string{"input_ids"}, []string{"x"}, onnx.Attrs{"to": int(onnx.Float)})
	b.Node("ReduceMean", []string{"x", "axes"}, []string{"mean"})
	b.Node("Expand", []string{"mean", "width"}, []string{"sentence_embedding"})
	b.Output("sentence_embedding", onnx.Float, "n", "width")
	m, err := b.Model()
	if err == nil {
		err = onnx.WriteFile(filepath.Join(dir, "onnx", "model.onnx"), m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	const total = 32 << 20
	s := newServer(t, repo, &Options{TotalMemory: total, MaxBatchTokens: 16})
	if w := call(s, "POST", "/embed", []byte(`{"inputs":"a"}`)); w.Code != 200 {
		t.Fatalf("%d %.200s", w.Code, w.Body)
	}
	body := `{"inputs":["a"` + strings.Repeat(`,"a"`, 1000) + `]}`
	n := allocated(func() {
		if w := call(s, "POST", "/embed", []byte(body)); w.Code != 413 && w.Code != 429 {
			t.Errorf("%d %.200s, want that it is refused", w.Code, w.Body)
		}
	})
	// Runs and pooling allocate about four times what the vectors take, and more with the race
	// detector. With all texts it is 6 GB.
	if n > 8*total {
		t.Errorf("%d bytes are allocated, with %d for all requests", n, total)
	}
}
