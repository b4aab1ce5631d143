package optimize

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// mergeCommon computes equal nodes once: same operator, attributes and inputs (common subexpression
// elimination). Equal small constants count as the same input.
func mergeCommon(o *Options, g *ir.Graph) (int, error) {
	subst := map[ir.ValueID]ir.ValueID{}
	consts := map[string]ir.ValueID{}
	seen := map[string][]*ir.Node{}
	isOutput := make([]bool, len(g.Values))
	for _, id := range g.Outputs {
		isOutput[id] = true
	}
	kept := g.Nodes[:0:0]
	for _, n := range g.Nodes {
		for i, id := range n.In {
			if id == ir.None {
				continue
			}
			if b, ok := subst[id]; ok {
				n.In[i] = b
				continue
			}
			if key, ok := constKey(g.Values[id].Const); ok {
				if b, ok := consts[key]; ok {
					n.In[i] = b
				} else {
					consts[key] = id
				}
			}
		}
		if m := findEqual(g, n, seen, isOutput); m != nil {
			for i, id := range n.Out {
				if id != ir.None {
					subst[id] = m.Out[i]
				}
			}
			continue
		}
		kept = append(kept, n)
	}
	g.Nodes = kept
	replace(g, subst)
	return len(subst), nil
}

// smallConst is the size in bytes up to which constants are compared by contents.
const smallConst = 256

func constKey(v tensor.Value) (string, bool) {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType() == tensor.TypeString || len(t.Bytes()) > smallConst {
		return "", false
	}
	return fmt.Sprint(t.DType(), t.Shape(), ":", string(t.Bytes())), true
}

// findEqual returns an earlier node that computes the same results, or records n.
func findEqual(g *ir.Graph, n *ir.Node, seen map[string][]*ir.Node, isOutput []bool) *ir.Node {
	if _, random := n.Op.(ir.Nondeterministic); random || len(n.Graphs) > 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprint(&b, n.Domain, "/", n.OpType, "/", len(n.Out))
	for _, id := range n.In {
		fmt.Fprint(&b, ",", id)
	}
	key := b.String()
	for _, m := range seen[key] {
		if !reflect.DeepEqual(m.Op, n.Op) {
			continue
		}
		same := true
		for i, id := range n.Out {
			// Two graph outputs must stay two values, and m must compute all outputs that are
			// needed.
			same = same && (id == ir.None || m.Out[i] != ir.None && !isOutput[id])
		}
		if same {
			return m
		}
	}
	// Without a limit, many equal keys with different attributes would make the search quadratic.
	const most = 16
	if len(seen[key]) < most {
		seen[key] = append(seen[key], n)
	}
	return nil
}
