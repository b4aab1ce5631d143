package fit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

const (
	batchSize = 1 // of a free first dimension
	freeSize  = 8 // of other free dimensions
	maxTries  = 200
)

// sizes are tried, in this order, for free dimensions that cannot have their default.
var sizes = []int{freeSize, 16, 32, 64, 1, 2, 3, 4, 128, 224, 256, 512, 1024, 4096, 16000}

// A dimension is a free dimension of the inputs.
type dimension struct {
	name  string // as in the model, or "input[axis]" for one without a name
	size  int
	fixed bool // by the caller
	tied  bool // computed from other dimensions
}

// solver chooses the sizes of free dimensions.
type solver struct {
	f     *Inputs
	o     *Options
	dims  []*dimension
	by    map[string]*dimension
	sites []site
	tries int
}

// site is a constraint of a node: two dimensions must be equal, or one of them 1.
type site struct {
	g        *ir.Graph
	a, b     ir.ValueID
	i, j     int    // axes
	one, two string // names of the free dimensions at the axes; "" for other dimensions
}

// chooseDimensions sets the shapes of the inputs. Free dimensions that the caller does not set are
// 1 if they are first, else 8. Other sizes are chosen where nodes relate dimensions to each other,
// or reject these sizes.
func (f *Inputs) chooseDimensions(o *Options) *solver {
	s := &solver{f: f, o: o, by: map[string]*dimension{}}
	for _, a := range f.Args {
		for k, d := range a.Shape {
			if name := dimName(a, k, d); d.Value < 0 && s.by[name] == nil {
				x := &dimension{name: name, size: freeSize}
				if k == 0 {
					x.size = batchSize
				}
				s.by[name] = x
				s.dims = append(s.dims, x)
			}
		}
	}
	s.userSizes()
	s.named()
	if f.graph != nil {
		s.symbols()
		s.sites = sitesOf(f.graph, s.by, nil)
		s.solve()
	}
	s.apply()
	return s
}

func dimName(a onward.NodeArg, axis int, d onward.Dim) string {
	if d.Param != "" {
		return d.Param
	}
	return fmt.Sprintf("%s[%d]", a.Name, axis)
}

// symbols infers the shapes with a symbol for each free dimension, also for those without a name.
func (s *solver) symbols() {
	for _, a := range s.f.Args {
		v := s.f.input(a)
		if len(v.Type.Shape) != len(a.Shape) {
			continue
		}
		v.Type.Shape = slices.Clone(v.Type.Shape)
		for k, d := range a.Shape {
			if d.Value < 0 {
				v.Type.Shape[k] = ir.Symbol(dimName(a, k, d))
			}
		}
	}
	_ = ir.Infer(context.Background(), s.f.graph) // on an error, the shapes of later nodes stay unknown
}

// userSizes sets the dimensions that the caller has set, by name, by shape or by a value.
func (s *solver) userSizes() {
	for name, n := range s.o.Dimensions {
		s.by[name].size, s.by[name].fixed = n, true
	}
	for _, a := range s.f.Args {
		shape, ok := s.o.Shapes[a.Name]
		if t, given := s.o.Given[a.Name].(*tensor.Tensor); given {
			shape, ok = t.Shape(), true
		}
		if !ok || len(shape) != len(a.Shape) {
			continue
		}
		for k, d := range a.Shape {
			if x := s.by[dimName(a, k, d)]; d.Value < 0 && !x.fixed {
				x.size, x.fixed = shape[k], true
			}
		}
	}
}

// named computes the dimensions whose names are sums of others, such as "past_sequence_length + 1",
// which exporters write.
func (s *solver) named() {
	for _, d := range s.dims {
		n, terms := 0, strings.Split(d.name, "+")
		for _, t := range terms {
			t = strings.TrimSpace(t)
			if k, err := strconv.Atoi(t); err == nil {
				n += k
			} else if x := s.by[t]; x != nil {
				n += x.size
			} else {
				terms = nil
			}
		}
		if len(terms) > 1 && !d.fixed && n >= 0 && n < 1<<20 {
			d.size, d.tied = n, true
		}
	}
}

// sitesOf appends the constraints of a graph's nodes to sites. The graph has symbolic dimensions.
func sitesOf(g *ir.Graph, free map[string]*dimension, sites []site) []site {
	add := func(a ir.ValueID, i int, b ir.ValueID, j int) {
		x, y := g.Value(a).Type.Shape[i], g.Value(b).Type.Shape[j]
		if x == y || x.Is(1) || y.Is(1) {
			return
		}
		t := site{g: g, a: a, b: b, i: i, j: j}
		if free[x.String()] != nil {
			t.one = x.String()
		}
		if free[y.String()] != nil {
			t.two = y.String()
		}
		if t.one != "" || t.two != "" {
			sites = append(sites, t)
		}
	}
	for _, n := range g.Nodes {
		var in []ir.ValueID
		for _, id := range n.In {
			if id != ir.None && g.Value(id).Type.Ranked() {
				in = append(in, id)
			}
		}
		rank := func(id ir.ValueID) int { return len(g.Value(id).Type.Shape) }
		switch n.OpType {
		case "Add", "Sub", "Mul", "Div", "Where", "And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual",
			"GreaterOrEqual", "Min", "Max", "Sum":
			for k := 1; k < len(in); k++ {
				for back := 1; back <= min(rank(in[0]), rank(in[k])); back++ {
					add(in[0], rank(in[0])-back, in[k], rank(in[k])-back)
				}
			}
		case "MatMul":
			if len(in) == 2 && rank(in[0]) >= 2 && rank(in[1]) >= 2 {
				add(in[0], rank(in[0])-1, in[1], rank(in[1])-2)
			}
		case "Concat":
			axis := int(attr(n, "axis", int64(0)))
			for k := 1; k < len(in); k++ {
				for i := range rank(in[0]) {
					if rank(in[k]) == rank(in[0]) && i != axis && i != axis+rank(in[0]) {
						add(in[0], i, in[k], i)
					}
				}
			}
		}
		for _, sub := range n.Graphs {
			sites = sitesOf(sub, free, sites)
		}
	}
	return sites
}

// solve chooses sizes with which shape inference succeeds and all constraints hold. If it finds
// none, the sizes are the defaults.
func (s *solver) solve() {
	start := s.save()
	if s.try() {
		return
	}
	for _, n := range sizes { // all free dimensions but the first ones
		s.restore(start)
		for _, d := range s.dims {
			if !d.fixed && !d.tied && d.size != batchSize {
				d.size = n
			}
		}
		if s.try() {
			return
		}
	}
	for _, k := range []int{1, 2} { // one dimension, then pairs
		if s.search(start, k, 0) {
			return
		}
	}
	s.restore(start)
	s.try()
}

// search tries all sizes for k of the dimensions from index i on, and reports whether one succeeds.
func (s *solver) search(start []dimension, k, i int) bool {
	if k == 0 {
		return s.try()
	}
	for ; i < len(s.dims); i++ {
		if s.dims[i].fixed {
			continue
		}
		for _, n := range sizes {
			if s.tries > maxTries {
				return false
			}
			s.restore(start)
			now := s.save()
			now[i].size, now[i].tied = n, true
			s.restore(now)
			if s.search(now, k-1, i+1) {
				return true
			}
		}
	}
	return false
}

func (s *solver) save() []dimension {
	r := make([]dimension, len(s.dims))
	for i, d := range s.dims {
		r[i] = *d
	}
	return r
}

func (s *solver) restore(from []dimension) {
	for i, d := range s.dims {
		*d = from[i]
	}
}

// try infers the shapes with the sizes and reports whether that succeeds. If a constraint is
// violated, it sets the free dimension to the size of the other one and infers again.
func (s *solver) try() bool {
	for range len(s.dims) + 1 {
		s.tries++
		s.apply()
		err := ir.Infer(context.Background(), s.f.graph)
		if !s.tie() {
			return err == nil
		}
	}
	return false
}

// tie sets one dimension that violates a constraint, and reports whether there was one.
func (s *solver) tie() bool {
	for _, t := range s.sites {
		x, known := t.g.Value(t.a).Type.Shape, t.g.Value(t.b).Type.Shape
		if t.i >= len(x) || t.j >= len(known) {
			continue
		}
		a, ok1 := x[t.i].Value()
		b, ok2 := known[t.j].Value()
		if !ok1 || !ok2 || a == b {
			continue
		}
		for _, side := range []struct {
			name string
			n    int
		}{{t.two, a}, {t.one, b}} {
			if d := s.by[side.name]; d != nil && !d.fixed && !d.tied {
				d.size, d.tied = side.n, true
				return true
			}
		}
	}
	return false
}

// apply sets the shapes of the inputs from the sizes.
func (s *solver) apply() {
	for _, name := range s.f.Free {
		s.f.Dimensions[name] = s.by[name].size
	}
	for _, a := range s.f.Args {
		if a.ElementType().Kind != tensor.KindTensor && a.ElementType().Kind != tensor.KindSparse {
			continue
		}
		shape := make([]int, len(a.Shape))
		for k, d := range a.Shape {
			if shape[k] = int(d.Value); d.Value < 0 {
				shape[k] = s.by[dimName(a, k, d)].size
			}
		}
		if own, ok := s.o.Shapes[a.Name]; ok {
			shape = slices.Clone(own)
		}
		if t, ok := s.o.Given[a.Name].(*tensor.Tensor); ok {
			shape = t.Shape()
		}
		s.f.Shapes[a.Name] = shape
		if s.f.graph == nil {
			continue
		}
		v := s.f.input(a)
		dims := make([]ir.Dim, len(shape))
		for k, n := range shape {
			dims[k] = ir.Known(n)
		}
		v.Type.Shape = dims
		if t, ok := s.o.Given[a.Name].(*tensor.Tensor); ok && v.Type.Kind == tensor.KindTensor &&
			t.DType() == v.Type.Elem {
			v.Const = t
		}
	}
}

// input returns the value of an input or initializer in the graph, or the zero Value if not found.
func (f *Inputs) input(a onward.NodeArg) *ir.Value {
	if f.graph != nil {
		for _, id := range f.graph.Inputs {
			if v := f.graph.Value(id); v.Name == a.Name {
				return v
			}
		}
	}
	return &ir.Value{}
}
