package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// removeDead removes nodes whose results are not used, marks unused outputs, drops
// trailing ones that the operator allows to leave out, and removes unused captures of
// subgraphs (dead code elimination).
func removeDead(o *Options, g *ir.Graph) (int, error) {
	edits := 0
	live := make([]bool, len(g.Values))
	for _, id := range g.Outputs {
		live[id] = true
	}
	first := len(g.Nodes) // of the nodes that are kept, at the end of the list
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if err := o.err(); err != nil {
			return 0, err
		}
		n := g.Nodes[i]
		used := false
		for _, id := range n.Out {
			used = used || id != ir.None && live[id]
		}
		if !used {
			edits++
			continue
		}
		for k, id := range n.Out {
			// The first output is kept, since operators may rely on it. In a model that is written,
			// so are outputs that ONNX requires.
			if k > 0 && id != ir.None && !live[id] && (!o.portable() || kit.DropsOutput(n, k)) {
				n.Out[k] = ir.None
				edits++
			}
		}
		for last := len(n.Out) - 1; last > 0 && n.Out[last] == ir.None && kit.DropsOutput(n, last); last-- {
			n.Out = n.Out[:last]
		}
		for _, s := range n.Graphs {
			edits += dropCaptures(s)
		}
		n.EachUse(func(id ir.ValueID) { live[id] = true })
		first--
		g.Nodes[first] = n
	}
	g.Nodes = slices.Delete(g.Nodes, 0, first)
	for id := range g.Values {
		if !live[id] {
			g.Values[id].Const = nil // frees constants that have been folded
		}
	}
	return edits, nil
}

func dropCaptures(g *ir.Graph) int {
	uses := g.Uses()
	kept := g.Captures[:0]
	for _, c := range g.Captures {
		if uses[c.Inner] > 0 {
			kept = append(kept, c)
		}
	}
	n := len(g.Captures) - len(kept)
	g.Captures = kept
	return n
}
