package ir

import "github.com/onward-ml/onward/internal/fail"

// Verify checks that a graph is well formed: every value is computed once, and before its uses, and
// every id exists. It runs after each pass.
func Verify(g *Graph) error {
	ready := make([]bool, len(g.Values))
	for id := range g.Values {
		ready[id] = g.Values[id].Const != nil
	}
	for _, id := range g.Inputs {
		ready[id] = true
	}
	for _, c := range g.Captures {
		if c.Inner < 0 || int(c.Inner) >= len(g.Values) {
			return fail.Errorf("graph %q has a capture for value %d, which does not exist", g.Name, c.Inner)
		}
		ready[c.Inner] = true
	}
	use := func(id ValueID) error {
		if id < 0 || int(id) >= len(g.Values) {
			return fail.Errorf("value %d, which does not exist", id)
		}
		if !ready[id] {
			return fail.Errorf("value %d (%s) before it is computed", id, g.Values[id].Name)
		}
		return nil
	}
	produced := make([]bool, len(g.Values))
	for i, n := range g.Nodes {
		if n.Op == nil {
			return fail.Errorf("node %d (%s) has no operator", i, n.OpType)
		}
		var err error
		n.EachUse(func(id ValueID) {
			if e := use(id); e != nil && err == nil {
				err = fail.Errorf("node %d (%s) uses %w", i, n.OpType, e)
			}
		})
		if err != nil {
			return err
		}
		for _, s := range n.Graphs {
			if err := Verify(s); err != nil {
				return fail.Errorf("in node %d (%s): %w", i, n.OpType, err)
			}
		}
		for _, id := range n.Out {
			if id == None {
				continue
			}
			if id < 0 || int(id) >= len(g.Values) {
				return fail.Errorf("node %d (%s) computes value %d, which does not exist", i, n.OpType, id)
			}
			if produced[id] {
				return fail.Errorf("node %d (%s) computes value %d (%s) a second time", i, n.OpType,
					id, g.Values[id].Name)
			}
			produced[id], ready[id] = true, true
		}
	}
	for _, id := range g.Outputs {
		if err := use(id); err != nil {
			return fail.Errorf("the graph's output uses %w", err)
		}
	}
	return nil
}
