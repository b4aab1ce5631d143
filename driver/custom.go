package driver

import (
	"context"
	"strconv"

	"github.com/onward-ml/onward/tensor"
)

// Dim is one dimension of a declared shape.
type Dim struct {
	Value int64  // −1 if it is not fixed
	Param string // the name of a symbolic dimension, may be empty
}

// String writes the number, the name, or "?".
func (d Dim) String() string {
	switch {
	case d.Value >= 0:
		return strconv.FormatInt(d.Value, 10)
	case d.Param != "":
		return d.Param
	}
	return "?"
}

// CustomOperator is an operator written in Go. It replaces an operator of the same
// domain and name.
type CustomOperator struct {
	Domain string // "" for ai.onnx
	Name   string
	Since  int // first version of the domain that has it; default 1

	// Inputs and Outputs declare the parameters: "x:T, bias:T?, rest:any*" has an
	// optional second and any number of further ones. A type is one of ONNX's
	// element types (float, int64), composed (seq(float), map(string,float)), any, or
	// a variable that Types explains. The type of an output is concrete, or a
	// variable that an input binds.
	Inputs, Outputs string
	// Types lists the types that each variable stands for: {"T": "float double"}. The
	// groups @float, @int, @number and @all stand for many.
	Types map[string]string

	// Infer returns the shapes of the outputs, nil for an unknown rank. Without Infer no
	// shape is known before the run.
	Infer func(CustomShapes) ([][]Dim, error)

	// Run computes the outputs: as many as the node has, nil for those that it does
	// not want (an empty name). It is called by many goroutines at once and must not
	// keep or change the inputs. A panic becomes an error of the run.
	Run func(ctx context.Context, call CustomCall) ([]tensor.Value, error)
}

// CustomShapes is what is known of a node's inputs before it runs.
type CustomShapes struct {
	Shapes     [][]Dim // nil for an omitted input and for an unknown rank
	Attributes map[string]any
}

// CustomCall is one run of a node with a custom operator.
type CustomCall struct {
	Node string // the node's name, may be empty
	// Attributes holds int64, float32, string, *tensor.Tensor, *tensor.Sparse, and
	// slices of these.
	Attributes map[string]any
	In         []tensor.Value // nil for an omitted input
	Outputs    int            // how many are asked for, omitted ones counted
}

// CustomDomain is the domain of the operators that [Options.CustomKernels] makes.
const CustomDomain = "onward.custom"

// CustomKernel is one node with a custom operator and its attributes, as an operator of
// its own.
type CustomKernel struct {
	Name    string // operator type, in CustomDomain
	Node    string // the node's name, may be empty
	In, Out []tensor.Type
	Given   []bool // per input, false for an omitted one
	// Run computes the node, attributes and checks included.
	Run func(ctx context.Context, in []tensor.Value) ([]tensor.Value, error)
}
