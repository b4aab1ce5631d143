package pipeline

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// mutant changes a model in one way.
type mutant struct {
	what   string
	change func(g *onnx.Graph)
}

// constantOutput replaces output i by equal numbers, in a shape.
func constantOutput(i int, value float64, shape []int64) mutant {
	return mutant{fmt.Sprintf("output %d is %v of shape %v", i, value, shape), func(g *onnx.Graph) {
		o := g.Outputs[i]
		n := 1
		for _, d := range shape {
			n *= int(d)
		}
		var data any = slices.Repeat([]float32{float32(value)}, n)
		if t := o.Type.Tensor; t != nil && t.ElemType == onnx.Int64 {
			data = slices.Repeat([]int64{int64(min(max(value, -1), 1e9))}, n)
		} else if t != nil && t.ElemType == onnx.Int32 {
			data = slices.Repeat([]int32{int32(min(max(value, -1), 1e9))}, n)
		}
		c, err := onnx.NewTensor("hostile", data, shape...)
		if err != nil {
			panic(err)
		}
		g.Initializers = append(g.Initializers, c)
		for _, node := range g.Nodes {
			for k, name := range node.Outputs {
				if name == o.Name {
					node.Outputs[k] = name + " before"
				}
			}
		}
		g.Nodes = append(g.Nodes, &onnx.Node{OpType: "Identity", Inputs: []string{c.Name}, Outputs: []string{o.Name}})
		if o.Type.Tensor != nil {
			o.Type.Tensor.Shape = nil
		}
	}}
}

// mutants are hostile models with the inputs and outputs of another, or without some.
func mutants(m *onnx.Model) []mutant {
	list := []mutant{
		{"no inputs and outputs", func(g *onnx.Graph) { *g = onnx.Graph{Name: g.Name} }},
		{"no outputs", func(g *onnx.Graph) { g.Outputs = nil }},
	}
	for i := range m.Graph.Outputs {
		list = append(list, mutant{fmt.Sprintf("no output %d", i),
			func(g *onnx.Graph) { g.Outputs = slices.Delete(g.Outputs, i, i+1) }})
		for _, shape := range [][]int64{{}, {0}, {1}, {3}, {1, 0}, {0, 1}, {1, 1}, {1, 3}, {2, 3}, {1, 0, 3}, {1, 2, 0},
			{1, 1, 1}, {1, 2, 3}, {0, 2, 3}, {1, 1, 6}, {1, 0, 0, 0}, {1, 1, 0, 2}, {1, 1, 2, 2}, {1, 2, 3, 4}} {
			for _, value := range []float64{math.NaN(), math.Inf(1), -1, 1e9} {
				list = append(list, constantOutput(i, value, shape))
			}
		}
	}
	for i, in := range m.Graph.Inputs {
		if in.Type.Tensor == nil {
			continue
		}
		list = append(list, mutant{fmt.Sprintf("input %d without shape", i),
			func(g *onnx.Graph) { g.Inputs[i].Type.Tensor.Shape = nil }},
			mutant{fmt.Sprintf("input %d is a scalar", i),
				func(g *onnx.Graph) { g.Inputs[i].Type.Tensor.Shape = &onnx.Shape{} }})
		if s := in.Type.Tensor.Shape; s != nil {
			for k := range s.Dims {
				for _, n := range []int64{0, 1 << 31, 1 << 62} {
					list = append(list, mutant{fmt.Sprintf("dimension %d of input %d is %d", k, i, n),
						func(g *onnx.Graph) {
							g.Inputs[i].Type.Tensor.Shape.Dims[k] = onnx.Dim{Kind: onnx.DimValue, Value: n}
						}})
				}
			}
		}
	}
	for _, name := range []string{"pixel_mask", "attention_mask", "token_type_ids", "position_ids",
		"past_key_values.0.key"} {
		for _, n := range []int64{0, 1 << 31} {
			for rank := 2; rank <= 4; rank++ {
				list = append(list, mutant{fmt.Sprintf("input %s of rank %d with %d", name, rank, n),
					func(g *onnx.Graph) { addInput(g, name, append([]any{1}, slices.Repeat([]any{n}, rank-1)...)) }})
			}
		}
	}
	return list
}

// addInput adds an input of integers, unless there is one of that name.
func addInput(g *onnx.Graph, name string, dims []any) {
	t, err := onnx.NewTensorType(onnx.Int64, dims...)
	if err == nil && !slices.ContainsFunc(g.Inputs, func(v *onnx.ValueInfo) bool { return v.Name == name }) {
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name, Type: t})
	}
}

// TestHostileModels replaces each model of a folder by some mutants, or if ONWARD_LONG is set, by
// all.
func TestHostileModels(t *testing.T) {
	turn := 0
	for _, kind := range sortedKeys(attempts) {
		t.Run(kind, func(t *testing.T) {
			dir, files := hostileFolder(t, kind)
			for _, name := range files {
				if !strings.HasSuffix(name, ".onnx") {
					continue
				}
				path := filepath.Join(dir, filepath.FromSlash(name))
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				m, err := onnx.Unmarshal(data, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, mutant := range mutants(m) {
					if turn++; skipped(turn, 5) {
						continue
					}
					replaced(t, path, func(string) error {
						m, err := onnx.Unmarshal(data, nil)
						if err != nil {
							return err
						}
						mutant.change(m.Graph)
						return onnx.WriteFile(path, m, nil)
					}, func() {
						for _, try := range attempts[kind] {
							bounded(t, try, dir, fmt.Sprintf("%s: %s", name, mutant.what), 0)
						}
					})
				}
			}
		})
	}
}
