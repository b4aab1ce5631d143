package goengine

import (
	"context"
	"fmt"
	"slices"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// CustomKernels implements [driver.Options.CustomKernels] for a model whose free
// dimensions have been set.
func CustomKernels(m *onnx.Model, opts *driver.Options) (*onnx.Model, []driver.CustomKernel, error) {
	find, err := customDefs(opts.CustomOperators)
	if err != nil || find == nil {
		return m, nil, err
	}
	if m == nil || m.Graph == nil {
		return nil, nil, driver.Errorf(driver.CodeNoModel, "the model is nil or has no graph")
	}
	limit := MemoryLimit(opts.Limits)
	b := &renamer{find: find, opsets: map[string]int{}, defs: map[string]*kit.Def{}}
	for _, o := range m.OpsetImports {
		b.opsets[kit.NormalDomain(o.Domain)] = int(min(o.Version, 1<<30))
	}
	for _, f := range m.Functions {
		if f != nil && slices.ContainsFunc(f.Nodes, b.isCustom) {
			return nil, nil,
				driver.Errorf(driver.CodeNotImplemented, "function %s uses a custom operator: only cpu and reference "+
					"support custom operators in functions", f.Name)
		}
	}
	r := *m
	if r.Graph, err = b.graph(m.Graph, 0); err != nil {
		return nil, nil, err
	}
	if len(b.defs) == 0 {
		return m, nil, nil
	}
	r.OpsetImports = append(slices.Clone(m.OpsetImports), onnx.OperatorSetID{Domain: driver.CustomDomain, Version: 1})
	g, err := convert(&r, frontend.Options{Limits: frontendLimits(opts.Limits), Initializers: initializers(opts),
		Custom: func(domain, opType string, _ int) *kit.Def {
			if domain != driver.CustomDomain {
				return nil
			}
			return b.defs[opType]
		}})
	if err != nil {
		return nil, nil, err
	}
	var list []driver.CustomKernel
	var walk func(g *ir.Graph)
	walk = func(g *ir.Graph) {
		for _, n := range g.Nodes {
			if op, ok := n.Op.(*customOperator); ok {
				list = append(list, op.kernel(g, n, limit))
			}
			for _, s := range n.Graphs {
				walk(s)
			}
		}
	}
	walk(g)
	return &r, list, nil
}

// renamer gives every node with a custom operator its own operator type.
type renamer struct {
	find   func(domain, opType string, opset int) *kit.Def
	opsets map[string]int
	defs   map[string]*kit.Def // by the new name
}

// def returns the definition of the custom operator of a node, or nil.
func (b *renamer) def(n *onnx.Node) *kit.Def {
	d := kit.NormalDomain(n.Domain)
	opset, ok := b.opsets[d]
	if !ok {
		return nil
	}
	return b.find(d, n.OpType, opset)
}

func (b *renamer) isCustom(n *onnx.Node) bool { return n != nil && b.def(n) != nil }

// graph returns a copy of a graph with renamed nodes. It shares with g what is not
// changed.
func (b *renamer) graph(g *onnx.Graph, depth int) (*onnx.Graph, error) {
	const deepest = 100
	if g == nil {
		return nil, nil
	}
	if depth > deepest {
		return nil, driver.Errorf(driver.CodeInvalidGraph, "subgraphs nest deeper than %d levels", deepest)
	}
	r := *g
	r.Nodes = slices.Clone(g.Nodes)
	for i, n := range r.Nodes {
		if n == nil {
			continue
		}
		c := *n
		if d := b.def(n); d != nil {
			c.OpType, c.Domain = fmt.Sprintf("%s_%d", n.OpType, len(b.defs)), driver.CustomDomain
			b.defs[c.OpType] = d
		}
		c.Attributes = slices.Clone(n.Attributes)
		for k, a := range c.Attributes {
			if a == nil || a.G == nil && len(a.Graphs) == 0 {
				continue
			}
			x := *a
			var err error
			if x.G, err = b.graph(a.G, depth+1); err != nil {
				return nil, err
			}
			x.Graphs = slices.Clone(a.Graphs)
			for j := range x.Graphs {
				if x.Graphs[j], err = b.graph(a.Graphs[j], depth+1); err != nil {
					return nil, err
				}
			}
			c.Attributes[k] = &x
		}
		r.Nodes[i] = &c
	}
	return &r, nil
}

// kernel returns the custom kernel of node n of graph g. One call may reserve limit bytes.
func (c *customOperator) kernel(g *ir.Graph, n *ir.Node, limit int64) driver.CustomKernel {
	b := driver.CustomKernel{Name: n.OpType, Node: n.Name, In: make([]tensor.Type, len(n.In)),
		Out: make([]tensor.Type, len(n.Out)), Given: make([]bool, len(n.In))}
	for i, id := range n.In {
		if b.Given[i] = id != ir.None; b.Given[i] {
			b.In[i] = g.Values[id].Type.Base()
		}
	}
	wants := make([]bool, len(n.Out))
	for i, id := range n.Out {
		if wants[i] = id != ir.None; wants[i] {
			b.Out[i] = g.Values[id].Type.Base()
		}
	}
	b.Run = func(ctx context.Context, in []tensor.Value) ([]tensor.Value, error) {
		free := limit
		call := driver.CustomCall{Node: n.Name, In: in, Outputs: len(wants), Reserve: func(bytes int64) error {
			if free -= bytes; free < 0 {
				return fail.Errorf("the operator needs more than the memory limit of %d bytes", limit)
			}
			return nil
		}}
		return c.call(ctx, call, func(i int) bool { return wants[i] })
	}
	return b
}
