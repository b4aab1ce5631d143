package optimize

import (
	"context"

	"github.com/onward-ml/onward/internal/ir"
)

// Resolve infers the types of a graph in which inputs have got known shapes or contents since it
// was inferred. It folds nodes before it infers those that follow, and inlines each If whose
// condition has become constant: the other branch may not fit the inputs.
func Resolve(ctx context.Context, g *ir.Graph, o *Options) error {
	subst := map[ir.ValueID]ir.ValueID{}
	kept := make([]*ir.Node, 0, len(g.Nodes))
	var resolve func(nodes []*ir.Node) error
	resolve = func(nodes []*ir.Node) error {
		for _, n := range nodes {
			if err := ctx.Err(); err != nil {
				return err
			}
			replaceUses(n, subst)
			if branch := constantBranch(g, n); branch != nil {
				moveBranch(g, n, branch, subst)
				if err := resolve(branch.Nodes); err != nil {
					return err
				}
				continue
			}
			if err := ir.InferNode(ctx, g, n); err != nil {
				return err
			}
			if foldContents(g, n) || foldSmall(o, g, n) {
				continue
			}
			kept = append(kept, n)
		}
		return nil
	}
	if err := resolve(g.Nodes); err != nil {
		return err
	}
	g.Nodes = kept
	for i, id := range g.Outputs {
		g.Outputs[i] = follow(subst, id)
	}
	return nil
}

// foldSmall folds a node with small constant inputs and outputs.
func foldSmall(o *Options, g *ir.Graph, n *ir.Node) bool {
	in, size, ok := constantInputs(g, n)
	if !ok || size > smallResult {
		return false
	}
	out, err := o.Eval(g, n, in, smallResult)
	if err != nil {
		return false // if the node ever runs, the run reports the error
	}
	setConstants(g, n, in, out)
	return true
}
