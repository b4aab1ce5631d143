package main

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
)

func TestSearch(t *testing.T) {
	embedder, reranker := t.TempDir(), t.TempDir()
	for dir, task := range map[string]string{embedder: "embedder", reranker: "reranker"} {
		if err := modelfolder.Write(dir, task); err != nil {
			t.Fatal(err)
		}
	}
	lines := []string{"good food", "the city of Berlin", "a dog runs", "Paris, the capital city"}
	for _, c := range []struct{ reranker, want string }{
		{"", "0.998  the city of Berlin\n"},
		{reranker, "0.881  Paris, the capital city\n"}, // two words of the query
	} {
		var b strings.Builder
		if err := search(t.Context(), &b, embedder, c.reranker, "capital city", lines, 2); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != 2 {
			t.Errorf("reranker %q: got\n%swant first %s", c.reranker, got, c.want)
		}
	}
}
