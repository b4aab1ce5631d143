package frontend

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// nodeCost is about what a node takes in memory: with its values, and while plans are made.
const nodeCost = 1 << 10

// node converts a node, or inlines the function that it calls.
func (s *scope) node(n *onnx.Node) error {
	b := s.b
	if err := b.err(); err != nil {
		return err
	}
	if b.nodes++; b.nodes > b.maxNodes {
		return fail.Errorf("model has more than %d nodes after inlining its functions", b.maxNodes)
	}
	domain := kit.NormalDomain(n.Domain)
	if f := b.funcs[funcKey{domain, n.OpType, n.Overload}]; f != nil && !s.prefersKernel(n, domain) {
		return s.call(n, f)
	}
	in, err := s.inputs(n)
	if err != nil {
		return err
	}
	cost := nodeCost
	if s.prefix != "" {
		cost += len(s.prefix) + len(n.Name)
	}
	if err := b.opts.Reserve(int64(cost)); err != nil {
		return err
	}
	node := &ir.Node{Name: n.Name, OpType: n.OpType, Domain: domain, In: in}
	if s.prefix != "" {
		node.Name = s.prefix + n.Name
	}
	def, opset := b.operator(n, s.opsets)
	if def == nil {
		return s.outputs(n, node)
	}
	wrap := func(err error) error {
		label := n.Name
		if label == "" && len(n.Outputs) > 0 {
			label = n.OpType + " -> " + n.Outputs[0]
		}
		return fail.Errorf("node %q (%s, opset %d): %w", label, kit.QualifiedName(domain, n.OpType), opset, err)
	}
	values, err := s.attributes(n, node)
	if err != nil {
		return wrap(err)
	}
	a := kit.NewAttrs(n.OpType, values, len(n.Inputs), len(n.Outputs))
	a.Block = b.block
	op := def.Build(a, opset)
	if err := a.Err(); err != nil {
		return wrap(err)
	}
	node.Op, node.Opset, node.Sig = op, opset, def.Signature()
	if b.opts.KeepSource {
		node.Source = &ir.Source{OpType: n.OpType, Domain: domain, Opset: opset, Op: op, Attrs: values}
	}
	extra := a.Inputs()
	for i := range extra {
		for len(node.In) <= i {
			node.In = append(node.In, ir.None)
		}
		if node.In[i] != ir.None {
			return wrap(fail.Errorf("input %d is set, but it is an attribute in opset %d", i, opset))
		}
		node.In[i] = s.g.NewConst("", extra[i])
		if node.Source != nil {
			node.Source.Extra = append(node.Source.Extra, i)
		}
	}
	if err := s.unblock(node); err != nil {
		return wrap(err)
	}
	return s.outputs(n, node)
}

// prefersKernel reports whether a node that calls a model-local function runs the engine's operator
// of the same name instead, as in ONNX Runtime. Exporters add bodies for runtimes that lack an
// operator, for example MatMulNBits. The body runs if the engine has no such operator in the
// imported opset, or refuses the attributes of the node.
func (s *scope) prefersKernel(n *onnx.Node, domain string) bool {
	opset, ok := s.opsets[domain]
	isGraph := func(a *onnx.Attribute) bool { return a != nil && (a.G != nil || len(a.Graphs) > 0) }
	if !ok || n.Overload != "" || slices.ContainsFunc(n.Attributes, isGraph) {
		return false
	}
	if s.b.opts.Custom != nil && s.b.opts.Custom(domain, n.OpType, opset) != nil {
		return true
	}
	def, err := kit.Lookup(domain, n.OpType, opset)
	if err != nil || !takes(def.Signature(), n) {
		return false
	}
	values, err := s.attributes(n, &ir.Node{})
	if err != nil {
		return false
	}
	a := kit.NewAttrs(n.OpType, values, len(n.Inputs), len(n.Outputs))
	a.Block = s.b.block
	def.Build(a, opset)
	return a.Err() == nil
}

// takes reports whether an operator with the signature can have the inputs and outputs of a node,
// by their numbers.
func takes(sig *ir.Signature, n *onnx.Node) bool {
	fits := func(params []ir.Param, used int) bool {
		last := len(params) - 1
		return used <= len(params) || last >= 0 && params[last].Variadic
	}
	if !fits(sig.In, len(n.Inputs)) || !fits(sig.Out, len(n.Outputs)) {
		return false
	}
	for i, p := range sig.In {
		if required := !p.Optional && (!p.Variadic || p.Min > 0); required &&
			(i >= len(n.Inputs) || n.Inputs[i] == "") {
			return false
		}
	}
	return true
}

// operator returns the operator of a node, or records that it is not supported.
func (b *builder) operator(n *onnx.Node, imports map[string]int) (*kit.Def, int) {
	domain := kit.NormalDomain(n.Domain)
	opset, ok := imports[domain]
	var err error
	if !ok {
		// Like ONNX Runtime, a domain that the model does not import is that of the newest opset,
		// if the model imports any. Gradients use the engine's own domain.
		switch {
		case domain == kit.DomainMicrosoft || domain == kit.DomainInternal:
			opset = 1
		case domain == kit.DomainML:
			opset = kit.MaxOpset[domain]
		case domain == "" && len(imports) > 0:
			opset = onnx.LatestOpset
		default:
			opset = 1 // of custom operators
			err = fail.Errorf("operator %s belongs to domain %q, which the model does not import",
				kit.QualifiedName(domain, n.OpType), domainName(domain))
		}
	}
	var def *kit.Def
	if b.opts.Custom != nil {
		if def := b.opts.Custom(domain, n.OpType, opset); def != nil {
			return def, opset
		}
	}
	if err == nil {
		def, err = kit.Lookup(domain, n.OpType, opset)
	}
	if err == nil {
		return def, opset
	}
	k := domain + "\x00" + n.OpType
	u := b.unsupported[k]
	if u == nil {
		u = &kit.Unsupported{Domain: domain, OpType: n.OpType, Opset: opset, First: n.Name, Reason: err.Error()}
		if u.First == "" && len(n.Outputs) > 0 {
			u.First = n.Outputs[0]
		}
		b.unsupported[k] = u
	}
	u.Nodes++
	return nil, opset
}

func (s *scope) inputs(n *onnx.Node) ([]ir.ValueID, error) {
	in := make([]ir.ValueID, len(n.Inputs))
	for i, name := range n.Inputs {
		in[i] = ir.None
		if name == "" {
			continue
		}
		id, ok := s.lookup(name)
		if !ok {
			return nil,
				fail.Errorf("node %q (%s): input %q is neither a graph input, an initializer nor the output of a node",
					n.Name, n.OpType, name)
		}
		in[i] = id
	}
	return in, nil
}

// outputs defines the outputs of a node and appends it to the graph.
func (s *scope) outputs(n *onnx.Node, node *ir.Node) error {
	node.Out = make([]ir.ValueID, 0, len(n.Outputs))
	for i, name := range n.Outputs {
		if i&0xfff == 0xfff {
			if err := s.b.err(); err != nil {
				return err
			}
		}
		if name == "" {
			node.Out = append(node.Out, ir.None)
			continue
		}
		id := s.g.NewValue(name, ir.Type{})
		s.g.Values[id].Local = len(s.calls) > 0
		if err := s.define(name, id); err != nil {
			return err
		}
		node.Out = append(node.Out, id)
	}
	s.g.Nodes = append(s.g.Nodes, node)
	return nil
}

// call inlines a model-local function.
func (s *scope) call(n *onnx.Node, f *onnx.Function) error {
	k := funcKey{kit.NormalDomain(f.Domain), f.Name, f.Overload}
	name := kit.QualifiedName(f.Domain, f.Name)
	if slices.Contains(s.calls, k) {
		return fail.Errorf("function %s calls itself", name)
	}
	if len(s.calls)+s.nesting >= s.b.limits.MaxDepth {
		return fail.Errorf("function calls exceed depth %d, at %s", s.b.limits.MaxDepth, name)
	}
	in, err := s.inputs(n)
	if err != nil {
		return err
	}
	if len(in) > len(f.Inputs) {
		return fail.Errorf("node %q calls function %s with %d inputs, want at most %d", n.Name, name,
			len(in), len(f.Inputs))
	}
	if len(n.Outputs) > len(f.Outputs) {
		return fail.Errorf("node %q has %d outputs, but function %s has %d", n.Name, len(n.Outputs),
			name, len(f.Outputs))
	}
	if err := s.b.opts.Reserve(int64(len(s.prefix) + len(n.Name))); err != nil { // of the prefix
		return err
	}
	body := &scope{b: s.b, g: s.g, names: map[string]ir.ValueID{}, attrs: map[string]*onnx.Attribute{},
		nesting: s.nesting,
		prefix:  s.prefix + n.Name + "/", calls: append(slices.Clone(s.calls), k)}
	if body.opsets, err = opsets(f.OpsetImports, s.b.model.IRVersion); err != nil {
		return fail.Errorf("function %s: %w", name, err)
	}
	if len(f.OpsetImports) == 0 {
		body.opsets = s.b.opsets
	}
	for i, p := range f.Inputs {
		id := ir.None
		if i < len(in) {
			id = in[i]
		}
		if err := body.define(p, id); err != nil {
			return fail.Errorf("function %s: %w", name, err)
		}
	}
	for _, a := range f.AttributeProtos {
		if a != nil {
			body.attrs[a.Name] = a
		}
	}
	for _, a := range n.Attributes {
		r, err := s.resolve(a)
		if err != nil {
			return err
		}
		if r != nil {
			body.attrs[a.Name] = r
		}
	}
	for _, fn := range f.Nodes {
		if err := body.node(fn); err != nil {
			return fail.Errorf("function %s: %w", name, err)
		}
	}
	given := make(map[ir.ValueID]bool, len(in))
	for _, id := range in {
		given[id] = true
	}
	for i, out := range n.Outputs {
		if out == "" {
			continue
		}
		id, ok := body.names[f.Outputs[i]]
		if !ok || id == ir.None {
			return fail.Errorf("function %s does not compute its output %q", name, f.Outputs[i])
		}
		if err := s.define(out, id); err != nil {
			return err
		}
		if !given[id] { // the caller's name is unique in the model, that of the body is not
			s.g.Values[id].Name, s.g.Values[id].Local = out, len(s.calls) > 0
		}
	}
	return nil
}

// resolve resolves a reference to an attribute of the enclosing function. It returns nil if that
// attribute is not set.
func (s *scope) resolve(a *onnx.Attribute) (*onnx.Attribute, error) {
	if a.RefAttrName == "" {
		return a, nil
	}
	if s.attrs == nil {
		return nil, fail.Errorf("attribute %s refers to attribute %s of a function, but the node is not in a function",
			a.Name, a.RefAttrName)
	}
	return s.attrs[a.RefAttrName], nil
}

// attributes converts a node's attributes and its subgraphs.
func (s *scope) attributes(n *onnx.Node, node *ir.Node) (map[string]any, error) {
	r := make(map[string]any, len(n.Attributes))
	for _, a := range n.Attributes {
		if a == nil || a.Name == "" {
			return nil, fail.Errorf("attribute without a name")
		}
		if _, ok := r[a.Name]; ok {
			return nil, fail.Errorf("attribute %s is set twice", a.Name)
		}
		name := a.Name
		a, err := s.resolve(a)
		if err != nil {
			return nil, err
		}
		if a == nil {
			continue
		}
		v, err := s.attribute(a, node)
		if err != nil {
			return nil, fail.Errorf("attribute %s: %w", name, err)
		}
		r[name] = v
	}
	return r, nil
}

func (s *scope) attribute(a *onnx.Attribute, node *ir.Node) (any, error) {
	switch a.Type {
	case onnx.AttrInt:
		return a.I, nil
	case onnx.AttrFloat:
		return a.F, nil
	case onnx.AttrString:
		return a.S, nil
	case onnx.AttrInts:
		return a.Ints, nil
	case onnx.AttrFloats:
		return a.Floats, nil
	case onnx.AttrStrings:
		return a.Strings, nil
	case onnx.AttrTensor:
		if a.T == nil {
			return nil, fail.Errorf("tensor is missing")
		}
		return a.T.Decode(s.b.decode)
	case onnx.AttrTensors:
		r := make([]*tensor.Tensor, len(a.Tensors))
		for i, t := range a.Tensors {
			v, err := t.Decode(s.b.decode)
			if err != nil {
				return nil, err
			}
			r[i] = v
		}
		return r, nil
	case onnx.AttrSparseTensor:
		if a.SparseTensor == nil {
			return nil, fail.Errorf("sparse tensor is missing")
		}
		return a.SparseTensor.Decode(s.b.decode)
	case onnx.AttrTypeProto:
		return valueType(a.TP)
	case onnx.AttrGraph:
		if a.G == nil {
			return nil, fail.Errorf("graph is missing")
		}
		return s.subgraph(a.G, node)
	case onnx.AttrGraphs:
		r := make([]kit.GraphRef, len(a.Graphs))
		for i, g := range a.Graphs {
			ref, err := s.subgraph(g, node)
			if err != nil {
				return nil, err
			}
			r[i] = ref
		}
		return r, nil
	}
	return nil, fail.Errorf("attribute type %d is not supported", a.Type)
}

func (s *scope) subgraph(og *onnx.Graph, node *ir.Node) (kit.GraphRef, error) {
	if len(node.Graphs) >= math.MaxInt16 {
		return 0, fail.Errorf("node has more than %d subgraphs", math.MaxInt16)
	}
	g, err := s.b.graph(og, s, false)
	if err != nil {
		return 0, err
	}
	node.Graphs = append(node.Graphs, g)
	return kit.GraphRef(len(node.Graphs) - 1), nil
}
