package onnx_test

import (
	"fmt"

	"github.com/onward-ml/onward/onnx"
)

// A model for y = relu(x·w + b), built, written and read again.
func ExampleNewModel() {
	b := onnx.NewModel("layer").Opset("", 21)
	b.Input("x", onnx.Float, "batch", 2)
	b.Initializer("w", []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	b.Initializer("b", []float32{-1, 0, 1})
	b.Node("Gemm", []string{"x", "w", "b"}, []string{"h"}, onnx.Attrs{"alpha": 0.5})
	b.Node("Relu", []string{"h"}, []string{"y"}).Name("activation")
	b.Output("y", onnx.Float, "batch", 3)
	model, err := b.Model()
	if err != nil {
		fmt.Println(err)
		return
	}

	data, err := model.Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	if model, err = onnx.Unmarshal(data, nil); err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range model.Graph.Nodes {
		fmt.Println(n.OpType, n.Inputs, n.Outputs)
	}
	fmt.Println("IR version", model.IRVersion)
	// Output:
	// Gemm [x w b] [h]
	// Relu [h] [y]
	// IR version 10
}

// A subgraph is the value of an attribute, and a function is an operator of its own.
func ExampleGraphBuilder() {
	then := onnx.NewGraph("then").OutputType("a", nil)
	then.Node("Twice", []string{"x"}, []string{"a"}).Domain("my")
	otherwise := onnx.NewGraph("else").OutputType("b", nil)
	otherwise.Node("Neg", []string{"x"}, []string{"b"})

	b := onnx.NewModel("choice").Opset("", 21).Opset("my", 1)
	b.Input("cond", onnx.Bool).Input("x", onnx.Float, "N").Output("y", onnx.Float, "N")
	b.Node("If", []string{"cond"}, []string{"y"}, onnx.Attrs{"then_branch": then, "else_branch": otherwise})
	b.Function("my", "Twice").Inputs("v").Outputs("w").
		Node("Add", []string{"v", "v"}, []string{"w"})

	m, err := b.Model()
	fmt.Println(len(m.Graph.Nodes), m.Functions[0].Name, err)
	// Output: 1 Twice <nil>
}
