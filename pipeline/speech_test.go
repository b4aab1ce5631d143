package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/preprocess"
)

// tones returns the samples of modelfolder.Tones.
func tones(t *testing.T, text string) []float32 {
	t.Helper()
	s, err := preprocess.ReadSound(bytes.NewReader(modelfolder.Tones(text)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Mono()
}

// TestSpeechKinds hears tones with each kind of model, and finds the task of its folder.
func TestSpeechKinds(t *testing.T) {
	samples := tones(t, "_l_h_l")
	for _, kind := range []string{"transducer", "stream", "nemo", "nemo-ctc"} {
		dir := toy(t, kind, nil)
		if task, err := TaskOf(dir, nil); task != SpeechRecognition || err != nil {
			t.Errorf("%s: task %s, %v", kind, task, err)
		}
		r, err := OpenSpeechRecognizer(t.Context(), dir, nil)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		defer r.Close()
		got, err := r.Recognize(t.Context(), samples, r.Rate())
		if err != nil || got.Text != "low high low" || len(got.Tokens) != 3 {
			t.Fatalf("%s: %+v, %v, want low high low", kind, got, err)
		}
		for i, want := range []time.Duration{200, 600, 1000} {
			if d := got.Tokens[i].Start - want*time.Millisecond; d < -80*time.Millisecond || d > 80*time.Millisecond {
				t.Errorf("%s: token %d starts at %v, want %d ms", kind, i, got.Tokens[i].Start, want)
			}
		}
		for _, n := range []int{0, 1, 100, 170, 400} {
			if got, err := r.Recognize(t.Context(), samples[:n], r.Rate()); err != nil || got.Text != "" {
				t.Errorf("%s: %d samples of silence: %+v, %v", kind, n, got, err)
			}
		}
	}
}

func TestSpeechStream(t *testing.T) {
	r, err := OpenSpeechRecognizer(t.Context(), toy(t, "stream", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := r.Stream()
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for part := range slices.Chunk(tones(t, "_l_h_l"), 50) {
		found, err := s.Write(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range found {
			words = append(words, token.Text)
		}
	}
	if len(words) == 0 {
		t.Error("nothing was heard before the end")
	}
	if _, err := s.Finish(t.Context()); err != nil || s.Text() != "low high low" {
		t.Errorf("%q, %v, want low high low", s.Text(), err)
	}
	whole, err := OpenSpeechRecognizer(t.Context(), toy(t, "transducer", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if _, err := whole.Stream(); err == nil || !strings.Contains(err.Error(), "does not stream") {
		t.Errorf("a model that takes a whole sound streams: %v", err)
	}
}

// TestSpeechVariants finds the files of folders as k2 and Vosk name them.
func TestSpeechVariants(t *testing.T) {
	for _, c := range []struct{ names, variant, want string }{
		{"encoder-epoch-99-avg-1.onnx decoder-epoch-99-avg-1.onnx joiner-epoch-99-avg-1.onnx tokens.txt", "", ""},
		{"encoder.int8.onnx decoder.onnx joiner.onnx tokens.txt", "int8", ""},
		{"encoder.int8.onnx decoder.int8.onnx joiner.int8.onnx tokens.txt", "", ""},
		{"am-onnx/encoder.onnx am-onnx/decoder.onnx am-onnx/joiner.onnx lang/tokens.txt", "", ""},
		{"encoder.onnx decoder.onnx joiner.onnx tokens.txt", "int8", `variant "int8": want one file encoder*.onnx`},
		{"encoder_jit.onnx decoder.onnx joiner.onnx", "", `want one file tokens.txt, found []`},
		{"encoder-a.onnx decoder.onnx joiner.onnx tokens.txt encoder-b.onnx", "", "want one file encoder*.onnx"},
		{"encoder-model.onnx decoder-model.onnx", "", "attention decoder (Canary) is not supported"},
	} {
		from, dir := toy(t, "transducer", nil), t.TempDir()
		for _, name := range strings.Fields(c.names) {
			stem := strings.FieldsFunc(filepath.Base(name),
				func(r rune) bool { return strings.ContainsRune("-._", r) })[0]
			data, err := os.ReadFile(filepath.Join(from, stem+filepath.Ext(name)))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name), string(data))
		}
		r, err := OpenSpeechRecognizer(t.Context(), dir, &Options{Variant: c.variant})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, variant %q: error %v, want %q", c.names, c.variant, err, c.want)
		}
		if err == nil {
			r.Close()
		}
	}
}

// TestSpeechFolderErrors checks that folders whose files do not fit give errors that say why.
func TestSpeechFolderErrors(t *testing.T) {
	model := func(kind, name string) string {
		data, err := os.ReadFile(filepath.Join(toy(t, kind, nil), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, c := range []struct {
		kind  string
		files map[string]string
		want  string
	}{
		{"transducer", map[string]string{"tokens.txt": "<blk> 0\nlow 1\nhigh 1\n"}, `line 3 has the id 1, which is that of "low"`},
		{"transducer", map[string]string{"tokens.txt": "<blk>\n"}, `line 1 is "<blk>", want a token and its id below 1001`},
		{"transducer", map[string]string{"tokens.txt": "<blk> 0\na 999999999\n"}, `line 2 is "a 999999999"`},
		{"transducer", map[string]string{"tokens.txt": "<blk> 0\n▁low 1\n"}, "the model returned token 2, which the vocabulary of 2 tokens lacks"},
		{"transducer", map[string]string{"tokens.txt": "<blk> 0\n▁ƌĹĦ 1\n"}, "byte-level BPE of icefall"},
		{"speech", map[string]string{"preprocessor_config.json": `{"sampling_rate": 0}`}, `field "sampling_rate": 0 Hz`},
		{"speech", map[string]string{"preprocessor_config.json": `{"sampling_rate": 1000000000}`}, `1000000000 Hz, want 1 to 1000000`},
		{"speech", map[string]string{"vocab.json": `{"<pad>": 0, "a": 1, "b": 1}`}, `"a" and "b" have the id 1`},
		{"speech", map[string]string{"vocab.json": "null"}, "vocab.json is null, want ids by token"},
		{"speech", map[string]string{"added_tokens.json": `{"c": 2}`}, `"b" and "c" have the id 2`},
		{"transducer", map[string]string{"encoder.onnx": "x"}, "encoder.onnx"},
		{"transducer", map[string]string{"encoder.onnx": model("nemo", "decoder_joint-model.onnx")}, "encoder has"},
		{"transducer", map[string]string{"joiner.onnx": model("transducer", "decoder.onnx")}, "want tokens, and encoder_out"},
		{"transducer", map[string]string{"decoder.onnx": model("transducer", "joiner.onnx")}, "want tokens"},
		{"nemo", map[string]string{"config.json": `{"model_type": "nemo-conformer-aed"}`}, `"nemo-conformer-aed" is not supported`},
		{"nemo", map[string]string{"config.json": `{"model_type": "nemo-conformer-tdt"}`}, "4 scores, want more than the 4"},
		{"nemo", map[string]string{"config.json": `{"max_tokens_per_step": 0}`}, `field "max_tokens_per_step": 0, want 1 to 1000`},
		{"nemo", map[string]string{"config.json": `{"features_size": 99999}`}, `field "features_size": 99999`},
		{"nemo", map[string]string{"vocab.txt": "a 0\n"}, "vocab.txt: there is no token <blk>"},
		{"nemo", map[string]string{"decoder_joint-model.onnx": model("nemo", "encoder-model.onnx")}, "decoder_joint-model has the inputs"},
		{"nemo", map[string]string{"encoder-model.onnx": model("nemo-ctc", "model.onnx")}, "encoder-model has the inputs"},
		{"nemo-ctc", map[string]string{"model.onnx": model("transducer", "encoder.onnx")}, "as NeMo has them"},
		{"nemo-ctc", map[string]string{"config.json": `{"subsampling_factor": "8"}`}, `field "subsampling_factor"`},
	} {
		r, err := OpenSpeechRecognizer(t.Context(), toy(t, c.kind, c.files), nil)
		if err == nil {
			_, err = r.Recognize(t.Context(), tones(t, "_l_h_l"), r.Rate())
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60q: error %v, want %q", c.kind, c.files, err, c.want)
		}
	}
}
