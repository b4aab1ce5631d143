// Package export converts graphs to ONNX models.
package export

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Model returns a graph as an ONNX model. The graph must come from package frontend with
// KeepSource, converted from m, and may have been optimized. Functions stay inlined. Operators
// created by passes are written as operators of ONNX or of ONNX Runtime's domain com.microsoft.
// Operators with packed weights or blocked layouts have no ONNX form; the error, an
// [ops.UnsupportedError], lists them.
func Model(g *ir.Graph, m *onnx.Model) (*onnx.Model, error) {
	imports := opsets(m)
	e := &exporter{opsets: maps.Clone(imports), used: map[string]bool{}, taken: map[string]bool{},
		reserved: map[string]bool{}, labels: map[string]int{}, consts: map[tensor.Value]string{},
		failed: map[string]*kit.Unsupported{}}
	og := *m.Graph
	og.Initializers, og.SparseInitializers, og.ValueInfo, og.Nodes = nil, nil, nil, nil
	og.QuantizationAnnotations = nil
	og.Inputs = slices.DeleteFunc(slices.Clone(og.Inputs), func(v *onnx.ValueInfo) bool {
		return !slices.ContainsFunc(g.Inputs, func(id ir.ValueID) bool { return g.Values[id].Name == v.Name })
	})
	for _, v := range slices.Concat(og.Inputs, og.Outputs) {
		e.taken[v.Name] = true
	}
	for i := range g.Values {
		if v := &g.Values[i]; !v.Local && v.Name != "" {
			e.reserved[v.Name] = true
		}
	}
	x := &graphExport{exporter: e, g: g, names: make([]string, len(g.Values))}
	for _, id := range g.Inputs {
		x.names[id] = g.Values[id].Name
		if d, ok := g.Defaults[id].(*tensor.Tensor); ok {
			e.initializer(x.names[id], d)
		}
	}
	outputs := make([]string, len(og.Outputs))
	for i, v := range og.Outputs {
		outputs[i] = v.Name
	}
	if err := x.graph(outputs); err != nil {
		return nil, err
	}
	if len(e.failed) > 0 {
		r := &kit.UnsupportedError{}
		for _, k := range slices.Sorted(maps.Keys(e.failed)) {
			r.Ops = append(r.Ops, *e.failed[k])
		}
		return nil, r
	}
	og.Nodes, og.Initializers = x.nodes, e.initializers
	r := *m
	r.Graph, r.Functions = &og, nil
	r.IRVersion = max(m.IRVersion, 4) // since version 4, initializers need not be inputs
	r.OpsetImports = slices.Clone(m.OpsetImports)
	if len(r.OpsetImports) == 0 {
		r.OpsetImports = []onnx.OperatorSetID{{Version: 1}} // implied by IR versions before 3
	}
	for _, d := range slices.Sorted(maps.Keys(e.used)) {
		if _, ok := imports[d]; !ok {
			r.OpsetImports = append(r.OpsetImports, onnx.OperatorSetID{Domain: d, Version: int64(e.opsets[d])})
		}
	}
	return &r, nil
}

// opsets returns the imported opset of each domain. A model of an IR version before 3 without
// imports has opset 1.
func opsets(m *onnx.Model) map[string]int {
	r := map[string]int{}
	if m.IRVersion < 3 && len(m.OpsetImports) == 0 {
		r[""] = 1
	}
	for _, o := range m.OpsetImports {
		r[kit.NormalDomain(o.Domain)] = int(o.Version)
	}
	return r
}

// exporter is the state shared by the graphs of a model.
type exporter struct {
	opsets       map[string]int  // opsets of the model, and added ones
	used         map[string]bool // domains
	taken        map[string]bool // names of values
	reserved     map[string]bool // names of the main graph's values, which other values do not take
	labels       map[string]int  // number of requests per node name; ONNX Runtime requires unique names
	consts       map[tensor.Value]string
	initializers []*onnx.Tensor
	failed       map[string]*kit.Unsupported
	count        int
}

// fresh returns an unused value name, similar to the requested one.
func (e *exporter) fresh(wish string) string {
	name := wish
	for name == "" || e.taken[name] || e.reserved[name] {
		e.count++
		name = fmt.Sprintf("%s_%d", cmpOr(wish, "onward"), e.count)
	}
	e.taken[name] = true
	return name
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (e *exporter) initializer(name string, t *tensor.Tensor) {
	p := onnx.FromTensor(t)
	p.Name = name
	e.initializers = append(e.initializers, p)
}

// tensor returns the name of a constant. Constants of all graphs are initializers of the main
// graph, which are visible in subgraphs.
func (e *exporter) tensor(wish string, t *tensor.Tensor) string {
	if name, ok := e.consts[t]; ok {
		return name
	}
	name := e.fresh(wish)
	e.consts[t] = name
	e.initializer(name, t)
	return name
}

// graphExport exports one graph.
type graphExport struct {
	*exporter
	g     *ir.Graph
	names []string // names of the values; "" if not named yet
	nodes []*onnx.Node
	err   error
}

// graph writes the nodes and names the outputs.
func (x *graphExport) graph(outputs []string) error {
	g := x.g
	made := g.Producers()
	for i, id := range g.Outputs {
		if i < len(outputs) && made[id] >= 0 && x.names[id] == "" && g.Values[id].Const == nil {
			x.names[id] = outputs[i]
		}
	}
	for _, n := range g.Nodes {
		for _, id := range n.Out {
			if id != ir.None && x.names[id] == "" {
				x.names[id] = x.fresh(x.wish(id))
			}
		}
	}
	for _, n := range g.Nodes {
		if err := x.node(n); err != nil {
			return fail.Errorf("node %q (%s): %w", n.Label(g), kit.QualifiedName(n.Domain, n.OpType), err)
		}
	}
	for i, id := range g.Outputs {
		if i < len(outputs) && x.names[id] == "" {
			// Identity supports sequences only since opset 14, so create a constant sequence
			// directly.
			if _, isTensor := g.Values[id].Const.(*tensor.Tensor); !isTensor && g.Values[id].Const != nil {
				if err := x.build(outputs[i], g.Values[id].Const); err != nil {
					return err
				}
				x.names[id] = outputs[i]
			}
		}
		if i < len(outputs) && x.value(id) != outputs[i] {
			x.emit("Identity", "", "", []string{x.value(id)}, []string{outputs[i]}, nil)
		}
	}
	return x.err
}

// wish returns the name of a value in the model and releases its reservation. Names of an inlined
// function's body stay reserved for values of the main graph.
func (x *graphExport) wish(id ir.ValueID) string {
	v := &x.g.Values[id]
	if !v.Local {
		delete(x.reserved, v.Name)
	}
	return v.Name
}

// value returns the name of a value. It writes a constant on first use.
func (x *graphExport) value(id ir.ValueID) string {
	if id == ir.None {
		return ""
	}
	if x.names[id] != "" {
		return x.names[id]
	}
	v := &x.g.Values[id]
	name, err := x.constant(x.wish(id), v.Const)
	if err != nil && x.err == nil {
		x.err = fail.Errorf("value %q: %w", v.Name, err)
	}
	x.names[id] = name
	return name
}

func (x *graphExport) constant(wish string, v tensor.Value) (string, error) {
	if t, ok := v.(*tensor.Tensor); ok {
		return x.tensor(wish, t), nil
	}
	out := x.fresh(wish)
	return out, x.build(out, v)
}

// build writes the nodes that create a constant other than a tensor.
func (x *graphExport) build(out string, v tensor.Value) error {
	switch v := v.(type) {
	case *tensor.Sequence:
		if v.Elem.Kind != tensor.KindTensor {
			break
		}
		if len(v.Items) == 0 {
			x.emit("SequenceEmpty", "", "", nil, []string{out}, onnx.Attrs{"dtype": v.Elem.Elem})
			return nil
		}
		in := make([]string, len(v.Items))
		for i, item := range v.Items {
			var err error
			if in[i], err = x.constant("", item); err != nil {
				return err
			}
		}
		x.emit("SequenceConstruct", "", "", in, []string{out}, nil)
		return nil
	case *tensor.Optional:
		attrs, in := onnx.Attrs{}, []string(nil)
		if v.Value != nil {
			inner, err := x.constant("", v.Value)
			if err != nil {
				return err
			}
			in = []string{inner}
		} else {
			attrs["type"] = onnx.NewType(v.Elem)
		}
		x.emit("Optional", "", "", in, []string{out}, attrs)
		return nil
	case nil:
		return errors.New("no node computes it")
	}
	return fail.Errorf("constants of type %s are not supported", v.Type())
}

// emit appends a node.
func (x *graphExport) emit(op, domain, name string, in, out []string, attrs onnx.Attrs) {
	if name != "" {
		wish := name
		for x.labels[name] > 0 {
			name = fmt.Sprintf("%s_%d", wish, x.labels[wish])
			x.labels[wish]++
		}
		x.labels[name]++
	}
	n := &onnx.Node{OpType: op, Domain: domain, Name: name, Outputs: out}
	for len(in) > 0 && in[len(in)-1] == "" {
		in = in[:len(in)-1]
	}
	n.Inputs = in
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		a, err := onnx.NewAttribute(k, attrs[k])
		if err != nil && x.err == nil {
			x.err = err
		}
		n.Attributes = append(n.Attributes, a)
	}
	if _, ok := x.opsets[domain]; !ok {
		x.opsets[domain] = 1
	}
	x.used[domain] = true
	x.nodes = append(x.nodes, n)
}

// node writes a node.
func (x *graphExport) node(n *ir.Node) error {
	in, out := make([]string, len(n.In)), make([]string, len(n.Out))
	for i, id := range n.In {
		if n.FromSource() && slices.Contains(n.Source.Extra, i) {
			continue
		}
		in[i] = x.value(id)
	}
	for i, id := range n.Out {
		if id != ir.None {
			out[i] = x.names[id]
		}
	}
	if !n.FromSource() {
		if !x.made(n, in, out) {
			x.fail(n, "the operator is the engine's own and has no ONNX form")
		}
		return x.err
	}
	s := n.Source
	if s.Domain == kit.DomainInternal {
		x.fail(n, "the operator is the engine's own and has no ONNX form")
		return nil
	}
	if s.Domain == kit.DomainNchwc {
		x.fail(n, "ONNX Runtime chose its block size for one processor")
		return nil
	}
	if have, ok := x.opsets[s.Domain]; !ok {
		x.opsets[s.Domain] = s.Opset
	} else if have != s.Opset && !sameVersion(s, have) {
		x.fail(n, fmt.Sprintf("it has opset %d in a function, and the operator differs in the model's opset %d",
			s.Opset, have))
		return nil
	}
	attrs := onnx.Attrs{}
	for _, name := range slices.Sorted(maps.Keys(s.Attrs)) { // subgraphs name their values in this order
		a, err := x.attribute(n, s.Attrs[name])
		if err != nil {
			return fail.Errorf("attribute %s: %w", name, err)
		}
		attrs[name] = a
	}
	x.scalars(n, in)
	x.emit(s.OpType, s.Domain, n.Name, in, out, attrs)
	return x.err
}

func (x *graphExport) fail(n *ir.Node, reason string) {
	k := n.Domain + "\x00" + n.OpType + "\x00" + reason
	if x.failed[k] == nil {
		x.failed[k] = &kit.Unsupported{Domain: n.Domain, OpType: n.OpType, Opset: n.Opset, First: n.Label(x.g),
			Reason: n.OpType + ": " + reason}
	}
	x.failed[k].Nodes++
}

// sameVersion reports whether the operator of the node is the same in another opset.
func sameVersion(s *ir.Source, opset int) bool {
	def, err := kit.Lookup(s.Domain, s.OpType, s.Opset)
	if err != nil {
		return false
	}
	a, _ := def.SinceVersion(s.Opset)
	b, ok := def.SinceVersion(opset)
	return ok && a == b
}

// attribute converts an attribute from the form that operators read to a Go value for
// [onnx.NewAttribute].
func (x *graphExport) attribute(n *ir.Node, v any) (any, error) {
	switch v := v.(type) {
	case *tensor.Sparse:
		p := &onnx.SparseTensor{Values: onnx.FromTensor(v.Values), Indices: onnx.FromTensor(v.Indices)}
		for _, d := range v.Shape {
			p.Dims = append(p.Dims, int64(d))
		}
		return p, nil
	case []*tensor.Tensor:
		r := make([]*onnx.Tensor, len(v))
		for i, t := range v {
			r[i] = onnx.FromTensor(t)
		}
		return r, nil
	case ir.Type:
		return typeProto(v), nil
	case kit.GraphRef:
		return x.subgraph(n.Graphs[v])
	case []kit.GraphRef:
		r := make([]*onnx.Graph, len(v))
		for i, k := range v {
			var err error
			if r[i], err = x.subgraph(n.Graphs[k]); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
	return v, nil
}

func (x *graphExport) subgraph(g *ir.Graph) (*onnx.Graph, error) {
	s := &graphExport{exporter: x.exporter, g: g, names: make([]string, len(g.Values))}
	r := &onnx.Graph{Name: cmpOr(g.Name, "subgraph")}
	for _, c := range g.Captures {
		s.names[c.Inner] = x.value(c.Outer)
	}
	for _, id := range g.Inputs {
		s.names[id] = s.fresh(g.Values[id].Name)
		v := &onnx.ValueInfo{Name: s.names[id]}
		if t := g.Values[id].Type; t.Known() {
			v.Type = typeProto(t) // ONNX Runtime's Loop requires shapes
		}
		r.Inputs = append(r.Inputs, v)
	}
	outputs := make([]string, len(g.Outputs))
	for i, id := range g.Outputs {
		outputs[i] = s.fresh(g.Values[id].Name)
		v := &onnx.ValueInfo{Name: outputs[i], Type: onnx.NewType(g.Values[id].Type.Base())}
		if i < len(g.Declared) && g.Declared[i].Base().Equal(g.Values[id].Type.Base()) {
			v.Type = typeProto(g.Declared[i]) // the declared shape determines that of outputs without iterations
		}
		r.Outputs = append(r.Outputs, v)
	}
	if err := s.graph(outputs); err != nil {
		return nil, fail.Errorf("subgraph %q: %w", g.Name, err)
	}
	r.Nodes = s.nodes
	return r, nil
}

// typeProto converts a type, including its shape.
func typeProto(t ir.Type) *onnx.Type {
	p := onnx.NewType(t.Base())
	if p.Tensor == nil || !t.Ranked() {
		return p
	}
	p.Tensor.Shape = &onnx.Shape{}
	for _, d := range t.Shape {
		dim := onnx.Dim{}
		if n, ok := d.Value(); ok {
			dim = onnx.Dim{Kind: onnx.DimValue, Value: int64(n)}
		} else if !d.IsUnknown() && !strings.ContainsAny(d.String(), " ()") {
			dim = onnx.Dim{Kind: onnx.DimParam, Param: d.String()}
		}
		p.Tensor.Shape.Dims = append(p.Tensor.Shape.Dims, dim)
	}
	return p
}

// Opset returns the version of ai.onnx that a model imports, or 1 if it imports none.
func Opset(m *onnx.Model) int { return max(opsets(m)[""], 1) }
