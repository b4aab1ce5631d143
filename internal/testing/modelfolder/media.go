package modelfolder

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// writeColors writes a model that classifies an image by its strongest color.
func writeColors(dir string) error {
	b := onnx.NewModel("colors").Opset("", 21)
	b.Input("pixel_values", onnx.Float, 1, 3, "height", "width")
	b.Initializer("axes", []int64{2, 3}, 2).Initializer("scale", []float32{4}, 1)
	b.Node("ReduceSum", []string{"pixel_values", "axes"}, []string{"sum"}, onnx.Attrs{"keepdims": 0})
	b.Node("Mul", []string{"sum", "scale"}, []string{"logits"})
	b.Output("logits", onnx.Float, 1, 3)
	return write(dir, b, map[string]string{
		"config.json": `{"architectures": ["ViTForImageClassification"],
"id2label": {"0": "red", "1": "green", "2": "blue"}}`,
		"preprocessor_config.json": `{"image_processor_type": "ViTImageProcessor", "size": {"height": 1, "width": 1},
"do_normalize": false}`})
}

// speechStep is the number of samples of a step of the model "speech". The largest one says the
// token, one of speechTokens.
const (
	speechStep   = 4
	speechTokens = "_ab "
)

// Speech returns a WAV file in which the model "speech" hears a text of the letters a, b, the space
// and _, which stands for silence.
func Speech(text string) []byte {
	samples := make([]int16, 0, speechStep*len(text))
	for _, token := range text {
		for i := range speechStep {
			sample := int16(0)
			if i == strings.IndexRune(speechTokens, token) {
				sample = 1 << 14
			}
			samples = append(samples, sample)
		}
	}
	return wav(samples)
}

// wav returns a WAV file of samples at 16 kHz.
func wav(samples []int16) []byte {
	le := binary.LittleEndian
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt "), 16, 0, 0, 0, 1, 0, 1, 0)
	b = le.AppendUint32(le.AppendUint32(b, 16000), 32000) // samples and bytes a second
	b = append(b, 2, 0, 16, 0)
	b = le.AppendUint32(append(b, "data"...), uint32(2*len(samples)))
	for _, v := range samples {
		b = le.AppendUint16(b, uint16(v))
	}
	return b
}

// writeVoice writes a model with the inputs of Silero VAD, for which loud sound is speech.
func writeVoice(dir string) error {
	b := onnx.NewModel("voice").Opset("", 21)
	b.Input("input", onnx.Float, 1, "samples").Input("state", onnx.Float, 2, 1, 128).Input("sr", onnx.Int64)
	b.Initializer("axis", []int64{1}, 1).Initializer("scale", []float32{5}, 1)
	b.Node("ReduceMax", []string{"input", "axis"}, []string{"loud"})
	b.Node("Mul", []string{"loud", "scale"}, []string{"output"})
	b.Node("Identity", []string{"state"}, []string{"stateN"})
	b.Output("output", onnx.Float, 1, 1).Output("stateN", onnx.Float, 2, 1, 128)
	m, err := b.Model()
	if err != nil {
		return err
	}
	return onnx.WriteFile(filepath.Join(dir, "silero_vad.onnx"), m, nil)
}

// writeWake writes the three models of openWakeWord, for which loud sound is the word "loud".
func writeWake(dir string) error {
	// part writes a model that repeats the highest of the last numbers along axis 1, times scale
	// plus offset.
	part := func(name string, input []any, last int64, scale, offset float32, shape ...int64) error {
		b := onnx.NewModel(name).Opset("", 21)
		b.Input("x", onnx.Float, input...).Initializer("from", []int64{-last}, 1).Initializer("to", []int64{1 << 60}, 1)
		b.Initializer("axis", []int64{1}, 1).Initializer("shape", shape, int64(len(shape)))
		b.Initializer("scale", []float32{scale}, 1).Initializer("offset", []float32{offset}, 1)
		b.Node("Slice", []string{"x", "from", "to", "axis"}, []string{"last"})
		b.Node("ReduceMax", []string{"last"}, []string{"highest"}, onnx.Attrs{"keepdims": 0})
		b.Node("Mul", []string{"highest", "scale"}, []string{"scaled"})
		b.Node("Add", []string{"scaled", "offset"}, []string{"moved"})
		b.Node("Expand", []string{"moved", "shape"}, []string{"y"})
		dims := make([]any, len(shape))
		for i, d := range shape {
			dims[i] = d
		}
		b.Output("y", onnx.Float, dims...)
		m, err := b.Model()
		if err != nil {
			return err
		}
		return onnx.WriteFile(filepath.Join(dir, name+".onnx"), m, nil)
	}
	// The pipeline divides spectrograms by 10 and adds 2.
	return errors.Join(part("melspectrogram", []any{1, "samples"}, 1280, 10.0/9000, -20, 1, 1, 8, 32),
		part("embedding_model", []any{1, 76, 32, 1}, 8, 1, 0, 1, 1, 1, 96),
		part("loud", []any{1, 4, 96}, 1, 1, 0, 1, 1))
}

// writeSpeech writes a model of connectionist temporal classification whose logits are its samples.
func writeSpeech(dir string) error {
	b := onnx.NewModel("speech").Opset("", 21)
	b.Input("input_values", onnx.Float, 1, "samples")
	b.Initializer("shape", []int64{1, -1, speechStep}, 3)
	b.Node("Reshape", []string{"input_values", "shape"}, []string{"logits"})
	b.Output("logits", onnx.Float, 1, "steps", speechStep)
	return write(dir, b, map[string]string{
		"config.json":              `{"architectures": ["Wav2Vec2ForCTC"]}`,
		"preprocessor_config.json": `{"feature_extractor_type": "Wav2Vec2FeatureExtractor", "do_normalize": false}`,
		"tokenizer_config.json":    `{"pad_token": "<pad>", "word_delimiter_token": "|"}`,
		"vocab.json":               `{"<pad>": 0, "a": 1, "b": 2, "|": 3}`,
	})
}
