// Package inputs makes the inputs of a run from the values of flags and from files.
package inputs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/internal/picture"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

const (
	MaxBytes = 8 << 30 // of an array that is read as an input
)

// Parse returns the input that the VALUE of --input NAME=VALUE describes.
func Parse(arg onward.NodeArg, value string) (tensor.Value, error) {
	if file, ok := strings.CutPrefix(value, "@"); ok {
		return Read(arg, file)
	}
	kind, dims, hasDims := strings.Cut(value, ":")
	switch kind {
	case "zeros", "random", "range":
		shape, err := Shape(arg, dims, hasDims)
		if err != nil {
			return nil, err
		}
		return Generate(rand.New(rand.NewPCG(1, 2)), arg, kind, shape)
	}
	t := arg.ElementType()
	if t.Kind == tensor.KindOptional {
		t = *t.Of
	}
	if t.Kind != tensor.KindTensor {
		return nil, fmt.Errorf("type is %s; give the value as @file.pb", arg.Type)
	}
	// Keep the literal's shape: the session reports a wrong one.
	return tensor.ParseJSON([]byte(value), t.Elem, nil)
}

// Shape returns the shape of an input: dims such as 1x3x224x224 if they are given, else its
// declared shape with 1 for symbolic dims.
func Shape(arg onward.NodeArg, dims string, given bool) ([]int, error) {
	if given {
		var shape []int
		for _, d := range strings.Split(dims, "x") {
			n, err := strconv.Atoi(d)
			if err != nil || n < 0 {
				return nil, cli.Usagef("shape is %q, want sizes such as 1x3x224x224", dims)
			}
			shape = append(shape, n)
		}
		return shape, nil
	}
	if arg.Shape == nil {
		return nil, cli.Usagef("shape is unknown; give one, such as zeros:1x3x224x224")
	}
	shape := make([]int, len(arg.Shape))
	for i, d := range arg.Shape {
		shape[i] = 1
		if d.Value >= 0 {
			shape[i] = int(d.Value)
		}
	}
	return shape, nil
}

// Generate makes values of a kind: zeros, range (0, 1, 2, …) or random: floats uniform in
// [0, 1), integers from 0 to 9.
func Generate(rng *rand.Rand, arg onward.NodeArg, kind string, shape []int) (tensor.Value, error) {
	dtype := arg.ElementType().Elem
	n, err := tensor.Elements(shape)
	if err != nil {
		return nil, err
	}
	if n > MaxBytes/8 {
		return nil, fmt.Errorf("shape %v is too large", shape)
	}
	if arg.ElementType().Kind != tensor.KindTensor || kind != "zeros" && dtype == tensor.TypeString {
		return nil, fmt.Errorf("values of type %s cannot be generated as %s", arg.Type, kind)
	}
	if kind == "zeros" {
		return tensor.Zeros(dtype, shape...)
	}
	data := make([]float64, n)
	for i := range data {
		switch {
		case kind == "range":
			data[i] = float64(i)
		case dtype.IsFloat() || dtype == tensor.TypeComplex64 || dtype == tensor.TypeComplex128:
			data[i] = rng.Float64()
		case dtype == tensor.TypeBool || dtype.Packed():
			data[i] = float64(rng.IntN(2))
		default:
			data[i] = float64(rng.IntN(10))
		}
	}
	t, err := tensor.New(data, append([]int{}, shape...)...)
	if err != nil {
		return nil, err
	}
	if t.Rank() != len(shape) {
		if t, err = t.Reshape(shape...); err != nil {
			return nil, err
		}
	}
	return tensor.Convert(t, dtype, tensor.ConvertOptions{Saturate: true})
}

// Read reads an input from a file.
func Read(arg onward.NodeArg, file string) (tensor.Value, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".npy":
		return tensor.ReadNPYFile(file, MaxBytes)
	case ".pb":
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		return onnx.UnmarshalValue(data, onnx.NewType(arg.ElementType()), nil, nil)
	case ".png", ".jpg", ".jpeg", ".gif":
		return readImage(arg, file)
	}
	return nil, cli.Usagef("file is %q, want .npy, .pb, .png, .jpg or .gif", file)
}

// readImage decodes an image for an input [N,C,H,W], [N,H,W,C], or either without N. Values
// are 0 to 1 for float inputs and 0 to 255 for integer inputs.
func readImage(arg onward.NodeArg, file string) (tensor.Value, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	layout, err := picture.For(arg)
	if err != nil {
		return nil, err
	}
	data, shape, err := layout.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(arg.Shape) == 4 {
		shape = append([]int{1}, shape...)
	}
	t, err := tensor.New(data, shape...)
	if err != nil {
		return nil, err
	}
	return tensor.Convert(t, arg.ElementType().Elem, tensor.ConvertOptions{Saturate: true})
}
