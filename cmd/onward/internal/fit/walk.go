package fit

import (
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// need is what nodes require of the values of an input.
type need struct {
	lo, hi   float64 // bounds, both included, if bounded
	bounded  bool
	mask     bool // ones, then zeros along the last axis; at least one
	distinct bool // integers that differ along axis
	axis     int
	limits   []int     // the sizes that bound the elements of the last axis: distinct index tuples
	exact    []float64 // the contents
	sizes    bool      // exact holds the sizes of a shape
	words    []string  // for strings
	image    bool      // an encoded image
}

func between(lo, hi float64) need { return need{lo: lo, hi: max(lo, hi), bounded: true} }

func exactly(x ...float64) need { return need{exact: append([]float64{}, x...)} }

// merge adds the requirements of another node.
func (n *need) merge(o need) {
	if o.bounded {
		if !n.bounded {
			n.lo, n.hi, n.bounded = o.lo, o.hi, true
		} else if lo, hi := max(n.lo, o.lo), min(n.hi, o.hi); lo <= hi {
			n.lo, n.hi = lo, hi
		}
	}
	n.mask, n.image = n.mask || o.mask, n.image || o.image
	if o.distinct && !n.distinct {
		n.distinct, n.axis = true, o.axis
	}
	if n.limits == nil {
		n.limits = o.limits
	}
	if n.exact == nil {
		n.exact = o.exact
	}
	if n.words == nil {
		n.words = o.words
	}
}

// source is an input x from which the elements of a value are copied, as scale·x + shift, possibly
// reordered or repeated.
type source struct {
	input        string
	scale, shift float64
	moved        bool // the elements may have another shape or order
}

// walker collects the needs of the inputs. It follows their values through the nodes that move
// elements.
type walker struct{ f *Inputs }

type origins map[ir.ValueID][]source

func (w *walker) inputs() origins {
	o := origins{}
	for _, id := range w.f.graph.Inputs {
		o[id] = []source{{input: w.f.graph.Value(id).Name, scale: 1}}
	}
	return o
}

// maxSources limits the sources of a value.
const maxSources = 64

// moves holds the operators whose outputs have the elements of some inputs: the indices of these,
// or nil for all.
var moves = map[string][]int{
	"Identity": {0}, "Cast": {0}, "CastLike": {0}, "BitCast": {0}, "Reshape": {0}, "Unsqueeze": {0},
	"Squeeze": {0}, "Flatten": {0},
	"Transpose": {0}, "Slice": {0}, "Gather": {0}, "GatherND": {0}, "GatherElements": {0}, "Expand": {0},
	"Tile": {0}, "Split": {0},
	"Concat": nil, "Where": {1, 2}, "Pad": {0}, "Dropout": {0}, "Optional": {0}, "OptionalGetElement": {0},
	"SequenceConstruct": nil,
	"SequenceAt":        {0}, "SequenceInsert": {0, 1}, "SequenceErase": {0}, "ConcatFromSequence": {0},
	"SplitToSequence": {0}, "Trilu": {0},
	"DepthToSpace": {0}, "SpaceToDepth": {0}, "ReverseSequence": {0}, "Compress": {0}, "Unique": {0}, "ExpandDims": {0},
}

func (w *walker) graph(g *ir.Graph, from origins) {
	for _, n := range g.Nodes {
		u := &use{w: w, g: g, n: n, from: from}
		u.rules()
		for k, sub := range n.Graphs {
			w.sub(g, n, k, sub, from)
		}
		if in, ok := moves[n.OpType]; ok && (n.Domain == "" || n.OpType == "ExpandDims") {
			var all []source
			for k, id := range n.In {
				if id != ir.None && (in == nil || slices.Contains(in, k)) && len(all) < maxSources {
					for _, s := range from[id] {
						s.moved = s.moved || n.OpType != "Identity" && n.OpType != "Cast"
						all = append(all, s)
					}
				}
			}
			for _, id := range n.Out {
				if id != ir.None && len(all) > 0 {
					from[id] = all
				}
			}
		} else {
			u.affine()
		}
	}
}

// sub follows values into the subgraph k of a node, and out of it.
func (w *walker) sub(g *ir.Graph, n *ir.Node, k int, sub *ir.Graph, from origins) {
	inner := origins{}
	for _, c := range sub.Captures {
		inner[c.Inner] = from[c.Outer]
	}
	skip := 0 // outputs of the subgraph before the node's
	switch n.OpType {
	case "Loop": // the iteration and the condition are the subgraph's own
		for i := 2; i < len(n.In) && i < len(sub.Inputs); i++ {
			inner[sub.Inputs[i]] = from[n.In[i]]
		}
		skip = 1
	case "Scan", "SequenceMap":
		for i := range min(len(n.In), len(sub.Inputs)) {
			inner[sub.Inputs[i]] = from[n.In[i]]
		}
	}
	w.graph(sub, inner)
	for i, id := range n.Out {
		if id != ir.None && i+skip < len(sub.Outputs) && len(from[id]) < maxSources {
			from[id] = append(from[id], inner[sub.Outputs[i+skip]]...)
		}
	}
}

// use is a node that reads values, for the rules.
type use struct {
	w    *walker
	g    *ir.Graph
	n    *ir.Node
	from origins
}

// need requires something of the contents of input k.
func (u *use) need(k int, x need) {
	if k >= len(u.n.In) || u.n.In[k] == ir.None {
		return
	}
	for _, s := range u.from[u.n.In[k]] {
		y := x
		if s.scale != 1 || s.shift != 0 {
			if x.exact != nil || x.mask || s.scale == 0 {
				continue
			}
			lo, hi := (x.lo-s.shift)/s.scale, (x.hi-s.shift)/s.scale
			y.lo, y.hi = math.Ceil(min(lo, hi)), math.Floor(max(lo, hi))
		}
		if y.bounded && !(y.lo <= y.hi && y.hi-y.lo < 1<<53) {
			continue // no value is in the bounds
		}
		if s.moved {
			y.distinct = false
			if size, err := tensor.Elements(u.w.f.Shapes[s.input]); x.exact != nil &&
				(err != nil || size != len(x.exact)) {
				// It is unknown which of the contents come from this input.
				if y.exact = nil; x.sizes {
					y = between(2, 2)
				}
			}
		}
		n := u.w.f.needs[s.input]
		if n == nil {
			n = new(need)
			u.w.f.needs[s.input] = n
		}
		n.merge(y)
	}
}

// affine follows x + c, x − c, c − x, −x and x · c with a constant scalar c.
func (u *use) affine() {
	if u.n.Domain != "" || len(u.n.Out) != 1 || u.n.Out[0] == ir.None {
		return
	}
	out := u.n.Out[0]
	set := func(x ir.ValueID, scale, shift float64) {
		for _, s := range u.from[x] {
			s.scale, s.shift = s.scale*scale, s.shift*scale+shift
			u.from[out] = append(u.from[out], s)
		}
	}
	if u.n.OpType == "Neg" {
		set(u.n.In[0], -1, 0)
		return
	}
	if len(u.n.In) != 2 {
		return
	}
	for k := range 2 {
		c, ok := u.scalar(1 - k)
		if !ok {
			continue
		}
		switch x := u.n.In[k]; {
		case u.n.OpType == "Add":
			set(x, 1, c)
		case u.n.OpType == "Sub" && k == 0:
			set(x, 1, -c)
		case u.n.OpType == "Sub":
			set(x, -1, c)
		case u.n.OpType == "Mul" && c != 0:
			set(x, c, 0)
		}
		return
	}
}

// scalar returns the value of input k if it is a constant whose elements are all the same.
func (u *use) scalar(k int) (float64, bool) {
	x := u.numbers(k)
	if len(x) == 0 || len(x) > 4096 {
		return 0, false
	}
	for _, y := range x {
		if y != x[0] {
			return 0, false
		}
	}
	return x[0], true
}

// numbers returns the elements of input k if it is constant.
func (u *use) numbers(k int) []float64 {
	if k >= len(u.n.In) || u.n.In[k] == ir.None {
		return nil
	}
	t, ok := u.g.Value(u.n.In[k]).Const.(*tensor.Tensor)
	if !ok || t.Len() > 4096 || t.DType() == tensor.TypeString {
		return nil
	}
	y, err := tensor.Convert(t, tensor.TypeFloat64, &tensor.ConvertOptions{Saturate: true})
	if err != nil {
		return nil
	}
	return tensor.MustData[float64](y)
}

func (u *use) has(k int) bool { return k < len(u.n.In) && u.n.In[k] != ir.None }

// shape returns the shape of input k; −1 for unknown sizes, nil for an unknown rank.
func (u *use) shape(k int) []int {
	if !u.has(k) {
		return nil
	}
	return known(u.g.Value(u.n.In[k]).Type)
}

func known(t ir.Type) []int {
	if !t.Ranked() {
		return nil
	}
	r := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		n, ok := d.Value()
		if r[i] = n; !ok {
			r[i] = -1
		}
	}
	return r
}

// dim returns a size of input k, or other if it is unknown.
func (u *use) dim(k, axis, other int) int {
	s := u.shape(k)
	if axis < 0 {
		axis += len(s)
	}
	if axis < 0 || axis >= len(s) || s[axis] < 0 {
		return other
	}
	return s[axis]
}

// length returns the number of elements of input k, or 0.
func (u *use) length(k int) int {
	n := 1
	for _, d := range u.shape(k) {
		n *= max(d, 0)
	}
	return n
}

// result returns the shape of output k: the one that the model declares, if it is an output of the
// model, else the inferred one, with −1 for unknown sizes.
func (u *use) result(k int) []int {
	if k >= len(u.n.Out) || u.n.Out[k] == ir.None {
		return nil
	}
	v := u.g.Value(u.n.Out[k])
	if dims, ok := u.w.f.declared[v.Name]; ok && u.g == u.w.f.graph {
		r := make([]int, len(dims))
		for i, d := range dims {
			switch r[i] = -1; d.Kind {
			case onnx.DimValue:
				r[i] = int(d.Value)
			case onnx.DimParam:
				if n, ok := u.w.f.Dimensions[d.Param]; ok {
					r[i] = n
				}
			}
		}
		return r
	}
	return known(v.Type)
}

func (u *use) attr(name string, other int64) int { return int(attr(u.n, name, other)) }

// attr returns an attribute of the node as in its file.
func attr[T any](n *ir.Node, name string, other T) T {
	if n.Source != nil {
		if x, ok := n.Source.Attrs[name].(T); ok {
			return x
		}
	}
	return other
}

// maskName reports whether an input is called a mask.
func maskName(name string) bool { return strings.Contains(strings.ToLower(name), "mask") }
