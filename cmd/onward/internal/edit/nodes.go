package edit

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// Remove returns a model without the nodes of the main graph that remove selects, and their number:
// what reads the first output of such a node reads its first input instead. Other outputs must be
// unused.
func Remove(m *onnx.Model, remove func(*onnx.Node) bool) (*onnx.Model, int, error) {
	all, err := values(m)
	if err != nil {
		return nil, 0, err
	}
	c := copyOf(m)
	g := c.Graph
	reads := readers(g)
	isOutput := map[string]bool{}
	for _, v := range g.Outputs {
		isOutput[v.Name] = true
	}
	to := map[string]string{} // the value that replaces another
	final := func(name string) string {
		for to[name] != "" {
			name = to[name]
		}
		return name
	}
	produced := map[string]bool{}
	var kept []*onnx.Node
	count := 0
	for _, n := range g.Nodes {
		for _, out := range n.Outputs {
			produced[out] = true
		}
		if !remove(n) {
			kept = append(kept, n)
			continue
		}
		if len(n.Inputs) == 0 || n.Inputs[0] == "" || len(n.Outputs) == 0 {
			return nil, 0, fmt.Errorf("node %q (%s) has no first input, which could replace its output",
				n.Name, n.OpType)
		}
		for _, out := range n.Outputs[1:] {
			if out != "" && (reads[out] > 0 || isOutput[out]) {
				return nil, 0, fmt.Errorf("node %q (%s) cannot be removed: its output %q is used",
					n.Name, n.OpType, out)
			}
		}
		in, out := final(n.Inputs[0]), n.Outputs[0]
		count++
		switch {
		case !isOutput[out]:
			to[out] = in
		case !produced[in] || isOutput[in]:
			return nil, 0, fmt.Errorf("node %q (%s) cannot be removed: output %q of the model would become %q, which "+
				"is an input, a weight or another output",
				n.Name, n.OpType, out, in)
		default: // the producer takes over the name of the model's output
			to[in] = out
		}
		if !all[n.Inputs[0]].ElementType().Equal(all[out].ElementType()) {
			g.ValueInfo = nil // which may declare the old type of what follows
		}
	}
	names := map[string]string{}
	for name := range to {
		names[name] = final(name)
	}
	g.Nodes = kept
	c.Graph = rename(g, Names{Values: names})
	have := top(c.Graph)
	seen := map[string]bool{}
	c.Graph.ValueInfo = slices.DeleteFunc(c.Graph.ValueInfo, func(v *onnx.ValueInfo) bool {
		gone := seen[v.Name] || !have[v.Name] || isOutput[v.Name]
		seen[v.Name] = true
		return gone
	})
	return c, count, nil
}

// readers returns how many inputs of nodes, in subgraphs too, read each value.
func readers(g *onnx.Graph) map[string]int {
	r := map[string]int{}
	var scopes onnx.Scopes
	for _, n := range g.Nodes {
		for _, name := range scopes.Reads(n) {
			r[name]++
		}
	}
	return r
}

// Insertion is a node to insert between a value and the nodes that read it.
type Insertion struct {
	Value   string   // its first input
	Readers []string // nodes that read its output instead; nil: all, and the model's output
	Node    *onnx.Node
}

// Insert returns a model with the node added. The value becomes its first input, before those that
// it already has. If the value is an output of the model, the output of the node takes its name.
func Insert(m *onnx.Model, x Insertion) (*onnx.Model, error) {
	c := copyOf(m)
	g := c.Graph
	have := top(g)
	if !have[x.Value] || x.Value == "" {
		return nil, fmt.Errorf("the main graph has no value %q%s", x.Value, nearest(x.Value, have))
	}
	for _, name := range x.Node.Inputs {
		if !have[name] {
			return nil, fmt.Errorf("the main graph has no value %q%s", name, nearest(name, have))
		}
	}
	u := used(g)
	fresh := func(taken map[string]bool, base string) string {
		name := base
		for i := 1; taken[name] || name == ""; i++ {
			name = fmt.Sprintf("%s_%d", base, i)
		}
		return name
	}
	n := *x.Node
	if n.Name != "" && u.nodes[n.Name] {
		return nil, fmt.Errorf("the model has a node %q already", n.Name)
	} else if n.Name == "" {
		n.Name = fresh(u.nodes, x.Value+"_"+n.OpType)
	}
	out := fresh(u.values, x.Value+"_"+n.OpType)
	isOutput := slices.ContainsFunc(g.Outputs, func(v *onnx.ValueInfo) bool { return v.Name == x.Value })
	producer := slices.IndexFunc(g.Nodes, func(n *onnx.Node) bool { return slices.Contains(n.Outputs, x.Value) })
	in := x.Value
	if isOutput && x.Readers == nil {
		if producer < 0 {
			return nil, fmt.Errorf(
				"value %q is an input or a weight, and an output of the model: no node can be inserted between",
				x.Value)
		}
		in, out = out, x.Value // rename the producer's
		p := *g.Nodes[producer]
		p.Outputs = slices.Clone(p.Outputs)
		p.Outputs[slices.Index(p.Outputs, x.Value)] = in
		g.Nodes[producer] = &p
	} else {
		found := map[string]bool{}
		for i, r := range g.Nodes {
			if i == producer || x.Readers != nil && !slices.Contains(x.Readers, r.Name) {
				continue
			}
			found[r.Name] = true
			one := rename(&onnx.Graph{Nodes: []*onnx.Node{r}}, Names{Values: map[string]string{x.Value: out}})
			g.Nodes[i] = one.Nodes[0]
		}
		for _, name := range x.Readers {
			if !found[name] {
				return nil, fmt.Errorf("the main graph has no node %q%s", name, nearest(name, u.nodes))
			}
		}
	}
	n.Inputs, n.Outputs = append([]string{in}, n.Inputs...), []string{out}
	g.Nodes = append(g.Nodes, &n)
	var scopes onnx.Scopes
	sorted, err := scopes.Sort(g)
	if err != nil {
		return nil, fmt.Errorf("with the node, the graph has a cycle: %w", err)
	}
	g.Nodes = sorted
	return c, nil
}
