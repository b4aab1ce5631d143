package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
)

// dropDoubleNeg replaces Neg of Neg by the value itself.
func dropDoubleNeg(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Neg](g) {
		return 0, nil
	}
	m, isOutput := newMatcher(g), outputs(g)
	subst := map[ir.ValueID]ir.ValueID{}
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if _, ok := n.Op.(*ops.Neg); !ok || isOutput[n.Out[0]] {
			continue
		}
		if _, inner := opOnly[*ops.Neg](m, n.In[0]); inner != nil {
			subst[n.Out[0]] = inner.In[0]
		}
	}
	replace(g, subst)
	return len(subst), nil
}
