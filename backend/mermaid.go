package backend

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Mermaid returns the graph as a flowchart of Mermaid
// (https://mermaid.js.org/syntax/flowchart.html), which many Markdown viewers render. Each
// subgraph is a box that is linked to its node.
func (s *Sequence) Mermaid() string {
	m := &mermaid{}
	m.line("flowchart TB")
	m.graph(&s.Graph, map[string]string{}, "  ")
	return m.b.String()
}

type mermaid struct {
	b   strings.Builder
	ids int
}

func (m *mermaid) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

func (m *mermaid) id() string {
	m.ids++
	return "n" + strconv.Itoa(m.ids)
}

// graph writes a graph. from maps the visible values to the nodes of the drawing that compute
// them; a subgraph begins with those of the enclosing graph.
func (m *mermaid) graph(g *GraphSequence, from map[string]string, indent string) {
	for _, v := range g.Inputs {
		from[v.Name] = m.id()
		m.line(`%s%s(["%s"])`, indent, from[v.Name], label(v.Name, v.Type))
	}
	for _, t := range g.Initializers {
		from[t.Name] = m.id()
		m.line(`%s%s[("%s")]`, indent, from[t.Name], label(t.Name, fmt.Sprintf("%s%v", t.DType, t.Dims)))
	}
	for _, n := range g.Nodes {
		id := m.id()
		lines := []string{n.qualified()}
		if n.Name != "" {
			lines = append(lines, "("+n.Name+")")
		}
		for _, a := range slices.Sorted(maps.Keys(n.Attributes)) {
			lines = append(lines, n.attributeText(a))
		}
		m.line(`%s%s["%s"]`, indent, id, label(lines...))
		for _, in := range n.Inputs {
			if src := from[in]; src != "" {
				m.line(`%s%s -->|"%s"| %s`, indent, src, label(in), id)
			}
		}
		for _, o := range n.Outputs {
			if o != "" {
				from[o] = id
			}
		}
		for _, a := range slices.Sorted(maps.Keys(n.Graphs)) {
			sub, box := n.Graphs[a], m.id()
			m.line(`%ssubgraph %s ["%s"]`, indent, box, label(n.OpType+" "+a))
			m.graph(&sub, maps.Clone(from), indent+"  ")
			m.line(`%send`, indent)
			m.line(`%s%s -.-> %s`, indent, id, box)
		}
	}
	for _, v := range g.Outputs {
		id := m.id()
		m.line(`%s%s(["%s"])`, indent, id, label(v.Name, v.Type))
		if src := from[v.Name]; src != "" {
			m.line(`%s%s --> %s`, indent, src, id)
		}
	}
}

// label joins the lines of a quoted label. Characters with a meaning in Mermaid or HTML become
// numeric codes, control characters question marks.
func label(lines ...string) string {
	var b strings.Builder
	for i, s := range lines {
		if i > 0 {
			b.WriteString("<br>")
		}
		for _, r := range s {
			switch {
			case r < ' ' || r == 0x7f:
				b.WriteByte('?')
			case strings.ContainsRune("\"#<>&;`\\|{}", r):
				fmt.Fprintf(&b, "#%d;", r)
			default:
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
