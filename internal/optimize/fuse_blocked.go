package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/blocked"
)

// fuseBlockedMap fuses a blocked convolution and what follows it: a function of every element and
// its channel, such as Silu or a BatchNormalization behind Relu, and then the addition of another
// image. Both are applied to each row while it is in the first-level cache.
func fuseBlockedMap(o *Options, g *ir.Graph) (int, error) {
	return fuseBlocked(o, g, func(first, second *ir.Node, input int) (op ir.Operator, name, opType string) {
		if cv, ok := first.Op.(*blocked.Conv); ok {
			if r := cv.Then(second.Op, input); r != nil {
				return r, first.Name, first.OpType
			}
		}
		return nil, "", ""
	})
}

// fuseScale fuses the product of a blocked image with a factor per channel, and the 1×1
// convolution that reads it.
func fuseScale(o *Options, g *ir.Graph) (int, error) {
	return fuseBlocked(o, g, func(first, second *ir.Node, input int) (op ir.Operator, name, opType string) {
		m, ok := first.Op.(*blocked.Binary)
		cv, also := second.Op.(*blocked.Conv)
		if ok && also && input == 0 {
			if r := blocked.NewScaledConv(m, cv); r != nil {
				return r, second.Name, "BlockedScaledConv"
			}
		}
		return nil, "", ""
	})
}

// fuseSqueeze fuses squeeze-and-excitation: the mean of each plane of a blocked image, two 1×1
// convolutions of it, and the product of the image and the result.
func fuseSqueeze(o *Options, g *ir.Graph) (int, error) {
	if !has[*blocked.GlobalPool](g) {
		return 0, nil
	}
	producer, uses := g.Producers(), g.Uses()
	fused := 0
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		mul, _ := n.Op.(*blocked.Binary)
		scaled, ok := n.Op.(*blocked.ScaledConv)
		if mul == nil && !ok {
			continue
		}
		var chain [3]*ir.Node // from the last one on
		for k, in := 0, n.In[1]; k < len(chain); k++ {
			if chain[k] = only(g, in, producer, uses); chain[k] == nil {
				break
			}
			in = chain[k].In[0]
			if planes := only(g, in, producer, uses); k == 0 && planes != nil { // few channels are read as planes
				if _, ok := planes.Op.(*blocked.FromBlocked); ok {
					in = planes.In[0]
				}
			}
		}
		if chain[2] == nil || chain[2].In[0] != n.In[0] {
			continue
		}
		pool, a := chain[2].Op.(*blocked.GlobalPool)
		first, b := chain[1].Op.(*blocked.Conv)
		second, c := chain[0].Op.(*blocked.Conv)
		if !a || !b || !c {
			continue
		}
		if op := blocked.NewSqueezeExcite(pool, first, second, mul, scaled); op != nil {
			g.Nodes[i] = &ir.Node{Name: n.Name, OpType: "BlockedSqueezeExcite", Domain: internalDomain, Opset: n.Opset,
				Op: op, In: slices.Concat(n.In[:1], n.In[2:]), Out: n.Out}
			fused++
		}
	}
	return fused, nil
}

// fuseDepthwise fuses a blocked convolution and the depthwise convolution of its result.
func fuseDepthwise(o *Options, g *ir.Graph) (int, error) {
	return fuseBlocked(o, g, func(first, second *ir.Node, input int) (op ir.Operator, name, opType string) {
		a, ok := first.Op.(*blocked.Conv)
		b, also := second.Op.(*blocked.Conv)
		if ok && also && input == 0 {
			if r := blocked.NewConvDepthwise(a, b); r != nil {
				return r, second.Name, "BlockedConvDepthwise"
			}
		}
		return nil, "", ""
	})
}

// fuseBlocked replaces pairs of nodes, where the second is the only consumer of the first, which is
// one of its first two inputs, by the operator that fuse returns, with its name and operator type.
// The inputs are those of the first, and the other ones of the second.
func fuseBlocked(o *Options, g *ir.Graph,
	fuse func(first, second *ir.Node, input int) (op ir.Operator, name, opType string)) (int, error) {
	if !has[*blocked.Conv](g) {
		return 0, nil
	}
	producer, uses := g.Producers(), g.Uses()
	gone := map[*ir.Node]bool{}
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		for k, in := range n.In[:min(2, len(n.In))] {
			first := only(g, in, producer, uses)
			if len(n.Out) != 1 || first == nil || gone[first] || len(first.Out) != 1 {
				continue
			}
			op, name, opType := fuse(first, n, k)
			if op == nil {
				continue
			}
			gone[first] = true
			g.Nodes[i] = &ir.Node{Name: name, OpType: opType, Domain: internalDomain, Opset: n.Opset, Op: op,
				In: slices.Concat(first.In, n.In[:k], n.In[k+1:]), Out: n.Out}
			break
		}
	}
	if len(gone) > 0 {
		g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return gone[n] })
	}
	return len(gone), nil
}
