package onward

import (
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// Analysis describes the main graph of a model, or a subgraph, as loading finds it, before any run.
// Model-local functions are inlined: their nodes and values replace the calls and
// have names of their own.
type Analysis struct {
	// Values holds the inputs, initializers and node outputs with their inferred types
	// and shapes; in a subgraph, also the values that it reads from the graphs around it.
	// Shape is nil if the rank is unknown.
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

// NodeInfo is a node of a graph.
type NodeInfo struct {
	Index   int      `json:"index"` // position in the order of execution
	Name    string   `json:"name"`  // as in the model, may be empty
	OpType  string   `json:"op_type"`
	Domain  string   `json:"domain"`  // "" for ai.onnx
	Opset   int      `json:"opset"`   // version of the domain
	Inputs  []string `json:"inputs"`  // "" for an omitted input
	Outputs []string `json:"outputs"` // "" for an omitted output
	// Bodies are the subgraphs of control flow, in the order of the node's attributes.
	Bodies []*Analysis `json:"-"`
}

// Analyze infers the types and shapes of a model's values and the order of its nodes,
// without running it. It returns the errors that opening a session would, of type
// *[StatusError].
func Analyze(m *onnx.Model, limits Limits) (*Analysis, error) {
	if m == nil {
		return nil, statusf(CodeNoModel, "the model is nil")
	}
	g, err := goengine.Analyze(m, limits)
	if err != nil {
		return nil, driver.LoadError(err)
	}
	return analysis(&g), nil
}

func analysis(g *goengine.Graph) *Analysis {
	a := &Analysis{}
	for _, v := range g.Values {
		a.Values = append(a.Values, NodeArg{Name: v.Name, Type: v.Type.String(), Shape: v.Shape, typ: v.Type})
	}
	for i, n := range g.Nodes {
		x := NodeInfo{Index: i, Name: n.Name, OpType: n.OpType, Domain: n.Domain, Opset: n.Opset,
			Inputs: n.In, Outputs: n.Out}
		for k := range n.Bodies {
			x.Bodies = append(x.Bodies, analysis(&n.Bodies[k]))
		}
		a.Nodes = append(a.Nodes, x)
	}
	return a
}
