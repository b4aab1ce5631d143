package calibration

import (
	"fmt"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// This test checks that graphs that no tool writes cause an error or a model, not a panic.
func TestQuantizeHostileGraphs(t *testing.T) {
	f := func(dims ...int64) *onnx.Tensor {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		return &onnx.Tensor{Name: "w", DataType: onnx.Float, Dims: dims, FloatData: make([]float32, max(0, n))}
	}
	short := f(4, 4)
	short.FloatData = short.FloatData[:3]
	huge := f(1)
	huge.Dims = []int64{1 << 40, 1 << 40}
	negative := f(1)
	negative.Dims = []int64{-1, -1}
	for i, w := range []*onnx.Tensor{f(4, 4), f(0, 4), f(4, 0), f(4), f(), f(1, 1, 1, 1), f(4, 4, 1, 1), short, huge,
		negative, {Name: "w", DataType: onnx.Float}} {
		for _, op := range []string{"Conv", "ConvTranspose", "Gemm", "MatMul", "Relu", "Clip", "Softmax", "Gather",
			"Pad", "Split", "Where", "Concat", "ArgMax",
			"BatchNormalization", "LayerNormalization", "MaxPool", "AveragePool", "GlobalAveragePool", "Resize", "Reshape", "Add", "Constant", "Sigmoid", "TopK"} {
			for _, in := range [][]string{nil, {""}, {"x"}, {"w"}, {"x", "w"}, {"w", "x"}, {"x", "w", "w"},
				{"x", "", "w"}, {"y", "w"}, {"x", "w", "w", "w", "w"}, {"c", "w", "w", "w", "w"}} {
				for _, out := range [][]string{nil, {""}, {"y"}, {"y", "y"}, {"w"}, {"y", "z"}} {
					m := &onnx.Model{IRVersion: 8, OpsetImports: []onnx.OperatorSetID{{Version: 17}},
						Graph: &onnx.Graph{
							Name: "g", Initializers: []*onnx.Tensor{w},
							Nodes: []*onnx.Node{
								{OpType: "Conv", Inputs: []string{"x", "w"}, Outputs: []string{"c"}},
								{OpType: op, Inputs: in, Outputs: out},
							},
						}}
					if op == "Conv" {
						m.Graph.Nodes = m.Graph.Nodes[1:]
					}
					x, err := onnx.NewTensorType(onnx.Float, 1, 4, 4, 4)
					if err != nil {
						t.Fatal(err)
					}
					m.Graph.Inputs = []*onnx.ValueInfo{{Name: "x", Type: x}}
					m.Graph.Outputs = []*onnx.ValueInfo{{Name: "y", Type: x}}
					table := NewTable(MinMax)
					for _, n := range []string{"x", "y", "z", "c", "w", ""} {
						table.Ranges[n] = Range{Lowest: -1, Highest: 1}
					}
					for _, way := range ways() {
						func() {
							defer func() {
								if r := recover(); r != nil {
									t.Errorf("weight %d, %s %q -> %q, %s: panic: %v", i, op, in, out, way.name, r)
								}
							}()
							if q, err := way.quantize(m, table); err == nil {
								if _, err := q.Marshal(); err != nil {
									t.Error(fmt.Errorf("%s: %w", way.name, err))
								}
							}
						}()
						if t.Failed() {
							return
						}
					}
				}
			}
		}
	}
}
