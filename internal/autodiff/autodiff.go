package frontend

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/onnx"
)

// expandGradients replaces the Gradient nodes among sorted nodes by nodes that
// compute the gradients in reverse mode: the operators between xs and y in
// reverse order, each by a rule of gradientRules. Because the rules use plain
// nodes, gradients of gradients work too.
func (f *builder) expandGradients(nodes []*onnx.Node, opset int) ([]*onnx.Node, error) {
	if !slices.ContainsFunc(nodes, isGradient) {
		return nodes, nil
	}
	b := &gradientBuilder{front: f, opset: opset}
	f.keepNames(nodes)
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

// HasGradient reports whether there is a rule for an operator.
func HasGradient(domain, name string) bool {
	return ops.NormalDomain(domain) == "" && (gradientRules[name] != nil || gradientRulesOfAll[name] != nil)
}

func isGradient(n *onnx.Node) bool {
	return n.OpType == "Gradient" && n.Domain == ops.DomainPreviewTraining
}

// gradientTarget returns the value that a Gradient node differentiates, "" for
// other nodes. It is not among the inputs of the node.
func gradientTarget(n *onnx.Node) string {
	if !isGradient(n) {
		return ""
	}
	return stringAttr(n, "y")
}

func stringAttr(n *onnx.Node, name string) string {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name {
			return a.S
		}
	}
	return ""
}

func stringsAttr(n *onnx.Node, name string) []string {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name {
			return a.Strings
		}
	}
	return nil
}

func intsAttr(n *onnx.Node, name string, def []int64) []int64 {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name {
			return a.Ints
		}
	}
	return def
}

func intAttr(n *onnx.Node, name string, def int64) int64 {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name {
			return a.I
		}
	}
	return def
}

func floatAttr(n *onnx.Node, name string, def float32) float32 {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name {
			return a.F
		}
	}
	return def
}

// gradientBuilder appends nodes to those that there are.
type gradientBuilder struct {
	front  *builder // holds the names, which are those of all graphs
	nodes  []*onnx.Node
	opset  int
	active map[string]bool // what depends on xs, while rules run
	spent  int             // of nodes, those that are counted
}

// gradientNodes bounds how many nodes gradients put into a model. Branches within
// branches, and gradients of gradients, repeat what is in them.
const gradientNodes = 1 << 18

// spend counts the nodes that came since it was last called.
func (b *gradientBuilder) spend() error {
	b.front.gradientNodes += len(b.nodes) - b.spent
	b.spent = len(b.nodes)
	if b.front.gradientNodes > gradientNodes {
		return fmt.Errorf("the gradients of the model take more than %d nodes", gradientNodes)
	}
	return nil
}

// keepNames keeps the names of nodes and of their subgraphs from being given again.
func (f *builder) keepNames(nodes []*onnx.Node) {
	if f.gradientNames == nil {
		f.gradientNames = map[string]bool{}
	}
	for _, n := range nodes {
		for _, name := range n.Inputs {
			f.gradientNames[name] = true
		}
		for _, name := range n.Outputs {
			f.gradientNames[name] = true
		}
		for _, a := range n.Attributes {
			for _, g := range subgraphs(a) {
				f.keepNames(g.Nodes)
			}
		}
	}
}

func (b *gradientBuilder) fresh() string {
	for {
		b.front.gradientCount++
		if name := fmt.Sprintf("gradient_%d", b.front.gradientCount); !b.front.gradientNames[name] {
			return name
		}
	}
}

// node appends a node with one output and returns the output's name. Operators
// of ONNX Runtime's kind are named plainly, the engine's own as onward.SumTo.
func (b *gradientBuilder) node(op string, attrs []*onnx.Attribute, in ...string) string {
	domain := ""
	if len(op) > 7 && op[:7] == ops.DomainInternal+"." {
		domain, op = ops.DomainInternal, op[7:]
	}
	out := b.fresh()
	b.nodes = append(b.nodes, &onnx.Node{OpType: op, Domain: domain, Inputs: in, Outputs: []string{out}, Attributes: attrs})
	return out
}

func (b *gradientBuilder) op(op string, in ...string) string { return b.node(op, nil, in...) }

// ints returns a list of numbers, from opset 12 on.
func (b *gradientBuilder) ints(v ...int64) string {
	return b.node("Constant", []*onnx.Attribute{{Name: "value_ints", Type: onnx.AttrInts, Ints: v}})
}

// filled returns a tensor of one value in the shape of x.
func (b *gradientBuilder) filled(v float32, x string) string {
	return b.node("onward.Fill", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: v}}, x)
}

func (b *gradientBuilder) scaled(v float32, x string) string {
	if v == 1 {
		return x
	}
	return b.node("onward.Scale", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: v}}, x)
}

func (b *gradientBuilder) sumTo(g, like string) string { return b.op("onward.SumTo", g, like) }

// expand appends what computes the outputs of one Gradient node.
func (b *gradientBuilder) expand(n *onnx.Node) error {
	xs, zs, y := stringsAttr(n, "xs"), stringsAttr(n, "zs"), stringAttr(n, "y")
	fed := append(slices.Clone(xs), zs...)
	if len(n.Inputs) != len(fed) || len(n.Outputs) > len(xs) || y == "" {
		return fmt.Errorf("%d inputs and %d outputs for %d xs, %d zs and y %q", len(n.Inputs), len(n.Outputs), len(xs), len(zs), y)
	}

	// The nodes between xs or zs and y, in order.
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
		stack = append(stack, b.inputs(b.nodes[i])...)
	}
	order := make([]int, 0, len(between))
	for i := range between {
		order = append(order, i)
	}
	slices.Sort(order)

	// Where other tensors are fed than xs and zs name, the nodes run again for
	// them; value maps names to what they hold here.
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
		ins := b.inputs(p)
		if slices.ContainsFunc(ins, func(in string) bool { _, ok := value[in]; return ok }) {
			use = *b.renamed(p, at)
			use.Outputs = slices.Clone(p.Outputs)
			for k, out := range use.Outputs {
				if out != "" {
					use.Outputs[k] = b.fresh()
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
		grad[at(y)] = b.filled(1, at(y))
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
			d = b.filled(0, x)
		}
		b.nodes = append(b.nodes, &onnx.Node{OpType: "Identity", Inputs: []string{d}, Outputs: []string{out}})
	}
	return nil
}

// backward appends what computes the gradients of the inputs of the nodes of path
// from those in grad, and adds them to it. active names the values on the way.
func (b *gradientBuilder) backward(path []*onnx.Node, grad map[string]string, active map[string]bool) error {
	defer func(was map[string]bool) { b.active = was }(b.active)
	for _, p := range slices.Backward(path) {
		if err := b.spend(); err != nil {
			return err
		}
		b.active = active
		gs := make([]string, len(p.Outputs))
		some, further := false, 0
		for k, out := range p.Outputs {
			if out == "" || grad[out] == "" {
				continue
			}
			gs[k], some = grad[out], true
			if k > 0 {
				further = k
			}
		}
		if !some {
			continue
		}
		if d := ops.NormalDomain(p.Domain); d != "" && d != ops.DomainInternal {
			return fmt.Errorf("operator %s is not differentiated", ops.QualifiedName(p.Domain, p.OpType))
		}
		var into []string
		var err error
		if all := gradientRulesOfAll[p.OpType]; all != nil {
			into, err = all(b, p, gs)
		} else if rule := gradientRules[p.OpType]; rule == nil {
			return fmt.Errorf("operator %s is not differentiated", ops.QualifiedName(p.Domain, p.OpType))
		} else if further > 0 {
			return fmt.Errorf("output %d of %s is not differentiated", further, p.OpType)
		} else {
			into, err = rule(b, p, gs[0])
		}
		if err != nil {
			return fmt.Errorf("operator %s: %w", p.OpType, err)
		}
		ins := b.inputs(p)
		for k, d := range into {
			in := ins[k]
			if d == "" || !active[in] {
				continue
			}
			if grad[in] != "" {
				d = b.op("Add", grad[in], d)
			}
			grad[in] = d
		}
	}
	return nil
}
