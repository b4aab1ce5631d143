package ir

import "slices"

// Clone returns a copy of a graph whose nodes and values can be changed independently. Operators
// and constants are shared, since they are immutable: the copy owns none of its constants.
func (g *Graph) Clone() *Graph {
	c := *g
	c.Shared = true
	c.Values = slices.Clone(g.Values)
	for i := range c.Values {
		c.Values[i].Owned = false
	}
	c.Inputs, c.Outputs, c.Captures = slices.Clone(g.Inputs), slices.Clone(g.Outputs), slices.Clone(g.Captures)
	c.Nodes = make([]*Node, len(g.Nodes))
	nodes := make([]Node, len(g.Nodes))
	ids := 0
	for _, n := range g.Nodes {
		ids += len(n.In) + len(n.Out)
	}
	list := make([]ValueID, 0, ids)
	copied := func(from []ValueID) []ValueID {
		at := len(list)
		list = append(list, from...)
		return list[at:len(list):len(list)]
	}
	for i, n := range g.Nodes {
		nodes[i] = *n
		m := &nodes[i]
		m.In, m.Out = copied(n.In), copied(n.Out)
		m.Graphs = slices.Clone(n.Graphs)
		for k, s := range n.Graphs {
			m.Graphs[k] = s.Clone()
		}
		c.Nodes[i] = m
	}
	return &c
}
