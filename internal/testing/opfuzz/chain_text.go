package opfuzz

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// String returns the text of a chain for failure messages.
func (c *Chain) String() string {
	var s strings.Builder
	for _, o := range c.Model.OpsetImports {
		fmt.Fprintf(&s, "opset %q %d; ", o.Domain, o.Version)
	}
	s.WriteByte('\n')
	for i, f := range c.Feeds {
		for _, name := range slices.Sorted(maps.Keys(f)) {
			fmt.Fprintf(&s, "feed %d %s = %s\n", i, name, Show(f[name]))
		}
	}
	for _, f := range c.Model.Functions {
		fmt.Fprintf(&s, "function %s.%s(%s) returns %s\n", f.Domain, f.Name, strings.Join(f.Inputs, ", "),
			strings.Join(f.Outputs, ", "))
		writeGraph(&s, &onnx.Graph{Nodes: f.Nodes}, "    ")
	}
	writeGraph(&s, c.Model.Graph, "")
	return s.String()
}

func writeGraph(s *strings.Builder, g *onnx.Graph, indent string) {
	for _, in := range g.Inputs {
		fmt.Fprintf(s, "%sinput %s", indent, in.Name)
		if in.Type != nil && in.Type.Tensor != nil && in.Type.Tensor.Shape != nil {
			for _, d := range in.Type.Tensor.Shape.Dims {
				if d.Kind == onnx.DimParam {
					fmt.Fprintf(s, " %s", d.Param)
				} else {
					fmt.Fprintf(s, " %d", d.Value)
				}
			}
		}
		s.WriteByte('\n')
	}
	for _, t := range g.Initializers {
		if v, err := t.Decode(nil); err == nil {
			fmt.Fprintf(s, "%s%s = %s\n", indent, t.Name, Show(v))
		}
	}
	for _, n := range g.Nodes {
		c := Case{Domain: n.Domain, Op: n.OpType}
		fmt.Fprintf(s, "%s%s = %s(%s)", indent, strings.Join(n.Outputs, ", "), c.Name(), strings.Join(n.Inputs, ", "))
		for _, a := range n.Attributes {
			if a.Type != onnx.AttrGraph {
				fmt.Fprintf(s, " %s=%s", a.Name, showAttr(a))
				continue
			}
			fmt.Fprintf(s, "\n%s  %s:\n", indent, a.Name)
			writeGraph(s, a.G, indent+"    ")
		}
		s.WriteByte('\n')
	}
	for _, o := range g.Outputs {
		fmt.Fprintf(s, "%soutput %s\n", indent, o.Name)
	}
}
