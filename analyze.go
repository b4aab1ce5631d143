package onward

import (
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// Analysis is what loading a model finds out about its main graph without running
// it. Model-local functions are inlined: their nodes and values appear in the place
// of the calls, with names of their own.
type Analysis struct {
	// Values are the inputs, initializers and results with the types and shapes
	// that inference finds. Shape is nil where the rank is not known.
	Values []NodeArg
	// Nodes are in an order in which they can run: that of the reference engine.
	Nodes []NodeInfo
}

// NodeInfo is a node of the main graph.
type NodeInfo struct {
	Index   int      `json:"index"` // position in the order of execution
	Name    string   `json:"name"`  // as in the model, may be empty
	OpType  string   `json:"op_type"`
	Domain  string   `json:"domain"`  // "" for ai.onnx
	Opset   int      `json:"opset"`   // version of the domain
	Inputs  []string `json:"inputs"`  // empty for omitted ones
	Outputs []string `json:"outputs"` // empty for omitted ones
}

// Analyze infers the types of a model's values and the order of its nodes. Errors
// are of type *[StatusError], as when a session is opened.
func Analyze(m *onnx.Model, limits Limits) (*Analysis, error) {
	if m == nil {
		return nil, statusf(NoModel, "there is no model")
	}
	values, nodes, err := goengine.Analyze(m, limits)
	if err != nil {
		return nil, loadStatus(err)
	}
	a := &Analysis{}
	for _, v := range values {
		a.Values = append(a.Values, NodeArg{Name: v.Name, Type: v.Type.String(), Shape: v.Shape, typ: v.Type})
	}
	for i, n := range nodes {
		a.Nodes = append(a.Nodes, NodeInfo{Index: i, Name: n.Name, OpType: n.OpType, Domain: n.Domain, Opset: n.Opset, Inputs: n.In, Outputs: n.Out})
	}
	return a, nil
}
