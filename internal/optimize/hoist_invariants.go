package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// hoistInvariants turns carried values of a Loop that its body returns unchanged into values that
// the body captures. Converters of TensorFlow's models carry the weights of recurrent layers so,
// which would be copied in each run, and could not be packed.
func hoistInvariants(o *Options, g *ir.Graph) (int, error) {
	subst := map[ir.ValueID]ir.ValueID{}
	edits := 0
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		op, ok := n.Op.(*ops.Loop)
		if !ok || o.portable() {
			continue
		}
		body := n.Graphs[op.Body]
		for i := len(n.In) - 3; i >= 0; i-- {
			outer := n.In[2+i]
			if outer == ir.None || 2+i >= len(body.Inputs) || 1+i >= len(body.Outputs) {
				continue
			}
			inner, v := body.Inputs[2+i], &g.Values[outer]
			if body.Outputs[1+i] != inner || v.Type.Kind != tensor.KindTensor || !v.Type.Known() {
				continue
			}
			if v.Const != nil && g.Defaults[outer] == nil {
				body.Values[inner].Const = v.Const
			} else {
				body.Captures = append(body.Captures, ir.Capture{Outer: outer, Inner: inner})
				v.Owned = false
			}
			body.Values[inner].Type = v.Type
			n.In = slices.Delete(slices.Clone(n.In), 2+i, 3+i)
			body.Inputs = slices.Delete(body.Inputs, 2+i, 3+i)
			body.Outputs = slices.Delete(body.Outputs, 1+i, 2+i)
			if 1+i < len(body.Declared) {
				body.Declared = slices.Delete(body.Declared, 1+i, 2+i)
			}
			if i < len(n.Out) {
				if n.Out[i] != ir.None {
					subst[n.Out[i]] = outer
				}
				n.Out = slices.Delete(slices.Clone(n.Out), i, i+1)
			}
			edits++
		}
	}
	replace(g, subst)
	return edits, nil
}
