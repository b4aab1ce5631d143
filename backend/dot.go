package backend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ToDot returns [Sequence.Dot] of the Rep's model.
func (r *Rep) ToDot(recursive bool) (string, error) {
	s, err := r.ToSequence()
	if err != nil {
		return "", err
	}
	return s.Dot(recursive), nil
}

// Dot returns the graph in the language of Graphviz (https://graphviz.org/doc/info/lang.html).
// If recursive is set, each subgraph is a cluster that is linked to its node.
func (s *Sequence) Dot(recursive bool) string {
	d := &dot{recursive: recursive}
	d.line("digraph %s {", quoteDot(s.Graph.Name))
	d.line("  rankdir=TB; node [fontsize=10]; edge [fontsize=8];")
	d.graph(&s.Graph, map[string]string{}, "  ")
	d.line("}")
	return d.b.String()
}

type dot struct {
	b         strings.Builder
	recursive bool
	ids       int
}

func (d *dot) line(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *dot) id() string {
	d.ids++
	return fmt.Sprintf("n%d", d.ids)
}

// graph writes a graph. from maps the visible values to the nodes of the drawing that compute
// them; a subgraph begins with those of the enclosing graph.
func (d *dot) graph(g *GraphSequence, from map[string]string, indent string) {
	for _, v := range g.Inputs {
		from[v.Name] = d.id()
		d.line(`%s%s [shape=box, color=red, label=%s];`, indent, from[v.Name], quoteDot(v.Name+"\n"+v.Type))
	}
	for _, t := range g.Initializers {
		from[t.Name] = d.id()
		d.line(`%s%s [shape=box, style=dashed, label=%s];`, indent, from[t.Name], quoteDot(fmt.Sprintf("%s\n%s%v", t.Name, t.DType, t.Dims)))
	}
	// Nodes of a valid graph are sorted topologically, so from has their inputs.
	for _, n := range g.Nodes {
		id := d.id()
		label := n.qualified()
		if n.Name != "" {
			label += "\n(" + n.Name + ")"
		}
		for _, a := range slices.Sorted(maps.Keys(n.Attributes)) {
			label += "\n" + n.attributeText(a)
		}
		d.line(`%s%s [shape=box, style="filled,rounded", fillcolor=orange, label=%s];`, indent, id, quoteDot(label))
		for _, in := range n.Inputs {
			if src := from[in]; src != "" {
				d.line(`%s%s -> %s [label=%s];`, indent, src, id, quoteDot(in))
			}
		}
		for _, o := range n.Outputs {
			if o != "" {
				from[o] = id
			}
		}
		if d.recursive {
			d.subgraphs(&n, id, from, indent)
		}
	}
	for _, v := range g.Outputs {
		id := d.id()
		d.line(`%s%s [shape=box, color=green, label=%s];`, indent, id, quoteDot(v.Name+"\n"+v.Type))
		if src := from[v.Name]; src != "" {
			d.line(`%s%s -> %s;`, indent, src, id)
		}
	}
}

func (d *dot) subgraphs(n *SequenceNode, id string, from map[string]string, indent string) {
	for _, a := range slices.Sorted(maps.Keys(n.Graphs)) {
		g := n.Graphs[a]
		cluster := d.id()
		d.line(`%ssubgraph cluster_%s {`, indent, cluster)
		d.line(`%s  label=%s;`, indent, quoteDot(n.OpType+" "+a))
		d.line(`%s  %s [shape=point];`, indent, cluster)
		d.graph(&g, maps.Clone(from), indent+"  ")
		d.line(`%s}`, indent)
		d.line(`%s%s -> %s [style=dotted];`, indent, id, cluster)
	}
}

// quoteDot returns a quoted string of Graphviz. A line feed breaks the line of a label; other
// control characters become question marks.
func quoteDot(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r == 0x7f:
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
