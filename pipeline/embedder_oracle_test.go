package pipeline

import (
	"path/filepath"
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
