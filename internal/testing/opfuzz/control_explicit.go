package opfuzz

import (
	"fmt"

	"github.com/onward-ml/onward/onnx"
)

// Explicit returns an equivalent model in which nodes with subgraphs have all of their outputs,
// and each output of a subgraph is computed by a separate node. ONNX Runtime 1.30 refuses
// subgraphs that return captured values, crashes at absent outputs of Loop and Scan, and returns
// wrong values where a subgraph returns one of its inputs: for the iteration number of a Loop,
// that of the next iteration.
func (c *Chain) Explicit() (*onnx.Model, error) {
	data, err := c.Model.Marshal()
	if err != nil {
		return nil, err
	}
	m, err := onnx.Unmarshal(data, nil)
	if err != nil {
		return nil, err
	}
	names := 0
	name := func() string {
		names++
		return fmt.Sprint("explicit", names)
	}
	var nodes func(list []*onnx.Node)
	graph := func(g *onnx.Graph) {
		nodes(g.Nodes)
		own := map[string]bool{}
		for _, n := range g.Nodes {
			for _, out := range n.Outputs {
				own[out] = true
			}
		}
		for _, out := range g.Outputs {
			if !own[out.Name] {
				n := name()
				g.Nodes = append(g.Nodes,
					&onnx.Node{OpType: "Identity", Inputs: []string{out.Name}, Outputs: []string{n}})
				out.Name = n
			}
			own[out.Name] = false // a second output needs a node
		}
	}
	nodes = func(list []*onnx.Node) {
		for _, n := range list {
			for _, g := range n.Subgraphs() {
				graph(g)
				for i, out := range n.Outputs {
					if out == "" {
						n.Outputs[i] = name()
					}
				}
			}
		}
	}
	nodes(m.Graph.Nodes)
	for _, f := range m.Functions {
		nodes(f.Nodes)
	}
	return m, nil
}
