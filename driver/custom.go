package driver

import (
	"context"
	"strconv"

	"github.com/onward-ml/onward/tensor"
)

// Dim is one dimension of a declared shape.
type Dim struct {
	Value int64  // size; −1 if it is not fixed
	Param string // name of a symbolic dimension; may be empty
}

// String returns the size if it is fixed, else the name, or "?" for an unnamed dimension.
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
	Since  int // first version of the domain with the operator; default 1

	// Inputs and Outputs declare the parameters. "x:T, bias:T?, rest:any*" declares a
	// required, an optional and a variadic parameter. A type is one of:
	//
	//   - an element type of ONNX: float, int64
	//   - a composed type: seq(float), map(string,float)
	//   - any
	//   - a type variable that Types defines
	//
	// The type of an output must be concrete, or a variable of an input.
	Inputs, Outputs string
	// Types lists the types that each variable allows: {"T": "float double"}. @float,
	// @int, @number and @all name groups of types.
	Types map[string]string

	// Infer returns the shapes of the outputs; nil stands for an unknown rank. If Infer
	// is nil, no shape is known before the run.
	Infer func(CustomShapes) ([][]Dim, error)

	// Run computes the outputs. It returns as many as the node has; those that the node
	// omits may be nil. Run must be safe for concurrent use and must not keep or change
	// the inputs. A panic in Run becomes an error of the run.
	Run func(ctx context.Context, call CustomCall) ([]tensor.Value, error)

	// Bind replaces Run for an operator that prepares something from the attributes of a
	// node, such as a vocabulary. It is called for each node when a session opens, maybe
	// several times, and returns the function that computes the node. An error of Bind is
	// an error of opening the session. The attributes must not be changed.
	Bind func(attributes map[string]any) (func(context.Context, CustomCall) ([]tensor.Value, error), error)
}

// CustomShapes holds the input shapes and attributes of a node for
// [CustomOperator.Infer].
type CustomShapes struct {
	Shapes     [][]Dim // nil for an omitted input and for an unknown rank
	Attributes map[string]any
}

// CustomCall holds the arguments of [CustomOperator.Run].
type CustomCall struct {
	Node string // the node's name, may be empty
	// Attributes holds int64, float32, string, *tensor.Tensor, *tensor.Sparse, and
	// slices of these.
	Attributes map[string]any
	In         []tensor.Value // nil for an omitted input
	Outputs    int            // number of outputs of the node, including omitted ones
	// Reserve charges bytes to the memory limit of the run. Operators call it before they
	// allocate memory in proportion to their inputs.
	Reserve func(bytes int64) error
}

// CustomDomain is the domain of the operators that [Options.CustomKernels] returns.
const CustomDomain = "onward.custom"

// CustomKernel is an operator for one node of a custom operator. It includes the node's
// attributes.
type CustomKernel struct {
	Name    string // operator type, in CustomDomain
	Node    string // the node's name, may be empty
	In, Out []tensor.Type
	Given   []bool // per input, false for an omitted one
	// Run computes the outputs of the node and checks their types.
	Run func(ctx context.Context, in []tensor.Value) ([]tensor.Value, error)
}
