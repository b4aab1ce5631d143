package serve

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/serve/inference"
)

// TestConfigurationsCount loads models whose labels and configurations take more than the memory.
func TestConfigurationsCount(t *testing.T) {
	labels := []byte(`output { name: "y" label_filename: "l" }`)
	versions := "version_policy { specific { versions: [1" + strings.Repeat(",1", 400_000) + "] } }"
	for _, c := range []struct {
		name   string
		config []byte
		labels []byte
		want   string
	}{
		{"labels", labels, bytes.Repeat([]byte("\n"), 4<<20), "the memory of all requests is"},
		{"too many labels", labels, bytes.Repeat([]byte("label\n"), 4<<20), "l has 25165824 bytes, want at most 16777216"},
		{"configuration", []byte(versions), nil, "the memory of all requests is"},
	} {
		repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1), "m/config.pbtxt": c.config,
			"m/l": c.labels})
		s, err := New(t.Context(), repo, quiet(&Options{TotalMemory: 64 << 20}))
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	s := newServer(t, writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1), "m/config.pbtxt": labels,
		"m/l": bytes.Repeat([]byte("\n"), 1<<20)}), &Options{TotalMemory: 64 << 20, AllowModelControl: true})
	held := s.memory.Used()
	if held < labelCost<<20 {
		t.Errorf("%d bytes are reserved for a million labels, want %d or more", held, labelCost<<20)
	}
	if w := call(s, "POST", "/v2/repository/models/m/unload", nil); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	s.retired.Wait()
	if n := s.memory.Used(); n > held-labelCost<<20 {
		t.Errorf("%d bytes are reserved after unloading, %d before", n, held)
	}
}

// TestConfigurationsOfFoldersCount loads a model folder with a large configuration.
func TestConfigurationsOfFoldersCount(t *testing.T) {
	s := newServer(t, folders(t, "embedder"), &Options{AllowModelControl: true})
	held := s.memory.Used()
	config := &inference.ModelConfig{}
	for range 100_000 {
		config.ModelWarmup = append(config.ModelWarmup, &inference.ModelWarmup{})
	}
	if err := s.load(t.Context(), "embedder", config); err != nil {
		t.Fatal(err)
	}
	s.retired.Wait()
	if n := s.memory.Used(); n < held+100_000*2*messageCost {
		t.Errorf("a configuration of 100,000 messages counts %d bytes, want %d or more", n-held, 100_000*2*messageCost)
	}
}

// TestDataFilesCount loads models with the data files of states and labels. A file is read into
// memory of its size, once that is reserved.
func TestDataFilesCount(t *testing.T) {
	const size = 4 << 20
	model := func(dtype onnx.DataType) []byte {
		b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
		b.Input("x", onnx.Float, "n", 1).Output("y", onnx.Float, "n", 1).Node("Identity", []string{"x"}, []string{"y"})
		b.Input("h", dtype, "n", "m").Output("k", dtype, "n", "m").Node("Identity", []string{"h"}, []string{"k"})
		return modelBytes(t, b)
	}
	state := func(dims int, kind string) string {
		return fmt.Sprintf(`max_batch_size: 1 sequence_batching { state { input_name: "h" output_name: "k" dims: %d
			initial_state { dims: %[1]d data_type: TYPE_%s data_file: "d" } } }`, dims, kind)
	}
	one := append(binary.LittleEndian.AppendUint32(nil, size), make([]byte, size)...)
	for _, c := range []struct {
		name   string
		dtype  onnx.DataType
		config string
		file   []byte
		total  int64
		most   int64 // bytes that are allocated
		want   string
	}{
		{"numbers", onnx.Float, state(size/4, "FP32"), make([]byte, size), 64 << 20, size + size/2, ""},
		{"too long", onnx.Float, state(1, "FP32"), make([]byte, size), 64 << 20, size / 2, "has 4194304 bytes"},
		{"too short", onnx.Float, state(size/2, "FP32"), make([]byte, size), 64 << 20, size / 2, "has 4194304 bytes"},
		{"no memory", onnx.Float, state(size/4, "FP32"), make([]byte, size), size, size / 2, "memory budget exceeded"},
		{"string", onnx.String, state(1, "STRING"), one, 64 << 20, 2*size + size/2, ""},
		{"string without memory", onnx.String, state(1, "STRING"), one, size + size/2, size / 2, "the memory of all requests is"},
		{"long string", onnx.String, state(1, "STRING"), make([]byte, maxLabelsSize+1), 64 << 20, size / 2, "want at most 16777216"},
		{"labels", onnx.Float, `output { name: "y" label_filename: "initial_state/d" }`, bytes.Repeat(append(make([]byte, 32<<10), '\n'),
			size>>15), 64 << 20, 2*size + size/2, ""},
		{"labels without memory", onnx.Float, `output { name: "y" label_filename: "initial_state/d" }`, make([]byte, size), size,
			size / 2, "the memory of all requests is"},
	} {
		repo := writeRepo(t, map[string][]byte{"m/1/model.onnx": model(c.dtype), "m/config.pbtxt": []byte(c.config),
			"m/initial_state/d": c.file})
		var s *Server
		var err error
		if n := allocated(func() {
			s, err = New(t.Context(), repo, quiet(&Options{TotalMemory: c.total}))
		}); n > c.most {
			t.Errorf("%s: the load allocates %d bytes, want at most %d", c.name, n, c.most)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || c.want == "" && err != nil {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if err == nil {
			if n := s.memory.Used(); n < size || n > size+size/2 {
				t.Errorf("%s: %d bytes are reserved, want about %d", c.name, n, size)
			}
			s.Close()
		}
	}
}

// TestConfigurationsOfModelsAreChecked loads models that the command line names with configurations
// that no model can have.
func TestConfigurationsOfModelsAreChecked(t *testing.T) {
	repo := folders(t, "embedder")
	s := newServer(t, "", &Options{AllowModelControl: true, Models: []Model{{Name: "m", Data: scaled(t, 1)},
		{Name: "folder", Path: filepath.Join(repo, "embedder")}}})
	for _, model := range []string{"m", "folder"} {
		for config, want := range map[string]string{
			`{"max_batch_size":8,"dynamic_batching":{"priority_levels":"4611686018427387904"}}`: "want at most 100",
			`{"max_batch_size":8,"dynamic_batching":{"default_priority_level":"2"}}`:            "default_priority_level is 2",
			`{"instance_group":[{"count":2000000000}]}`:                                         "at most 1024",
			`{"ensemble_scheduling":{}}`:                                                        "ensemble_scheduling has 0 steps",
		} {
			body := fmt.Appendf(nil, `{"parameters":{"config":%q}}`, config)
			w := call(s, "POST", "/v2/repository/models/"+model+"/load", body)
			if w.Code != 500 || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s with %s: %d %s, want 500 and %s", model, config, w.Code, w.Body, want)
			}
		}
	}
}

// TestStatisticsOfManySizes checks that statistics do not grow with each size of requests.
func TestStatisticsOfManySizes(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: identity(t, 1, "n")}}})
	v := s.models["m"].versions[1]
	for n := range 2 * maxBatchSizes {
		v.stats.record(&request{}, &job{size: n + 1, batch: n + 1, executions: 1}, nil)
	}
	if m := v.statistics(); len(m.BatchStats) != maxBatchSizes || m.ExecutionCount != 2*maxBatchSizes {
		t.Errorf("%d sizes and %d runs, want %d and %d", len(m.BatchStats), m.ExecutionCount, maxBatchSizes,
			2*maxBatchSizes)
	}
	full(t, s, func() {
		for _, path := range []string{"/v2/models/m/stats", "/v2/models/m/config"} {
			if w := call(s, "GET", path, nil); w.Code != 503 {
				t.Errorf("%s without memory: %d, want 503", path, w.Code)
			}
		}
	})
}

// full calls f while the memory of all requests is in use.
func full(t *testing.T, s *Server, f func()) {
	t.Helper()
	n := s.memory.Limit() - s.memory.Used()
	if err := s.memory.Reserve(n); err != nil {
		t.Fatal(err)
	}
	defer s.memory.Release(n)
	f()
}

// TestAbandonedSequencesCount starts sequences of a model without end.
func TestAbandonedSequencesCount(t *testing.T) {
	s := accumulatorServer(t)
	held := s.memory.Used()
	const n = 8
	for id := range n {
		x := step{id: fmt.Sprintf("\"%0120d\"", id), start: true, input: 1}
		if code, body := x.post(s); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	if got := s.memory.Used() - held; got < n*(sequenceCost+tensorCost) {
		t.Errorf("%d sequences take %d bytes, want %d or more", n, got, n*(sequenceCost+tensorCost))
	}
}
