// Package modelfolder writes small model folders for tests and examples of pipelines.
package modelfolder

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// words is the vocabulary after the special tokens.
var words = strings.Fields(`a the is cat cats dog on mat sits runs good great bad awful film food people city capital of
	france paris berlin alice bob lives in works at acme this text about sports politics what who where . , ?`)

var vocabulary = append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, words...)

// ID returns the id of a token, or that of [UNK].
func ID(token string) int {
	if i := slices.Index(vocabulary, token); i >= 0 {
		return i
	}
	return 1
}

// table returns a row of numbers per token, filled for some of them.
func table(width int, fill map[string][]float32) []float32 {
	t := make([]float32, len(vocabulary)*width)
	for token, row := range fill {
		copy(t[ID(token)*width:][:width], row)
	}
	return t
}

// Write writes a folder for a task: "embedder", "sparse", "multivector", "reranker", "classifier",
// "tokens", "question", "nli", "mask", "colors" (images), "speech", or of speech too "transducer",
// "stream", "nemo" or "nemo-ctc", or "voice" (detection) or "wake" (words).
func Write(dir, task string) error {
	switch task {
	case "colors":
		return writeColors(dir)
	case "speech":
		return writeSpeech(dir)
	case "voice":
		return writeVoice(dir)
	case "wake":
		return writeWake(dir)
	case "transducer", "stream", "nemo", "nemo-ctc":
		return writeTones(dir, task)
	}
	b := onnx.NewModel(task).Opset("", 21)
	b.Input("input_ids", onnx.Int64, "batch", "sequence").Input("attention_mask", onnx.Int64, "batch", "sequence")
	files := map[string]string{
		"vocab.txt": strings.Join(vocabulary, "\n"),
		"tokenizer_config.json": `{"tokenizer_class": "BertTokenizer", "do_lower_case": true, "model_max_length": 64,
"pad_token": "[PAD]", "mask_token": "[MASK]"}`,
	}
	lookup := func(output string, width int, fill map[string][]float32, dims ...any) {
		b.Initializer("table_"+output, table(width, fill), int64(len(vocabulary)), int64(width))
		b.Node("Gather", []string{"table_" + output, "input_ids"}, []string{output})
		if dims != nil {
			b.Output(output, onnx.Float, dims...)
		}
	}
	switch task {
	case "embedder", "multivector":
		lookup("last_hidden_state", 4, map[string][]float32{
			"cat": {4, 1, 0, 0}, "cats": {4, 1.5, 0, 0}, "dog": {3, 3, 0, 0}, "mat": {1, 0, 2, 0}, "sits": {0, 1, 1, 0},
			"food": {0, 0, 2, 1}, "city": {0, 0, 0, 3}, "paris": {0, 0, 0.5, 3}, "berlin": {0, 0.5, 0, 3},
			"[CLS]": {0.1, 0.1, 0.1, 0.1}, "[SEP]": {0.1, 0.1, 0.1, 0.1}}, "batch", "sequence", 4)
		files["modules.json"] = `[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
{"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]`
		files["1_Pooling/config.json"] = `{"word_embedding_dimension": 4, "pooling_mode_mean_tokens": true}`
		files["config.json"] = `{"model_type": "bert"}`
		if task == "multivector" {
			files["modules.json"] = `[{"path": "", "type": "x.Transformer"}, {"path": "1_Normalize", "type": "x.Normalize"},
{"path": "2_MultiVectorMask", "type": "x.MultiVectorMask"}]`
			files["1_Normalize/config.json"] = `{"module_input_name": "token_embeddings"}`
			files["2_MultiVectorMask/config.json"] = `{"skiplist_words": [".", ","]}`
		}
	case "sparse":
		weights := map[string][]float32{}
		for _, w := range words {
			row := make([]float32, len(vocabulary))
			row[ID(w)] = 2
			weights[w] = row
		}
		weights["cats"][ID("cat")] = 1.5
		lookup("logits", len(vocabulary), weights, "batch", "sequence", len(vocabulary))
		files["modules.json"] = `[{"path": "", "type": "x.Transformer"}, {"path": "1_SpladePooling", "type": "x.SpladePooling"}]`
		files["config.json"] = `{}`
	case "classifier":
		lookup("weights", 2, map[string][]float32{"good": {-2, 2}, "great": {-3, 3}, "bad": {2, -2}, "awful": {3, -3}})
		b.Initializer("axes", []int64{1}, 1)
		b.Node("ReduceSum", []string{"weights", "axes"}, []string{"logits"}, onnx.Attrs{"keepdims": 0})
		b.Output("logits", onnx.Float, "batch", 2)
		files["config.json"] = `{"architectures": ["BertForSequenceClassification"],
"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}}`
	case "tokens":
		lookup("logits", 5, map[string][]float32{"alice": {0, 8}, "bob": {0, 8}, "paris": {0, 0, 0, 8},
			"berlin": {0, 0, 0, 8}, "acme": {0, 0, 0, 1, 1}}, "batch", "sequence", 5)
		files["config.json"] = `{"architectures": ["BertForTokenClassification"],
"id2label": {"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC", "4": "I-LOC"}}`
	case "question":
		lookup("start", 1, map[string][]float32{"paris": {8}, "berlin": {6}, "[CLS]": {1}})
		lookup("end", 1, map[string][]float32{"paris": {8}, "berlin": {6}, "[CLS]": {1}})
		b.Initializer("axis", []int64{2}, 1)
		for _, name := range []string{"start", "end"} {
			b.Node("Squeeze", []string{name, "axis"}, []string{name + "_logits"})
			b.Output(name+"_logits", onnx.Float, "batch", "sequence")
		}
		files["config.json"] = `{"architectures": ["BertForQuestionAnswering"]}`
	case "mask":
		n := len(vocabulary)
		lookup("logits", n, map[string][]float32{"[MASK]": likely()}, "batch", "sequence", n)
		files["config.json"] = `{"architectures": ["BertForMaskedLM"]}`
	case "reranker", "nli":
		overlap(b)
		if task == "reranker" {
			b.Node("Identity", []string{"count"}, []string{"logits"})
			b.Output("logits", onnx.Float, "batch", 1)
			files["config.json"] = `{"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}`
			break
		}
		b.Initializer("scale", []float32{-1, 0, 1}, 1, 3)
		b.Node("Mul", []string{"count", "scale"}, []string{"logits"})
		b.Output("logits", onnx.Float, "batch", 3)
		files["config.json"] = `{"architectures": ["BertForSequenceClassification"],
"id2label": {"0": "contradiction", "1": "neutral", "2": "entailment"}}`
	default:
		return fmt.Errorf("there is no model folder %q", task)
	}
	return write(dir, b, files)
}

// write writes a model and other files.
func write(dir string, b *onnx.ModelBuilder, files map[string]string) error {
	m, err := b.Model()
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "onnx"), 0o755); err != nil {
		return err
	}
	return onnx.WriteFile(filepath.Join(dir, "onnx", "model.onnx"), m, nil)
}

// likely returns the logits of the mask token: nouns are likely.
func likely() []float32 {
	row := make([]float32, len(vocabulary))
	for i, w := range []string{"paris", "berlin", "city", "cat"} {
		row[ID(w)] = float32(8 - i)
	}
	return row
}

// overlap counts the pairs of equal words in the first and the second text.
func overlap(b *onnx.ModelBuilder) {
	b.Input("token_type_ids", onnx.Int64, "batch", "sequence")
	b.Initializer("word", int64(ID(words[0])), []int64{}...).Initializer("one", []int64{1}, 1)
	b.Initializer("two", []int64{2}, 1).Initializer("both", []int64{1, 2}, 2)
	b.Node("GreaterOrEqual", []string{"input_ids", "word"}, []string{"is_word"})
	b.Node("Cast", []string{"token_type_ids"}, []string{"second"}, onnx.Attrs{"to": int64(onnx.Bool)})
	b.Node("Not", []string{"second"}, []string{"first"})
	for i, name := range []string{"first", "second"} {
		axis := []string{"two", "one"}[i]
		b.Node("And", []string{name, "is_word"}, []string{name + "_word"})
		b.Node("Unsqueeze", []string{name + "_word", axis}, []string{name + "_grid"})
		b.Node("Unsqueeze", []string{"input_ids", axis}, []string{name + "_ids"})
	}
	b.Node("Equal", []string{"first_ids", "second_ids"}, []string{"equal"})
	b.Node("And", []string{"equal", "first_grid"}, []string{"equal_first"})
	b.Node("And", []string{"equal_first", "second_grid"}, []string{"equal_words"})
	b.Node("Cast", []string{"equal_words"}, []string{"numbers"}, onnx.Attrs{"to": int64(onnx.Float)})
	b.Node("ReduceSum", []string{"numbers", "both"}, []string{"sum"}, onnx.Attrs{"keepdims": 0})
	b.Node("Unsqueeze", []string{"sum", "one"}, []string{"count"})
}
