// Package layers pairs the values of two models that compute the same, for example of a model and
// its quantized form, so that they can be compared layer by layer.
package layers

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
)

// Pair is a value of model A and the value of model B that corresponds to it.
type Pair struct {
	A, B string
	// Node and NodeB make the values. They are nil for initializers; Consumer is the first node
	// that reads the value in A.
	Node, NodeB, Consumer *onnx.Node
	// Inputs are the indices of the pairs that Node reads, also through values without a
	// counterpart.
	Inputs []int
}

// graph is the main graph of a model, indexed by value name.
type graph struct {
	*onnx.Graph
	producer map[string]*onnx.Node
	position map[*onnx.Node]int
	consumer map[string]*onnx.Node // the first
	init     map[string]*onnx.Tensor
	inputs   map[string]bool
	// quantized holds the values that a QuantizeLinear reads. Quantizers leave out a Relu
	// before it if the range implies it; the value then has the name of the Relu's output,
	// but not its contents.
	quantized map[string]bool
}

func index(g *onnx.Graph) *graph {
	r := &graph{Graph: g, producer: map[string]*onnx.Node{}, position: map[*onnx.Node]int{},
		consumer: map[string]*onnx.Node{},
		init:     map[string]*onnx.Tensor{}, quantized: map[string]bool{}, inputs: map[string]bool{}}
	for _, v := range g.Inputs {
		r.inputs[v.Name] = true
	}
	for i, n := range g.Nodes {
		r.position[n] = i
		for _, name := range n.Outputs {
			if name != "" {
				r.producer[name] = n
			}
		}
		for _, name := range n.Inputs {
			if r.consumer[name] == nil {
				r.consumer[name] = n
			}
			if n.OpType == "QuantizeLinear" {
				r.quantized[name] = true
			}
		}
	}
	for _, t := range g.Initializers {
		r.init[t.Name] = t
	}
	return r
}

// known reports whether a node makes the value or it is an initializer.
func (g *graph) known(name string) bool {
	return name != "" && (g.producer[name] != nil || g.init[name] != nil)
}

// at returns the position of the node that makes the value, or of the first that reads it.
func (g *graph) at(name string) int {
	if n := g.producer[name]; n != nil {
		return g.position[n]
	}
	return g.position[g.consumer[name]]
}

// Match pairs the values of two models, whose nodes must be in topological order. The pairs are in
// the order of A. Values correspond if
//
//   - nodes make both and they have the same name,
//   - they are outputs at the same position,
//   - they are computed by the same operators with the same attributes from corresponding inputs
//     and from initializers of the same types and shapes, or
//   - they are the same input of corresponding nodes: an activation and its dequantized form, a
//     weight and the weight of the other model.
func Match(a, b *onnx.Graph) []Pair {
	m := &matcher{a: index(a), b: index(b), paired: map[string]string{}, taken: map[string]bool{}}
	for _, n := range a.Nodes {
		for _, name := range n.Outputs {
			if other := m.b.producer[name]; other != nil && (other.OpType == n.OpType || !m.a.quantized[name]) {
				m.add(name, name)
			}
		}
	}
	for i := range min(len(a.Outputs), len(b.Outputs)) {
		m.add(a.Outputs[i].Name, b.Outputs[i].Name)
	}
	m.structure()
	for len(m.queue) > 0 {
		next := m.queue[0]
		m.queue = m.queue[1:]
		m.inputs(next)
	}
	return m.pairs()
}

type matcher struct {
	a, b   *graph
	paired map[string]string // from A to B
	taken  map[string]bool   // values of B that have a counterpart
	queue  []string          // values of A whose nodes' inputs are still to be paired
}

func (m *matcher) add(a, b string) {
	if _, ok := m.paired[a]; ok || !m.a.known(a) || !m.b.known(b) && !(m.b.inputs[b] && m.a.producer[a] != nil) {
		return
	}
	m.paired[a], m.taken[b] = b, true
	m.queue = append(m.queue, a)
}

// inputs pairs the inputs of the nodes that make a pair. In a quantized model, these are the nodes
// before QuantizeLinear and DequantizeLinear, and a Relu or Clip may be left out.
func (m *matcher) inputs(name string) {
	na, nb := m.a.producer[name], m.b.producer[m.paired[name]]
	for na != nil && nb != nil && na.OpType != nb.OpType && len(na.Inputs) > 0 &&
		(na.OpType == "DequantizeLinear" || na.OpType == "QuantizeLinear") {
		na = m.a.producer[na.Inputs[0]]
	}
	if na != nil && nb != nil && na.OpType != nb.OpType && len(nb.Inputs) > 0 &&
		(nb.OpType == "Relu" || nb.OpType == "Clip") {
		nb = m.b.producer[nb.Inputs[0]]
	}
	if na == nil || nb == nil || na.OpType != nb.OpType || na.Domain != nb.Domain {
		return
	}
	for k := range min(len(na.Inputs), len(nb.Inputs)) {
		m.add(na.Inputs[k], nb.Inputs[k])
	}
}

// structure pairs values without a counterpart by how they are computed, in the order of the nodes.
func (m *matcher) structure() {
	free := map[[sha256.Size]byte][]string{}
	ids := m.b.structure()
	for _, n := range m.b.Nodes {
		for _, name := range n.Outputs {
			if name != "" && !m.taken[name] {
				free[ids[name]] = append(free[ids[name]], name)
			}
		}
	}
	ids = m.a.structure()
	for _, n := range m.a.Nodes {
		for _, name := range n.Outputs {
			if _, ok := m.paired[name]; ok || name == "" {
				continue
			}
			if list := free[ids[name]]; len(list) > 0 {
				m.add(name, list[0])
				free[ids[name]] = list[1:]
			}
		}
	}
}

// structure returns a hash for each value of how it is computed.
func (g *graph) structure() map[string][sha256.Size]byte {
	ids := map[string][sha256.Size]byte{}
	for i, v := range g.Inputs {
		ids[v.Name] = sha256.Sum256(fmt.Appendf(nil, "input %d", i))
	}
	for name, t := range g.init {
		ids[name] = sha256.Sum256(fmt.Appendf(nil, "initializer %d %v", t.DataType, t.Dims))
	}
	for _, n := range g.Nodes {
		bare := onnx.Node{OpType: n.OpType, Domain: onnx.NormalizeDomain(n.Domain),
			Attributes: slices.Clone(n.Attributes)}
		slices.SortFunc(bare.Attributes, func(x, y *onnx.Attribute) int { return strings.Compare(x.Name, y.Name) })
		text, err := bare.Marshal()
		if err != nil {
			text = []byte(n.OpType) // too large for a protobuf
		}
		for _, in := range n.Inputs {
			id := ids[in]
			text = append(append(text, ' '), id[:]...)
		}
		for k, out := range n.Outputs {
			if out != "" {
				ids[out] = sha256.Sum256(fmt.Appendf(text, " output %d", k))
			}
		}
	}
	return ids
}

func (m *matcher) pairs() []Pair {
	names := text.SortedFunc(maps.Keys(m.paired), func(x, y string) int {
		if d := m.a.at(x) - m.a.at(y); d != 0 {
			return d
		}
		px, py := m.a.producer[x] != nil, m.a.producer[y] != nil
		if px != py { // initializers before what is computed from them
			if py {
				return -1
			}
			return 1
		}
		if x < y {
			return -1
		}
		return 1
	})
	at := map[string]int{}
	pairs := make([]Pair, len(names))
	for i, name := range names {
		at[name] = i
		pairs[i] = Pair{A: name, B: m.paired[name], Node: m.a.producer[name], NodeB: m.b.producer[m.paired[name]],
			Consumer: m.a.consumer[name]}
	}
	for i := range pairs {
		// The inputs, and instead of those without a counterpart the inputs of their nodes.
		seen := map[string]bool{}
		for todo := []*onnx.Node{pairs[i].Node}; len(todo) > 0; {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if n == nil {
				continue
			}
			for _, in := range n.Inputs {
				if seen[in] {
					continue
				}
				seen[in] = true
				if k, ok := at[in]; ok {
					pairs[i].Inputs = append(pairs[i].Inputs, k)
				} else {
					todo = append(todo, m.a.producer[in])
				}
			}
		}
	}
	return pairs
}
