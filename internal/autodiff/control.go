package autodiff

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
)

// renamed returns a copy of a node that uses the values in at.
func (b *builder) renamed(n *onnx.Node, at func(string) string) *onnx.Node {
	r := *withGraphs(n, func(g *onnx.Graph) *onnx.Graph { return b.renamedGraph(g, at) })
	r.Inputs = slices.Clone(n.Inputs)
	for k, in := range r.Inputs {
		r.Inputs[k] = at(in)
	}
	return &r
}

func (b *builder) renamedGraph(g *onnx.Graph, at func(string) string) *onnx.Graph {
	free := b.e.scopes.Outer(g)
	to := func(name string) string {
		if slices.Contains(free, name) {
			return at(name)
		}
		return name
	}
	r := *g
	r.Nodes = make([]*onnx.Node, len(g.Nodes))
	for i, n := range g.Nodes {
		r.Nodes[i] = b.renamed(n, to)
	}
	r.Outputs = slices.Clone(g.Outputs)
	for i, o := range r.Outputs {
		if o != nil && to(o.Name) != o.Name {
			r.Outputs[i] = &onnx.ValueInfo{Name: to(o.Name), Type: o.Type}
		}
	}
	return &r
}

// within returns a builder that continues after the nodes of a subgraph.
func (b *builder) within(g *onnx.Graph) (*builder, error) {
	nodes, err := b.e.scopes.Sort(g)
	if err != nil {
		return nil, err
	}
	if nodes, err = b.e.expand(nodes, b.Opset); err != nil {
		return nil, err
	}
	return b.e.builder(b.Opset, slices.Clone(nodes)), nil
}

// reach adds to active all values that depend on it among the nodes, and returns the nodes that
// compute them.
func (b *builder) reach(nodes []*onnx.Node, active map[string]bool) []*onnx.Node {
	var path []*onnx.Node
	for _, p := range nodes {
		if b.follow(p, active) {
			path = append(path, p)
		}
	}
	return path
}

// maxSteps limits the number of nodes that are followed into subgraphs. Beyond, all outputs of a
// node count as active if one input is.
const maxSteps = 1 << 22

// follow adds the outputs of a node that depend on active values to active, and reports whether
// there are any.
func (b *builder) follow(p *onnx.Node, active map[string]bool) bool {
	if flat(p) || !slices.ContainsFunc(b.e.scopes.Reads(p), func(in string) bool { return active[in] }) {
		return false
	}
	through := make([]bool, len(p.Outputs))
	known := false
	if kit.NormalDomain(p.Domain) == "" && b.e.steps < maxSteps {
		switch p.OpType {
		case "If":
			known = true
			for _, name := range []string{"then_branch", "else_branch"} {
				g, err := graphAttr(p, name)
				known = known && err == nil && b.followInto(g, nil, 0, active, through)
			}
		case "Scan":
			g, err := graphAttr(p, "body")
			from := make([]bool, len(p.Inputs))
			for i, in := range p.Inputs {
				from[i] = active[in]
			}
			known = err == nil && b.Opset >= 9 &&
				b.followInto(g, from, len(p.Inputs)-int(integer(p, "num_scan_inputs", 0)), active, through)
		}
	}
	for k, out := range p.Outputs {
		if out != "" && (through[k] || !known) {
			active[out] = true
		}
	}
	return true
}

// followInto marks the outputs of a subgraph that depend on active outer values or on the inputs
// marked by from. An active output that is a state makes the corresponding input active in the next
// step. It returns false for a malformed graph.
func (b *builder) followInto(g *onnx.Graph, from []bool, states int, active map[string]bool, through []bool) bool {
	if len(g.Inputs) != len(from) || len(g.Outputs) < len(through) || states < 0 ||
		states > min(len(g.Inputs), len(g.Outputs)) || slices.Contains(g.Inputs, nil) ||
		slices.Contains(g.Outputs, nil) {
		return false
	}
	nodes, err := b.e.scopes.Sort(g)
	if err != nil {
		return false
	}
	within := map[string]bool{}
	for _, name := range b.e.scopes.Outer(g) {
		within[name] = active[name]
	}
	for i, v := range g.Inputs {
		within[v.Name] = from[i]
	}
	for again := true; again; {
		b.e.steps += len(nodes) + 1
		b.reach(nodes, within)
		again = false
		for i := range states {
			if in := g.Inputs[i].Name; within[g.Outputs[i].Name] && !within[in] {
				within[in], again = true, true
			}
		}
	}
	for k := range through {
		through[k] = through[k] || within[g.Outputs[k].Name]
	}
	return true
}

// captured returns the active values among those that the subgraphs of a node capture.
func (b *builder) captured(n *onnx.Node) []string {
	var r []string
	for _, name := range b.e.scopes.Reads(n)[len(n.Inputs):] {
		if b.active[name] {
			r = append(r, name)
		}
	}
	return r
}

// add adds g to the gradient of a value.
func (b *builder) add(grad map[string]string, name, g string) {
	if grad[name] != "" {
		g = b.Op("Add", grad[name], g)
	}
	grad[name] = g
}

// orZero returns the gradient of x as a value of its own, or zeros.
func (b *builder) orZero(grad map[string]string, x string) string {
	if d := grad[x]; d != "" {
		return b.Op("Identity", d)
	}
	return b.Filled(0, x)
}

func graphAttr(n *onnx.Node, name string) (*onnx.Graph, error) {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name && a.G != nil {
			return a.G, nil
		}
	}
	return nil, fmt.Errorf("attribute %s is required", name)
}

// controlFlow holds the rules of the operators whose gradient the registry marks with
// Subgraphs.
var controlFlow map[string]func(b *builder, n *onnx.Node, gs []string) ([]string, error)

func init() { // because the rules lead to the map
	controlFlow = map[string]func(b *builder, n *onnx.Node, gs []string) ([]string, error){"If": ifGradient,
		"Scan": scanGradient}
}

// ifGradient returns an If whose branches compute the gradients of the values that they use.
func ifGradient(b *builder, n *onnx.Node, gs []string) ([]string, error) {
	free := b.captured(n)
	m := &onnx.Node{OpType: "If", Inputs: n.Inputs}
	for _, name := range []string{"then_branch", "else_branch"} {
		g, err := graphAttr(n, name)
		if err != nil {
			return nil, err
		}
		in, err := b.within(g)
		if err != nil {
			return nil, err
		}
		active, grad := map[string]bool{}, map[string]string{}
		for _, c := range free {
			active[c] = true
		}
		path := in.reach(in.nodes, active)
		for k, o := range g.Outputs {
			if k < len(gs) && gs[k] != "" && o != nil && active[o.Name] {
				in.add(grad, o.Name, gs[k])
			}
		}
		if err := in.backward(path, grad, active); err != nil {
			return nil, err
		}
		branch := *g
		branch.Outputs = nil
		for _, c := range free {
			branch.Outputs = append(branch.Outputs, &onnx.ValueInfo{Name: in.orZero(grad, c)})
		}
		branch.Nodes = in.nodes
		m.Attributes = append(m.Attributes, &onnx.Attribute{Name: name, Type: onnx.AttrGraph, G: &branch})
	}
	r := make([]string, len(b.e.scopes.Reads(n)))
	if len(free) == 0 {
		return r, nil
	}
	for _, c := range free {
		d := b.Fresh()
		m.Outputs = append(m.Outputs, d)
		r[len(n.Inputs)+slices.Index(b.e.scopes.Reads(n)[len(n.Inputs):], c)] = d
	}
	b.nodes = append(b.nodes, m)
	return r, nil
}

// connect appends a value of a graph to inputs or outputs of a node, and a value of its body to
// those of the body. Inlined into its callers, it would take kilobytes.
//
//go:noinline
func connect(node *[]string, body *[]*onnx.ValueInfo, outer, inner string) {
	*node, *body = append(*node, outer), append(*body, &onnx.ValueInfo{Name: inner})
}

func scanAttrs(body *onnx.Graph, scans int, inAxes, inBack, outAxes, outBack []int64) []*onnx.Attribute {
	ints := func(name string, v []int64) *onnx.Attribute {
		return &onnx.Attribute{Name: name, Type: onnx.AttrInts, Ints: v}
	}
	r := []*onnx.Attribute{{Name: "body", Type: onnx.AttrGraph, G: body},
		{Name: "num_scan_inputs", Type: onnx.AttrInt, I: int64(scans)},
		ints("scan_input_axes", inAxes), ints("scan_input_directions", inBack)}
	if len(outAxes) > 0 {
		r = append(r, ints("scan_output_axes", outAxes), ints("scan_output_directions", outBack))
	}
	return r
}

// scanGradient returns a Scan in the reverse direction. The states before each step come from a
// Scan that also returns them. Each step repeats the body and continues with its gradients: the
// states are the gradients of the states and of captured values, the outputs are the gradients of
// the scan inputs.
func scanGradient(b *builder, n *onnx.Node, gs []string) ([]string, error) {
	if err := b.Need(9); err != nil {
		return nil, err
	}
	body, err := graphAttr(n, "body")
	if err != nil {
		return nil, err
	}
	scans := int(integer(n, "num_scan_inputs", 0))
	states := len(n.Inputs) - scans
	if states < 0 || scans < 1 || len(body.Inputs) != len(n.Inputs) || len(body.Outputs) < states ||
		slices.Contains(body.Inputs, nil) || slices.Contains(body.Outputs, nil) {
		return nil,
			fmt.Errorf("got %d inputs, %d of them scanned, which does not match a body with %d inputs and %d outputs",
				len(n.Inputs), scans, len(body.Inputs), len(body.Outputs))
	}
	outs := len(body.Outputs) - states
	list := func(name string, count int) []int64 {
		return append(slices.Clone(integers(n, name, make([]int64, count))), make([]int64, max(0, states))...)
	}
	inAxes, inBack := list("scan_input_axes", scans), list("scan_input_directions", scans)
	outAxes, outBack := list("scan_output_axes", outs), list("scan_output_directions", outs)
	if len(inAxes) != scans+states || len(inBack) != scans+states || len(outAxes) != outs+states ||
		len(outBack) != outs+states {
		return nil, fmt.Errorf("axes and directions do not match %d scan inputs and %d outputs", scans, outs)
	}
	// Compute the states before each step.
	first := *body
	first.Nodes, first.Outputs = slices.Clone(body.Nodes), slices.Clone(body.Outputs)
	again := &onnx.Node{OpType: "Scan", Inputs: n.Inputs,
		Attributes: scanAttrs(&first, scans, inAxes[:scans], inBack[:scans], outAxes, outBack)}
	for _, s := range body.Inputs[:states] {
		o := b.Fresh()
		first.Nodes = append(first.Nodes,
			&onnx.Node{OpType: "Identity", Inputs: []string{s.Name}, Outputs: []string{o}})
		first.Outputs = append(first.Outputs, &onnx.ValueInfo{Name: o})
	}
	for range first.Outputs {
		again.Outputs = append(again.Outputs, b.Fresh())
	}
	b.nodes = append(b.nodes, again)
	final, before := again.Outputs[:states], again.Outputs[states+outs:]

	// Find the values that depend on xs within the body. A state that depends on xs at the end of a
	// step does so from the next step on.
	in, err := b.within(body)
	if err != nil {
		return nil, err
	}
	free := b.captured(n)
	active := map[string]bool{}
	for _, c := range free {
		active[c] = true
	}
	for i, v := range body.Inputs {
		active[v.Name] = b.active[n.Inputs[i]]
	}
	var path []*onnx.Node
	for again := true; again; {
		path, again = in.reach(in.nodes, active), false
		for i, s := range body.Inputs[:states] {
			if active[body.Outputs[i].Name] && !active[s.Name] {
				active[s.Name], again = true, true
			}
		}
	}

	back := &onnx.Node{OpType: "Scan"}
	step := *body
	step.Inputs, step.Outputs = nil, nil
	feed := func(outer string) string {
		name := b.Fresh()
		connect(&back.Inputs, &step.Inputs, outer, name)
		return name
	}
	grad, sums := map[string]string{}, map[string]string{}
	var ends []string // gradients of states
	for i, s := range body.Inputs[:states] {
		if !active[s.Name] {
			continue
		}
		g := ""
		if i < len(gs) {
			g = gs[i]
		}
		if g == "" {
			g = b.Filled(0, final[i])
		}
		if d := feed(g); active[body.Outputs[i].Name] {
			in.add(grad, body.Outputs[i].Name, d)
		}
		ends = append(ends, s.Name)
	}
	for _, c := range free {
		sums[c] = feed(b.Filled(0, c))
	}
	back.Inputs = append(append(back.Inputs, before...), n.Inputs[states:]...)
	step.Inputs = append(step.Inputs, body.Inputs...)
	flip := func(v []int64) []int64 {
		r := make([]int64, len(v))
		for i, d := range v {
			if d == 0 {
				r[i] = 1
			}
		}
		return r
	}
	axes, reverse := append(make([]int64, states), inAxes[:scans]...),
		append(flip(make([]int64, states)), flip(inBack[:scans])...)
	for k, o := range body.Outputs[states:] {
		if states+k < len(gs) && gs[states+k] != "" && active[o.Name] {
			in.add(grad, o.Name, feed(gs[states+k]))
			axes, reverse = append(axes, outAxes[k]), append(reverse, flip(outBack[k:k+1])...)
		}
	}
	if err := in.backward(path, grad, active); err != nil {
		return nil, err
	}

	r := make([]string, len(b.e.scopes.Reads(n)))
	give := func(inner string) string {
		d := b.Fresh()
		connect(&back.Outputs, &step.Outputs, d, inner)
		return d
	}
	for i, s := range body.Inputs[:states] {
		if slices.Contains(ends, s.Name) {
			r[i] = give(in.orZero(grad, s.Name))
		}
	}
	for _, c := range free {
		sum := in.Op("Identity", sums[c])
		if grad[c] != "" {
			sum = in.Op("Add", sums[c], grad[c])
		}
		r[len(n.Inputs)+slices.Index(b.e.scopes.Reads(n)[len(n.Inputs):], c)] = give(sum)
	}
	var dAxes, dBack []int64
	for i, x := range body.Inputs[states:] {
		if active[x.Name] {
			r[states+i] = give(in.orZero(grad, x.Name))
			dAxes, dBack = append(dAxes, inAxes[i]), append(dBack, flip(inBack[i:i+1])...)
		}
	}
	if len(back.Outputs) == 0 {
		return r, nil
	}
	step.Nodes = in.nodes
	back.Attributes = scanAttrs(&step, len(axes), axes, reverse, dAxes, dBack)
	b.nodes = append(b.nodes, back)
	return r, nil
}
