package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/msft"
)

// fuseQuantizedAdd merges a QLinearAdd of two images into the QLinearConv, with the channels last,
// that computes one of them.
func fuseQuantizedAdd(o *Options, g *ir.Graph) (int, error) {
	if o.portable() {
		return 0, nil
	}
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if _, ok := n.Op.(*msft.QLinearAdd); !ok || !sameShape(g, n.In[0], n.In[3]) {
			return nil
		}
		in := append(slices.Clone(n.In), ir.None)[:8]
		for range 2 {
			if op, conv := opOnly[*ops.QLinearConv](m, in[0]); conv != nil && op.ChannelsLast {
				args := append(slices.Clone(conv.In), ir.None)[:9]
				args = append(args, in[1:]...)
				return replaced(n, "QLinearConvAdd", &msft.QLinearConvAdd{QLinearConv: *op}, args...)
			}
			in = slices.Concat(in[3:6], in[:3], in[6:])
		}
		return nil
	})
}
