package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
)

// Edit describes the changes of one pass to one graph.
type Edit struct {
	Pass   string
	Graph  string // name of the graph
	Edits  int    // number of edits, as the pass counts them
	Before int    // number of nodes
	After  int
	// Removed, Added and Changed list nodes, each as operator and label: "Relu relu_1".
	Removed, Added, Changed []string
}

// snapshot is the state of a graph's nodes before a pass.
type snapshot struct {
	nodes []*ir.Node
	ops   []ir.Operator
	texts []string
}

func takeSnapshot(g *ir.Graph) snapshot {
	s := snapshot{nodes: slices.Clone(g.Nodes)}
	for _, n := range g.Nodes {
		s.ops = append(s.ops, n.Op)
		s.texts = append(s.texts, nodeText(g, n))
	}
	return s
}

// nodeText returns operator and name of a node, or its first output if it has no name.
func nodeText(g *ir.Graph, n *ir.Node) string {
	if n.Name != "" {
		return n.OpType + " " + n.Name
	}
	return n.Label(g)
}

// edit compares a graph with its snapshot.
func (s snapshot) edit(pass string, edits int, g *ir.Graph) Edit {
	e := Edit{Pass: pass, Graph: g.Name, Edits: edits, Before: len(s.nodes), After: len(g.Nodes)}
	was := make(map[*ir.Node]int, len(s.nodes))
	for i, n := range s.nodes {
		was[n] = i
	}
	stays := make([]bool, len(s.nodes))
	for _, n := range g.Nodes {
		i, ok := was[n]
		if !ok {
			e.Added = append(e.Added, nodeText(g, n))
			continue
		}
		stays[i] = true
		// Attributes are part of the operator. Operators without attributes may be equal.
		if text := nodeText(g, n); text != s.texts[i] || !ir.SameOperator(n.Op, s.ops[i]) {
			e.Changed = append(e.Changed, s.texts[i]+" -> "+text)
		}
	}
	for i, ok := range stays {
		if !ok {
			e.Removed = append(e.Removed, s.texts[i])
		}
	}
	return e
}
