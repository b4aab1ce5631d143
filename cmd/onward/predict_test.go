//go:build !core

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/onnx"
)

// modelFolder writes a model folder for a task of package modelfolder.
func modelFolder(t *testing.T, task string) string {
	t.Helper()
	dir := t.TempDir()
	if err := modelfolder.Write(dir, task); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPredict answers each task of text, as lines and as JSON.
func TestPredict(t *testing.T) {
	for _, c := range []struct {
		folder string
		args   []string
		lines  string // contained in the output
		json   string
	}{
		{"embedder", []string{"a cat", "--dimensions", "1", "--normalize"}, "1\n", `{"text":"a cat","embedding":[1]}`},
		{"sparse", []string{"cats"}, "cats\n  0.9163  cat\n  1.0986  cats\n", `"weights":[{"token":"cat","index":8,"value":0.91`},
		{"multivector", []string{"cat ."}, "cat .\n0.5 0.5", `"embeddings":[[0.5,`},
		{"classifier", []string{"a good film"}, "a good film\n  0.9820  POSITIVE\n  0.0180  NEGATIVE\n", `"labels":[{"label":"POSITIVE","score":0.98`},
		{"classifier", []string{"a good film", "--top", "1"}, "0.9820  POSITIVE\n", `"score":0.98201376}]}`},
		{"reranker", []string{"--query", "a cat", "the dog", "a cat sits"}, "0.8808  a cat sits\n  0.5000  the dog\n",
			`{"text":"a cat sits","index":1,"score":0.88`},
		{"nli", []string{"--task", "zero-shot-classification", "--labels", "sports,politics", "the film about politics"},
			"politics\n", `{"text":"the film about politics","labels":[{"label":"politics"`},
		{"tokens", []string{"alice lives in paris"}, "0-5  alice  PER\n", `"entities":[{"label":"PER","score":0.9`},
		{"tokens", []string{"alice lives in paris", "--aggregation", "none"}, "0-5  alice  B-PER\n", `"label":"B-PER"`},
		{"question", []string{"--question", "where?", "bob lives in paris"}, "13-18  paris\n", `"answers":[{"score":0.`},
		{"mask", []string{"alice lives in [MASK]", "--top", "2"}, "paris", `"masks":[[{"token":"paris","id":`},
	} {
		dir := modelFolder(t, c.folder)
		out, _ := command(t, exitOK, append([]string{"predict", dir}, c.args...)...)
		if !strings.Contains(out, c.lines) {
			t.Errorf("%s %q: got\n%swant %q in it", c.folder, c.args, out, c.lines)
		}
		out, _ = command(t, exitOK, append([]string{"predict", dir, "--json"}, c.args...)...)
		if !strings.Contains(out, c.json) {
			t.Errorf("%s %q: got\n%swant %q in it", c.folder, c.args, out, c.json)
		}
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: %q is not JSON", c.folder, line)
			}
		}
	}
}

// TestPredictSound writes down what a sound file says.
func TestPredictSound(t *testing.T) {
	dir, file := modelFolder(t, "speech"), filepath.Join(t.TempDir(), "a.wav")
	if err := os.WriteFile(file, modelfolder.Speech("_aa_a bb"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, exitOK, "predict", dir, file); !strings.HasSuffix(out, "a.wav: aa b\n") {
		t.Errorf("got %q, want aa b", out)
	}
	if out, _ := command(t, exitOK, "predict", dir, file, "--json"); !strings.Contains(out, `"text":"aa b"`) {
		t.Errorf("got %q, want the text aa b", out)
	}
	if err := os.WriteFile(file, modelfolder.Tones("l_h"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, exitOK, "predict", modelFolder(t, "transducer"), file, "--json"); !strings.Contains(out,
		`"text":"low high","tokens":[{"id":1,"text":" low","start":0.04}`) {
		t.Errorf("got %q, want low high and tokens", out)
	}
	if _, errs := command(t, exitFailed, "predict", dir, filepath.Join(dir, "vocab.json")); !strings.Contains(errs,
		"vocab.json") {
		t.Errorf("got %q, want an error that names vocab.json", errs)
	}
}

// TestPredictImage classifies image files.
func TestPredictImage(t *testing.T) {
	dir, file := modelFolder(t, "colors"), filepath.Join(t.TempDir(), "a.png")
	m := image.NewNRGBA(image.Rect(0, 0, 2, 2))
	for i := range 4 {
		copy(m.Pix[4*i:], []byte{0, 255, 0, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, exitOK, "predict", dir, file); !strings.Contains(out, "a.png\n  0.9647  green\n") {
		t.Errorf("got %q, want green", out)
	}
	if out, _ := command(t, exitOK, "predict", dir, file, "--json", "--top", "1"); !strings.Contains(out,
		`a.png","labels":[{"label":"green","score":0.96`) || strings.Contains(out, `"red"`) {
		t.Errorf("got %q, want green", out)
	}
	if _, errs := command(t, exitFailed, "predict", dir, filepath.Join(dir, "config.json")); !strings.Contains(errs,
		"config.json") {
		t.Errorf("got %q, want an error that names config.json", errs)
	}
}

// TestPredictObjects finds objects in an image file with a model that has them as constants.
func TestPredictObjects(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "a.png")
	g := onnx.NewModel("final").Metadata("names", "{0: 'cat', 1: 'dog', 2: 'bird'}")
	g.Input("image", onnx.Float, 1, 3, 64, 64)
	g.Initializer("all", []float32{16, 20, 48, 36, 0.5, 2, 0, 0, 1, 1, 0.4, 0}, 1, 2, 6)
	g.Node("Identity", []string{"all"}, []string{"out"})
	g.Output("out", onnx.Float, 1, 2, 6)
	model, err := g.Model()
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.WriteFile(filepath.Join(dir, "yolo.onnx"), model, nil); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 200, 100))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, exitOK, "predict", dir, "--task", "object-detection", file, "--top", "1")
	if !strings.HasSuffix(out, "a.png\n  0.5000  50,12-150,62  bird\n") {
		t.Errorf("got %q, want a bird", out)
	}
	out, _ = command(t, exitOK, "predict", dir, "--task", "object-detection", file, "--json")
	if !strings.Contains(out, `a.png","objects":[{"label":"bird","score":0.5,"box":[50,12.5,150,62.5]},{"label":"cat"`) {
		t.Errorf("got %q, want a bird and a cat", out)
	}
}

// TestPredictVoice finds when a sound file has speech.
func TestPredictVoice(t *testing.T) {
	dir, file := modelFolder(t, "voice"), filepath.Join(t.TempDir(), "a.wav")
	if err := os.WriteFile(file, modelfolder.Tones("__lll__"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, exitOK, "predict", dir, file); !strings.Contains(out, "a.wav\n  0.3") ||
		strings.Count(out, "\n") != 2 {
		t.Errorf("got %q, want one segment from 0.3 s", out)
	}
	if out, _ := command(t, exitOK, "predict", dir, file, "--json"); !strings.Contains(out, `"segments":[{"start":0.3`) {
		t.Errorf("got %q, want a segment from 0.3 s", out)
	}
}

// TestPredictWakeWord finds when a sound file has a wake word.
func TestPredictWakeWord(t *testing.T) {
	dir, file := modelFolder(t, "wake"), filepath.Join(t.TempDir(), "a.wav")
	if err := os.WriteFile(file, modelfolder.Tones("__l__l"), 0o600); err != nil {
		t.Fatal(err)
	}
	const times = "a.wav\n  0.360-0.600 s  0.9979  loud\n  1.000-1.200 s  0.9979  loud\n"
	if out, _ := command(t, exitOK, "predict", dir, file); !strings.HasSuffix(out, times) {
		t.Errorf("got %q, want %q", out, times)
	}
	out, _ := command(t, exitOK, "predict", dir, file, "--json")
	if !strings.Contains(out, `"words":[{"word":"loud","start":0.36,"end":0.6,"score":0.99`) ||
		!strings.Contains(out, `"highest":{"loud":0.99`) {
		t.Errorf("got %q, want the word loud and its highest score", out)
	}
	if err := os.WriteFile(file, modelfolder.Tones("_"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, exitOK, "predict", dir, file, "--json"); !strings.Contains(out,
		`{"highest":{"loud":0},"sound":`) || !strings.Contains(out, `"words":[]`) {
		t.Errorf("got %q, want no words", out)
	}
}

// TestPredictInputs reads texts from a file and from the standard input, more than one call takes.
func TestPredictInputs(t *testing.T) {
	dir := modelFolder(t, "embedder")
	var texts strings.Builder
	const n = inputsPerCall + 7
	for i := range n {
		fmt.Fprintf(&texts, "a cat %d\n", i)
	}
	file := filepath.Join(t.TempDir(), "texts")
	if err := os.WriteFile(file, []byte(texts.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	var fromStdin bytes.Buffer
	root.SetOut(&fromStdin)
	root.SetErr(&fromStdin)
	root.SetIn(strings.NewReader(texts.String()))
	root.SetArgs([]string{"embed", dir, "--json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	fromFile, _ := command(t, exitOK, "embed", dir, "--json", "@"+file)
	if fromFile != fromStdin.String() || strings.Count(fromFile, "\n") != n {
		t.Errorf("%d lines from a file, %d from the standard input, want %d equal ones",
			strings.Count(fromFile, "\n"), strings.Count(fromStdin.String(), "\n"), n)
	}
}

func TestPredictErrors(t *testing.T) {
	embedder := modelFolder(t, "embedder")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"predict"}, "requires at least 1 arg"},
		{exitUsage, []string{"predict", embedder, "--task", "chat", "a"}, `--task is "chat", want one of`},
		{exitUsage, []string{"predict", embedder, "--query", "a", "b"}, "--query belongs to the task text-ranking"},
		{exitUsage, []string{"predict", modelFolder(t, "reranker"), "a"}, "the task text-ranking needs --query"},
		{exitUsage, []string{"predict", embedder, "--top", "-1", "a"}, "--top is -1"},
		{exitFailed, []string{"predict", t.TempDir(), "a"}, "neither modules.json nor architectures"},
		{exitFailed, []string{"embed", embedder, "@missing"}, "; a text that begins with @"},
		{exitFailed, []string{"embed", embedder, "a", "--dimensions", "9"}, "dimensions must be at most 4, got 9"},
		{exitFailed, []string{"embed", embedder, "a", "--prompt", "query"}, `there is no prompt "query"`},
		{exitFailed, []string{"predict", embedder, "--task", "image-to-text", "a.png"}, "model folder"},
	} {
		if _, errs := command(t, c.code, c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%q: got %s, want %q in it", c.args, errs, c.want)
		}
	}
}
