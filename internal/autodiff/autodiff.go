// Package autodiff differentiates ONNX models in reverse mode.
package autodiff

import (
	"fmt"
	"maps"
	"slices"

	_ "github.com/onward-ml/onward/internal/ops/all" // fills the registry
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/onnx"
)

// Expand returns a model whose Gradient nodes (ai.onnx.preview.training) are replaced by
// nodes that compute the gradients: the operators between xs and y in reverse order, each
// by the gradient that the registry holds. Rules emit plain nodes, so that gradients of
// gradients work too. m is not changed; a model without Gradient nodes is returned as it is.
// maxDepth is how deep subgraphs may nest.
func Expand(m *onnx.Model, maxDepth int) (*onnx.Model, error) {
	if _, err := m.CountNodes(maxDepth); err != nil {
		return nil, err
	}
	functions := func(f *onnx.Function) bool { return hasGradient(f.Nodes) }
	if !hasGradient(m.Graph.Nodes) && !slices.ContainsFunc(m.Functions, functions) {
		return m, nil
	}
	e := &expander{names: map[string]bool{}, done: map[graphKey]*onnx.Graph{}}
	e.graphNames(m.Graph)
	for _, f := range m.Functions {
		e.nodeNames(f.Nodes)
	}
	opset := func(imports []onnx.OperatorSetID) int {
		for _, o := range imports {
			if kit.NormalDomain(o.Domain) == "" {
				return int(o.Version)
			}
		}
		return 1
	}
	r := *m
	main := opset(m.OpsetImports)
	var err error
	if r.Graph, err = e.graph(m.Graph, main); err != nil {
		return nil, err
	}
	r.Functions = slices.Clone(m.Functions)
	for i, f := range m.Functions {
		own := main
		if len(f.OpsetImports) > 0 {
			own = opset(f.OpsetImports)
		}
		c := *f
		if c.Nodes, err = e.subgraphs(f.Nodes, own); err != nil {
			return nil, fmt.Errorf("function %s: %w", kit.QualifiedName(f.Domain, f.Name), err)
		}
		r.Functions[i] = &c
	}
	return &r, nil
}

// expander expands the gradients of a model.
type expander struct {
	scopes onnx.Scopes
	names  map[string]bool // names of all values, which new names must avoid
	count  int             // number of names created
	nodes  int             // number of nodes added
	steps  int             // number of nodes that were followed into subgraphs
	done   map[graphKey]*onnx.Graph
}

// graphKey identifies a graph and the opset for which it is expanded. Generated nodes share graphs
// with the nodes that they repeat.
type graphKey struct {
	g     *onnx.Graph
	opset int
}

// hasGradient reports whether there is a Gradient node among nodes and in their subgraphs.
func hasGradient(nodes []*onnx.Node) bool {
	for _, n := range nodes {
		if isGradient(n) {
			return true
		}
		for _, a := range n.Attributes {
			for _, g := range a.Subgraphs() {
				if hasGradient(g.Nodes) {
					return true
				}
			}
		}
	}
	return false
}

// graphNames collects the names of values.
func (e *expander) graphNames(g *onnx.Graph) {
	for _, v := range g.Inputs {
		if v != nil {
			e.names[v.Name] = true
		}
	}
	for _, t := range g.Initializers {
		if t != nil {
			e.names[t.Name] = true
		}
	}
	e.nodeNames(g.Nodes)
}

func (e *expander) nodeNames(nodes []*onnx.Node) {
	for _, n := range nodes {
		for _, name := range n.Inputs {
			e.names[name] = true
		}
		for _, name := range n.Outputs {
			e.names[name] = true
		}
		for _, a := range n.Attributes {
			for _, g := range a.Subgraphs() {
				e.graphNames(g)
			}
		}
	}
}

// graph expands the gradients in a graph and its subgraphs.
func (e *expander) graph(g *onnx.Graph, opset int) (*onnx.Graph, error) {
	k := graphKey{g, opset}
	if r := e.done[k]; r != nil {
		return r, nil
	}
	nodes, err := e.scopes.Sort(g)
	if err != nil {
		return nil, err
	}
	if nodes, err = e.expand(nodes, opset); err != nil {
		return nil, err
	}
	r := *g
	if r.Nodes, err = e.subgraphs(nodes, opset); err != nil {
		return nil, err
	}
	e.done[k] = &r
	return &r, nil
}

// subgraphs expands the gradients in the subgraphs of nodes.
func (e *expander) subgraphs(nodes []*onnx.Node, opset int) ([]*onnx.Node, error) {
	r := slices.Clone(nodes)
	for i, n := range nodes {
		var failed error
		r[i] = withGraphs(n, func(g *onnx.Graph) *onnx.Graph {
			x, err := e.graph(g, opset)
			if err != nil {
				failed = err
			}
			return x
		})
		if failed != nil {
			return nil, fmt.Errorf("node %q (%s): %w", n.Name, n.OpType, failed)
		}
	}
	return r, nil
}

// withGraphs returns a copy of a node with its subgraphs replaced by fn, or the node itself if it
// has none.
func withGraphs(n *onnx.Node, fn func(g *onnx.Graph) *onnx.Graph) *onnx.Node {
	r := n
	for k, a := range n.Attributes {
		if len(a.Subgraphs()) == 0 {
			continue
		}
		if r == n {
			c := *n
			c.Attributes = slices.Clone(n.Attributes)
			r = &c
		}
		c := *a
		if a.G != nil {
			c.G = fn(a.G)
		}
		c.Graphs = slices.Clone(a.Graphs)
		for i, g := range a.Graphs {
			c.Graphs[i] = fn(g)
		}
		r.Attributes[k] = &c
	}
	return r
}

// expand replaces the Gradient nodes in a sorted list of nodes.
func (e *expander) expand(nodes []*onnx.Node, opset int) ([]*onnx.Node, error) {
	if !slices.ContainsFunc(nodes, isGradient) {
		return nodes, nil
	}
	b := e.builder(opset, nil)
	for _, n := range nodes {
		if !isGradient(n) {
			b.nodes = append(b.nodes, n)
			continue
		}
		if err := b.expand(n); err != nil {
			return nil, fmt.Errorf("node %q (Gradient): %w", n.Name, err)
		}
	}
	return b.nodes, nil
}

func isGradient(n *onnx.Node) bool {
	return n.OpType == "Gradient" && n.Domain == kit.DomainPreviewTraining
}

// text returns an attribute of a node, "" if it is absent.
func text(n *onnx.Node, name string) string {
	if a := n.Attribute(name); a != nil {
		return a.S
	}
	return ""
}

// texts returns an attribute of a node, nil if it is absent.
func texts(n *onnx.Node, name string) []string {
	if a := n.Attribute(name); a != nil {
		return a.Strings
	}
	return nil
}

// integer returns an attribute of a node, def if it is absent.
func integer(n *onnx.Node, name string, def int64) int64 {
	if a := n.Attribute(name); a != nil {
		return a.I
	}
	return def
}

// integers returns an attribute of a node, def if it is absent.
func integers(n *onnx.Node, name string, def []int64) []int64 {
	if a := n.Attribute(name); a != nil {
		return a.Ints
	}
	return def
}

// builder appends nodes to those of a graph.
type builder struct {
	gradient.Builder // with the builder as its tape
	e                *expander
	nodes            []*onnx.Node
	active           map[string]bool // values that depend on xs, while rules run
	spent            int             // number of nodes that have been counted
}

func (e *expander) builder(opset int, nodes []*onnx.Node) *builder {
	b := &builder{e: e, nodes: nodes}
	b.Builder = gradient.Builder{Opset: opset, Tape: b}
	return b
}

// Fresh returns a name that no value has.
func (b *builder) Fresh() string {
	for {
		b.e.count++
		if name := fmt.Sprintf("gradient_%d", b.e.count); !b.e.names[name] {
			return name
		}
	}
}

// Append appends a node.
func (b *builder) Append(n *gradient.Node) {
	r := &onnx.Node{OpType: n.OpType, Domain: n.Domain, Inputs: n.Inputs, Outputs: n.Outputs}
	for _, name := range slices.Sorted(maps.Keys(n.Attrs)) {
		a := &onnx.Attribute{Name: name}
		switch v := n.Attrs[name].(type) {
		case int64:
			a.Type, a.I = onnx.AttrInt, v
		case float32:
			a.Type, a.F = onnx.AttrFloat, v
		case string:
			a.Type, a.S = onnx.AttrString, v
		case []int64:
			a.Type, a.Ints = onnx.AttrInts, v
		case *onnx.Attribute:
			a = v
		default:
			panic(fmt.Sprintf("autodiff: attribute %s of %s is a %T", name, n.OpType, v))
		}
		r.Attributes = append(r.Attributes, a)
	}
	b.nodes = append(b.nodes, r)
}

// ruleNode returns a node in the form that rules take.
func ruleNode(p *onnx.Node) *gradient.Node {
	n := &gradient.Node{OpType: p.OpType, Domain: p.Domain, Inputs: p.Inputs, Outputs: p.Outputs,
		Attrs: make(gradient.Attrs, len(p.Attributes))}
	for _, a := range p.Attributes {
		switch {
		case a.RefAttrName != "":
			n.Attrs[a.Name] = a
		case a.Type == onnx.AttrInt:
			n.Attrs[a.Name] = a.I
		case a.Type == onnx.AttrFloat:
			n.Attrs[a.Name] = a.F
		case a.Type == onnx.AttrString:
			n.Attrs[a.Name] = a.S
		case a.Type == onnx.AttrInts:
			n.Attrs[a.Name] = a.Ints
		default:
			n.Attrs[a.Name] = a
		}
	}
	return n
}

// gradientOf returns the gradient that the registry has for an operator, or nil.
func gradientOf(domain, opType string) *gradient.Gradient {
	if def := kit.Registered(domain, opType); def != nil {
		return def.Gradient
	}
	return nil
}

// flat reports whether the gradient of a node is zero.
func flat(p *onnx.Node) bool {
	g := gradientOf(p.Domain, p.OpType)
	return g != nil && g.Flat != nil && g.Flat(ruleNode(p))
}

// rule appends nodes that compute the gradients of the values that a node reads from those of its
// outputs.
func (b *builder) rule(p *onnx.Node, gs []string) ([]string, error) {
	if g := gradientOf(p.Domain, p.OpType); g != nil && g.Subgraphs {
		r, err := controlFlow[p.OpType](b, p, gs)
		if err != nil {
			return nil, fmt.Errorf("operator %s: %w", p.OpType, err)
		}
		return r, nil
	}
	return b.Differentiate(ruleNode(p), gs)
}

// Differentiate appends nodes that compute the gradients of the inputs of a node without subgraphs
// from those of its outputs.
func (b *builder) Differentiate(n *gradient.Node, gs []string) ([]string, error) {
	g, name := gradientOf(n.Domain, n.OpType), kit.QualifiedName(n.Domain, n.OpType)
	if g == nil {
		return nil, fmt.Errorf("operator %s is not differentiable", name)
	}
	from, count := len(b.nodes), g.Outputs
	var ys []string
	var err error
	if g.Decompose != nil {
		if ys, err = g.Decompose(&b.Builder, n); err != nil {
			return nil, fmt.Errorf("operator %s: %w", name, err)
		}
		count = len(ys)
	}
	if count > 0 && count < len(gs) {
		if k := slices.IndexFunc(gs[count:], func(g string) bool { return g != "" }); k >= 0 {
			return nil, fmt.Errorf("output %d of %s is not differentiable", count+k, name)
		}
	}
	var r []string
	if g.Decompose != nil {
		r, err = b.throughParts(n, slices.Clone(b.nodes[from:]), ys, gs)
	} else {
		r, err = g.Rule(&b.Builder, n, gs)
	}
	if err != nil {
		return nil, fmt.Errorf("operator %s: %w", name, err)
	}
	return r, nil
}

// throughParts differentiates the nodes that compute the outputs ys of n.
func (b *builder) throughParts(n *gradient.Node, parts []*onnx.Node, ys, gs []string) ([]string, error) {
	active, grad := map[string]bool{}, map[string]string{}
	for _, in := range n.Inputs {
		active[in] = in != ""
	}
	for _, p := range parts {
		for _, out := range p.Outputs {
			active[out] = true
		}
	}
	for k, g := range gs {
		if g != "" {
			grad[ys[k]] = g
		}
	}
	if err := b.backward(parts, grad, active); err != nil {
		return nil, err
	}
	r := make([]string, len(n.Inputs))
	for i, in := range n.Inputs {
		r[i] = grad[in]
		delete(grad, in) // an input that is used twice has one gradient
	}
	return r, nil
}

// maxNodes limits the number of nodes that gradients add to a model. Nested branches, and gradients
// of gradients, repeat their contents.
const maxNodes = 1 << 18

// spend counts the nodes added since the last call.
func (b *builder) spend() error {
	b.e.nodes += len(b.nodes) - b.spent
	b.spent = len(b.nodes)
	if b.e.nodes > maxNodes {
		return fmt.Errorf("gradients add more than %d nodes to the model", maxNodes)
	}
	return nil
}

// expand appends the nodes that compute the outputs of one Gradient node.
func (b *builder) expand(n *onnx.Node) error {
	xs, zs, y := texts(n, "xs"), texts(n, "zs"), text(n, "y")
	fed := append(slices.Clone(xs), zs...)
	if len(n.Inputs) != len(fed) || len(n.Outputs) > len(xs) || y == "" {
		return fmt.Errorf("got %d inputs and %d outputs, which does not match %d xs, %d zs and y %q", len(n.Inputs),
			len(n.Outputs), len(xs), len(zs), y)
	}

	// Find the nodes between xs or zs and y, in order.
	producer := map[string]int{}
	for i, p := range b.nodes {
		for _, o := range p.Outputs {
			if o != "" {
				producer[o] = i
			}
		}
	}
	between := map[int]bool{}
	stack := []string{y}
	for len(stack) > 0 {
		name := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		i, ok := producer[name]
		if !ok || between[i] || slices.Contains(fed, name) {
			continue
		}
		between[i] = true
		stack = append(stack, b.e.scopes.Reads(b.nodes[i])...)
	}
	order := make([]int, 0, len(between))
	for i := range b.nodes {
		if between[i] {
			order = append(order, i)
		}
	}

	// If the inputs are other tensors than those named by xs and zs, the nodes are repeated for
	// them. value maps the original names to the names of the repeated values.
	value := map[string]string{}
	for k, name := range fed {
		if n.Inputs[k] != name {
			value[name] = n.Inputs[k]
		}
	}
	at := func(name string) string {
		if v, ok := value[name]; ok {
			return v
		}
		return name
	}
	active := map[string]bool{}
	for _, x := range xs {
		active[x] = true
	}
	var path []*onnx.Node
	for _, i := range order {
		if err := b.spend(); err != nil {
			return err
		}
		p := b.nodes[i]
		use := *p
		ins := b.e.scopes.Reads(p)
		if slices.ContainsFunc(ins, func(in string) bool { _, ok := value[in]; return ok }) {
			use = *b.renamed(p, at)
			use.Outputs = slices.Clone(p.Outputs)
			for k, out := range use.Outputs {
				if out != "" {
					use.Outputs[k] = b.Fresh()
					value[out] = use.Outputs[k]
				}
			}
			b.nodes = append(b.nodes, &use)
		}
		if b.follow(p, active) {
			path = append(path, &use)
		}
	}

	activeHere := map[string]bool{}
	for name, ok := range active {
		if ok {
			activeHere[at(name)] = true
		}
	}
	grad := map[string]string{}
	if activeHere[at(y)] {
		grad[at(y)] = b.Filled(1, at(y))
	}
	if err := b.backward(path, grad, activeHere); err != nil {
		return err
	}
	for k, out := range n.Outputs {
		if out == "" {
			continue
		}
		x := at(xs[k])
		d := grad[x]
		if d == "" {
			d = b.Filled(0, x)
		}
		b.nodes = append(b.nodes, &onnx.Node{OpType: "Identity", Inputs: []string{d}, Outputs: []string{out}})
	}
	return nil
}

// backward appends the nodes that compute the gradients of the inputs of the nodes in path, given
// those in grad, and adds them to grad. active contains the names of the values that depend on xs.
func (b *builder) backward(path []*onnx.Node, grad map[string]string, active map[string]bool) error {
	defer func(was map[string]bool) { b.active = was }(b.active)
	for _, p := range slices.Backward(path) {
		if err := b.spend(); err != nil {
			return err
		}
		b.active = active
		gs := make([]string, len(p.Outputs))
		some := false
		for k, out := range p.Outputs {
			if out == "" || grad[out] == "" {
				continue
			}
			gs[k], some = grad[out], true
		}
		if !some || flat(p) {
			continue
		}
		into, err := b.rule(p, gs)
		if err != nil {
			return err
		}
		ins := b.e.scopes.Reads(p)
		for k, d := range into[:min(len(into), len(ins))] { // a node may lack required inputs: the conversion says so
			in := ins[k]
			if d == "" || !active[in] {
				continue
			}
			if grad[in] != "" {
				d = b.Op("Add", grad[in], d)
			}
			grad[in] = d
		}
	}
	return nil
}
