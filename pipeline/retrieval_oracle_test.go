package pipeline

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTextRetrieval compares the 20 best documents for each question with those that
// sentence-transformers finds, in the Cranfield collection. Documents whose scores differ by less
// than the difference of vectors may change places.
func TestTextRetrieval(t *testing.T) {
	const tolerance = 2e-6
	folder := filepath.Join(filepath.Dir(oracleFolders(t, "minilm")[0]), "retrieval")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("make test-pipelines could not fetch the Cranfield collection")
	}
	type hit struct {
		Document int
		Score    float64
	}
	want := expected[struct {
		Documents, Queries []string
		Relevant           [][]int
		Hits               [][]hit
	}](t, folder)
	e, err := OpenEmbedder(t.Context(), filepath.Join(filepath.Dir(folder), "minilm"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	documents, err := e.Embed(t.Context(), want.Documents)
	if err != nil {
		t.Fatal(err)
	}
	queries, err := e.Embed(t.Context(), want.Queries)
	if err != nil {
		t.Fatal(err)
	}
	same, ranks := 0, 0
	var gain, wantGain float64
	for q, v := range queries {
		scores, order := make([]float64, len(documents)), make([]int, len(documents))
		for i, d := range documents {
			order[i] = i
			for k, x := range v {
				scores[i] += float64(x) * float64(d[k])
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		best := make([]int, len(want.Hits[q]))
		for r, h := range want.Hits[q] {
			best[r] = h.Document
			ranks++
			switch at := order[r]; {
			case at == h.Document:
				same++
			case math.Abs(scores[at]-scores[h.Document]) > tolerance:
				t.Errorf("question %d: document %d has rank %d, want %d, with scores %.7f and %.7f", q, at, r,
					h.Document, scores[at], scores[h.Document])
			}
			if math.Abs(scores[h.Document]-h.Score) > tolerance {
				t.Errorf("question %d: document %d has score %.7f, want %.7f", q, h.Document, scores[h.Document],
					h.Score)
			}
		}
		gain += nDCG(order[:10], want.Relevant[q])
		wantGain += nDCG(best[:10], want.Relevant[q])
	}
	n := float64(len(queries))
	t.Logf("%d of %d ranks are equal, nDCG@10 is %.4f and that of sentence-transformers %.4f", same, ranks, gain/n,
		wantGain/n)
	if ranks < 4000 || gain/n < 0.3 {
		t.Errorf("%d ranks, nDCG@10 %.4f: want at least 4000 and 0.3", ranks, gain/n)
	}
}

// nDCG returns the normalized discounted cumulative gain of ranked documents, relevant or not.
func nDCG(ranked, relevant []int) float64 {
	gain, ideal := 0.0, 0.0
	for r, d := range ranked {
		discount := 1 / math.Log2(float64(r)+2)
		if slices.Contains(relevant, d) {
			gain += discount
		}
		if r < len(relevant) {
			ideal += discount
		}
	}
	if ideal == 0 {
		return 0
	}
	return gain / ideal
}
