package edit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// Names maps old names to new ones.
type Names struct {
	Values, Nodes, Dims map[string]string
}

// Rename returns a model with other names of values, nodes and symbolic dimensions of the main
// graph. Subgraphs that read these values, or have these dimensions, are changed too.
func Rename(m *onnx.Model, names Names) (*onnx.Model, error) {
	u := used(m.Graph)
	for _, l := range []struct {
		kind       string
		names      map[string]string
		have, free map[string]bool
	}{{"value", names.Values, top(m.Graph), u.values}, {"node", names.Nodes, u.nodes, u.nodes},
		{"symbolic dimension", names.Dims, u.dims, nil}} {
		seen := map[string]string{}
		for _, from := range slices.Sorted(maps.Keys(l.names)) {
			to := l.names[from]
			switch {
			case from == "" || !l.have[from]:
				return nil, fmt.Errorf("the main graph has no %s %q%s", l.kind, from, nearest(from, l.have))
			case to == "":
				return nil, fmt.Errorf("the new name of %s %q is empty", l.kind, from)
			case seen[to] != "" && l.free != nil:
				return nil, fmt.Errorf("%ss %q and %q would both be %q", l.kind, seen[to], from, to)
			case l.free[to] && l.names[to] == "":
				return nil, fmt.Errorf("the model has a %s %q already", l.kind, to)
			}
			seen[to] = from
		}
	}
	c := copyOf(m)
	c.Graph = rename(c.Graph, names)
	return c, nil
}

// usedNames holds the names in use in a graph and its subgraphs.
type usedNames struct{ values, nodes, dims map[string]bool }

func used(g *onnx.Graph) usedNames {
	u := usedNames{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	var visit func(g *onnx.Graph)
	visit = func(g *onnx.Graph) {
		for _, t := range g.Initializers {
			u.values[t.Name] = true
		}
		for _, v := range slices.Concat(g.Inputs, g.Outputs, g.ValueInfo) {
			u.values[v.Name] = true
			for _, d := range dimsOf(v) {
				if d.Param != "" {
					u.dims[d.Param] = true
				}
			}
		}
		for _, n := range g.Nodes {
			if n.Name != "" {
				u.nodes[n.Name] = true
			}
			for _, name := range slices.Concat(n.Inputs, n.Outputs) {
				u.values[name] = true
			}
			for _, s := range n.Subgraphs() {
				visit(s)
			}
		}
	}
	visit(g)
	return u
}

// top returns the names of the values of a graph without its subgraphs.
func top(g *onnx.Graph) map[string]bool {
	r := map[string]bool{}
	for _, t := range g.Initializers {
		r[t.Name] = true
	}
	for _, t := range g.SparseInitializers {
		r[t.Values.Name] = true
	}
	for _, v := range g.Inputs {
		r[v.Name] = true
	}
	for _, n := range g.Nodes {
		for _, out := range n.Outputs {
			r[out] = true
		}
	}
	return r
}

// or returns the new name of a name, or the name.
func or(names map[string]string, name string) string {
	if to := names[name]; to != "" {
		return to
	}
	return name
}

func rename(g *onnx.Graph, names Names) *onnx.Graph {
	value := func(name string) string { return or(names.Values, name) }
	list := func(l []string) []string {
		l = slices.Clone(l)
		for i := range l {
			l[i] = value(l[i])
		}
		return l
	}
	c := *g
	for _, l := range []*[]*onnx.ValueInfo{&c.Inputs, &c.Outputs, &c.ValueInfo} {
		*l = slices.Clone(*l)
		for i, v := range *l {
			r := *v
			r.Name = value(v.Name)
			if dims := dimsOf(v); len(names.Dims) > 0 && dims != nil {
				r = *withDims(&r, slices.Clone(dims))
				for k, d := range dimsOf(&r) {
					r.Type.Tensor.Shape.Dims[k].Param = or(names.Dims, d.Param)
				}
			}
			(*l)[i] = &r
		}
	}
	c.Initializers = slices.Clone(c.Initializers)
	for i, t := range c.Initializers {
		c.Initializers[i] = withName(t, value(t.Name))
	}
	c.SparseInitializers = slices.Clone(c.SparseInitializers)
	for i, t := range c.SparseInitializers {
		r := *t
		r.Values = withName(t.Values, value(t.Values.Name))
		c.SparseInitializers[i] = &r
	}
	c.QuantizationAnnotations = slices.Clone(c.QuantizationAnnotations)
	for i, a := range c.QuantizationAnnotations {
		r := *a
		r.TensorName = value(a.TensorName)
		r.QuantParameterTensorNames = slices.Clone(a.QuantParameterTensorNames)
		for k, p := range r.QuantParameterTensorNames {
			r.QuantParameterTensorNames[k].Value = value(p.Value)
		}
		c.QuantizationAnnotations[i] = &r
	}
	c.Nodes = slices.Clone(c.Nodes)
	for i, n := range c.Nodes {
		r := *n
		r.Name = or(names.Nodes, n.Name)
		r.Inputs, r.Outputs = list(n.Inputs), list(n.Outputs)
		if len(n.Subgraphs()) > 0 {
			r.Attributes = slices.Clone(n.Attributes)
			for k, a := range r.Attributes {
				b := *a
				if a.G != nil {
					b.G = rename(a.G, names)
				}
				b.Graphs = slices.Clone(a.Graphs)
				for j, s := range b.Graphs {
					b.Graphs[j] = rename(s, names)
				}
				r.Attributes[k] = &b
			}
		}
		c.Nodes[i] = &r
	}
	return &c
}

func withName(t *onnx.Tensor, name string) *onnx.Tensor {
	if t.Name == name {
		return t
	}
	r := *t
	r.Name = name
	return &r
}
