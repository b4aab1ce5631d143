//go:build map || (!core && !server)

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMapTexts adds the columns of each task to a table of texts.
func TestMapTexts(t *testing.T) {
	csv := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(csv, []byte("id,title\n1,a cat\n2,a good film about politics\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder string
		args   []string
		want   string // contained in the output
	}{
		{"embedder", []string{"--dimensions", "2", "--normalize"}, `{"id":"1","title":"a cat","embedding":[0.96`},
		{"classifier", nil, `"title":"a good film about politics","label":"POSITIVE","score":0.98201376}`},
		{"reranker", []string{"--query", "the cat"}, `{"id":"1","title":"a cat","score":0.7310586}`},
		{"nli", []string{"--task", "zero-shot-classification", "--labels", "sports,politics"}, `"label":"politics","score":`},
		{"embedder", []string{"--batch", "1", "--keep", "id", "--dimensions", "2"}, `{"id":"2","embedding":[`},
	} {
		dir := modelFolder(t, c.folder)
		out := filepath.Join(t.TempDir(), "out.jsonl")
		command(t, exitOK, append([]string{"map", dir, csv, "--text", "title", "-o", out}, c.args...)...)
		text, err := os.ReadFile(out)
		if err != nil || !strings.Contains(string(text), c.want) || strings.Count(string(text), "\n") != 2 {
			t.Errorf("%s %q: got %v\n%swant %s in it", c.folder, c.args, err, text, c.want)
		}
	}
	embedder := modelFolder(t, "embedder")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitFailed, []string{embedder, csv}, `the table has no column "text"; it has id, title`},
		{exitFailed, []string{embedder, csv, "--text", "title", "--dimensions", "9"}, "dimensions must be at most 4, got 9"},
		{exitFailed, []string{modelFolder(t, "reranker"), csv, "--text", "title"}, "the task text-ranking needs a query"},
		{exitFailed, []string{modelFolder(t, "nli"), csv, "--task", "zero-shot-classification"}, "needs labels"},
		{exitFailed, []string{modelFolder(t, "mask"), csv, "--text", "title"}, "the task fill-mask adds no columns"},
		{exitUsage, []string{"digits.onnx", csv, "--text", "title"}, "--text belongs to model folders"},
	} {
		args := append([]string{"map", "-o", filepath.Join(t.TempDir(), "out.csv")}, c.args...)
		if _, errs := command(t, c.code, args...); !strings.Contains(errs, c.want) {
			t.Errorf("%q: got %s, want %q in it", c.args, errs, c.want)
		}
	}
}
