package onward

import (
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// Analysis describes the main graph of a model as loading finds it, before any run.
// Model-local functions are inlined: their nodes and values replace the calls and
// have names of their own.
type Analysis struct {
	// Values holds the inputs, initializers and node outputs with their inferred types
	// and shapes. Shape is nil if the rank is unknown.
	Values []NodeArg
	// Nodes is in topological order, in which the provider reference runs the nodes.
	Nodes []NodeInfo
}

// ByName returns the values by name.
func (a *Analysis) ByName() map[string]NodeArg {
	r := make(map[string]NodeArg, len(a.Values))
	for _, v := range a.Values {
		r[v.Name] = v
	}
	return r
}

// NodeInfo is a node of the main graph.
type NodeInfo struct {
	Index   int      `json:"index"` // position in the order of execution
	Name    string   `json:"name"`  // as in the model, may be empty
	OpType  string   `json:"op_type"`
	Domain  string   `json:"domain"`  // "" for ai.onnx
	Opset   int      `json:"opset"`   // version of the domain
	Inputs  []string `json:"inputs"`  // "" for an omitted input
	Outputs []string `json:"outputs"` // "" for an omitted output
}

// Analyze infers the types and shapes of a model's values and the order of its nodes,
// without running it. It returns the errors that opening a session would, of type
// *[StatusError].
func Analyze(m *onnx.Model, limits Limits) (*Analysis, error) {
	if m == nil {
		return nil, statusf(NoModel, "the model is nil")
	}
	values, nodes, err := goengine.Analyze(m, limits)
	if err != nil {
		return nil, driver.LoadError(err)
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
