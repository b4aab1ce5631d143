package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// chained returns the configuration of an ensemble that runs a model n times.
func chained(model string, n int) []byte {
	var b bytes.Buffer
	b.WriteString(`input { name: "x" } output { name: "y" } ensemble_scheduling {`)
	for i := range n {
		in, out := fmt.Sprint("t", i), fmt.Sprint("t", i+1)
		if i == 0 {
			in = "x"
		}
		if i == n-1 {
			out = "y"
		}
		fmt.Fprintf(&b, ` step { model_name: %q input_map { key: "x" value: %q } output_map { key: "y" value: %q } }`,
			model, in, out)
	}
	b.WriteString(" }")
	return b.Bytes()
}

// TestEnsemblesBeforeTheirModels polls ensembles whose models are added later.
func TestEnsemblesBeforeTheirModels(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"a/config.pbtxt": chained("b", 1), "b/config.pbtxt": chained("c", 2)})
	s := newServer(t, repo, &Options{KeepGoing: true})
	if err := s.Poll(t.Context()); err == nil {
		t.Error("ensembles without their model are loaded")
	}
	write(t, filepath.Join(repo, "c/1/model.onnx"), scaled(t, 3))
	if err := s.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	if w := call(s, "POST", "/v2/models/a/infer", []byte(fp32("[1,2]", "[1,1]"))); !strings.Contains(w.Body.String(),
		`"data":[9,9]`) {
		t.Errorf("%d %s, want 9", w.Code, w.Body)
	}
}

// TestNestedEnsembles loads and changes ensembles that contain a model along 10^16 paths, and
// refuses more levels than the limit.
func TestNestedEnsembles(t *testing.T) {
	files := map[string][]byte{"m/1/model.onnx": scaled(t, 1)}
	model := "m"
	for i := range maxNested {
		name := fmt.Sprintf("e%02d", i)
		files[name+"/config.pbtxt"] = chained(model, 10)
		model = name
	}
	repo := writeRepo(t, files)
	s := newServer(t, repo, nil)
	if n := len(s.models[model].versions[1].signature); n > 10_000 {
		t.Errorf("the signature has %d bytes", n)
	}
	if w := call(s, "GET", "/v2/models/"+model+"/ready", nil); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	before := s.models[model].versions[1]
	write(t, filepath.Join(repo, "m/1/model.onnx"), scaled(t, 2))
	if err := s.Poll(t.Context()); err != nil || s.models[model].versions[1] == before {
		t.Errorf("the outermost ensemble does not follow a reload: %v", err)
	}
	write(t, filepath.Join(repo, "more/config.pbtxt"), chained(model, 1))
	if err := s.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 16 levels") {
		t.Errorf("one level more: %v", err)
	}
	files = map[string][]byte{}
	for i := range 100 {
		files[fmt.Sprintf("e%02d/config.pbtxt", i)] = chained(fmt.Sprintf("e%02d", i+1), 1)
	}
	if _, err := New(t.Context(), writeRepo(t, files), quiet(nil)); err == nil ||
		!strings.Contains(err.Error(), "more than 16 levels") {
		t.Errorf("100 levels without a model: %v", err)
	}
}

// TestLoadsEndWithTheirContext checks that no further model is loaded after SIGTERM.
func TestLoadsEndWithTheirContext(t *testing.T) {
	repo := writeRepo(t, map[string][]byte{"a.onnx": scaled(t, 1), "b.onnx": scaled(t, 1)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, repo, quiet(&Options{KeepGoing: true})); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	s := newServer(t, repo, nil)
	write(t, filepath.Join(repo, "c.onnx"), scaled(t, 1))
	if err := s.Poll(ctx); !errors.Is(err, context.Canceled) || s.seen["c"] != "" {
		t.Errorf("a poll: error %v, want %v", err, context.Canceled)
	}
	if err := s.Poll(t.Context()); err != nil || s.models["c"] == nil {
		t.Errorf("the next poll does not load the model: %v", err)
	}
}

// TestEntriesThatAreNoModels polls a model that is there twice, and folders whose names are not
// those of models: they are logged once, and stop no other.
func TestEntriesThatAreNoModels(t *testing.T) {
	var log bytes.Buffer
	repo := writeRepo(t, map[string][]byte{"a.onnx": scaled(t, 1), "..a/1/model.onnx": scaled(t, 1),
		"a:b/1/model.onnx": scaled(t, 1)})
	s, err := New(t.Context(), repo, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write(t, filepath.Join(repo, "a/1/model.onnx"), scaled(t, 2))
	write(t, filepath.Join(repo, "b.onnx"), scaled(t, 3))
	for n := range 3 {
		if err := s.Poll(t.Context()); n == 0 && (err == nil || !strings.Contains(err.Error(), "is twice")) {
			t.Errorf("a model in a file and a folder: %v", err)
		}
	}
	for model, y := range map[string]string{"a": "1", "b": "3"} {
		w := call(s, "POST", "/v2/models/"+model+"/infer", []byte(fp32("[1,2]", "[1,1]")))
		if !strings.Contains(w.Body.String(), `"data":[`+y+","+y+"]") {
			t.Errorf("%s: %d %s, want %s", model, w.Code, w.Body, y)
		}
	}
	for _, entry := range []string{"..a", "a:b"} {
		if n := strings.Count(log.String(), "entry="+entry); n != 1 {
			t.Errorf("%s is logged %d times, want once: %s", entry, n, &log)
		}
	}
}
