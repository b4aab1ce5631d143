package edit

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Diff lists how two models differ. Nodes are matched by name, and those without a name of their
// own by their first output.
type Diff struct {
	Model     []Change          `json:"model"`     // IR version, opsets, metadata
	Inputs    []Change          `json:"inputs"`    // types and shapes, of inputs and outputs
	Outputs   []Change          `json:"outputs"`   //
	Operators map[string][2]int `json:"operators"` // numbers of nodes, where they differ
	Nodes     []Change          `json:"nodes"`     // operators, inputs, outputs and attributes
	Weights   []Change          `json:"weights"`   // types, shapes and elements
	Values    []Change          `json:"values"`    // inferred shapes of inner values
}

// Change is one difference. A is empty if only the second model has what is named, B if only the
// first has it.
type Change struct {
	Name string `json:"name"`
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Empty reports whether there are no differences.
func (d *Diff) Empty() bool {
	return len(d.Model)+len(d.Inputs)+len(d.Outputs)+len(d.Operators)+len(d.Nodes)+len(d.Weights)+len(d.Values) == 0
}

// Compare returns the differences of two models.
func Compare(a, b *onnx.Model) (*Diff, error) {
	d := &Diff{Model: []Change{}, Operators: map[string][2]int{}}
	d.Model = append(d.Model, changes("", properties(a), properties(b))...)
	d.Inputs = changes("type", declared(a.Graph.Inputs), declared(b.Graph.Inputs))
	d.Outputs = changes("type", declared(a.Graph.Outputs), declared(b.Graph.Outputs))
	for i, m := range []*onnx.Model{a, b} {
		count(m.Graph, d.Operators, i)
	}
	maps.DeleteFunc(d.Operators, func(_ string, n [2]int) bool { return n[0] == n[1] })
	d.Nodes = nodeChanges(a.Graph, b.Graph)
	var err error
	if d.Weights, err = weightChanges(a, b); err != nil {
		return nil, err
	}
	d.Values = []Change{}
	va, errA := values(a)
	vb, errB := values(b)
	if errA == nil && errB == nil { // models that cannot run can be compared, too
		for name, v := range va {
			if w, ok := vb[name]; !ok || v.String() == w.String() || listed(a.Graph, name) {
				delete(va, name)
				delete(vb, name)
			}
		}
		maps.DeleteFunc(vb, func(name string, _ onward.NodeArg) bool { _, ok := va[name]; return !ok })
		d.Values = changes("shape", texts(va), texts(vb))
	}
	return d, nil
}

// listed reports whether a value is an input, an output or a weight, which are listed separately.
func listed(g *onnx.Graph, name string) bool {
	return slices.ContainsFunc(slices.Concat(g.Inputs, g.Outputs), func(v *onnx.ValueInfo) bool {
		return v.Name == name
	}) || isWeight(g, name)
}

func isWeight(g *onnx.Graph, name string) bool {
	return slices.ContainsFunc(g.Initializers, func(t *onnx.Tensor) bool { return t.Name == name })
}

func texts(values map[string]onward.NodeArg) map[string]string {
	r := map[string]string{}
	for name, v := range values {
		r[name] = strings.TrimPrefix(v.String(), name+": ")
	}
	return r
}

// changes compares two maps of texts.
func changes(what string, a, b map[string]string) []Change {
	r := []Change{}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if x, y := a[name], b[name]; x != y {
			r = append(r, Change{name, what, x, y})
		}
	}
	return r
}

func properties(m *onnx.Model) map[string]string {
	r := map[string]string{"ir_version": fmt.Sprint(m.IRVersion)}
	for _, o := range m.OpsetImports {
		r["opset of "+orDefault(onnx.NormalizeDomain(o.Domain))] = fmt.Sprint(o.Version)
	}
	for _, kv := range Metadata(m) {
		r[kv.Key] = kv.Value
	}
	for _, f := range m.Functions {
		data, err := f.Marshal()
		if err == nil {
			r["function "+orDefault(f.Domain)+"."+f.Name] = fmt.Sprintf("%d nodes, hash %08x", len(f.Nodes),
				crc32.ChecksumIEEE(data))
		}
	}
	return r
}

func orDefault(domain string) string {
	if domain == "" {
		return "ai.onnx"
	}
	return domain
}

func declared(list []*onnx.ValueInfo) map[string]string {
	r := map[string]string{}
	for _, v := range list {
		text := "undeclared"
		if v.Type != nil {
			if t, err := v.Type.ValueType(); err == nil {
				text = t.String()
			}
			if v.Type.Tensor != nil && v.Type.Tensor.Shape != nil {
				dims := make([]string, len(dimsOf(v)))
				for i, d := range dimsOf(v) {
					switch d.Kind {
					case onnx.DimValue:
						dims[i] = fmt.Sprint(d.Value)
					case onnx.DimParam:
						dims[i] = d.Param
					default:
						dims[i] = "?"
					}
				}
				text += "[" + strings.Join(dims, ",") + "]"
			}
		}
		r[v.Name] = text
	}
	return r
}

// count adds the operators of a graph and its subgraphs.
func count(g *onnx.Graph, ops map[string][2]int, side int) {
	for _, n := range g.Nodes {
		c := ops[opName(n)]
		c[side]++
		ops[opName(n)] = c
		for _, s := range n.Subgraphs() {
			count(s, ops, side)
		}
	}
}

func opName(n *onnx.Node) string {
	if d := onnx.NormalizeDomain(n.Domain); d != "" {
		return d + "." + n.OpType
	}
	return n.OpType
}

// keys returns the nodes of a graph by name, or by first output if the name is empty or not unique.
func keys(g *onnx.Graph) map[string]*onnx.Node {
	names := map[string]int{}
	for _, n := range g.Nodes {
		names[n.Name]++
	}
	r := map[string]*onnx.Node{}
	for i, n := range g.Nodes {
		key := n.Name
		if key == "" || names[key] > 1 {
			key = fmt.Sprintf("node %d", i)
			if len(n.Outputs) > 0 {
				key = "-> " + n.Outputs[0]
			}
		}
		r[key] = n
	}
	return r
}

func nodeChanges(a, b *onnx.Graph) []Change {
	r := []Change{}
	x, y := keys(a), keys(b)
	all := maps.Clone(x)
	maps.Copy(all, y)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		n, m := x[key], y[key]
		switch {
		case m == nil:
			r = append(r, Change{key, "node", opName(n), ""})
		case n == nil:
			r = append(r, Change{key, "node", "", opName(m)})
		default:
			if opName(n) != opName(m) {
				r = append(r, Change{key, "operator", opName(n), opName(m)})
			}
			if !slices.Equal(n.Inputs, m.Inputs) {
				r = append(r, Change{key, "inputs", strings.Join(n.Inputs, " "), strings.Join(m.Inputs, " ")})
			}
			if !slices.Equal(n.Outputs, m.Outputs) {
				r = append(r, Change{key, "outputs", strings.Join(n.Outputs, " "), strings.Join(m.Outputs, " ")})
			}
			for _, c := range changes("", attributes(n), attributes(m)) {
				r = append(r, Change{key, "attribute " + c.Name, c.A, c.B})
			}
		}
	}
	return r
}

// attributes returns the attributes of a node as texts. Graphs and tensors are named by a hash.
func attributes(n *onnx.Node) map[string]string {
	r := map[string]string{}
	for _, a := range n.Attributes {
		var v any
		switch a.Type {
		case onnx.AttrInt:
			v = a.I
		case onnx.AttrFloat:
			v = a.F
		case onnx.AttrString:
			v = fmt.Sprintf("%q", a.S)
		case onnx.AttrInts:
			v = a.Ints
		case onnx.AttrFloats:
			v = a.Floats
		case onnx.AttrStrings:
			v = fmt.Sprintf("%q", a.Strings)
		default:
			one := &onnx.Node{OpType: "-", Attributes: []*onnx.Attribute{a}}
			data, err := one.Marshal()
			v = fmt.Sprintf("%s of %d bytes, hash %08x", a.Type, len(data), crc32.ChecksumIEEE(data))
			if err != nil {
				v = err
			}
		}
		if a.RefAttrName != "" {
			v = "the function's " + a.RefAttrName
		}
		r[a.Name] = fmt.Sprint(v)
	}
	return r
}

func weightChanges(a, b *onnx.Model) ([]Change, error) {
	r := []Change{}
	byName := func(m *onnx.Model) (map[string]*onnx.Tensor, map[string]string) {
		t, text := map[string]*onnx.Tensor{}, map[string]string{}
		for _, w := range m.Graph.Initializers {
			t[w.Name], text[w.Name] = w, fmt.Sprintf("%s%v", tensor.DType(w.DataType), w.Dims)
		}
		return t, text
	}
	x, textX := byName(a)
	y, textY := byName(b)
	r = append(r, changes("weight", textX, textY)...)
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if y[name] == nil || textX[name] != textY[name] {
			continue
		}
		s, err := a.DecodeTensor(x[name])
		if err != nil {
			return nil, fmt.Errorf("weight %q of the first model: %w", name, err)
		}
		t, err := b.DecodeTensor(y[name])
		if err != nil {
			return nil, fmt.Errorf("weight %q of the second model: %w", name, err)
		}
		if s.DType() != tensor.TypeString && bytes.Equal(s.Bytes(), t.Bytes()) || tensor.Equal(t, s) == nil {
			continue
		}
		c := Change{name, "elements", textX[name], "other elements"}
		if abs, rel, err := tensor.Distance(t, s); err == nil {
			c.B = fmt.Sprintf("largest difference %.4g, relative %.4g", abs, rel)
		}
		r = append(r, c)
	}
	return r, nil
}
