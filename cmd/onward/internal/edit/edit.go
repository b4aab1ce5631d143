// Package edit changes models: it cuts parts out of them, frees dimensions, converts precision. The
// functions return new models, which share what is unchanged with the originals.
package edit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// copyOf returns a copy of a model whose main graph can be changed. The nodes are the original's.
// Before IR version 4, initializers had to be inputs; the copy has version 4 then and its inputs
// are those that a run takes.
func copyOf(m *onnx.Model) *onnx.Model {
	c, g := *m, *m.Graph
	g.Inputs, g.Outputs, g.ValueInfo = slices.Clone(g.Inputs), slices.Clone(g.Outputs), slices.Clone(g.ValueInfo)
	g.Nodes, g.Initializers = slices.Clone(g.Nodes), slices.Clone(g.Initializers)
	c.Graph = &g
	if c.IRVersion < 4 {
		c.IRVersion = 4
		initializer := map[string]bool{}
		for _, t := range g.Initializers {
			initializer[t.Name] = true
		}
		g.Inputs = slices.DeleteFunc(g.Inputs, func(v *onnx.ValueInfo) bool { return initializer[v.Name] })
	}
	return &c
}

// values returns the inferred type and shape of each value of the main graph.
func values(m *onnx.Model) (map[string]onward.NodeArg, error) {
	a, err := onward.Analyze(m, onward.Limits{})
	if err != nil {
		return nil, err
	}
	return a.ByName(), nil
}

// Extract returns the part of a model that computes the values to from the values from and from the
// model's inputs that are needed besides. If to is nil, it stands for the model's outputs.
func Extract(m *onnx.Model, from, to []string) (*onnx.Model, error) {
	all, err := values(m)
	if err != nil {
		return nil, err
	}
	g := m.Graph
	if to == nil {
		for _, v := range g.Outputs {
			to = append(to, v.Name)
		}
	}
	for _, name := range slices.Concat(from, to) {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("the main graph has no value %q%s", name, nearest(name, all))
		}
	}
	producer := map[string]*onnx.Node{}
	for _, n := range g.Nodes {
		for _, out := range n.Outputs {
			producer[out] = n
		}
	}
	var scopes onnx.Scopes
	needed, keep := map[string]bool{}, map[*onnx.Node]bool{}
	for todo := slices.Clone(to); len(todo) > 0; {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if name == "" || needed[name] {
			continue
		}
		needed[name] = true
		n := producer[name]
		if n == nil || slices.Contains(from, name) || keep[n] {
			continue
		}
		keep[n] = true
		todo = append(todo, scopes.Reads(n)...)
	}
	declared := map[string]*onnx.ValueInfo{} // the model may say more than can be inferred
	for _, v := range slices.Concat(g.ValueInfo, g.Outputs) {
		declared[v.Name] = v
	}
	c := copyOf(m)
	g = c.Graph
	unused := func(name string) bool { return !needed[name] }
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool { return !keep[n] })
	g.Initializers = slices.DeleteFunc(g.Initializers, func(t *onnx.Tensor) bool {
		return unused(t.Name) || slices.Contains(from, t.Name)
	})
	g.SparseInitializers = slices.DeleteFunc(slices.Clone(g.SparseInitializers), func(t *onnx.SparseTensor) bool {
		return unused(t.Values.Name)
	})
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v *onnx.ValueInfo) bool { return unused(v.Name) })
	g.ValueInfo = slices.DeleteFunc(g.ValueInfo, func(v *onnx.ValueInfo) bool {
		return unused(v.Name) || slices.Contains(from, v.Name) || slices.Contains(to, v.Name)
	})
	have := map[string]bool{}
	for _, v := range g.Inputs {
		have[v.Name] = true
	}
	for _, name := range from {
		switch {
		case !needed[name]:
			return nil, fmt.Errorf("the values %s do not depend on %q", strings.Join(to, ", "), name)
		case !have[name]:
			g.Inputs = append(g.Inputs, all[name].Declaration())
		}
	}
	g.Outputs = nil
	for _, name := range to {
		v := declared[name]
		if v == nil || all[name].Shape != nil {
			v = all[name].Declaration()
		}
		if v.Type == nil || v.Type.Tensor != nil && v.Type.Tensor.Shape == nil {
			return nil, fmt.Errorf(
				"the number of dimensions of %q is unknown, and an output of a model file must declare it", name)
		}
		g.Outputs = append(g.Outputs, v)
	}
	return c, nil
}

// nearest returns text with the names that contain a name, or nothing.
func nearest[V any](name string, all map[string]V) string {
	var r []string
	for n := range all {
		if name != "" && strings.Contains(strings.ToLower(n), strings.ToLower(name)) {
			r = append(r, n)
		}
	}
	if len(r) == 0 {
		return "; onward graph lists them"
	}
	slices.Sort(r)
	return "; it has " + strings.Join(r[:min(len(r), 5)], ", ")
}

// FreeBatch returns a model whose inputs and outputs have the symbolic first dimension name
// instead of their fixed one, which must be the same for all inputs. It removes the declared
// shapes of other values and repairs shapes of Reshape that hold the fixed size: it returns the
// names of those nodes.
func FreeBatch(m *onnx.Model, name string) (*onnx.Model, []string, error) {
	c := copyOf(m)
	g := c.Graph
	initializer := map[string]*onnx.Tensor{}
	for _, t := range g.Initializers {
		initializer[t.Name] = t
	}
	size := int64(-1)
	for i, v := range g.Inputs {
		if initializer[v.Name] != nil {
			continue
		}
		dims := dimsOf(v)
		if len(dims) == 0 || dims[0].Kind != onnx.DimValue {
			return nil, nil, fmt.Errorf("the first dimension of input %q is not a number", v.Name)
		}
		if size >= 0 && dims[0].Value != size {
			return nil, nil, fmt.Errorf("input %q has a first dimension of %d, an input before it of %d", v.Name,
				dims[0].Value, size)
		}
		size = dims[0].Value
		g.Inputs[i] = withFirst(v, onnx.Dim{Kind: onnx.DimParam, Param: name, Denotation: dims[0].Denotation})
	}
	for i, v := range g.Outputs {
		if dims := dimsOf(v); len(dims) > 0 && dims[0].Kind == onnx.DimValue && dims[0].Value == size {
			g.Outputs[i] = withFirst(v, onnx.Dim{Kind: onnx.DimParam, Param: name})
		}
	}
	g.ValueInfo = nil
	constant := func(name string) (*onnx.Tensor, int) {
		if t := initializer[name]; t != nil {
			return t, -1
		}
		for i, n := range g.Nodes {
			if n.OpType == "Constant" && n.Outputs[0] == name {
				if a := n.Attribute("value"); a != nil {
					return a.T, i
				}
			}
		}
		return nil, -1
	}
	var repaired []string
	for pass := 0; ; pass++ {
		all, err := values(c)
		if err != nil {
			return nil, nil, err
		}
		changed := false
		for i, n := range g.Nodes {
			if n.OpType != "Reshape" || onnx.NormalizeDomain(n.Domain) != "" || len(n.Inputs) < 2 {
				continue
			}
			data := all[n.Inputs[0]].Shape
			if len(data) == 0 || data[0].Param != name {
				continue
			}
			t, _ := constant(n.Inputs[1])
			if t == nil {
				continue
			}
			x, err := m.DecodeTensor(t)
			if err != nil || x.DType() != tensor.TypeInt64 || x.Len() == 0 {
				continue
			}
			shape := slices.Clone(tensor.MustData[int64](x))
			if a := n.Attribute("allowzero"); shape[0] <= 0 || shape[0]%size != 0 || a != nil && a.I != 0 {
				continue
			}
			switch {
			case shape[0] == size:
				shape[0] = 0 // the size of the data's first dimension
			case slices.Contains(shape, -1):
				return nil, nil,
					fmt.Errorf("node %q (Reshape) merges the batch with another dimension and computes a second one: "+
						"its shape %v cannot be repaired", n.Name, shape)
			default:
				shape[0] = -1
			}
			// Other nodes may read the constant, too: this one gets its own.
			own, err := onnx.NewTensor(n.Inputs[1]+"_"+fmt.Sprint(len(g.Initializers))+"_"+name, shape,
				int64(len(shape)))
			if err != nil {
				return nil, nil, err
			}
			g.Initializers = append(g.Initializers, own)
			r := *n
			r.Inputs = slices.Clone(n.Inputs)
			r.Inputs[1] = own.Name
			g.Nodes[i] = &r
			repaired = append(repaired, n.Name)
			changed = true
		}
		if !changed {
			return c, repaired, nil
		}
	}
}

func dimsOf(v *onnx.ValueInfo) []onnx.Dim {
	if v.Type == nil || v.Type.Tensor == nil || v.Type.Tensor.Shape == nil {
		return nil
	}
	return v.Type.Tensor.Shape.Dims
}

// withFirst returns a copy of a declaration with another first dimension.
func withFirst(v *onnx.ValueInfo, d onnx.Dim) *onnx.ValueInfo {
	dims := slices.Clone(dimsOf(v))
	dims[0] = d
	return withDims(v, dims)
}

// withDims returns a copy of a declaration of a tensor with other dimensions.
func withDims(v *onnx.ValueInfo, dims []onnx.Dim) *onnx.ValueInfo {
	c, t, tt, s := *v, *v.Type, *v.Type.Tensor, *v.Type.Tensor.Shape
	s.Dims = dims
	tt.Shape, t.Tensor, c.Type = &s, &tt, &t
	return &c
}
