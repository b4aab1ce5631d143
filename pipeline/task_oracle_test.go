package pipeline

import (
	"path/filepath"
	"testing"
)

const scoreTolerance = 1e-4

type wantLabels [][]struct {
	Name  string
	Score float64
}

// compareLabels compares labels and scores. Labels whose scores are almost equal may change places.
func compareLabels(t *testing.T, what string, got [][]Label, want wantLabels) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d results, want %d", what, len(got), len(want))
	}
	for i, list := range want {
		if len(got[i]) != len(list) {
			t.Errorf("%s %d: got %v, want %v", what, i, got[i], list)
			continue
		}
		for k, w := range list {
			g := got[i][k]
			tie := k > 0 && near(w.Score, list[k-1].Score, scoreTolerance) ||
				k+1 < len(list) && near(w.Score, list[k+1].Score, scoreTolerance)
			if g.Name != w.Name && !tie || !near(float64(g.Score), w.Score, scoreTolerance) {
				t.Errorf("%s %d: got %v, want %v", what, i, got[i], list)
				break
			}
		}
	}
}

func TestTextClassifiers(t *testing.T) {
	for _, folder := range oracleFolders(t, "classify-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Texts                   []string
				Pairs                   [][2]string
				Labels, Two, PairLabels wantLabels
			}](t, folder)
			c, err := OpenTextClassifier(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got, err := c.Classify(t.Context(), want.Texts, 0)
			if err != nil {
				t.Fatal(err)
			}
			compareLabels(t, "text", got, want.Labels)
			if got, err = c.ClassifyPairs(t.Context(), want.Pairs, 0); err != nil {
				t.Fatal(err)
			}
			compareLabels(t, "pair", got, want.PairLabels)
			if want.Two == nil {
				return
			}
			c.function = "sigmoid"
			if got, err = c.Classify(t.Context(), want.Texts, 2); err != nil {
				t.Fatal(err)
			}
			compareLabels(t, "sigmoid", got, want.Two)
		})
	}
}

func TestTextRerankers(t *testing.T) {
	for _, folder := range oracleFolders(t, "rerank-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Pairs  [][2]string
				Scores []float64
			}](t, folder)
			r, err := OpenReranker(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := r.Score(t.Context(), want.Pairs)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range want.Scores {
				if !near(float64(got[i]), w, scoreTolerance) {
					t.Errorf("pair %d: got %g, want %g", i, got[i], w)
				}
			}
		})
	}
}

func TestTextTokens(t *testing.T) {
	for _, folder := range oracleFolders(t, "tokens-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Texts   []string
				Results map[string][][]struct {
					Label      string
					Score      float64
					Start, End int
				}
			}](t, folder)
			for name, lists := range want.Results {
				opts := &TokenClassifierOptions{Aggregation: Aggregation(name)}
				switch name {
				case "none":
					opts.Aggregation = AggregateNone
				case "window":
					opts.Aggregation, opts.Stride = AggregateSimple, 8
				}
				c, err := OpenTokenClassifier(t.Context(), folder, opts)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				got, err := c.Classify(t.Context(), want.Texts)
				if err != nil {
					t.Fatal(err)
				}
				for i, list := range lists {
					if len(got[i]) != len(list) {
						t.Errorf("%s, text %d %.60q: got %d entities, want %d",
							name, i, want.Texts[i], len(got[i]), len(list))
						continue
					}
					for k, w := range list {
						g := got[i][k]
						if g.Label != w.Label || g.StartRune != w.Start || g.EndRune != w.End ||
							!near(float64(g.Score), w.Score, scoreTolerance) {
							t.Errorf("%s, text %d %.60q: entity %d: got %+v, want %+v", name, i, want.Texts[i], k, g, w)
							break
						}
						if g.Text != want.Texts[i][g.Start:g.End] {
							t.Errorf("%s, text %d: %q is not at %d to %d", name, i, g.Text, g.Start, g.End)
						}
					}
				}
			}
		})
	}
}

func TestTextQuestions(t *testing.T) {
	for _, folder := range oracleFolders(t, "question-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Pairs [][2]string
				Calls []struct {
					AnswerOptions
					Answers [][]struct {
						Text       string
						Score      float64
						Start, End int
					}
				}
			}](t, folder)
			q, err := OpenQuestionAnswerer(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			for _, call := range want.Calls {
				got, err := q.AnswerBatch(t.Context(), want.Pairs, &call.AnswerOptions)
				if err != nil {
					t.Fatal(err)
				}
				for i, list := range call.Answers {
					if len(got[i]) != len(list) {
						t.Errorf("%+v, pair %d: got %v, want %v", call.AnswerOptions, i, got[i], list)
						continue
					}
					for k, w := range list {
						g := got[i][k]
						tie := k > 0 && near(w.Score, list[k-1].Score, 1e-6) ||
							k+1 < len(list) && near(w.Score, list[k+1].Score, 1e-6)
						if !near(float64(g.Score), w.Score, scoreTolerance) ||
							!tie && (g.StartRune != w.Start || g.EndRune != w.End || g.Text != w.Text) {
							t.Errorf("%+v, pair %d, answer %d: got %+v, want %+v", call.AnswerOptions, i, k, g, w)
							break
						}
					}
				}
			}
		})
	}
}

func TestTextZeroShot(t *testing.T) {
	for _, folder := range oracleFolders(t, "zeroshot-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Texts []string
				Calls []struct {
					Labels   []string
					Template string
					Multi    bool
					Results  wantLabels
				}
			}](t, folder)
			c, err := OpenZeroShotClassifier(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, call := range want.Calls {
				got, err := c.Classify(t.Context(), want.Texts, call.Labels,
					&ZeroShotOptions{Template: call.Template, MultiLabel: call.Multi})
				if err != nil {
					t.Fatal(err)
				}
				compareLabels(t, call.Template, got, call.Results)
			}
		})
	}
}

func TestTextMasks(t *testing.T) {
	for _, folder := range oracleFolders(t, "mask-*") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want := expected[struct {
				Texts []string
				Calls []struct {
					Targets []string
					Results [][][]struct {
						ID          int64
						Token, Text string
						Score       float64
					}
				}
			}](t, folder)
			f, err := OpenMaskFiller(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, call := range want.Calls {
				got, err := f.Fill(t.Context(), want.Texts, &FillOptions{Top: 4, Targets: call.Targets})
				if err != nil {
					t.Fatal(err)
				}
				for i, masks := range call.Results {
					if len(got[i]) != len(masks) {
						t.Fatalf("text %d %q: got %d masks, want %d", i, want.Texts[i], len(got[i]), len(masks))
					}
					for m, list := range masks {
						if len(got[i][m]) != len(list) {
							t.Fatalf("text %d: got %v, want %v", i, got[i][m], list)
						}
						for k, w := range list {
							g := got[i][m][k]
							if g.ID != w.ID || g.Token != w.Token || g.Text != w.Text ||
								!near(float64(g.Score), w.Score, scoreTolerance) {
								t.Errorf("text %d, mask %d: got %+v, want %+v", i, m, g, w)
								break
							}
						}
					}
				}
			}
		})
	}
}
