package backend

import (
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// yieldsAsInputs returns a model in which the outputs of YieldOp nodes, ONNX Runtime's operator
// for training, are inputs. Such a node hands its inputs to the caller and waits for its
// outputs, the gradients with respect to these inputs. An output without a declared type has
// that of the input. It returns m if there is no such node.
func yieldsAsInputs(m *onnx.Model) (_ *onnx.Model, err error) {
	isYield := func(n *onnx.Node) bool { return n != nil && n.OpType == "YieldOp" }
	if m.Graph == nil || !slices.ContainsFunc(m.Graph.Nodes, isYield) {
		return m, nil
	}
	c, g := *m, *m.Graph
	c.Graph = &g
	g.Nodes = slices.DeleteFunc(slices.Clone(g.Nodes), isYield)
	g.Inputs = slices.Clone(g.Inputs)
	types := knownTypes(m.Graph)
	for _, n := range m.Graph.Nodes {
		if !isYield(n) {
			continue
		}
		for i, name := range n.Outputs {
			if name == "" {
				continue
			}
			if types[name] == nil && i < len(n.Inputs) {
				if types[name], err = inferUntil(&c, n.Inputs[i]); err != nil {
					return nil, err
				}
			}
			if types[name] == nil {
				return nil, invalid("the type of output %q of YieldOp %q is unknown: declare it in value_info", name,
					n.Name)
			}
			g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name, Type: types[name]})
		}
	}
	return &c, nil
}

// inferUntil returns the type of a value of the main graph. It infers over the nodes that the
// value needs, because others may need values that have no type yet.
func inferUntil(m *onnx.Model, name string) (*onnx.Type, error) {
	if t := knownTypes(m.Graph)[name]; t != nil {
		return t, nil
	}
	c, g := *m, *m.Graph
	c.Graph = &g
	// so that selectOutputs does not infer
	g.ValueInfo = append(slices.Clone(g.ValueInfo), &onnx.ValueInfo{Name: name, Type: &onnx.Type{}})
	part, err := selectOutputs(&c, []string{name})
	if err != nil {
		return nil, err
	}
	part.Graph.Outputs[0].Type, part.Graph.ValueInfo = nil, m.Graph.ValueInfo
	types := map[string]*onnx.Type{}
	err = inferMissing(part, types)
	return types[name], err
}
