// Package opset converts models between opset versions of ai.onnx.
//
// Schemas (schemas.txt, recorded from ONNX) hold the inputs, attributes, defaults and types of each
// version of an operator. Most steps from one version to the next follow from them; adapters, in
// two tables by operator and version, do what schemas do not state. What changed in each version is
// documented at https://onnx.ai/onnx/operators/.
package opset

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Error is the reason why a node cannot be converted.
type Error struct {
	Node, OpType string
	From, To     int64 // versions of the operator; To is the model's opset if the operator does not exist in it
	Err          error
}

// Error returns the node, the operator, its versions and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("node %q: %s of version %d has no form in opset %d: %v", e.Node, e.OpType, e.From, e.To, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Convert returns a model that imports version target of ai.onnx, from [First] to [Last], and
// computes the same as m, which it does not change. It fails with an [*Error] for each node that
// cannot be converted.
func Convert(m *onnx.Model, target int64) (*onnx.Model, error) {
	from, ok := m.OpsetVersion("")
	switch {
	case !ok:
		return nil, errors.New("the model imports no version of ai.onnx")
	case target < First || target > Last || from < First || from > Last:
		return nil, fmt.Errorf("cannot convert opset %d to %d: both must be between %d and %d", from,
			target, First, Last)
	case len(m.TrainingInfo) > 0:
		return nil, errors.New("the model has training info, which is not converted")
	}
	a, err := onward.Analyze(m, onward.Limits{}) // bounds the nesting of subgraphs, too
	if err != nil {
		return nil, err
	}
	c := &converter{model: m, taken: map[string]bool{}, read: map[string]bool{}, detached: map[string]bool{}}
	c.collect(m.Graph)
	top := &scope{values: map[string]value{}, consts: map[string]*onnx.Tensor{}}
	for _, v := range a.Values {
		x := value{typ: v.Type}
		if v.Shape != nil {
			x.shape = make([]int64, len(v.Shape))
			for i, d := range v.Shape {
				x.shape[i] = d.Value
			}
		}
		top.values[v.Name] = x
	}
	r := *m
	r.Graph = c.graph(m.Graph, top, from, target)
	r.OpsetImports = imports(m.OpsetImports, target)
	r.IRVersion = onnx.IRVersionOf(target)
	r.Functions = slices.Clone(m.Functions)
	for i, f := range r.Functions {
		r.IRVersion = max(r.IRVersion, 8) // the first with functions
		if v, ok := (&onnx.Model{OpsetImports: f.OpsetImports}).OpsetVersion(""); ok {
			r.Functions[i] = c.function(f, v, target)
		}
		if f.Overload != "" {
			r.IRVersion = max(r.IRVersion, 10) // the first with overloads
		}
	}
	c.removeDetached(r.Graph)
	return &r, errors.Join(c.errs...)
}

func isDefaultDomain(o onnx.OperatorSetID) bool { return onnx.NormalizeDomain(o.Domain) == "" }

func imports(list []onnx.OperatorSetID, target int64) []onnx.OperatorSetID {
	list = slices.Clone(list)
	for i, o := range list {
		if isDefaultDomain(o) {
			list[i].Version = target
		}
	}
	return list
}

type converter struct {
	model    *onnx.Model
	taken    map[string]bool // names of values
	read     map[string]bool // names that nodes and outputs of the original read
	detached map[string]bool // values that adapters replaced, and new constants
	errs     []error
}

// collect records the names of a graph and of its subgraphs.
func (c *converter) collect(g *onnx.Graph) {
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		c.taken[v.Name] = true
	}
	for _, v := range g.Outputs {
		c.read[v.Name] = true
	}
	for _, t := range g.Initializers {
		c.taken[t.Name] = true
	}
	for _, n := range g.Nodes {
		for _, name := range n.Inputs {
			c.read[name] = true
		}
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			c.taken[name] = true
		}
		for _, s := range n.Subgraphs() {
			c.collect(s)
		}
	}
}

// value holds the inferred type and shape of a value.
type value struct {
	typ   string  // "" if unknown
	shape []int64 // nil if the rank is unknown; sizes that are unknown are negative
}

// scope holds the values of a graph or of the body of a function.
type scope struct {
	outer    *scope
	values   map[string]value
	consts   map[string]*onnx.Tensor // initializers that no input overrides, and values of Constant nodes
	added    []*onnx.Tensor          // new initializers
	function bool                    // which has no initializers
}

func (s *scope) value(name string) value {
	for ; s != nil; s = s.outer {
		if v, ok := s.values[name]; ok {
			return v
		}
	}
	return value{}
}

func (s *scope) constant(name string) *onnx.Tensor {
	for ; s != nil && name != ""; s = s.outer {
		if t := s.consts[name]; t != nil {
			return t
		}
		if _, ok := s.values[name]; ok {
			return nil
		}
	}
	return nil
}

// declare records the declared type and shape of a value.
func (s *scope) declare(v *onnx.ValueInfo) {
	if _, known := s.values[v.Name]; known || v.Type == nil {
		return
	}
	t, err := v.Type.ValueType()
	if err != nil {
		return
	}
	x := value{typ: t.String()}
	if v.Type.Tensor != nil && v.Type.Tensor.Shape != nil {
		x.shape = []int64{}
		for _, d := range v.Type.Tensor.Shape.Dims {
			size := int64(-1)
			if d.Kind == onnx.DimValue {
				size = d.Value
			}
			x.shape = append(x.shape, size)
		}
	}
	s.values[v.Name] = x
}

// graph returns a converted copy of a graph.
func (c *converter) graph(g *onnx.Graph, s *scope, from, to int64) *onnx.Graph {
	overridden := map[string]bool{}
	for _, v := range g.Inputs {
		overridden[v.Name] = c.model.IRVersion >= 4 || s.outer != nil
		s.declare(v)
	}
	for _, v := range slices.Concat(g.ValueInfo, g.Outputs) {
		s.declare(v)
	}
	for _, t := range g.Initializers {
		s.values[t.Name] = value{tensor.TensorType(tensor.DType(t.DataType)).String(), t.Dims}
		if !overridden[t.Name] {
			s.consts[t.Name] = t
		}
	}
	r := *g
	r.Nodes = c.nodes(g.Nodes, s, from, to)
	r.Initializers = slices.Concat(g.Initializers, s.added)
	if s.outer == nil && c.model.IRVersion < 4 { // whose initializers had to be inputs
		r.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v *onnx.ValueInfo) bool {
			return s.consts[v.Name] != nil
		})
	}
	return &r
}

func (c *converter) function(f *onnx.Function, from, to int64) *onnx.Function {
	s := &scope{values: map[string]value{}, consts: map[string]*onnx.Tensor{}, function: true}
	for _, n := range f.Nodes {
		c.collect(&onnx.Graph{Nodes: []*onnx.Node{n}})
	}
	for _, name := range f.Outputs {
		c.read[name] = true
	}
	r := *f
	r.Nodes = c.nodes(f.Nodes, s, from, to)
	r.OpsetImports = imports(f.OpsetImports, to)
	return &r
}

// nodes converts nodes version by version, after their subgraphs.
func (c *converter) nodes(list []*onnx.Node, s *scope, from, to int64) []*onnx.Node {
	list = slices.Clone(list)
	for i, n := range list {
		if onnx.NormalizeDomain(n.Domain) == "" && n.OpType == "Constant" && len(n.Outputs) == 1 {
			if t := constantValue(n); t != nil {
				s.consts[n.Outputs[0]] = t
				s.values[n.Outputs[0]] = value{tensor.TensorType(tensor.DType(t.DataType)).String(), t.Dims}
			}
		}
		if len(n.Subgraphs()) == 0 {
			continue
		}
		r := *n
		r.Attributes = slices.Clone(n.Attributes)
		for k, a := range r.Attributes {
			if a.G == nil && len(a.Graphs) == 0 {
				continue
			}
			b := *a
			if a.G != nil {
				b.G = c.graph(a.G, s.inner(), from, to)
			}
			b.Graphs = nil
			for _, g := range a.Graphs {
				b.Graphs = append(b.Graphs, c.graph(g, s.inner(), from, to))
			}
			r.Attributes[k] = &b
		}
		list[i] = &r
	}
	failed := map[string]bool{} // nodes by their first output, so that each is reported once
	for v := from; v != to; {
		next, adapters := v+1, upward
		if to < from {
			next, adapters = v-1, downward
		}
		var r []*onnx.Node
		for _, n := range list {
			adapt := adapters[change{n.OpType, max(v, next)}]
			old := schemaOf(n.OpType, v)
			if onnx.NormalizeDomain(n.Domain) != "" || len(n.Outputs) > 0 && failed[n.Outputs[0]] || adapt == nil &&
				old == schemaOf(n.OpType, next) {
				r = append(r, n)
				continue
			}
			x := newStep(c, s, n, v, next)
			if err := x.convert(old, adapt); err != nil {
				c.errs = append(c.errs,
					&Error{Node: n.Name, OpType: n.OpType, From: versionOf(old, v), To: next, Err: err})
				if len(n.Outputs) > 0 {
					failed[n.Outputs[0]] = true
				}
				r = append(r, n)
				continue
			}
			r = append(append(append(r, x.before...), x.n), x.after...)
			if x.gone {
				r = slices.DeleteFunc(r, func(n *onnx.Node) bool { return n == x.n })
			}
		}
		list, v = r, next
	}
	return list
}

func versionOf(s *schema, v int64) int64 {
	if s == nil {
		return v
	}
	return s.since
}

func (s *scope) inner() *scope {
	return &scope{outer: s, values: map[string]value{}, consts: map[string]*onnx.Tensor{}, function: s.function}
}

// convert converts a node to the next version: by its adapter, then by the schemas.
func (x *step) convert(old *schema, adapt adapter) error {
	if old == nil {
		return errors.New("the schema is unknown")
	}
	if adapt != nil {
		if err := adapt(x); err != nil || x.gone {
			return err
		}
	}
	s := schemaOf(x.n.OpType, x.to)
	if x.n.OpType != x.op { // replaced by another operator
		old = s
	}
	switch {
	case s == nil:
		return fmt.Errorf("the operator exists since opset %d", old.since)
	case s.deprecated:
		return fmt.Errorf("the operator is deprecated since opset %d", s.since)
	}
	for _, a := range slices.Clone(x.n.Attributes) {
		if _, ok := s.attrs[a.Name]; ok || a.RefAttrName != "" {
			continue
		}
		if !isDefault(a, old.attrs[a.Name]) {
			return fmt.Errorf("version %d has no attribute %s", s.since, a.Name)
		}
		x.drop(a.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.attrs)) {
		if d := old.attrs[name]; d != nil && s.attrs[name] != nil && !reflect.DeepEqual(d, s.attrs[name]) &&
			x.n.Attribute(name) == nil {
			x.set(name, d)
		}
	}
	x.n.Inputs = trim(x.n.Inputs)
	for last := len(x.n.Outputs) - 1; last >= 0 && x.n.Outputs[last] == ""; last-- {
		if p := at(s.out, last); p != nil && !p.optional {
			break // the number of outputs of Split is its number of parts
		}
		x.n.Outputs = x.n.Outputs[:last]
	}
	return s.check(x.n, func(name string) string { return x.s.value(name).typ })
}

// Accepts returns an error if a version of ai.onnx does not have a node, or not for the types of
// its inputs and outputs: tensor(float), or "" if a type is unknown.
func Accepts(n *onnx.Node, version int64, typeOf func(name string) string) error {
	s := schemaOf(n.OpType, version)
	if s == nil {
		return fmt.Errorf("opset %d has no operator %s", version, n.OpType)
	}
	return s.check(n, typeOf)
}

// check returns an error if the inputs, outputs or their types do not fit the schema.
func (s *schema) check(n *onnx.Node, typeOf func(name string) string) error {
	bound := map[string]string{}
	list := func(kind string, names []string, params []param) error {
		for i, name := range names {
			p := at(params, i)
			switch {
			case p == nil && name == "":
				continue
			case p == nil:
				return fmt.Errorf("version %d has no %s %d (%q)", s.since, kind, i, name)
			case name == "" && !p.optional && !p.variadic && kind == "input":
				return fmt.Errorf("version %d needs %s %d", s.since, kind, i)
			}
			t := typeOf(name)
			if t == "" {
				continue
			}
			types, isVariable := s.types[p.typ]
			if !isVariable {
				types = []string{p.typ}
			}
			if !slices.Contains(types, t) {
				return fmt.Errorf("%s %d (%q) is %s, which version %d does not take", kind, i, name, t, s.since)
			}
			if b := bound[p.typ]; b != "" && b != t && isVariable && !p.mixed {
				return fmt.Errorf("%s %d (%q) is %s, and another one is %s: version %d takes one type", kind, i,
					name, t, b, s.since)
			}
			bound[p.typ] = t
		}
		if kind == "input" {
			for i := len(names); i < len(params); i++ {
				if p := params[i]; !p.optional && !p.variadic {
					return fmt.Errorf("version %d needs %s %d", s.since, kind, i)
				}
			}
		}
		return nil
	}
	return errors.Join(list("input", n.Inputs, s.in), list("output", n.Outputs, s.out))
}

// trim removes omitted values from the end of a list.
func trim(names []string) []string {
	for len(names) > 0 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	return names
}

// removeDetached removes constants that nothing reads any more.
func (c *converter) removeDetached(g *onnx.Graph) {
	if len(c.detached) == 0 {
		return
	}
	read := map[string]bool{}
	var visit func(g *onnx.Graph)
	visit = func(g *onnx.Graph) {
		for _, v := range slices.Concat(g.Inputs, g.Outputs) {
			read[v.Name] = true
		}
		for _, n := range g.Nodes {
			for _, name := range n.Inputs {
				read[name] = true
			}
			for _, s := range n.Subgraphs() {
				visit(s)
			}
		}
	}
	visit(g)
	unused := func(name string) bool { return c.detached[name] && !read[name] }
	var clean func(g *onnx.Graph)
	clean = func(g *onnx.Graph) { // every graph is a copy
		g.Initializers = slices.DeleteFunc(g.Initializers, func(t *onnx.Tensor) bool { return unused(t.Name) })
		g.ValueInfo = slices.DeleteFunc(slices.Clone(g.ValueInfo), func(v *onnx.ValueInfo) bool {
			return unused(v.Name)
		})
		g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool {
			return n.OpType == "Constant" && len(n.Outputs) == 1 && unused(n.Outputs[0])
		})
		for _, n := range g.Nodes {
			for _, s := range n.Subgraphs() {
				clean(s)
			}
		}
	}
	clean(g)
}

// fresh returns a name that no value has.
func (c *converter) fresh(base, suffix string) string {
	name := strings.TrimSuffix(base, "_"+suffix) + "_" + suffix
	for i := 1; c.taken[name]; i++ {
		name = fmt.Sprintf("%s_%s_%d", base, suffix, i)
	}
	c.taken[name] = true
	return name
}
