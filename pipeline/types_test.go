package pipeline

import (
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preprocess"
)

// retype writes the model of a folder again, with inputs and outputs of another floating-point type
// and an attention mask of int32, by the nodes of build between inputs and outputs of float32.
func retype(t *testing.T, dir string, input string, in []any, output string, out []any,
	build func(b *onnx.ModelBuilder)) {
	t.Helper()
	b := onnx.NewModel("half").Opset("", 17)
	b.Input(input, onnx.Float16, in...)
	if input == "input_values" {
		b.Input("attention_mask", onnx.Int32, in...)
	}
	b.Node("Cast", []string{input}, []string{"x"}, onnx.Attrs{"to": int(onnx.Float)})
	build(b)
	b.Node("Cast", []string{"y"}, []string{output}, onnx.Attrs{"to": int(onnx.Float16)})
	b.Output(output, onnx.Float16, out...)
	m, err := b.Model()
	if err == nil {
		err = onnx.WriteFile(filepath.Join(dir, "onnx", "model.onnx"), m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHalfPrecisionInputs runs models of images and of speech whose inputs and outputs are float16.
func TestHalfPrecisionInputs(t *testing.T) {
	dir := toy(t, "colors", nil)
	retype(t, dir, "pixel_values", []any{1, 3, "h", "w"}, "logits", []any{1, 3}, func(b *onnx.ModelBuilder) {
		b.Node("ReduceMax", []string{"x"}, []string{"y"}, onnx.Attrs{"axes": []int64{2, 3}, "keepdims": 0})
	})
	c, err := OpenImageClassifier(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	image, err := preprocess.NewImage(2, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		image.Pixels[3*i+1] = 255
	}
	labels, err := c.Classify(t.Context(), image, 1)
	if err != nil || labels[0].Name != "green" {
		t.Errorf("labels %v, %v, want green", labels, err)
	}

	dir = toy(t, "speech", nil)
	retype(t, dir, "input_values", []any{1, "n"}, "logits", []any{1, "s", 4}, func(b *onnx.ModelBuilder) {
		b.Initializer("shape", []int64{1, -1, 4}, 3)
		b.Node("Reshape", []string{"x", "shape"}, []string{"y"})
	})
	r, err := OpenSpeechRecognizer(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := r.Recognize(t.Context(), []float32{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0}, r.Rate())
	if err != nil || got.Text != "ab" {
		t.Errorf("text %+v, %v, want ab", got, err)
	}
}
