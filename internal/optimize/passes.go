// Package optimize improves typed graphs without changing their results. A pass
// is one file; passes lists them in the order in which they run.
package optimize

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// pass is one rewriting of a graph. It reports how many edits it made. Subgraphs
// are the driver's business unless the pass says so.
type pass struct {
	name string
	run  func(o *Options, g *ir.Graph) (int, error)
}

// passes run in this order, over the subgraphs of a node before its graph.
var passes = []pass{
	{"fold", foldFloats},
	{"identity", removeIdentity},
	{"cse", mergeCommon},
	{"dce", removeDead},
	{"fuse-quantized", fuseQuantized},
	{"sweep", removeDead},
	{"fold-quantized", foldQuantized},
	{"affine", affine},
	{"channel-shuffle", channelShuffle},
	{"fuse-conv", fuseConv},
	{"fuse-activation", fuseActivation},
	{"fuse-layer-norm", fuseLayerNorm},
	{"sweep", removeDead},
	{"fuse-transpose", fuseTranspose},
	{"sweep", removeDead},
	{"fuse-linear", fuseLinear},
	{"sweep", removeDead},
	{"block-layout", blockLayout},
	{"sweep", removeDead},
}

// Options gives passes what they cannot do themselves.
type Options struct {
	// Eval runs one node on constant inputs; an error leaves the node as it is.
	Eval func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error)
	// MaxFolded bounds the bytes that constant folding may add to the model.
	MaxFolded int64
	// Disabled names passes to leave out.
	Disabled map[string]bool
	// Explain is called for every pass that changed a graph; may be nil.
	Explain func(pass, graph string, edits int)

	folded        int64
	keepQuantized bool // do not fold DequantizeLinear
}

// Run improves a graph in place.
func Run(ctx context.Context, g *ir.Graph, o *Options) error {
	for _, p := range passes {
		if o.Disabled[p.name] {
			continue
		}
		if err := each(ctx, g, func(g *ir.Graph) error {
			n, err := p.run(o, g)
			if err != nil {
				return fmt.Errorf("pass %s: %w", p.name, err)
			}
			if n > 0 && o.Explain != nil {
				o.Explain(p.name, g.Name, n)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := ir.Verify(g); err != nil {
			return fmt.Errorf("pass %s leaves a bad graph: %w", p.name, err)
		}
	}
	return nil
}

// each calls fn for all subgraphs, innermost first, and then for g.
func each(ctx context.Context, g *ir.Graph, fn func(*ir.Graph) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, n := range g.Nodes {
		for _, s := range n.Graphs {
			if err := each(ctx, s, fn); err != nil {
				return err
			}
		}
	}
	return fn(g)
}

// replace makes every use of value a in the graph a use of b.
func replace(g *ir.Graph, subst map[ir.ValueID]ir.ValueID) {
	if len(subst) == 0 {
		return
	}
	to := func(id ir.ValueID) ir.ValueID {
		for {
			b, ok := subst[id]
			if !ok {
				return id
			}
			id = b
		}
	}
	for _, n := range g.Nodes {
		for i, id := range n.In {
			if id != ir.None {
				n.In[i] = to(id)
			}
		}
		for _, s := range n.Graphs {
			for i := range s.Captures {
				s.Captures[i].Outer = to(s.Captures[i].Outer)
			}
		}
	}
	for i, id := range g.Outputs {
		g.Outputs[i] = to(id)
	}
}
