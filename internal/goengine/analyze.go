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
}

// Analyze returns the values of a model with their inferred types and shapes, and its
// nodes in topological order.
func Analyze(m *onnx.Model, limits driver.Limits) (values []Value, nodes []Node, err error) {
	g, err := convert(m, frontend.Options{Limits: frontendLimits(limits)})
	if err != nil {
		return nil, nil, err
	}
	for i := range g.Values {
		v := &g.Values[i]
		if v.Name == "" {
			continue
		}
		x := Value{Name: v.Name, Type: v.Type.Base()}
		if v.Type.Ranked() {
			x.Shape = dimsOf(v.Type.Shape)
		}
		values = append(values, x)
	}
	for _, n := range g.Nodes {
		nodes = append(nodes, Node{Name: n.Name, OpType: n.OpType, Domain: n.Domain, Opset: n.Opset, In: valueNames(g, n.In), Out: valueNames(g, n.Out)})
	}
	return values, nodes, nil
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
