package exec

import "github.com/onward-ml/onward/internal/ir"

// unrounded returns which nodes of a graph compute with float32 in a plan that may round to
// bfloat16: the products that feed a state, without another product between. A state adds up the
// errors of all steps, and an error of its decay acts on what the steps before have left.
//
// The states are those of [ir.Recurrent] operators, and outputs of the graph that Add and Mul
// compute from an input of the graph.
func unrounded(g *ir.Graph) []bool {
	by := make([]int, len(g.Values)) // node that computes a value; -1: none
	for i := range by {
		by[i] = -1
	}
	for i, n := range g.Nodes {
		for _, id := range n.Out {
			if id != ir.None {
				by[id] = i
			}
		}
	}
	marked, visited := make([]bool, len(g.Nodes)), make([]bool, len(g.Nodes))
	mark := func(id ir.ValueID) {
		// A list instead of recursion: the file determines how many nodes compute a value.
		for todo := []ir.ValueID{id}; len(todo) > 0; {
			id := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if id == ir.None || by[id] < 0 || visited[by[id]] {
				continue
			}
			i := by[id]
			visited[i] = true
			if _, product := g.Nodes[i].Op.(ir.Rounder); product {
				marked[i] = true
				continue
			}
			todo = append(todo, g.Nodes[i].In...)
		}
	}
	inputs := map[ir.ValueID]bool{}
	for _, id := range g.Inputs {
		inputs[id] = true
	}
	for _, n := range g.Nodes {
		if _, ok := n.Op.(ir.Recurrent); ok {
			for _, id := range n.In {
				mark(id)
			}
		}
	}
	for _, id := range g.Outputs {
		if updates(g, by, inputs, id, false, 0) {
			mark(id)
		}
	}
	return marked
}

// updates reports whether Add and Mul, at least one of each, compute a value from an input of the
// graph. scaled holds behind a Mul.
func updates(g *ir.Graph, by []int, inputs map[ir.ValueID]bool, id ir.ValueID, scaled bool, depth int) bool {
	const deepest = 8 // a state is updated by few nodes
	switch {
	case id == ir.None || depth > deepest:
		return false
	case by[id] < 0:
		return scaled && inputs[id]
	}
	n := g.Nodes[by[id]]
	_, view := n.Op.(ir.View)
	switch {
	case n.OpType == "Mul" && depth > 0:
		scaled = true
	case n.OpType == "Add" && !scaled:
	case view || n.OpType == "Cast" || n.OpType == "CastLike":
		return updates(g, by, inputs, n.In[0], scaled, depth+1)
	default:
		return false
	}
	for _, in := range n.In {
		if updates(g, by, inputs, in, scaled, depth+1) {
			return true
		}
	}
	return false
}
