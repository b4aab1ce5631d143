package pipeline

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/onnx"
)

// toy writes a small folder for a task, with files replaced; nil removes a file.
func toy(t *testing.T, task string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := modelfolder.Write(dir, task); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestModelVariants(t *testing.T) {
	for _, c := range []struct {
		files         string
		variant, want string // want begins with "error: " and a part of the message
	}{
		{"onnx/model.onnx onnx/model_fp16.onnx", "", "onnx/model.onnx"},
		{"onnx/model.onnx model.onnx", "", "onnx/model.onnx"},
		{"model.onnx model_fp16.onnx", "fp16", "model_fp16.onnx"},
		{"onnx/model.onnx onnx/model_q4.onnx", "onnx/model_q4.onnx", "onnx/model_q4.onnx"},
		{"onnx/model_quantized.onnx", "", "onnx/model_quantized.onnx"},
		{"onnx/model_q4.onnx onnx/model_int8.onnx", "", `error: variant "": there is no such model; the folder has onnx/model_int8.onnx`},
		{"onnx/model.onnx", "fp16", "error: the folder has onnx/model.onnx"},
		{"onnx/model.onnx", "onnx/other.onnx", "error: there is no file onnx/other.onnx"},
		{"onnx/model.onnx", "../x.onnx", "error: there is no file ../x.onnx"},
		{"onnx/modelling.onnx", "", "error: export the model to ONNX first"},
	} {
		fsys := fstest.MapFS{}
		for _, name := range strings.Fields(c.files) {
			fsys[name] = &fstest.MapFile{}
		}
		got, err := (&folder{fs: fsys}).model("model", c.variant)
		if want, ok := strings.CutPrefix(c.want, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, variant %q: %q, error %v, want %q", c.files, c.variant, got, err, want)
			}
		} else if got != c.want || err != nil {
			t.Errorf("%s, variant %q: %q, %v, want %q", c.files, c.variant, got, err, c.want)
		}
	}
}

func TestVariantAutoTakesOneThatRuns(t *testing.T) {
	dir := toy(t, "embedder", map[string]string{"onnx/model_broken.onnx": "not a model"})
	o := &EmbedderOptions{}
	o.Variant = "auto"
	e, err := OpenEmbedder(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if v, err := e.Embed(t.Context(), []string{"a cat"}); err != nil || len(v[0]) != 4 {
		t.Errorf("%v, %v", v, err)
	}
}

// TestEmbedderFolderErrors checks that errors name the file and the field.
func TestEmbedderFolderErrors(t *testing.T) {
	dense := `[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}, {"path": "2_Dense", "type": "x.Dense"}]`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"modules", map[string]string{"modules.json": "{}"}, "modules.json"},
		{"no modules", map[string]string{"modules.json": "[]"}, "modules.json: there are 0 modules"},
		{"outside", map[string]string{"modules.json": `[{"path": "../x", "type": "x.Transformer"}]`}, `path "../x" is not within the folder`},
		{"nested", map[string]string{"modules.json": `[{"path": "a/b", "type": "x.Transformer"}]`}, `path "a/b" is not the name of a folder`},
		{"first", map[string]string{"modules.json": `[{"path": "", "type": "x.CLIPModel"}]`}, "x.CLIPModel is not supported"},
		{"unknown", map[string]string{"modules.json": `[{"path": "", "type": "x.Transformer"}, {"path": "", "type": "x.LSTM"}]`}, "module x.LSTM is not supported"},
		{"no pooling", map[string]string{"modules.json": `[{"path": "", "type": "x.Transformer"}, {"path": "", "type": "x.Normalize"}]`}, "no module Pooling"},
		{"pooling", map[string]string{"1_Pooling/config.json": `{"pooling_mode": "median"}`}, `1_Pooling/config.json: field "pooling_mode": "median" is not supported`},
		{"no mode", map[string]string{"1_Pooling/config.json": `{"pooling_mode": []}`}, `field "pooling_mode": there are 0 modes, want 1 to 6`},
		{"type", map[string]string{"1_Pooling/config.json": `{"include_prompt": 3}`}, `1_Pooling/config.json: field "include_prompt"`},
		{"length", map[string]string{"sentence_bert_config.json": `{"max_seq_length": "long"}`}, `sentence_bert_config.json: field "max_seq_length"`},
		{"prompt", map[string]string{"config_sentence_transformers.json": `{"default_prompt_name": "query"}`}, `there is no prompt "query"`},
		{"similarity", map[string]string{"config_sentence_transformers.json": `{"similarity_fn_name": "magic"}`}, `"magic" is not supported`},
		{"dense", map[string]string{"modules.json": dense, "2_Dense/config.json": `{"in_features": -1, "out_features": 4}`}, "want positive sizes, got -1"},
		{"weights", map[string]string{"modules.json": dense, "2_Dense/config.json": `{"in_features": 4, "out_features": 4}`}, "2_Dense/model.safetensors"},
		{"activation", map[string]string{"modules.json": dense, "2_Dense/config.json": `{"in_features": 4, "out_features": 4, "activation_function": "os.system"}`}, `"os.system" is not supported`},
		{"config", map[string]string{"config.json": "[1]"}, "config.json: want a JSON object"},
		{"deep", map[string]string{"config.json": strings.Repeat(`{"a":`, 100000)}, "config.json"},
		{"large", map[string]string{"modules.json": strings.Repeat(" ", 17<<20)}, "modules.json has 17825792 bytes, beyond the limit of 16777216"},
		{"model", map[string]string{"onnx/model.onnx": "x"}, "onnx/model.onnx"},
	} {
		dir := toy(t, "embedder", c.files)
		_, err := OpenEmbedder(t.Context(), dir, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestWeightsOfModulesCount opens a module Dense whose file has weights that the module does not
// use.
func TestWeightsOfModulesCount(t *testing.T) {
	const size = 4 << 20
	header := fmt.Sprintf(`{"linear.weight":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]},`+
		`"x":{"dtype":"F32","shape":[%d],"data_offsets":[64,%d]}}`, size/4, size+64)
	dir := toy(t, "embedder", map[string]string{
		"modules.json": `[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
			{"path": "2_Dense", "type": "x.Dense"}]`,
		"2_Dense/config.json": `{"in_features": 4, "out_features": 4, "bias": false,
			"activation_function": "torch.nn.modules.linear.Identity"}`,
		"2_Dense/model.safetensors": string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header +
			strings.Repeat("\x00", size+64)})
	for _, total := range []int64{size * weightCost, 4 * size * weightCost} {
		budget := onward.NewMemoryBudget(total)
		e, err := OpenEmbedder(t.Context(), dir, &EmbedderOptions{TextOptions: TextOptions{Options: Options{
			Session: &onward.SessionOptions{Limits: onward.Limits{Budget: budget}}}}})
		if total == size*weightCost {
			if !errors.Is(err, onward.ErrMemoryBudget) {
				t.Errorf("a budget of %d bytes: error %v, want ErrMemoryBudget", total, err)
			}
		} else if err != nil {
			t.Fatal(err)
		} else if n := budget.Used(); n > size {
			t.Errorf("%d bytes are reserved for the open model", n)
		} else if err := e.Close(); err != nil {
			t.Error(err)
		}
		if n := budget.Used(); n != 0 {
			t.Errorf("%d bytes are reserved in the end", n)
		}
	}
}

// TestVectorsWithoutNumbers embeds by models whose vectors of tokens, or of texts, are empty.
func TestVectorsWithoutNumbers(t *testing.T) {
	for axes, modules := range map[string]string{"texts": `{"path": "", "type": "x.Normalize"}`,
		"tokens": `{"path": "1_Pooling", "type": "x.Pooling"}, {"path": "", "type": "x.Normalize"}`} {
		list := `[{"path": "", "type": "x.Transformer"}, ` + modules + `]`
		dir := toy(t, "embedder", map[string]string{"modules.json": list})
		b := onnx.NewModel("empty").Opset("", 21)
		b.Input("input_ids", onnx.Int64, "batch", "sequence").Initializer("table", []float32{}, 100, 0)
		b.Initializer("axis", []int64{1}, 1)
		b.Node("Gather", []string{"table", "input_ids"}, []string{"last_hidden_state"})
		if axes == "texts" {
			b.Node("ReduceSum", []string{"last_hidden_state", "axis"}, []string{"sentence_embedding"},
				onnx.Attrs{"keepdims": 0})
			b.Output("sentence_embedding", onnx.Float, "batch", 0)
		} else {
			b.Output("last_hidden_state", onnx.Float, "batch", "sequence", 0)
		}
		m, err := b.Model()
		if err == nil {
			err = onnx.WriteFile(filepath.Join(dir, "onnx", "model.onnx"), m, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := OpenEmbedder(t.Context(), dir, nil)
		if err == nil {
			_, err = e.Embed(t.Context(), []string{"a cat"})
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "without numbers") {
			t.Errorf("%s: error %v", axes, err)
		}
	}
}

// TestPoolingIsNotGuessed checks that a folder without modules.json needs the option Pooling.
func TestPoolingIsNotGuessed(t *testing.T) {
	dir := toy(t, "embedder", nil)
	if err := os.Remove(filepath.Join(dir, "modules.json")); err != nil {
		t.Fatal(err)
	}
	_, err := OpenEmbedder(t.Context(), dir, nil)
	if err == nil || !strings.Contains(err.Error(), "EmbedderOptions.Pooling") {
		t.Fatalf("error %v", err)
	}
	e, err := OpenEmbedder(t.Context(), dir, &EmbedderOptions{Pooling: []string{"lasttoken", "cls"}, Normalize: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	v, err := e.Embed(t.Context(), []string{"cat"})
	if err != nil {
		t.Fatal(err)
	}
	want := float32(math.Sqrt(1.0 / 8)) // [CLS] and [SEP] have equal numbers
	for _, x := range v[0] {
		if math.Abs(float64(x-want)) > 1e-6 {
			t.Fatalf("got %v, want 8 times %g", v[0], want)
		}
	}
}

// TestScoresAreNoVectors checks that the scores of classes or of tokens are not taken for vectors.
func TestScoresAreNoVectors(t *testing.T) {
	for _, task := range []string{"classifier", "tokens", "mask"} {
		for _, pooling := range [][]string{nil, {"mean"}} {
			e, err := OpenEmbedder(t.Context(), toy(t, task, nil), &EmbedderOptions{Pooling: pooling})
			if err == nil {
				e.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "the model has no output last_hidden_state") {
				t.Errorf("%s, pooling %q: error %v", task, pooling, err)
			}
		}
	}
}

// TestFilesOutsideTheFolder checks that symbolic links to files outside are not read, but for
// those of the cache of huggingface_hub.
func TestFilesOutsideTheFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege on Windows")
	}
	real := toy(t, "embedder", nil)
	link := func(dir string, target func(string) string) {
		for _, name := range []string{"onnx/model.onnx", "config.json", "modules.json", "vocab.txt",
			"tokenizer_config.json", "1_Pooling/config.json"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target(name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	outside := t.TempDir()
	link(outside, func(name string) string { return filepath.Join(real, name) })
	if _, err := OpenEmbedder(t.Context(), outside, nil); err == nil {
		t.Error("links to another folder were read")
	}
	cache := t.TempDir()
	snapshot := filepath.Join(cache, "snapshots", "abc")
	link(snapshot, func(name string) string {
		blob := strings.ReplaceAll(name, "/", "_")
		data, err := os.ReadFile(filepath.Join(real, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(cache, "blobs", blob), string(data))
		return filepath.Join(strings.Repeat("../", strings.Count(name, "/")), "../../blobs", blob)
	})
	e, err := OpenEmbedder(t.Context(), snapshot, nil)
	if err != nil {
		t.Fatalf("snapshot of the cache: %v", err)
	}
	e.Close()
}

// TestBatchesKeepOrder embeds texts of many lengths at once and one by one, by many goroutines.
func TestBatchesKeepOrder(t *testing.T) {
	o := &EmbedderOptions{}
	o.BatchTokens = 40
	e, err := OpenEmbedder(t.Context(), toy(t, "embedder", nil), o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	words := strings.Fields("a cat sits on the mat dog paris berlin food city")
	var texts []string
	for i := range 60 {
		var text []string
		for k := range i * 7 % 50 {
			text = append(text, words[(i+k)%len(words)])
		}
		texts = append(texts, strings.Join(text, " "))
	}
	var want [][]float32
	for _, s := range texts {
		v, err := e.Embed(t.Context(), []string{s})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, v[0])
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := e.Embed(t.Context(), texts)
			if err != nil {
				t.Error(err)
				return
			}
			equal := func(a, b float32) bool { return near(float64(a), float64(b), 1e-6) }
			for i := range want {
				if !slices.EqualFunc(got[i], want[i], equal) {
					t.Errorf("text %d: got %v, want %v", i, got[i], want[i])
				}
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, texts); err == nil {
		t.Error("a cancelled context must end Embed")
	}
	if v, err := e.Embed(t.Context(), nil); err != nil || len(v) != 0 {
		t.Errorf("no texts: %v, %v", v, err)
	}
}

// TestPaddingDoesNotChangeResults embeds texts of several lengths, at once and one by one, with
// models whose results change with padding: one has no attention mask, one a type that uses
// neighbors.
func TestPaddingDoesNotChangeResults(t *testing.T) {
	for _, masked := range []bool{false, true} {
		b := onnx.NewModel("mean").Opset("", 17)
		b.Input("input_ids", onnx.Int64, "batch", "sequence")
		if masked {
			b.Input("attention_mask", onnx.Int64, "batch", "sequence")
		}
		b.Node("Cast", []string{"input_ids"}, []string{"ids"}, onnx.Attrs{"to": int(onnx.Float)})
		b.Node("ReduceMean", []string{"ids"}, []string{"sentence_embedding"}, onnx.Attrs{"axes": []int64{1}})
		b.Output("sentence_embedding", onnx.Float, "batch", 1)
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		dir := toy(t, "embedder", map[string]string{"config.json": `{"model_type": "mobilebert"}`})
		os.Remove(filepath.Join(dir, "modules.json"))
		if err := onnx.WriteFile(filepath.Join(dir, "onnx", "model.onnx"), m, nil); err != nil {
			t.Fatal(err)
		}
		e, err := OpenEmbedder(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		texts := []string{"a cat", "the dog sits", "a", "food", "paris city a"}
		got, err := e.Embed(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range texts {
			if one, err := e.Embed(t.Context(), []string{s}); err != nil || !slices.Equal(got[i], one[0]) {
				t.Errorf("masked %v, %q: %v in a batch, %v alone, error %v", masked, s, got[i], one, err)
			}
		}
	}
}

// TestPositions checks how many tokens position embeddings allow, of which those of RoBERTa and its
// relatives leave out the first.
func TestPositions(t *testing.T) {
	for kind, want := range map[string]int{"bert": 130, "": 130, "roberta": 128, "xmod": 128, "luke": 128,
		"roberta-prelayernorm": 128} {
		o := &object{fields: map[string]json.RawMessage{"max_position_embeddings": []byte("130"),
			"pad_token_id": []byte("1"), "model_type": []byte(`"` + kind + `"`)}}
		if got := positions(o); got != want {
			t.Errorf("%q: %d tokens, want %d", kind, got, want)
		}
	}
}

// openStep opens a module that computes vectors from vectors.
type openStep func(context.Context, *module, *object) (*step, error)

// FuzzFolder reads the settings of a folder from arbitrary bytes.
func FuzzFolder(f *testing.F) {
	f.Add([]byte(`[{"path": "", "type": "x.Transformer"}, {"path": "1", "type": "x.Dense"}]`),
		[]byte(`{"in_features": 2, "out_features": 1, "bias": false}`), []byte(`{"id2label": {"0": "A"}, "pad_token_id": 1}`), []byte{})
	f.Add([]byte(`[{"path": "1", "type": "x.Pooling"}]`), []byte(`{"pooling_mode": ["cls", "mean"], "dimension": 3}`),
		[]byte(`{"prompts": {"a": "b"}, "default_prompt_name": "a", "max_position_embeddings": 514, "model_type": "roberta"}`),
		bytes.Repeat([]byte{8, 0, 0, 0}, 9))
	f.Fuzz(func(t *testing.T, modules, settings, config, weights []byte) {
		dir := &folder{fs: fstest.MapFS{"modules.json": {Data: modules}, "config.json": {Data: settings},
			"1/config.json": {Data: settings}, "1/model.safetensors": {Data: weights}, "c.json": {Data: config},
			"config_sentence_transformers.json": {Data: config}, "tokenizer.json": {Data: config}}}
		list, err := dir.modules()
		if err == nil {
			for i := range list {
				o, err := dir.moduleConfig(&list[i])
				if err != nil {
					continue
				}
				if p := parsePooling(o); o.err == nil {
					p.pool(nil, make([]float32, 6), 2, 1)
				}
				for _, open := range []openStep{dir.dense, dir.layerNorm} {
					if s, err := open(t.Context(), &list[i], o); err == nil {
						s.close()
					}
				}
				if s, err := dir.staticEmbedding(&list[i], &EmbedderOptions{}); err == nil {
					s.row(0)
				}
			}
		}
		dir.prompts()
		if o, err := dir.json("c.json"); err == nil {
			if names := o.labels(); len(names) > len(config) {
				t.Errorf("%d labels of %d bytes", len(names), len(config))
			}
			if n := positions(o); n < 0 {
				t.Errorf("%d positions", n)
			}
			crossEncoderFunction(o)
		}
	})
}
