package pipeline

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestTextEmbedders compares vectors with those of sentence-transformers.
func TestTextEmbedders(t *testing.T) {
	folders := append(oracleFolders(t, "embed-*"), oracleFolders(t, "minilm")...)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Texts      []string
				Similarity string
				Calls      []struct {
					Method     string
					Prompt     string `json:"prompt"`
					PromptName string `json:"prompt_name"`
					Dimensions int    `json:"truncate_dim"`
					Normalize  bool   `json:"normalize_embeddings"`
					Vectors    [][]float64
				}
			}](t, folder)
			e, err := OpenEmbedder(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if e.Similarity() != want.Similarity {
				t.Errorf("similarity %s, want %s", e.Similarity(), want.Similarity)
			}
			for _, c := range want.Calls {
				var got [][]float32
				switch c.Method {
				case "encode_query":
					got, err = e.EmbedQueries(t.Context(), want.Texts)
				case "encode_document":
					got, err = e.EmbedDocuments(t.Context(), want.Texts)
				default:
					got, err = e.EmbedWith(t.Context(), want.Texts, &EmbedOptions{Prompt: c.Prompt,
						PromptName: c.PromptName, Dimensions: c.Dimensions, Normalize: c.Normalize})
				}
				if err != nil {
					t.Fatalf("%s %q: %v", c.Method, c.Prompt+c.PromptName, err)
				}
				worst, at := compareVectors(t, got, c.Vectors)
				t.Logf("%s %q: largest difference %.2g", c.Method, c.Prompt+c.PromptName, worst)
				if worst > 1e-5 {
					t.Errorf("%s %q, dimensions %d: text %d, %.60q: vectors differ by %g",
						c.Method, c.Prompt+c.PromptName, c.Dimensions, at, want.Texts[at], worst)
				}
				if c.Dimensions == 0 && e.Dimensions() != len(c.Vectors[0]) {
					t.Errorf("Dimensions() = %d, want %d", e.Dimensions(), len(c.Vectors[0]))
				}
			}
		})
	}
}

// TestTextSparse compares with SparseEncoder of sentence-transformers.
func TestTextSparse(t *testing.T) {
	for _, folder := range oracleFolders(t, "sparse-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Texts []string
				Calls []struct {
					PromptName string `json:"prompt_name"`
					Vectors    [][]float64
				}
			}](t, folder)
			e, err := OpenSparseEmbedder(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			for _, c := range want.Calls {
				sparse, err := e.Embed(t.Context(), want.Texts, &EmbedOptions{PromptName: c.PromptName})
				if err != nil {
					t.Fatal(err)
				}
				got := make([][]float32, len(sparse))
				for i, v := range sparse {
					got[i] = make([]float32, len(c.Vectors[i]))
					for k, at := range v.Indices {
						got[i][at] = v.Values[k]
					}
				}
				largest := 1.0
				for _, v := range c.Vectors { // sums over tokens exceed 1
					largest = max(largest, slices.Max(v))
				}
				if worst, at := compareVectors(t, got, c.Vectors); worst > 1e-5*largest {
					t.Errorf("prompt %q, text %d: vectors differ by %g, and values are at most %g", c.PromptName, at,
						worst, largest)
				}
			}
		})
	}
}

// TestTextMultiVector compares with MultiVectorEncoder of sentence-transformers.
func TestTextMultiVector(t *testing.T) {
	for _, folder := range oracleFolders(t, "multivector-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Texts              []string
				Queries, Documents [][][]float64
				Similarity         [][]float64
			}](t, folder)
			e, err := OpenMultiVectorEmbedder(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			compare := func(what string, got [][][]float32, err error, want [][][]float64) {
				if err != nil {
					t.Fatal(err)
				}
				for i := range want {
					if worst, at := compareVectors(t, got[i], want[i]); worst > 1e-5 {
						t.Errorf("%s %d, vector %d: vectors differ by %g", what, i, at, worst)
					}
				}
			}
			queries, err := e.EmbedQueries(t.Context(), want.Texts)
			compare("query", queries, err, want.Queries)
			documents, err := e.EmbedDocuments(t.Context(), want.Texts)
			compare("document", documents, err, want.Documents)
			for i, row := range want.Similarity {
				for k, w := range row {
					if got := MaxSim(queries[i], documents[k]); !near(float64(got), w, 1e-5) {
						t.Errorf("similarity of query %d and document %d: got %g, want %g", i, k, got, w)
					}
				}
			}
		})
	}
}

// compareVectors returns the largest difference, relative for numbers above 1, and its text.
func compareVectors(t *testing.T, got [][]float32, want [][]float64) (worst float64, at int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d vectors, want %d", len(got), len(want))
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			t.Fatalf("vector %d has %d numbers, want %d", i, len(got[i]), len(want[i]))
		}
		for k, w := range want[i] {
			if d := abs(float64(got[i][k])-w) / max(1, abs(w)); !(d <= worst) {
				worst, at = d, i
			}
		}
	}
	return worst, at
}

func abs(x float64) float64 { return max(x, -x) }
