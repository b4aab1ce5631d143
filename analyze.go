package onward

import (
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
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
	g, err := convert(m, frontend.Options{Limits: limits.frontend()})
	if err != nil {
		return nil, loadStatus(err)
	}
	a := &Analysis{}
	for i := range g.Values {
		if v := &g.Values[i]; v.Name != "" {
			a.Values = append(a.Values, inferredArg(v))
		}
	}
	for i, n := range g.Nodes {
		a.Nodes = append(a.Nodes, NodeInfo{Index: i, Name: n.Name, OpType: n.OpType, Domain: n.Domain, Opset: n.Opset,
			Inputs: valueNames(g, n.In), Outputs: valueNames(g, n.Out)})
	}
	return a, nil
}

func inferredArg(v *ir.Value) NodeArg {
	a := NodeArg{Name: v.Name, typ: v.Type.Base()}
	a.Type = a.typ.String()
	if !v.Type.Ranked() {
		return a
	}
	a.Shape = dimsOf(v.Type.Shape)
	return a
}

func dimsOf(shape []ir.Dim) []Dim {
	r := make([]Dim, len(shape))
	for i, d := range shape {
		r[i] = Dim{Value: -1}
		if n, ok := d.Value(); ok {
			r[i].Value = int64(n)
		} else if !d.IsUnknown() {
			r[i].Param = d.String()
		}
	}
	return r
}
