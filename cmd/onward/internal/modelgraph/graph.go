// Package modelgraph prepares a model's graph for drawing: nodes, the bodies of control flow and of
// functions, repeated blocks, and the values between them.
package modelgraph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cost"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Graph is a tree of items and the values between them. Its JSON form is the data of the page:
// names are short because they repeat for each node.
type Graph struct {
	Items   []Item   `json:"items"`
	Values  []Value  `json:"values"`
	Weights []Weight `json:"weights"`
	FLOPs   int64    `json:"flops"` // of the model, 0 if unknown
	// Constants is the number of nodes that only hold values. They are weights, not items.
	Constants int `json:"-"`
	// Unknown is the error of shape inference. If set, costs and most types are missing.
	Unknown string `json:"unknown,omitempty"`
}

// The kinds of items. Nodes with subgraphs, and calls of functions, have items in them.
const (
	Node   = "node"
	Block  = "block" // nodes of a module, or of a sequence of operators that repeats
	Body   = "body"  // a subgraph
	Input  = "input"
	Output = "output"
)

// Item is a box of the drawing. In and Out are indices of values, -1 for those that are omitted.
type Item struct {
	Parent     int         `json:"p"` // index of the item around it, -1 at the top
	Kind       string      `json:"k"`
	Title      string      `json:"t"` // operator, module, attribute of the subgraph, or value
	Name       string      `json:"n,omitempty"`
	Domain     string      `json:"d,omitempty"`
	Class      int         `json:"c"`
	In         []int       `json:"i,omitempty"`
	Out        []int       `json:"o,omitempty"`
	InNames    []string    `json:"in,omitempty"`
	OutNames   []string    `json:"on,omitempty"`
	Attributes [][2]string `json:"a,omitempty"`
	MACs       int64       `json:"m,omitempty"` // of a node, or of all in it
	FLOPs      int64       `json:"f,omitempty"`
	Parameters int64       `json:"w,omitempty"`
	Bytes      int64       `json:"b,omitempty"`  // of the results
	Nodes      int         `json:"s,omitempty"`  // number of nodes in it
	Repeats    int         `json:"r,omitempty"`  // number of equal blocks in it, one after the other
	Alike      int         `json:"al,omitempty"` // number of blocks with the same operators
	Note       string      `json:"x,omitempty"`
	Open       bool        `json:"open,omitempty"` // shown open at first
}

// Value is an edge, or a weight if Weight is positive: then it is an index of the weights plus 1.
type Value struct {
	Name   string `json:"n"`
	Type   string `json:"t,omitempty"` // such as "float[1,3,224,224]"
	Weight int    `json:"w,omitempty"`
}

// MaxItems bounds the nodes, inputs and outputs of a page, without the blocks. A browser shows ten
// thousands quickly, and millions not at all.
const MaxItems = 50_000

const (
	maxName  = 300 // characters of a name or an attribute that are kept
	maxDepth = 64  // of bodies in bodies; functions are not followed deeper
)

// clean escapes a text of a model and cuts it.
func clean(s string) string {
	n := 0
	for i := range s {
		if n++; n > maxName {
			return text.Name(s[:i]) + fmt.Sprintf("… (%d bytes)", len(s))
		}
	}
	return text.Name(s)
}

type scope struct {
	around *scope
	values map[string]int
}

func (s *scope) find(name string) (int, bool) {
	for ; s != nil; s = s.around {
		if v, ok := s.values[name]; ok {
			return v, true
		}
	}
	return 0, false
}

type functionKey struct{ domain, name, overload string }

type builder struct {
	*Graph
	m         *onnx.Model
	types     map[string]onward.NodeArg // of the values of the current graph; nil in a function
	layers    map[string]*cost.Layer    // of the current graph, by output; nil in a function
	functions map[functionKey]*onnx.Function
	calling   map[functionKey]bool
	depth     int
	paths     map[int][]string // modules of an item, outermost first
	shapes    map[int][]int64  // elements of small constants, by value
}

// Of prepares a model. It fails if the model has more than [MaxItems] nodes.
func Of(m *onnx.Model) (*Graph, error) {
	if m.Graph == nil {
		return nil, fmt.Errorf("the model has no graph")
	}
	if n := len(m.Graph.Nodes) + len(m.Graph.Inputs) + len(m.Graph.Outputs); n > MaxItems {
		return nil, fmt.Errorf("the graph has %d nodes, inputs and outputs; a page shows at most %d: cut out a part "+
			"with onward edit extract, or write --format dot", n, MaxItems)
	}
	b := &builder{Graph: &Graph{Items: []Item{}, Values: []Value{}, Weights: []Weight{}}, m: m,
		functions: map[functionKey]*onnx.Function{}, calling: map[functionKey]bool{}, paths: map[int][]string{},
		shapes: map[int][]int64{}}
	for _, f := range m.Functions {
		b.functions[functionKey{onnx.NormalizeDomain(f.Domain), f.Name, f.Overload}] = f
	}
	if c, err := cost.Of(m); err != nil {
		b.Unknown = clean(err.Error())
	} else {
		b.FLOPs = c.FLOPs
		b.use(c)
	}
	s := &scope{values: map[string]int{}}
	b.graph(m.Graph, s, -1)
	b.compact()
	b.sum()
	b.open()
	return b.Graph, nil
}

// use sets the types and layers of the current graph. Nil costs are unknown.
func (b *builder) use(c *cost.Costs) {
	b.types, b.layers = nil, nil
	if c == nil {
		return
	}
	b.types, b.layers = c.Values(), make(map[string]*cost.Layer, len(c.Layers))
	for i := range c.Layers {
		for _, out := range c.Layers[i].Outputs {
			b.layers[out] = &c.Layers[i]
		}
	}
}

// value adds a value to a scope.
func (b *builder) value(s *scope, name, typ string) int {
	v := len(b.Values)
	if a, ok := b.types[name]; ok && (a.Shape != nil || typ == "") {
		typ = typeOf(a)
	}
	b.Values = append(b.Values, Value{Name: clean(name), Type: clean(typ)})
	s.values[name] = v
	return v
}

// weight adds a value that is a constant.
func (b *builder) weight(s *scope, name string, t *onnx.Tensor) {
	v := b.value(s, name, "")
	w, elements := b.summary(name, t)
	if elements != nil && elements.DType() == tensor.TypeInt64 {
		b.shapes[v] = tensor.MustData[int64](elements)
	}
	b.Values[v].Type = w.Type
	b.Weights = append(b.Weights, w)
	b.Values[v].Weight = len(b.Weights)
}

func (b *builder) add(parent int, kind, title, name string) int {
	b.Items = append(b.Items, Item{Parent: parent, Kind: kind, Title: clean(title), Name: clean(name)})
	return len(b.Items) - 1
}

// graph adds the items of a graph in item parent.
func (b *builder) graph(g *onnx.Graph, s *scope, parent int) {
	typed := map[string]string{}
	for _, list := range [][]*onnx.ValueInfo{g.ValueInfo, g.Inputs, g.Outputs} {
		for _, v := range list {
			typed[v.Name] = declared(v.Type)
		}
	}
	for _, t := range g.Initializers {
		b.weight(s, t.Name, t)
	}
	for _, t := range g.SparseInitializers {
		if t.Values != nil {
			b.weight(s, t.Values.Name, t.Values)
			b.Values[len(b.Values)-1].Type = "sparse " + b.Values[len(b.Values)-1].Type
		}
	}
	var inputs, outputs []string
	for _, v := range g.Inputs {
		if _, ok := s.values[v.Name]; !ok { // not an initializer
			inputs = append(inputs, v.Name)
		}
	}
	for _, v := range g.Outputs {
		outputs = append(outputs, v.Name)
	}
	b.nodes(g.Nodes, inputs, outputs, typed, s, parent)
}

// nodes adds the items of a graph or of a function's body.
func (b *builder) nodes(list []*onnx.Node, inputs, outputs []string, typed map[string]string, s *scope, parent int) {
	for _, name := range inputs {
		i := b.add(parent, Input, name, "")
		b.Items[i].Out, b.Items[i].Class = []int{b.value(s, name, typed[name])}, portClass
	}
	result := map[string]bool{}
	for _, name := range outputs {
		result[name] = true
	}
	rest := make([]*onnx.Node, 0, len(list))
	for _, n := range list {
		if t := constant(n); t != nil && !result[n.Outputs[0]] {
			b.weight(s, n.Outputs[0], t)
			b.Constants++
			continue
		}
		if w := b.filled(n, s); w != nil && !result[n.Outputs[0]] {
			v := b.value(s, n.Outputs[0], "")
			b.Weights = append(b.Weights, *w)
			b.Values[v].Type, b.Values[v].Weight = w.Type, len(b.Weights)
			b.Constants++
			continue
		}
		rest = append(rest, n)
		for _, out := range n.Outputs {
			if out != "" {
				b.value(s, out, typed[out])
			}
		}
	}
	var items []int
	for _, n := range sorted(rest) {
		items = append(items, b.node(n, s, parent))
	}
	end := len(b.Items)
	for _, name := range outputs {
		i := b.add(parent, Output, name, "")
		b.Items[i].In, b.Items[i].Class = b.find(s, []string{name}), portClass
	}
	b.group(items, end, parent)
}

func (b *builder) find(s *scope, names []string) []int {
	r := make([]int, len(names))
	for i, name := range names {
		r[i] = -1
		if name == "" {
			continue
		}
		v, ok := s.find(name)
		if !ok { // an invalid model
			v = b.value(s, name, "")
		}
		r[i] = v
	}
	return r
}

// node adds a node and what is in it.
func (b *builder) node(n *onnx.Node, s *scope, parent int) int {
	i := b.add(parent, Node, n.OpType, n.Name)
	x := Item{Domain: clean(onnx.NormalizeDomain(n.Domain)), Class: classOf(n), In: b.find(s, n.Inputs),
		Out: b.find(s, n.Outputs), Nodes: 1}
	if d := kit.Registered(n.Domain, n.OpType); d != nil {
		x.InNames, x.OutNames = formal(d.Signature().In, len(n.Inputs)), formal(d.Signature().Out, len(n.Outputs))
	}
	for _, a := range n.Attributes {
		x.Attributes = append(x.Attributes, [2]string{clean(a.Name), attribute(a)})
	}
	slices.SortStableFunc(x.Attributes, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	b.cost(n, s, &x)
	x.Parent, x.Kind, x.Title, x.Name = parent, Node, b.Items[i].Title, b.Items[i].Name
	b.Items[i] = x
	if path := modules(n); len(path) > 0 {
		b.paths[i] = path
	}
	key := functionKey{onnx.NormalizeDomain(n.Domain), n.OpType, n.Overload}
	f := b.functions[key]
	if f == nil && len(n.Subgraphs()) == 0 {
		return i
	}
	if b.depth >= maxDepth || len(b.Items)+size(n, f) > MaxItems || b.calling[key] {
		b.Items[i].Note = fmt.Sprintf("Its body is left out: a page has at most %d items.", MaxItems)
		if b.calling[key] {
			b.Items[i].Note = "Its body is left out: the function calls itself."
		}
		return i
	}
	b.depth++
	types, layers := b.types, b.layers
	defer func() {
		b.depth--
		b.types, b.layers = types, layers
	}()
	if f != nil {
		b.calling[key] = true
		typed := map[string]string{}
		for _, v := range f.ValueInfo {
			typed[v.Name] = declared(v.Type)
		}
		b.use(nil)
		// The function's names are its own: only the marker of the scope around it is needed.
		b.nodes(f.Nodes, f.Inputs, f.Outputs, typed, &scope{around: &scope{}, values: map[string]int{}}, i)
		delete(b.calling, key)
		return i
	}
	var layer *cost.Layer
	for _, out := range n.Outputs {
		if l := layers[out]; out != "" && l != nil && l.OpType == n.OpType {
			layer = l
		}
	}
	body := 0
	for _, a := range n.Attributes {
		for k, g := range a.Subgraphs() {
			var c *cost.Costs
			if layer != nil {
				c = layer.Body(g, body)
			}
			b.use(c)
			body++
			title := a.Name
			if a.G == nil {
				title = fmt.Sprintf("%s[%d]", a.Name, k)
			}
			b.graph(g, &scope{around: s, values: map[string]int{}}, b.add(i, Body, title, g.Name))
		}
	}
	return i
}

// size returns the number of items of a body at least.
func size(n *onnx.Node, f *onnx.Function) int {
	if f != nil {
		return len(f.Nodes) + len(f.Inputs) + len(f.Outputs)
	}
	r := 0
	for _, g := range n.Subgraphs() {
		r += 1 + len(g.Nodes) + len(g.Inputs) + len(g.Outputs)
	}
	return r
}

// cost adds the costs of a node: of the layers that its outputs depend on, up to values of its
// graph. There are several if it calls a function. Costs in a body are those of one execution.
func (b *builder) cost(n *onnx.Node, s *scope, x *Item) {
	seen := map[*cost.Layer]bool{}
	todo := slices.Clone(n.Outputs)
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		l := b.layers[name]
		if name == "" || l == nil || seen[l] {
			continue
		}
		seen[l] = true
		x.MACs, x.FLOPs, x.Parameters = x.MACs+l.MACs, x.FLOPs+l.FLOPs, x.Parameters+l.Parameters
		if slices.Contains(n.Outputs, name) {
			x.Bytes += l.OutputBytes
		}
		for _, in := range l.Inputs {
			if _, own := s.values[in]; !own {
				todo = append(todo, in)
			}
		}
	}
}

// compact removes dissolved blocks.
func (b *builder) compact() {
	at, list := make([]int, len(b.Items)), b.Items[:0]
	for i, x := range b.Items {
		if x.Parent != unplaced {
			at[i] = len(list)
			list = append(list, x)
		}
	}
	for i, x := range list {
		if x.Parent >= 0 {
			list[i].Parent = at[x.Parent]
		}
	}
	b.Items = list
}

// sum adds the costs of the items to those around them. Costs of a call are counted already.
func (b *builder) sum() {
	for i := range b.Items {
		x := &b.Items[i]
		if x.Kind == Block {
			continue
		}
		for p := x.Parent; p >= 0; p = b.Items[p].Parent {
			y := &b.Items[p]
			if x.Kind == Node {
				y.Nodes++
			}
			if y.Kind == Block {
				y.MACs, y.FLOPs, y.Parameters = y.MACs+x.MACs, y.FLOPs+x.FLOPs, y.Parameters+x.Parameters
			}
		}
	}
}

// open opens blocks, but none that repeats, until a page shows about a screenful of boxes.
func (b *builder) open() {
	const enough = 14
	children := make(map[int][]int)
	for i, x := range b.Items {
		children[x.Parent] = append(children[x.Parent], i)
	}
	shown := len(children[-1])
	queue := slices.Clone(children[-1])
	for shown < enough {
		best := -1
		for _, i := range queue {
			if n := len(children[i]); b.Items[i].Kind == Block && !b.Items[i].Open && b.Items[i].Repeats == 0 &&
				n > 0 && shown+n <= 3*enough && (best < 0 || n < len(children[best])) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		b.Items[best].Open = true
		shown += len(children[best]) - 1
		queue = append(queue, children[best]...)
	}
}

// sorted returns nodes so that each follows those whose results it reads, in the order of the file
// where there is a choice. Nodes of cycles, which are invalid, come last.
func sorted(list []*onnx.Node) []*onnx.Node {
	maker := map[string]int{}
	for i, n := range list {
		for _, out := range n.Outputs {
			maker[out] = i
		}
	}
	delete(maker, "")
	waits, users := make([]int, len(list)), make([][]int, len(list))
	inOrder := true
	for i, n := range list {
		for in := range reads(n) {
			if k, ok := maker[in]; ok && k != i {
				waits[i]++
				users[k] = append(users[k], i)
				inOrder = inOrder && k < i
			}
		}
	}
	if inOrder {
		return list
	}
	r, done := make([]*onnx.Node, 0, len(list)), make([]bool, len(list))
	var ready []int
	for i := len(list) - 1; i >= 0; i-- {
		if waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		r, done[i] = append(r, list[i]), true
		for _, u := range slices.Backward(users[i]) {
			if waits[u]--; waits[u] == 0 {
				ready = append(ready, u)
			}
		}
	}
	for i, n := range list {
		if !done[i] {
			r = append(r, n)
		}
	}
	return r
}

// reads returns the names of a node's inputs, also those that its subgraphs may
// take from around it.
func reads(n *onnx.Node) map[string]bool {
	r := map[string]bool{}
	var visit func(n *onnx.Node, depth int)
	visit = func(n *onnx.Node, depth int) {
		for _, in := range n.Inputs {
			r[in] = true
		}
		for _, g := range n.Subgraphs() {
			for _, v := range g.Outputs {
				r[v.Name] = true
			}
			for _, x := range g.Nodes {
				if depth < maxDepth {
					visit(x, depth+1)
				}
			}
		}
	}
	visit(n, 0)
	delete(r, "")
	return r
}
