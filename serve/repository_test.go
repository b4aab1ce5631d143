package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{`response_cache { }`, `"response_cache" is unknown or not supported`},
		{`ensemble_scheduling { }`, "ensemble_scheduling"},
		{`optimization { cuda { graphs: true } }`, `"optimization"`},
		{`max_batch_sise: 8`, `"max_batch_sise"`},
		{`input { name: "x" reshape { shape: 1 } }`, `"reshape"`},
		{"max_batch_size: 8\n}", "line 2"},
		{`max_batch_size: 8 max_batch_size: 9`, "max_batch_size"},
		{`max_batch_size: x`, "line 1"},
		{`max_batch_size: -1`, "non-negative, got -1"},
		{`max_batch_size: 99999999999`, "99999999999"},
		{`name: "other"`, `the folder is "m"`},
		{`platform: "tensorflow_savedmodel"`, "platform"},
		{`backend: "python"`, "backend"},
		{`default_model_filename: "../1/model.onnx"`, "plain file name"},
		{`default_model_filename: "other.onnx"`, "other.onnx"},
		{`instance_group { kind: KIND_GPU }`, "KIND_GPU"},
		{`instance_group { gpus: 0 }`, `"gpus"`},
		{`instance_group { count: -1 }`, "count -1"},
		{`instance_group { count: 2000000000 }`, "at most 1024"},
		{`parameters { key: "provider" value { string_value: "abc" } }`, "unknown provider"},
		{`parameters { key: "enable_mem_arena" value { string_value: "1" } }`, "unknown parameter"},
		{`parameters { key: "intra_op_thread_count" value { string_value: "-1" } }`, "number of threads"},
		{`version_policy { latest { } }`, "at least 1"},
		{`version_policy { specific { } }`, "no versions"},
		{`version_policy { specific { versions: 7 } }`, "wants version 7, but the model has [1]"},
		{`dynamic_batching { }`, "needs a max_batch_size"},
		{`max_batch_size: 4 dynamic_batching { preferred_batch_size: 5 }`, "1 to max_batch_size 4"},
		{`max_batch_size: 4 dynamic_batching { priority_levels: 2 }`, "default_priority_level"},
		{`max_batch_size: 4 dynamic_batching { priority_levels: 2 default_priority_level: 3 }`, "want 1 to 2: priority_levels is 2"},
		{`max_batch_size: 4 dynamic_batching { default_priority_level: 100 }`, "want 1 to 1: priority_levels is 0"},
		{`max_batch_size: 4 dynamic_batching { priority_levels: 1000 }`, "at most 100"},
		{`max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }`, "at most an hour"},
		{`max_batch_size: 4 dynamic_batching { priority_queue_policy { key: 1 value { } } }`, "level 1"},
		{`input { name: "z" }`, `input "z", which the model lacks`},
		{`output { name: "z" }`, `output "z", which the model lacks`},
		{`input { name: "x" } input { name: "x" }`, "twice"},
		{`input { name: "x" data_type: TYPE_FP64 }`, "the model has TYPE_FP32"},
		{`input { name: "x" dims: [ -1, 3 ] }`, "but the model has [-1 2]"},
		{`max_batch_size: 4 input { name: "x" dims: [ -1, 2 ] }`, "but the model has [2]"},
		{`input { name: "x" dims: [ -2, 2 ] }`, "want −1 or more"},
		{`input { name: "x" optional: true }`, "no default in the model"},
		{`input { name: "x" allow_ragged_batch: true }`, "ragged batches are not supported"},
		{`input { name: "x" format: FORMAT_NHWC }`, "takes 3 dims"},
		{`output { name: "y" label_filename: "../../labels" }`, "must be in the model's folder"},
		{`output { name: "y" label_filename: "none.txt" }`, "none.txt"},
		{`model_warmup { name: "w" inputs { key: "z" value { } } }`, "which the model lacks"},
		{`model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 2] } } }`, "neither zero_data nor"},
		{`model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_INT8 dims: [1, 2] zero_data: true } } }`, "data_type TYPE_INT8"},
		{`model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 dims: [4611686018427387904, 2] zero_data: true } } }`, "x"},
		{`model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 dims: [1000000000, 2] zero_data: true } } }`, "at most"},
		{`model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 3] zero_data: true } } }`, "unexpected shape"},
	} {
		repo := writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(c.config), "m/1/model.onnx": scaled(t, 1)})
		s, err := New(t.Context(), repo, quiet(nil))
		if err == nil {
			s.Close()
			t.Errorf("%s is accepted", c.config)
		} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "'m'") {
			t.Errorf("%s: %v, want %q and the model's name", c.config, err, c.want)
		}
	}
}

func TestFixedDimensionIsNoBatch(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte("max_batch_size: 2"),
		"m/1/model.onnx": identity(t, tensor.TypeFloat32, 3, 2)})
	if _, err := New(t.Context(), repo, quiet(nil)); err == nil ||
		!strings.Contains(err.Error(), "want a symbolic dimension 0") {
		t.Errorf("error %v", err)
	}
}

func TestConfigNarrowsShapes(t *testing.T) {
	s := newServer(t, writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(`input { name: "x" dims: [ 2, 2 ] }`), "m/1/model.onnx": scaled(t, 1)}), nil)
	if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]"))); w.Code != 400 {
		t.Errorf("[1,2]: %d %s, want 400", w.Code, w.Body)
	}
	if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[2,2]", "[1,2,3,4]"))); w.Code != 200 {
		t.Errorf("[2,2]: %d %s", w.Code, w.Body)
	}
}

func TestBatchSizeOfRequests(t *testing.T) {
	s := newServer(t, writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(`max_batch_size: 2`), "m/1/model.onnx": scaled(t, 1)}), nil)
	for shape, want := range map[string]int{"[0,2]": 400, "[1,2]": 200, "[2,2]": 200, "[3,2]": 400, "[2]": 400} {
		data := map[string]string{"[0,2]": "[]", "[1,2]": "[1,2]", "[2,2]": "[1,2,3,4]", "[3,2]": "[1,2,3,4,5,6]",
			"[2]": "[1,2]"}[shape]
		if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32(shape, data))); w.Code != want {
			t.Errorf("%s: %d %s, want %d", shape, w.Code, w.Body, want)
		}
	}
}

func TestVersionPolicies(t *testing.T) {
	for policy, want := range map[string]string{``: "[10]", `version_policy { latest { num_versions: 2 } }`: "[9 10]", `version_policy { latest { num_versions: 4000000000 } }`: "[1 9 10]",
		`version_policy { all { } }`: "[1 9 10]", `version_policy { specific { versions: [9, 1, 9] } }`: "[1 9]"} {
		s := newServer(t,
			writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(policy), "m/1/model.onnx": scaled(t, 1),
				"m/9/model.onnx": scaled(t, 9), "m/10/model.onnx": scaled(t, 10)}), nil)
		if got := fmt.Sprint(s.served("m")); got != want {
			t.Errorf("%s: versions %s, want %s", policy, got, want)
		}
	}
}

func TestWarmupRunsBeforeRequests(t *testing.T) {
	const config = `max_batch_size: 4 model_warmup { name: "w" batch_size: 3 count: 2 inputs { key: "x" value { data_type: TYPE_FP32 dims: 2 random_data: true } } }`
	s := newServer(t, writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(config), "m/1/model.onnx": scaled(t, 1)}),
		nil)
	stats := get(t, s, "/v2/models/m/stats")["model_stats"].([]any)[0].(map[string]any)
	if stats["inference_count"] != 0.0 {
		t.Errorf("the warm-up counts as %v inferences, want 0", stats["inference_count"])
	}
}

func TestOptionalInput(t *testing.T) {
	b := onnx.NewModel("optional").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, 2).Input("f", onnx.Float, 1).Output("y", onnx.Float, 2).Initializer("f", []float32{3})
	b.Node("Mul", []string{"x", "f"}, []string{"y"})
	s := one(t, modelBytes(t, b))
	x := `{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}`
	for inputs, want := range map[string]string{x: "[3,6]", x + `,{"name":"f","shape":[1],"datatype":"FP32","data":[5]}`: "[5,10]"} {
		if w := call(s, "POST", "/v2/models/m/infer", []byte(`{"inputs":[`+inputs+`]}`)); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s, want %s", inputs, w.Body, want)
		}
	}
}

func TestBrokenModels(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"good/1/model.onnx": scaled(t, 1), "empty/readme": nil,
		"garbage/1/model.onnx": []byte("garbage"), ".hidden/1/model.onnx": nil, "file": nil})
	_, err := New(t.Context(), repo, quiet(nil))
	if err == nil || !strings.Contains(err.Error(), "'empty'") || !strings.Contains(err.Error(), "'garbage'") ||
		strings.Contains(err.Error(), "hidden") {
		t.Errorf("error %v, want one that names both broken models", err)
	}
	s := newServer(t, repo, &Options{KeepGoing: true})
	if s.Ready() {
		t.Error("the server is ready with broken models")
	}
	w := call(s, "POST", "/v2/repository/index", nil)
	for _, want := range []string{`{"name":"good","state":"READY","version":"1"}`, `"name":"garbage","reason":`, `"state":"UNAVAILABLE","version":"1"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("index %s lacks %s", w.Body, want)
		}
	}
	if w := call(s, "POST", "/v2/repository/index", []byte(`{"ready":true}`)); w.Body.String() != `[{"name":"good","state":"READY","version":"1"}]` {
		t.Errorf("index of ready models: %s", w.Body)
	}
	if w := call(s, "POST", "/v2/models/garbage/infer", []byte(`{}`)); w.Code != 503 {
		t.Errorf("request for a broken model: %d %s, want 503", w.Code, w.Body)
	}
	if _, err := New(t.Context(), filepath.Join(repo, "none"), quiet(nil)); err == nil {
		t.Error("a repository that does not exist is accepted")
	}
}

func TestModelControl(t *testing.T) {
	files := map[string][]byte{"m/1/model.onnx": scaled(t, 1)}
	if w := call(newServer(t, writeRepo(t, files), nil), "POST", "/v2/repository/models/m/unload",
		nil); w.Code != 503 || !strings.Contains(w.Body.String(), "not allowed") {
		t.Errorf("without model control: %d %s, want 503", w.Code, w.Body)
	}
	repo := writeRepo(t, files)
	s := newServer(t, repo, &Options{AllowModelControl: true})
	factor := func() string {
		w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]")))
		if _, data, ok := strings.Cut(w.Body.String(), `"data":`); ok {
			return strings.TrimSuffix(data, "}]}")
		}
		return fmt.Sprint(w.Code)
	}
	control := func(what, body string) {
		t.Helper()
		if w := call(s, "POST", "/v2/repository/models/m/"+what, []byte(body)); w.Code != 200 {
			t.Fatalf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	check := func(what, want string) {
		t.Helper()
		if got := factor(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	check("at first", "[1,2]")
	control("unload", `{"parameters":{"unload_dependents":true}}`)
	check("after the unload", "503")
	if !s.Ready() {
		t.Error("the server is not ready without a model that a client has unloaded")
	}
	if err := s.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	check("after a poll", "503")
	write(t, filepath.Join(repo, "m/1/model.onnx"), scaled(t, 2))
	control("load", "")
	check("after the load", "[2,4]")
	write(t, filepath.Join(repo, "m/2/model.onnx"), scaled(t, 5))
	control("load", `{"parameters":{"config":"{\"version_policy\":{\"specific\":{\"versions\":[1]}}}"}}`)
	check("after a load with version 1", "[2,4]")
	control("load", "")
	check("after a load of the latest", "[5,10]")
	for body, want := range map[string]string{`{"parameters":{"config":"{\"abc\":1}"}}`: "abc", `{"parameters":{"config":1}}`: "not supported", `[`: "JSON"} {
		if w := call(s, "POST", "/v2/repository/models/m/load", []byte(body)); w.Code != 400 ||
			!strings.Contains(w.Body.String(), want) {
			t.Errorf("load with %s: %d %s, want 400 and %q", body, w.Code, w.Body, want)
		}
	}
	// Triton answers with this status, too, if a file of a request cannot be stored.
	if w := call(s, "POST", "/v2/repository/models/m/load",
		[]byte(`{"parameters":{"file:1/model.onnx":"x"}}`)); w.Code != 500 || !strings.Contains(w.Body.String(), "files in a request are not supported") {
		t.Errorf("load with a file: %d %s", w.Code, w.Body)
	}
	check("after loads that fail", "[5,10]")
}

// TestReloadLosesNoRequest replaces a model while requests run over both protocols. All requests
// succeed, with the results of one of the models.
func TestReloadLosesNoRequest(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)})
	s := newServer(t, repo, nil)
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for ctx.Err() == nil {
				w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,1]")))
				if w.Code != 200 || !strings.Contains(w.Body.String(), `"data":[1,1]`) && !strings.Contains(w.Body.String(), `"data":[10,10]`) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	rpc := dial(t, s)
	for range 4 {
		wait.Go(func() {
			for ctx.Err() == nil {
				r, err := rpc.ModelInfer(t.Context(),
					message("m", "FP32", []int64{1, 2}, "\x00\x00\x80\x3f\x00\x00\x80\x3f"))
				if err != nil {
					t.Error(err)
				} else if y := r.RawOutputContents[0]; string(y) != "\x00\x00\x80\x3f\x00\x00\x80\x3f" &&
					string(y) != "\x00\x00\x20\x41\x00\x00\x20\x41" {
					t.Errorf("outputs % x, want two of 1 or of 10", y)
				}
			}
		})
	}
	path := filepath.Join(repo, "m/1/model.onnx")
	for i := range 20 {
		write(t, path, scaled(t, []float32{10, 1}[i%2])) // files of different sizes or times
		if err := s.Poll(ctx); err != nil {
			t.Error(err)
		}
	}
	stop()
	wait.Wait()
}

func TestPollKeepsTheOldModelIfTheNewOneIsBroken(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)})
	s := newServer(t, repo, nil)
	answer := func() string {
		return call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,1]"))).Body.String()
	}
	write(t, filepath.Join(repo, "m/1/model.onnx"), []byte("garbage"))
	if err := s.Poll(t.Context()); err == nil {
		t.Error("a broken model is not reported")
	}
	if err := s.Poll(t.Context()); err != nil {
		t.Errorf("a second poll without changes reports %v", err)
	}
	if got := answer(); !strings.Contains(got, `"data":[1,1]`) {
		t.Errorf("after a broken file: %s", got)
	}
	write(t, filepath.Join(repo, "m/config.pbtxt"), []byte("garbage"))
	if err := s.Poll(t.Context()); err == nil {
		t.Error("a broken configuration is not reported")
	}
	if got := answer(); !strings.Contains(got, `"data":[1,1]`) {
		t.Errorf("after a broken configuration: %s", got)
	}
	write(t, filepath.Join(repo, "m/config.pbtxt"), nil)
	write(t, filepath.Join(repo, "m/1/model.onnx"), scaled(t, 7))
	write(t, filepath.Join(repo, "new/1/model.onnx"), scaled(t, 8))
	if err := s.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	if got := answer(); !strings.Contains(got, `"data":[7,7]`) {
		t.Errorf("after the repair: %s", got)
	}
	if w := call(s, "GET", "/v2/models/new/ready", nil); w.Code != 200 {
		t.Errorf("the new model: %d", w.Code)
	}
	if err := os.RemoveAll(filepath.Join(repo, "m")); err != nil {
		t.Fatal(err)
	}
	if err := s.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	if w := call(s, "GET", "/v2/models/m", nil); w.Code != 404 || !s.Ready() {
		t.Errorf("the removed model: %d, want 404", w.Code)
	}
}

func TestBatchingByDefault(t *testing.T) {
	s := newServer(t, "",
		&Options{MaxBatchSize: 16,
			Models: []Model{{Name: "batched", Data: scaled(t, 1)}, {Name: "fixed", Data: identity(t, tensor.TypeFloat32, 3, 2)}}})
	for model, want := range map[string]float64{"batched": 16, "fixed": 0} {
		c := get(t, s, "/v2/models/"+model+"/config")
		if _, ok := c["dynamic_batching"]; c["max_batch_size"] != want || ok != (want > 0) {
			t.Errorf("%s: %v", model, c)
		}
	}
}

func TestOptionErrors(t *testing.T) {
	data := scaled(t, 1)
	for want, o := range map[string]*Options{
		"must not contain a path": {Models: []Model{{Name: "a/b", Data: data}}},
		"two models":              {Models: []Model{{Name: "a", Data: data}, {Name: "a", Data: data}}},
		"either Path or Data":     {Models: []Model{{Name: "a"}}},
		"empty token":             {Tokens: []string{""}},
		"MaxBody":                 {MaxBody: -1},
		"both in the repository":  {Models: []Model{{Name: "m", Data: data}}},
	} {
		if _, err := New(t.Context(), writeRepo(t, map[string][]byte{"m/1/model.onnx": data}), quiet(o)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestScalarForABatchedModelOfUnknownRank checks that a scalar, which has no batch dimension, is
// an error of the request.
func TestScalarForABatchedModelOfUnknownRank(t *testing.T) {
	b := onnx.NewModel("any").Opset("", 17).IRVersion(8)
	any := &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}}
	b.InputType("x", any).OutputType("y", any)
	b.Node("Identity", []string{"x"}, []string{"y"})
	s := newServer(t,
		writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte("max_batch_size: 4"),
			"m/1/model.onnx": modelBytes(t, b)}), nil)
	refused(t, s, `{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[1]}]}`, 400, "batch size 0")
}

// TestPollingSparseExternalData checks that a model whose external data is larger than any memory
// fails to load, and that the others are served.
func TestPollingSparseExternalData(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)})
	s := newServer(t, repo, nil)
	b := onnx.NewModel("huge").Opset("", 21)
	b.Initializer("w", &onnx.Tensor{DataType: onnx.Float, Dims: []int64{1 << 38}, DataLocation: onnx.LocationExternal,
		ExternalData: []onnx.StringStringEntry{{Key: "location", Value: "w.bin"}}})
	b.Node("Identity", []string{"w"}, []string{"y"})
	b.Output("y", onnx.Float, nil)
	dir := filepath.Join(repo, "huge", "1")
	write(t, filepath.Join(dir, "model.onnx"), modelBytes(t, b))
	write(t, filepath.Join(dir, "w.bin"), nil)
	if err := os.Truncate(filepath.Join(dir, "w.bin"), 1<<40); err != nil {
		t.Skipf("the file system has no sparse files: %v", err)
	}
	held := s.memory.Used()
	s.Poll(t.Context())
	if state := fmt.Sprint(s.index(false)); !strings.Contains(state, "memory limit exceeded") {
		t.Errorf("the index is %s, want a model with the reason that it exceeds the memory limit", state)
	}
	if n := s.memory.Used(); n != held {
		t.Errorf("%d bytes are reserved after the failed load, want %d", n, held)
	}
	if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]"))); w.Code != 200 {
		t.Errorf("the other model: %d %s", w.Code, w.Body)
	}
}

// TestFlatModels serves models without version folders, and finds a changed one.
func TestFlatModels(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"a.onnx": scaled(t, 2), "b/model.onnx": scaled(t, 3),
		"b/config.pbtxt": []byte("max_batch_size: 4"), "c/1/model.onnx": scaled(t, 4), "c/model.onnx": scaled(t, 5),
		"notes.txt": nil, ".hidden.onnx": nil})
	s := newServer(t, repo, nil)
	if !s.Ready() {
		t.Error("the server is not ready")
	}
	want := func(model, y string) {
		t.Helper()
		w := call(s, "POST", "/v2/models/"+model+"/infer", []byte(fp32("[1,2]", "[1,1]")))
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"data":[`+y+","+y+"]") {
			t.Errorf("%s: %d %s, want %s", model, w.Code, w.Body, y)
		}
	}
	want("a", "2")
	want("b", "3")
	want("c", "4") // a version is preferred
	write(t, filepath.Join(repo, "a.onnx"), scaled(t, 70))
	write(t, filepath.Join(repo, "d.onnx"), scaled(t, 8))
	if err := s.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("a", "70")
	want("d", "8")
	broken := writeRepo(t, map[string][]byte{"a.onnx": []byte("garbage")})
	if _, err := New(t.Context(), broken, quiet(nil)); err == nil || !strings.Contains(err.Error(), "'a'") {
		t.Errorf("a broken file: %v", err)
	}
	twice := writeRepo(t, map[string][]byte{"a.onnx": scaled(t, 1), "a/1/model.onnx": scaled(t, 1)})
	if _, err := New(t.Context(), twice, quiet(nil)); err == nil ||
		!strings.Contains(err.Error(), "is twice in the repository") {
		t.Errorf("a model in a file and a folder: %v", err)
	}
}

// TestOutputsThatAreLeftOutAreLogged serves a classifier whose second output is a sequence of maps.
func TestOutputsThatAreLeftOutAreLogged(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).Opset("ai.onnx.ml", 1)
	b.Input("x", onnx.Float, 1, 2).Output("y", onnx.Float, 1, 2)
	b.Node("Identity", []string{"x"}, []string{"y"})
	b.Node("ZipMap", []string{"x"}, []string{"probabilities"},
		onnx.Attrs{"classlabels_int64s": []int64{0, 1}}).Domain("ai.onnx.ml")
	m := b.Must()
	value := tensor.TensorType(tensor.TypeFloat32)
	item := tensor.Type{Kind: tensor.KindMap, Elem: tensor.TypeInt64, Of: &value}
	m.Graph.Outputs = append(m.Graph.Outputs,
		&onnx.ValueInfo{Name: "probabilities", Type: onnx.NewType(tensor.Type{Kind: tensor.KindSequence, Of: &item})})
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s, err := New(t.Context(), "", &Options{Models: []Model{{Name: "m", Data: data}},
		Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if log := out.String(); !strings.Contains(log, "left out of responses") ||
		!strings.Contains(log, "output=probabilities") || strings.Contains(log, "output=y") {
		t.Errorf("log: %s", log)
	}
}

// TestCloseEndsLoads checks that Poll with a context that is done, and Close, do not wait for a
// load that takes long.
func TestCloseEndsLoads(t *testing.T) {
	s := newServer(t, writeRepo(t, map[string][]byte{"m/1/model.onnx": identity(t, tensor.TypeFloat32, "n")}),
		&Options{AllowModelControl: true})
	var config strings.Builder
	for i := range 100 {
		fmt.Fprintf(&config, `model_warmup { name: "%d" count: 1000 inputs { key: "x"
			value { data_type: TYPE_FP32 dims: 1000000 zero_data: true } } } `, i)
	}
	override, err := parseConfig([]byte(config.String()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(override)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		memory := &reservation{s: s}
		defer memory.release()
		failed <- s.control(t.Context(), "m", map[string]any{"config": string(text)}, true, memory)
	}()
	waitFor(t, "the load begins", func() bool { return len(s.loading) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Poll(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("polling during the load ends with %v, want a cancellation", err)
	}
	select {
	case err := <-failed:
		t.Errorf("polling waited for the load, which ended with %v", err)
	default:
	}
	s.Close()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the load ends with %v, want a cancellation", err)
	}
}

// TestPollingOddFiles polls folders in which files are named pipes, folders, devices, or links in
// loops. They are errors of their models, and the other models are served.
func TestPollingOddFiles(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)})
	s := newServer(t, repo, nil)
	labels := []byte(`output { name: "y" label_filename: "labels.txt" }`)
	for _, c := range []struct {
		name, file, want string
		config           []byte
	}{
		{"config", "config.pbtxt", "config.pbtxt is not a regular file", nil},
		{"labels", "labels.txt", "labels.txt is not a regular file", labels},
		{"model", "1/model.onnx", "not a regular file", nil},
	} {
		for kind, create := range map[string]func(path string) error{
			"pipe": makePipe, "folder": func(p string) error { return os.Mkdir(p, 0o777) },
			"device": func(p string) error { return os.Symlink("/dev/zero", p) },
			"loop":   func(p string) error { return os.Symlink(filepath.Base(p), p) },
		} {
			name, want := c.name+"-"+kind, c.want
			if kind == "loop" || kind+c.name == "devicelabels" || kind+c.name == "foldermodel" {
				want = "" // another reason
			}
			dir := filepath.Join(repo, name)
			for file, data := range map[string][]byte{"1/model.onnx": scaled(t, 1), "config.pbtxt": c.config} {
				if file != c.file {
					write(t, filepath.Join(dir, file), data)
				}
			}
			err := os.MkdirAll(filepath.Join(dir, "1"), 0o777)
			if err = errors.Join(err, create(filepath.Join(dir, c.file))); err != nil {
				t.Skipf("the file system has no such files: %v", err)
			}
			s.Poll(t.Context())
			found := false
			index, err := s.index(false)
			for _, m := range index {
				found = found || m.Name == name && m.State == "UNAVAILABLE" && strings.Contains(m.Reason, want)
			}
			if err != nil || !found {
				t.Errorf("%s: the index is %v, %v; want that it cannot be loaded: %q", name, index, err, want)
			}
		}
	}
	long := strings.Repeat("n", 200)
	for i := range 3 {
		if err := os.Symlink(".", filepath.Join(repo, "m", fmt.Sprint(long, i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Poll(t.Context()); err != nil || len(s.seen["m"]) > 1000 {
		t.Errorf("%v; %d bytes are kept of the names of a folder", err, len(s.seen["m"]))
	}
	if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]"))); w.Code != 200 {
		t.Errorf("the other model: %d %s", w.Code, w.Body)
	}
}
