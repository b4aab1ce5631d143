// Package cost counts the arithmetic, parameters and memory of a model's nodes from the inferred
// shapes.
package cost

import (
	"maps"
	"math/bits"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
)

// Layer is a node of a graph with its cost. Sizes that are unknown or depend on free
// dimensions count as 1.
type Layer struct {
	onward.NodeInfo
	// MACs is the number of multiplications with addition: of convolutions, matrix products,
	// recurrent layers and attention. Of other operators it is 0.
	MACs int64 `json:"macs"`
	// FLOPs is the number of operations: two per MAC, and those of elementwise operators,
	// reductions, pooling and normalization.
	FLOPs int64 `json:"flops"`
	// Parameters is the number of elements of the initializers that the node is the first to read.
	Parameters  int64 `json:"parameters"`
	OutputBytes int64 `json:"output_bytes"`
	// Shape is that of the first output; unknown sizes are -1.
	Shape []int64 `json:"shape"`
}

// Costs are the costs of a model.
type Costs struct {
	Layers []Layer
	MACs   int64
	FLOPs  int64
	// ActivationBytes is the peak memory of inputs and results, if nodes run in order and values
	// are freed after their last use.
	ActivationBytes int64

	values   map[string]onward.NodeArg
	producer map[string]int   // index of the layer that makes a value
	users    map[string][]int // indices of the layers that read a value
	byName   map[string]int   // index of a layer by its name
	output   map[string]bool  // outputs of the model
	constant map[string]bool  // values that only depend on initializers
}

// Of returns the costs of a model. It returns the error of [onward.Analyze].
func Of(m *onnx.Model) (*Costs, error) {
	a, err := onward.Analyze(m, onward.Limits{})
	if err != nil {
		return nil, err
	}
	return ofGraph(m.Graph, a), nil
}

// Body returns the costs of one execution of subgraph g of a layer, the k-th in the order of the
// attributes. Initializers of the graphs around it are not counted as parameters. It returns nil if
// the layer has no such subgraph.
func (l *Layer) Body(g *onnx.Graph, k int) *Costs {
	if k >= len(l.Bodies) {
		return nil
	}
	return ofGraph(g, l.Bodies[k])
}

func ofGraph(g *onnx.Graph, a *onward.Analysis) *Costs {
	values := a.ByName()
	for _, list := range [][]*onnx.ValueInfo{g.Inputs, g.ValueInfo, g.Outputs} {
		for _, d := range list {
			if v, ok := values[d.Name]; ok && v.Shape == nil {
				v.Shape = declared(d) // the inferred shapes of a Loop's state hold for any iteration
				values[d.Name] = v
			}
		}
	}
	unread := make(map[string]bool, len(g.Initializers))
	initializer := make(map[string]bool, len(g.Initializers))
	for _, t := range g.Initializers {
		unread[t.Name], initializer[t.Name] = true, true
	}
	c := &Costs{Layers: make([]Layer, len(a.Nodes)), values: values, producer: map[string]int{},
		users: map[string][]int{}, byName: map[string]int{},
		output: map[string]bool{}, constant: maps.Clone(initializer)}
	last := map[string]int{}
	for i, n := range a.Nodes {
		l := &c.Layers[i]
		l.NodeInfo = n
		in := func(k int) []int64 {
			if k < len(n.Inputs) {
				return shape(values[n.Inputs[k]])
			}
			return nil
		}
		if d := kit.Registered(n.Domain, n.OpType); d != nil {
			macs, operations := d.Cost(kit.Shapes{In: in, Out: shape(values[n.Outputs[0]])})
			l.MACs, l.FLOPs = int64(min(macs, most)), int64(min(operations, most))
		}
		c.FLOPs = add(c.FLOPs, l.FLOPs)
		c.index(i)
		c.MACs = add(c.MACs, l.MACs)
		for _, in := range n.Inputs {
			if unread[in] {
				l.Parameters = add(l.Parameters, product(shape(values[in])))
				unread[in] = false
			}
			last[in] = i
		}
		for k, out := range n.Outputs {
			if out == "" {
				continue
			}
			l.OutputBytes = add(l.OutputBytes, size(values[out]))
			last[out] = i
			if k == 0 {
				for _, d := range values[out].Shape {
					l.Shape = append(l.Shape, d.Value)
				}
			}
		}
	}
	for _, v := range g.Outputs {
		c.output[v.Name] = true
		last[v.Name] = len(a.Nodes)
	}
	live := int64(0)
	for _, v := range g.Inputs {
		if !initializer[v.Name] {
			live = add(live, size(values[v.Name]))
		}
	}
	c.ActivationBytes = live
	for i, n := range a.Nodes {
		live = add(live, c.Layers[i].OutputBytes)
		c.ActivationBytes = max(c.ActivationBytes, live)
		freed := map[string]bool{}
		for _, list := range [][]string{n.Inputs, n.Outputs} {
			for _, name := range list {
				if name != "" && last[name] == i && !initializer[name] && !freed[name] {
					freed[name] = true
					live -= size(values[name])
				}
			}
		}
	}
	return c
}

// declared returns the shape of a declaration, or nil if it has none.
func declared(v *onnx.ValueInfo) []onward.Dim {
	if v.Type == nil || v.Type.Tensor == nil || v.Type.Tensor.Shape == nil {
		return nil
	}
	r := make([]onward.Dim, len(v.Type.Tensor.Shape.Dims))
	for i, d := range v.Type.Tensor.Shape.Dims {
		if r[i] = (onward.Dim{Value: -1, Param: d.Param}); d.Kind == onnx.DimValue && d.Value >= 0 {
			r[i].Value = d.Value
		}
	}
	return r
}

// Values returns the types of the main graph's values by name.
func (c *Costs) Values() map[string]onward.NodeArg { return c.values }

// index adds layer i to the maps.
func (c *Costs) index(i int) {
	l := &c.Layers[i]
	constant := len(l.Inputs) > 0
	for _, in := range l.Inputs {
		if in != "" {
			c.users[in] = append(c.users[in], i)
			constant = constant && c.constant[in]
		}
	}
	for _, out := range l.Outputs {
		if out != "" {
			c.producer[out], c.constant[out] = i, constant || l.OpType == "Constant"
		}
	}
	if l.Name != "" {
		c.byName[l.Name] = i
	}
}

// shape returns the sizes of a value with 1 for those that are unknown, or nil if the rank is.
func shape(a onward.NodeArg) []int64 {
	if a.Shape == nil {
		return nil
	}
	s := make([]int64, len(a.Shape))
	for i, d := range a.Shape {
		if s[i] = d.Value; s[i] < 0 {
			s[i] = 1
		}
	}
	return s
}

// size returns the size of a tensor in bytes, and 0 for other values and for strings.
func size(a onward.NodeArg) int64 {
	if a.Shape == nil {
		return 0
	}
	n := product(shape(a))
	return add(n/8*int64(a.ElementType().Elem.Bits()), (n%8*int64(a.ElementType().Elem.Bits())+7)/8)
}

const most = 1 << 62 // sums and products saturate here

func add(a, b int64) int64 { return min(a, most-b) + b } // both at most most

func product(list []int64) int64 {
	n := int64(1)
	for _, d := range list {
		n = times(n, d)
	}
	return n
}

func times(a, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi != 0 || lo > most {
		return most
	}
	return a * b
}
