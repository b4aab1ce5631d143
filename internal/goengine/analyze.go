package goengine

import (
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Value is a value of a graph with its inferred type.
type Value struct {
	Name  string
	Type  tensor.Type
	Shape []driver.Dim // nil if the rank is unknown
}

// Node is a node of a graph.
type Node struct {
	Name, OpType, Domain string
	Opset                int
	In, Out              []string // "" for an omitted input or output
	Bodies               []Graph  // subgraphs in the order of the attributes
}

// Graph holds the values of a graph with their inferred types and shapes, and its nodes in
// topological order.
type Graph struct {
	Values []Value
	Nodes  []Node
}

// Analyze returns the main graph of a model.
func Analyze(m *onnx.Model, limits driver.Limits) (Graph, error) {
	g, err := convert(m, frontend.Options{Limits: frontendLimits(limits)})
	if err != nil {
		return Graph{}, err
	}
	return analyze(g), nil
}

func analyze(g *ir.Graph) (r Graph) {
	for i := range g.Values {
		v := &g.Values[i]
		if v.Name == "" {
			continue
		}
		x := Value{Name: v.Name, Type: v.Type.Base()}
		if v.Type.Ranked() {
			x.Shape = dimsOf(v.Type.Shape)
		}
		r.Values = append(r.Values, x)
	}
	for _, n := range g.Nodes {
		x := Node{Name: n.Name, OpType: n.OpType, Domain: n.Domain, Opset: n.Opset, In: valueNames(g, n.In),
			Out: valueNames(g, n.Out)}
		for _, body := range n.Graphs {
			x.Bodies = append(x.Bodies, analyze(body))
		}
		r.Nodes = append(r.Nodes, x)
	}
	return r
}

func dimsOf(shape []ir.Dim) []driver.Dim {
	r := make([]driver.Dim, len(shape))
	for i, d := range shape {
		r[i] = driver.Dim{Value: -1}
		if n, ok := d.Value(); ok {
			r[i].Value = int64(n)
		} else if !d.IsUnknown() {
			r[i].Param = d.String()
		}
	}
	return r
}

// Kernels returns the name of the instruction set of the kernels in use.
func Kernels() string { return cpu.Active().String() }
