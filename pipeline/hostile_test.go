package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/preprocess"
)

// attempt opens a folder for a task, answers once and closes it.
type attempt func(ctx context.Context, dir string, o Options) error

// attempts are the pipelines by the folders of package modelfolder that they are tried with.
var attempts = map[string][]attempt{
	"embedder": {with(func(ctx context.Context, dir string, o Options) (*Embedder, error) {
		return OpenEmbedder(ctx, dir, &EmbedderOptions{TextOptions: TextOptions{Options: o}})
	}, func(ctx context.Context, e *Embedder) error {
		_, err := e.Embed(ctx, []string{"a cat"})
		return err
	})},
	"sparse": {with(text(OpenSparseEmbedder), func(ctx context.Context, e *SparseEmbedder) error {
		_, err := e.Embed(ctx, []string{"a cat"}, nil)
		return err
	})},
	"multivector": {with(text(OpenMultiVectorEmbedder), func(ctx context.Context, e *MultiVectorEmbedder) error {
		_, err := e.EmbedQueries(ctx, []string{"a cat"})
		return err
	})},
	"reranker": {with(func(ctx context.Context, dir string, o Options) (*Reranker, error) {
		return OpenReranker(ctx, dir, &RerankerOptions{TextOptions: TextOptions{Options: o}})
	}, func(ctx context.Context, r *Reranker) error {
		_, err := r.Rerank(ctx, "a cat", []string{"a dog"})
		return err
	})},
	"classifier": {with(func(ctx context.Context, dir string, o Options) (*TextClassifier, error) {
		return OpenTextClassifier(ctx, dir, &ClassifierOptions{TextOptions: TextOptions{Options: o}})
	}, func(ctx context.Context, c *TextClassifier) error {
		_, err := c.Classify(ctx, []string{"a cat"}, 0)
		return err
	})},
	"nli": {with(text(OpenZeroShotClassifier), func(ctx context.Context, c *ZeroShotClassifier) error {
		_, err := c.Classify(ctx, []string{"a cat"}, []string{"dog", "cat"}, nil)
		return err
	})},
	"tokens": {with(func(ctx context.Context, dir string, o Options) (*TokenClassifier, error) {
		return OpenTokenClassifier(ctx, dir, &TokenClassifierOptions{TextOptions: TextOptions{Options: o}})
	}, func(ctx context.Context, c *TokenClassifier) error {
		_, err := c.Classify(ctx, []string{"a cat"})
		return err
	})},
	"question": {with(func(ctx context.Context, dir string, o Options) (*QuestionAnswerer, error) {
		return OpenQuestionAnswerer(ctx, dir, &QuestionOptions{TextOptions: TextOptions{Options: o}})
	}, func(ctx context.Context, q *QuestionAnswerer) error {
		_, err := q.Answer(ctx, "who?", "a cat", nil)
		return err
	})},
	"mask": {with(text(OpenMaskFiller), func(ctx context.Context, m *MaskFiller) error {
		_, err := m.Fill(ctx, []string{"a [MASK]"}, nil)
		return err
	})},
	"colors": {with(plain(OpenImageClassifier), func(ctx context.Context, c *ImageClassifier) error {
		_, err := c.Classify(ctx, small(), 0)
		return err
	}), with(plain(OpenSegmenter), func(ctx context.Context, s *Segmenter) error {
		_, err := s.Segment(ctx, small())
		return err
	}), with(plain(OpenDepthEstimator), func(ctx context.Context, d *DepthEstimator) error {
		_, err := d.Estimate(ctx, small())
		return err
	}), with(plain(OpenBackgroundRemover), func(ctx context.Context, b *BackgroundRemover) error {
		_, err := b.Remove(ctx, small())
		return err
	})},
	"speech": {hear}, "transducer": {hear}, "stream": {hear}, "nemo": {hear}, "nemo-ctc": {hear},
	"voice": {with(func(ctx context.Context, dir string, o Options) (*VoiceDetector, error) {
		return OpenVoiceDetector(ctx, dir, &VoiceOptions{Session: o.Session})
	}, func(ctx context.Context, v *VoiceDetector) error {
		_, err := v.Detect(ctx, make([]float32, 1600), 16000)
		return err
	})},
	"wake": {with(func(ctx context.Context, dir string, o Options) (*WakeWord, error) {
		return OpenWakeWord(ctx, dir, &WakeWordOptions{Options: o})
	}, func(ctx context.Context, w *WakeWord) error {
		_, err := w.Stream().Write(ctx, make([]float32, 1600))
		return err
	})},
}

var hear = with(plain(OpenSpeechRecognizer), func(ctx context.Context, r *SpeechRecognizer) error {
	_, err := r.Transcribe(ctx, make([]float32, 8000), r.Rate())
	return err
})

func small() *preprocess.Image {
	m, _ := preprocess.NewImage(2, 3, 3)
	return m
}

func text[P any](open func(context.Context, string, *TextOptions) (P, error)) func(context.Context, string,
	Options) (P, error) {
	return func(ctx context.Context, dir string, o Options) (P, error) {
		return open(ctx, dir, &TextOptions{Options: o})
	}
}

func plain[P any](open func(context.Context, string, *Options) (P, error)) func(context.Context, string,
	Options) (P, error) {
	return func(ctx context.Context, dir string, o Options) (P, error) { return open(ctx, dir, &o) }
}

func with[P interface{ Close() error }](open func(context.Context, string, Options) (P, error),
	use func(context.Context, P) error) attempt {
	return func(ctx context.Context, dir string, o Options) error {
		if _, err := TaskOf(dir, &o); err != nil && strings.Contains(err.Error(), "panic") {
			return err
		}
		p, err := open(ctx, dir, o)
		if err != nil {
			return err
		}
		err = use(ctx, p)
		p.Close()
		return err
	}
}

// bounded tries a folder whose hostile part has some bytes, and checks the memory that is allocated
// and that nothing panics.
func bounded(t *testing.T, try attempt, dir, what string, size int) error {
	t.Helper()
	o := Options{Session: &onward.SessionOptions{Threads: 1, Limits: onward.Limits{MaxMemory: 64 << 20}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := safely(try)(t.Context(), dir, o)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(32<<20+128*size) {
		t.Errorf("%s: %d MB were allocated for %d bytes; error %.200v", what, grown>>20, size, err)
	}
	if err != nil && strings.Contains(err.Error(), "panicked") {
		t.Errorf("%s: %v", what, err)
	}
	return err
}

// safely returns an attempt whose panics are errors.
func safely(try attempt) attempt {
	return func(ctx context.Context, dir string, o Options) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panicked: %v", p)
			}
		}()
		return try(ctx, dir, o)
	}
}

// optionalFiles are files that pipelines read if they are there.
var optionalFiles = []string{"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"added_tokens.json", "chat_template.jinja", "modules.json", "sentence_bert_config.json",
	"config_sentence_transformers.json", "processor_config.json", "preprocessor_config.json", "merges.txt", "vocab.json",
	"onnx", "1_Pooling"}

// hostileFolder is a folder of package modelfolder, with the names of its files.
func hostileFolder(t *testing.T, kind string) (dir string, files []string) {
	dir = t.TempDir()
	if err := modelfolder.Write(dir, kind); err != nil {
		t.Fatal(err)
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, files
}

// replaced calls f while a file of a folder is replaced by what create makes.
func replaced(t *testing.T, path string, create func(path string) error, f func()) {
	t.Helper()
	old := filepath.Join(t.TempDir(), "old")
	existed := os.Rename(path, old) == nil
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	f()
	err := os.RemoveAll(path)
	if existed && err == nil {
		err = os.Rename(old, path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHostileFiles replaces each file of a folder by a device, a pipe, a folder, links, and by some
// of the texts, or if ONWARD_LONG is set, by all.
func TestHostileFiles(t *testing.T) {
	texts := map[string]string{
		"nothing": "", "null": "null", "a number": "7", "a string": `"x"`, "a list": "[]", "an object": "{}",
		"half": `{"a": [1,`, "nested lists": strings.Repeat("[", 1<<18), "nested objects": strings.Repeat(`{"a":`, 1<<16),
		"a long list": "[" + strings.Repeat("0,", 1<<19) + "0]", "many members": members(1 << 14),
		"a large number": `{"a": 1e999, "size": 1e999}`, "bytes": strings.Repeat("\xff\x00", 1<<10),
		"lines": strings.Repeat("\n", 1<<18), "a long line": strings.Repeat("a", 1<<20),
		"numbered lines": strings.Repeat("a 1\n", 1<<16),
	}
	turn := 0
	for _, kind := range sortedKeys(attempts) {
		tries := attempts[kind]
		t.Run(kind, func(t *testing.T) {
			dir, files := hostileFolder(t, kind)
			link := func(target string) func(string) error {
				return func(path string) error { return os.Symlink(target, path) }
			}
			outside := filepath.Join(t.TempDir(), "outside")
			write(t, outside, "{}")
			mkdir := func(path string) error { return os.Mkdir(path, 0o700) }
			special := map[string]func(string) error{"a folder": mkdir}
			if runtime.GOOS != "windows" {
				maps.Copy(special, map[string]func(string) error{"a device": link("/dev/zero"), "a pipe": makePipe,
					"a link outside": link(outside), "a loop": link("config.json"), "a broken link": link("missing")})
			}
			for _, name := range append(files, optionalFiles...) {
				path := filepath.Join(dir, filepath.FromSlash(name))
				for i, try := range tries {
					turn++
					for k, what := range sortedKeys(texts) {
						text := texts[what]
						if skipped(k+turn, 6) || strings.HasSuffix(name, ".onnx") && len(text) > 1<<12 {
							continue
						}
						fill := func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
						replaced(t, path, fill, func() {
							bounded(t, try, dir, fmt.Sprintf("%s is %s, %d", name, what, i), len(text))
						})
					}
					for what, create := range special {
						replaced(t, path, create, func() {
							err := bounded(t, try, dir, fmt.Sprintf("%s is %s, %d", name, what, i), 0)
							if err == nil && strings.HasSuffix(name, ".onnx") {
								t.Errorf("%s is %s: no error", name, what)
							}
						})
					}
				}
			}
		})
	}
}

// skipped reports whether a case is left out: all but one in n, unless ONWARD_LONG is set.
func skipped(i, n int) bool { return os.Getenv("ONWARD_LONG") == "" && i%n != 0 }

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}

// fieldNames matches the fields that this package reads.
var fieldNames = regexp.MustCompile(`\.(?:get|has|object)\("(\w+)"`)

// TestHostileMembers replaces each field that this package reads, in each JSON file, by one of some
// values, or if ONWARD_LONG is set, by all.
func TestHostileMembers(t *testing.T) {
	fields := []string{"add_prefix_space", "model_max_length", "tokenizer_class", "pad_token", "truncation", "padding"}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fieldNames.FindAllSubmatch(source, -1) {
			fields = append(fields, string(m[1]))
		}
	}
	slices.Sort(fields)
	fields = slices.Compact(fields)
	if len(fields) < 60 {
		t.Fatalf("found the fields %q alone", fields)
	}
	deep := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	values := []string{"null", "true", "-1", "0", "2", "60000", "1000000000", "-1000000000", "9223372036854775807",
		"1e308", "-0.5", "1e999", `""`, `"x"`, `"` + strings.Repeat("x", 1<<16) + `"`, "[]", "{}", `[-1, 1e9]`, `{"0": "a", "1": "b"}`,
		`{"height": 1e9, "width": 1e9}`, `{"height": 30000, "width": 30000}`, `{"height": 0, "width": -7}`,
		`{"shortest_edge": 30000, "longest_edge": 1}`, `["cls", "max", "mean"]`, `[{"a": []}, 7, null]`, deep}
	turn := 0
	for _, kind := range sortedKeys(attempts) {
		tries := attempts[kind]
		t.Run(kind, func(t *testing.T) {
			dir, files := hostileFolder(t, kind)
			files = append(files, "config.json", "config_sentence_transformers.json")
			slices.Sort(files)
			for _, name := range slices.Compact(files) {
				path := filepath.Join(dir, filepath.FromSlash(name))
				data, err := os.ReadFile(path)
				o := map[string]json.RawMessage{}
				if !strings.HasSuffix(name, ".json") || err == nil && json.Unmarshal(data, &o) != nil {
					continue
				}
				for _, field := range fields {
					turn += 3
					for i, value := range values {
						if skipped(i+turn, len(values)) {
							continue
						}
						c := maps.Clone(o)
						c[field] = json.RawMessage(value)
						var text strings.Builder
						for i, k := range sortedKeys(c) {
							fmt.Fprintf(&text, "%c%q:%s", "{,"[min(i, 1)], k, c[k])
						}
						text.WriteByte('}')
						write(t, path, text.String())
						for i, try := range tries {
							bounded(t, try, dir, fmt.Sprintf("%s: %s is %.60s, %d", name, field, value, i), text.Len())
						}
					}
				}
				if write(t, path, string(data)); err != nil {
					os.Remove(path)
				}
			}
		})
	}
}
