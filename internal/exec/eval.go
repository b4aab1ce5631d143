package exec

import (
	"context"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Eval runs one node without subgraphs. Its results may take at most limit bytes.
func Eval(ctx context.Context, g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error) {
	one := &ir.Graph{Name: g.Name}
	node := *n
	node.In, node.Out = make([]ir.ValueID, len(n.In)), make([]ir.ValueID, len(n.Out))
	var args []tensor.Value
	for i, v := range in {
		node.In[i] = ir.None
		if v != nil {
			node.In[i] = one.NewValue("", ir.TypeOf(v))
			one.Inputs = append(one.Inputs, node.In[i])
			args = append(args, v)
		}
	}
	for i, id := range n.Out {
		node.Out[i] = ir.None
		if id != ir.None {
			node.Out[i] = one.NewValue(g.Values[id].Name, g.Values[id].Type)
			one.Outputs = append(one.Outputs, node.Out[i])
		}
	}
	one.Nodes = []*ir.Node{&node}
	p, err := Compile(ctx, one, Options{Unplanned: true})
	if err != nil {
		return nil, err
	}
	res, err := p.Run(ctx, &Request{Inputs: args, MemoryLimit: limit})
	if err != nil {
		return nil, err
	}
	out := make([]tensor.Value, len(n.Out))
	k := 0
	for i := range n.Out {
		if node.Out[i] != ir.None {
			out[i] = res[k]
			k++
		}
	}
	return out, nil
}
