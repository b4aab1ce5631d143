// Package modelfile loads the MODEL argument of the verbs and computes sizes of models.
package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Examples lists the names of the example models.
func Examples() string { return strings.Join(datasets.Names(), ", ") }

// Load reads a model file, or an example model if no such file exists.
func Load(path string) (*onnx.Model, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && slices.Contains(datasets.Names(), path) {
		data, err := datasets.Get(path)
		if err != nil {
			return nil, err
		}
		return onnx.Unmarshal(data, nil)
	}
	m, err := onnx.ReadFile(path, nil)
	if err == nil && m.Graph == nil { // as of an empty file
		err = errors.Join(fmt.Errorf("read %q: the model has no graph", path), m.Close())
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// CheckOutput fails if writing a model to output would replace files of the model m of the file
// source, other than in its place. Weights are stored in the file external next to output, if
// external is not empty.
func CheckOutput(source string, m *onnx.Model, output, external string) error {
	if file := m.DataFile(output); file != "" {
		return fmt.Errorf("output %q is %q, which has weights of the model %q; choose another name", output,
			file, source)
	}
	if external == "" {
		return nil
	}
	weights := filepath.Join(filepath.Dir(output), external)
	if Same(weights, source) {
		return fmt.Errorf("--external-data %q is the model %q itself; choose another name", weights, source)
	}
	if file := m.DataFile(weights); file != "" && !Same(output, source) {
		return fmt.Errorf("--external-data %q is %q, which has weights of the model %q; choose another name",
			weights, file, source)
	}
	return nil
}

// Same reports whether two paths are the same file.
func Same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Write writes a model to a file. Weights are stored in the file external next to it, if external
// is not empty. Otherwise, external data stays where it is if that is the output's folder, and is
// stored in the output if not.
func Write(path string, m *onnx.Model, external string) error {
	err := onnx.WriteFile(path, m, &onnx.WriteOptions{ExternalData: external})
	if external == "" && errors.Is(err, onnx.ErrExternalData) {
		return WriteWhole(path, m)
	}
	return err
}

// WriteWhole writes a model with all of its weights to a file.
func WriteWhole(path string, m *onnx.Model) error {
	data, err := m.MarshalInline()
	if errors.Is(err, onnx.ErrTooBig) {
		err = fmt.Errorf("%w; --external-data stores the weights in another file", err)
	}
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, 0o644, data)
}

// Describe loads a model and describes its inputs and outputs.
func Describe(path string) (*onnx.Model, *onward.Description, error) {
	m, err := Load(path)
	if err != nil {
		return nil, nil, err
	}
	d, err := onward.Describe(m)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, d, nil
}

// Nodes counts the nodes of a graph and its subgraphs.
func Nodes(g *onnx.Graph) int {
	if g == nil {
		return 0
	}
	n := len(g.Nodes)
	for _, node := range g.Nodes {
		for _, a := range node.Attributes {
			n += Nodes(a.G)
			for _, s := range a.Graphs {
				n += Nodes(s)
			}
		}
	}
	return n
}

// WeightBytes returns the size of a model's initializers.
func WeightBytes(m *onnx.Model) int64 {
	total := int64(0)
	for _, t := range m.Graph.Initializers {
		n := int64(1)
		for _, d := range t.Dims {
			if d < 0 || d > 0 && n > math.MaxInt64/64/d {
				return total
			}
			n *= d
		}
		total += (n*int64(ElementBits(t.DataType)) + 7) / 8
	}
	return total
}

// ElementBits returns the width of an element in a file; 0 for strings.
func ElementBits(d onnx.DataType) int {
	if d < 0 || d > 255 {
		return 0
	}
	return tensor.DType(d).Bits()
}
