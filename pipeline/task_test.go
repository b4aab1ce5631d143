package pipeline_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/tokenizer"
)

// folder writes a model folder for a task of package modelfolder.
func folder(t *testing.T, task string) string {
	t.Helper()
	dir := t.TempDir()
	if err := modelfolder.Write(dir, task); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTaskOf(t *testing.T) {
	for name, want := range map[string]pipeline.Task{"embedder": pipeline.FeatureExtraction,
		"reranker": pipeline.TextRanking, "classifier": pipeline.TextClassification,
		"tokens": pipeline.TokenClassification, "question": pipeline.QuestionAnswering,
		"nli": pipeline.TextClassification, "mask": pipeline.FillMask, "sparse": pipeline.SparseEncoding,
		"multivector": pipeline.MultiVectorEncoding, "colors": pipeline.ImageClassification,
		"speech": pipeline.SpeechRecognition, "voice": pipeline.VoiceDetection, "wake": pipeline.KeywordSpotting} {
		if got, err := pipeline.TaskOf(folder(t, name), nil); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	for _, c := range []struct{ files, want, err string }{
		{"a_det.onnx b_rec.onnx", "image-to-text", ""},
		{"a_det.onnx", "", "neither modules.json nor architectures"},
		{"", "", "neither modules.json nor architectures"},
		{`config.json={"architectures":["BertModel"]}`, "feature-extraction", ""},
		{`config.json={"architectures":["LlamaForCausalLM"]}`, "", `architecture "LlamaForCausalLM" generates text`},
		{`config.json={"architectures":["GPT2LMHeadModel"]}`, "", `"GPT2LMHeadModel" generates text`},
		{`config.json={"architectures":["XLMWithLMHeadModel"]}`, "fill-mask", ""},
		{`config.json={"architectures":["Wav2Vec2ForSequenceClassification"]} preprocessor_config.json={}`, "",
			"without a tokenizer"},
		{`config.json={"architectures":["ViTModel"]} preprocessor_config.json={}`, "", "without a tokenizer"},
		{`config.json={"architectures":["BertModel"]} preprocessor_config.json={} tokenizer.json={}`,
			"feature-extraction", ""},
		{`config.json={"architectures":["CLIPModel"]}`, "", "pipeline.OpenImageEmbedder"},
		{`config.json={"architectures":["DPTForDepthEstimation"]}`, "", "pipeline.OpenDepthEstimator"},
		{`config.json={"architectures":["DetrForObjectDetection"]}`, "object-detection", ""},
		{`config.json={"architectures":["BertForNextSentencePrediction"]}`, "", "belongs to none"},
		{`config.json={"architectures":1}`, "", "architectures"},
		{`config.json={"architectures":["BertForSequenceClassification"],"id2label":{"0":"A"}}`, "text-ranking", ""},
		{`config.json={"architectures":["BertForSequenceClassification"]} modules.json=[{"type":"m.Transformer"}]`,
			"text-ranking", ""},
	} {
		dir := t.TempDir()
		for file := range strings.FieldsSeq(c.files) {
			name, text, _ := strings.Cut(file, "=")
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := pipeline.TaskOf(dir, nil)
		if string(got) != c.want || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %q, %v, want %q, %s", c.files, got, err, c.want, c.err)
		}
	}
}

func near(a, b float32) bool { return a-b < 1e-6 && b-a < 1e-6 }

// TestEncodings gives pipelines encodings in place of texts.
func TestEncodings(t *testing.T) {
	ctx := t.Context()
	encode := func(tok *tokenizer.Tokenizer, texts ...string) *tokenizer.Encoding {
		e, err := tok.EncodeContext(ctx, texts...)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	emb, err := pipeline.OpenEmbedder(ctx, folder(t, "embedder"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer emb.Close()
	want, err := emb.Embed(ctx, []string{"a cat"})
	if err != nil {
		t.Fatal(err)
	}
	list := []*tokenizer.Encoding{encode(emb.Tokenizer(), "a cat")}
	got, err := emb.EmbedEncodings(ctx, list, nil)
	if err != nil || !slices.Equal(got[0], want[0]) {
		t.Errorf("embedder: got %v, %v, want %v", got, err, want)
	}
	raw, err := emb.EmbedEncodings(ctx, list, &pipeline.EmbedOptions{NoNormalize: true})
	if want := []float32{1.05, 0.3, 0.05, 0.05}; err != nil || !slices.EqualFunc(raw[0], want, near) {
		t.Errorf("without Normalize: got %v, %v, want %v", raw, err, want)
	}
	tokens, err := emb.EmbedTokensOfEncodings(ctx, list)
	if err != nil || len(tokens[0]) != 4 {
		t.Errorf("tokens: got %v, %v, want 4 vectors", tokens, err)
	}

	r, err := pipeline.OpenReranker(ctx, folder(t, "reranker"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pair := []*tokenizer.Encoding{encode(r.Tokenizer(), "a cat", "the cat sits")}
	if raw, err := r.ScoreEncodings(ctx, pair, true); err != nil || raw[0] != 1 {
		t.Errorf("reranker: got %v, %v, want the output 1", raw, err)
	}
	scores, err := r.Score(ctx, [][2]string{{"a cat", "the cat sits"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.ScoreEncodings(ctx, pair, false); err != nil || !slices.Equal(got, scores) {
		t.Errorf("reranker: got %v, %v, want %v", got, err, scores)
	}

	c, err := pipeline.OpenTextClassifier(ctx, folder(t, "classifier"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := []*tokenizer.Encoding{encode(c.Tokenizer(), "a good film")}
	labels, err := c.ClassifyEncodings(ctx, text, 1, true)
	if err != nil || !slices.Equal(labels[0], []pipeline.Label{{Name: "POSITIVE", Score: 2}}) {
		t.Errorf("classifier: got %v, %v, want the output 2", labels, err)
	}
}
