// Package datasets holds small example models, embedded in the program.
//
//   - logreg_iris.onnx: logistic regression on Fisher's iris data.
//     float_input, float [3,2] (three flowers; sepal length and width in cm) →
//     output_label, int64 [3] (0 setosa, 1 versicolor, 2 virginica) and
//     output_probability, a sequence of three maps from label to float.
//   - mul_1.onnx: X, float [3,2] → Y, float [3,2], X times 1 to 6. X = 1 to 6 gives the squares.
//   - sigmoid.onnx: x, float [3,4,5] → y, float [3,4,5], 1 / (1 + exp(-x)).
//   - digits.onnx: a convolutional network that reads handwritten digits.
//     image, float [batch,1,8,8] (0 paper to 1 ink: the grey level divided by 255) →
//     digit, int64 [batch], and probabilities, float [batch,10].
//     It reads 445 of 449 images (99.1%) that it was not trained on.
//
// The first three have the names, inputs and outputs of the examples in ONNX
// Runtime's Python package onnxruntime.datasets; the weights are ours, so the
// numbers differ for logreg_iris. train/train.py makes all four.
package datasets

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed models/*.onnx models/digit7.png
var files embed.FS

// NotFoundError is the error for an unknown example. errors.Is reports that it is fs.ErrNotExist.
type NotFoundError struct{ Name string }

// Error returns the text of onnxruntime.datasets.get_example.
func (e *NotFoundError) Error() string { return fmt.Sprintf("Unable to find example '%s'", e.Name) }

// Unwrap returns fs.ErrNotExist.
func (e *NotFoundError) Unwrap() error { return fs.ErrNotExist }

// Get returns the bytes of the example with the given name, such as "sigmoid.onnx", in a new slice.
// Errors are of type *NotFoundError.
func Get(name string) ([]byte, error) {
	if !strings.HasSuffix(name, ".onnx") || strings.ContainsAny(name, `/\`) {
		return nil, &NotFoundError{Name: name}
	}
	b, err := files.ReadFile("models/" + name)
	if err != nil {
		return nil, &NotFoundError{Name: name}
	}
	return b, nil
}

// Path writes the example with the given name to a folder and returns the path of its file, for
// programs that open models by their path. Errors of unknown names are of type *NotFoundError.
func Path(dir, name string) (string, error) {
	b, err := Get(name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, b, 0o666)
}

// Names returns the names of all examples, sorted.
func Names() []string {
	names, err := fs.Glob(files, "models/*.onnx")
	if err != nil {
		panic(err) // the pattern is valid
	}
	for i, n := range names {
		names[i] = strings.TrimPrefix(n, "models/")
	}
	return names
}

// SampleDigit is the digit in the sample image.
const SampleDigit = 7

// SampleImage returns an input for digits.onnx: a PNG of 8×8 pixels, 8-bit grey, 0 paper to 255
// ink, with the handwritten digit SampleDigit. It is not in the training data.
func SampleImage() []byte {
	b, err := files.ReadFile("models/digit7.png")
	if err != nil {
		panic(err) // embedded above
	}
	return b
}
