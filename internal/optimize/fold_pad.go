package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// foldPad adds the zeros of a Pad to the padding of the Conv that reads them, as ONNX
// Runtime's basic optimizations do.
func foldPad(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Pad](g) {
		return 0, nil
	}
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		cv, ok := n.Op.(*ops.Conv)
		if !ok || cv.AutoPad != "" && cv.AutoPad != "NOTSET" {
			return nil
		}
		pad, p := opOnly[*ops.Pad](m, n.In[0])
		if p == nil || pad.Mode != "constant" || pad.Value != 0 {
			return nil
		}
		rank := len(g.Values[p.In[0]].Type.Shape)
		pads := constTensor(g, p, 1)
		value, axes := constTensor(g, p, 2), constTensor(g, p, 3)
		given := len(p.In) > 3 && p.In[3] != ir.None
		if rank < 3 || pads == nil || given && axes == nil {
			return nil
		}
		if len(p.In) > 2 && p.In[2] != ir.None &&
			(value == nil || slices.ContainsFunc(value.Bytes(), func(b byte) bool { return b != 0 })) {
			return nil
		}
		before, behind, err := ops.PadCounts(kit.Ints(pads), kit.Ints(axes), given, rank, 0)
		if err != nil || before[0] != 0 || before[1] != 0 || behind[0] != 0 || behind[1] != 0 {
			return nil
		}
		c := *cv
		c.Pads = slices.Concat(before[2:], behind[2:])
		if len(cv.Pads) > 0 && len(cv.Pads) != len(c.Pads) {
			return nil
		}
		for i, zeros := range c.Pads {
			if len(cv.Pads) > 0 {
				c.Pads[i] += cv.Pads[i]
			}
			if zeros < 0 || zeros > window.Limit || c.Pads[i] > window.Limit {
				return nil
			}
		}
		node := *n
		node.Op, node.In = &c, slices.Clone(n.In)
		node.In[0] = p.In[0]
		return &node
	})
}
