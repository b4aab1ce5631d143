package opfuzz

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Chain is a random graph of several nodes: cases of any operator, and groups of operators
// that optimizers replace, or variations of those groups.
type Chain struct {
	Model *onnx.Model
	// Feeds holds values for the inputs: for each of two sizes of the symbolic dimension two
	// feeds, which differ in their floats.
	Feeds []map[string]tensor.Value
}

// link is a value of a chain that is being built.
type link struct {
	name string
	v    tensor.Value // value under the first feed
}

func (l link) t() *tensor.Tensor {
	t, ok := l.v.(*tensor.Tensor)
	if !ok {
		panic(refused("operand must be a tensor"))
	}
	return t
}

func (l link) shape() []int        { return l.t().Shape() }
func (l link) rank() int           { return l.t().Rank() }
func (l link) dtype() tensor.DType { return l.t().DType() }
func (l link) dim(i int) int {
	s := l.shape()
	return s[(i+len(s))%len(s)]
}

// refused is the panic value that abandons a step, for example if reference returns an error
// for its node.
type refused string

// chain builds a Chain. Each node is run when it is added, so that the next one can be drawn
// to fit its results.
type chain struct {
	*gen
	b        *onnx.ModelBuilder
	at       *onnx.GraphBuilder // where nodes go: the model's graph or a subgraph
	depth    int
	seeds    Seeds
	defs     []*kit.Def
	opset    int
	ml       int
	unaries  []string // functions of one tensor
	vectors  []string // those with vector kernels
	names    int
	batch    [2]int
	values   []link // values that steps may read
	consts   []link
	made     []link // results of nodes of the main graph, in order
	read     map[string]bool
	outputs  map[string]bool
	feeds    []map[string]tensor.Value
	constant int // one in this many constant operands is an input instead
}

// DrawChain draws a chain, nil if it has no nodes.
func DrawChain(t *rapid.T, defs []*kit.Def, seeds Seeds) *Chain {
	w := &chain{gen: newGen(t, nil), b: onnx.NewModel("chain"), seeds: seeds, defs: defs, read: map[string]bool{},
		outputs: map[string]bool{},
		feeds:   []map[string]tensor.Value{{}, {}, {}, {}}}
	w.at = w.b.GraphBuilder
	w.opset = pick(w.gen, 17, 13, 15, 18, 20, 21, 23)
	w.ml = pick(w.gen, 3, 4, 5)
	w.unaries, w.vectors = Functions(w.opset, steady), Functions(w.opset, hasVector)
	w.b.Opset("", int64(w.opset)).Opset("com.microsoft", 1).Opset("ai.onnx.ml", int64(w.ml))
	w.batch = [2]int{w.in(1, 4), pick(w.gen, 1, 2, 3, 5, 8, 16)}
	if w.one(20) {
		w.batch[1] = 0
	}
	w.constant = pick(w.gen, 6, 3, 30)
	for range w.in(1, 2) {
		w.values = append(w.values, w.input(w.data()))
	}
	for range w.in(1, 6) {
		w.step()
	}
	// Values without readers are outputs, and some of the others.
	for i, l := range w.made {
		if !w.read[l.name] && (i == len(w.made)-1 || !w.one(6)) || w.one(10) {
			w.output(l)
		}
	}
	if len(w.outputs) == 0 {
		return nil
	}
	m, err := w.b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return &Chain{m, w.feeds}
}

// step adds a group of nodes. If the step is abandoned, the nodes added so far stay.
func (w *chain) step() {
	at, depth, values, consts := w.at, w.depth, len(w.values), len(w.consts)
	nodes := len(w.made)
	defer func() {
		switch p := recover().(type) {
		case nil:
		case refused:
			w.at, w.depth, w.values, w.consts = at, depth, w.values[:min(len(w.values), values)],
				w.consts[:min(len(w.consts), consts)]
			if depth == 0 {
				w.values = append(w.values, w.made[nodes:]...)
			}
		default:
			panic(p)
		}
	}()
	var r link
	if w.n(10) < 3 {
		r = w.anyOperator()
	} else {
		r = pick(w.gen, patterns...)(w)
	}
	w.values = append(w.values, w.bounded(r))
}

// bounded limits the magnitude of a result, so that numbers do not grow along the chain.
func (w *chain) bounded(r link) link {
	t, ok := r.v.(*tensor.Tensor)
	if !ok || !t.DType().IsFloat() || w.one(3) {
		return r
	}
	f, err := Floats(t)
	if err != nil || !slices.ContainsFunc(f, func(v float64) bool { return v > 50 || v < -50 }) {
		return r
	}
	switch w.n(3) {
	case 0:
		return w.op("Tanh", r)
	case 1:
		return w.op("Mul", r, w.number(r.dtype(), 1./64))
	}
	return w.op("Clip", r, w.number(r.dtype(), -9), w.number(r.dtype(), 9))
}

func (w *chain) name(prefix string) string {
	w.names++
	return fmt.Sprintf("%s%d", prefix, w.names)
}

// data draws a tensor with the shape of images, sequences or rows, or any shape.
func (w *chain) data() *tensor.Tensor {
	d := pick(w.gen, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32,
		tensor.TypeFloat16, tensor.TypeFloat64,
		tensor.TypeBFloat16, tensor.TypeInt64, tensor.TypeInt32, tensor.TypeUint8)
	n := w.batch[0]
	shape := pick(w.gen, []int{n, pick(w.gen, 3, 4, 16, 18, 32), w.in(1, 9), w.in(1, 9)},
		[]int{n, w.in(1, 9), pick(w.gen, 4, 8, 16, 33)}, []int{n, w.in(1, 37)}, w.shape(0, 5))
	k := normal
	if w.one(12) {
		k = special
	} else if w.one(6) {
		k = whole
	}
	t := w.tensor(d, k, shape...)
	if d == tensor.TypeFloat32 {
		for i, v := range tensor.MustData[float32](t) {
			if v == 1e30 || v == -1e30 {
				tensor.MustData[float32](t)[i] = v / 1e27
			}
		}
	}
	return t
}

// input adds a graph input. Its first dimension may be symbolic if it is the batch.
func (w *chain) input(t *tensor.Tensor) link {
	name := w.name("x")
	typ := onnx.NewType(t.Type())
	typ.Tensor.Shape = &onnx.Shape{}
	other := slices.Clone(t.Shape())
	for i, d := range t.Shape() {
		dim := onnx.Dim{Kind: onnx.DimValue, Value: int64(d)}
		switch {
		case i == 0 && d == w.batch[0] && !w.one(4):
			dim = onnx.Dim{Kind: onnx.DimParam, Param: "N"}
			other[0] = w.batch[1]
		case w.one(8):
			dim = onnx.Dim{Kind: onnx.DimParam, Param: name + "_" + fmt.Sprint(i)}
		case w.one(16):
			dim = onnx.Dim{}
		}
		typ.Tensor.Shape.Dims = append(typ.Tensor.Shape.Dims, dim)
	}
	w.b.InputType(name, typ)
	for _, f := range w.feeds {
		f[name] = t
	}
	if t.DType().IsFloat() || !slices.Equal(other, t.Shape()) {
		w.feeds[2][name] = w.like(t, t.DType(), other)
	}
	w.feeds[3][name] = w.feeds[2][name]
	if t.DType().IsFloat() && !slices.Contains(t.Shape(), 0) && t.Len() > 1 {
		w.feeds[1][name] = w.like(t, t.DType(), t.Shape())
		w.feeds[3][name] = w.like(t, t.DType(), other)
	}
	return link{name, t}
}

// fixed returns an operand with the value of t: mostly a new constant (initializer, Constant
// node or foldable node), sometimes an existing one or an input.
func (w *chain) fixed(t *tensor.Tensor) link {
	if w.one(w.constant) && t.DType() != tensor.TypeString {
		return w.input(t)
	}
	c := link{w.name("c"), t}
	switch w.n(12) {
	case 11:
		w.at.Node("Constant", nil, []string{c.name}, onnx.Attrs{"value": onnx.FromTensor(t)})
	case 10: // only folding makes it constant
		raw := w.name("c")
		w.at.Initializer(raw, onnx.FromTensor(t))
		w.at.Node("Identity", []string{raw}, []string{c.name})
	case 9:
		w.b.Initializer(c.name, onnx.FromTensor(t)) // in the main graph, outside the subgraph
	default:
		w.at.Initializer(c.name, onnx.FromTensor(t))
	}
	w.consts = append(w.consts, c)
	if w.depth == 0 && w.one(40) {
		w.output(c)
	}
	return c
}

// weights returns an operand of numbers around 0, sometimes one that another node reads.
func (w *chain) weights(d tensor.DType, shape ...int) link {
	if w.one(4) {
		for _, c := range w.consts {
			if c.dtype() == d && slices.Equal(c.shape(), shape) {
				return c
			}
		}
	}
	return w.fixed(w.tensor(d, unit, shape...))
}

// number returns an operand with one element, mostly of rank 0.
func (w *chain) number(d tensor.DType, x float64) link {
	shape := pick(w.gen, []int{}, []int{}, []int{}, []int{1}, []int{1}, []int{1, 1}, []int{1, 1, 1, 1, 1})
	return w.fixed(w.filled(d, x, shape...))
}

// scalar returns an operand of rank 0.
func (w *chain) scalar(d tensor.DType, x float64) link { return w.fixed(w.filled(d, x)) }

func (w *chain) filled(d tensor.DType, x float64, shape ...int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(d, shape...))
	v := make([]float64, t.Len())
	for i := range v {
		v[i] = x
	}
	if err := tensor.ConvertInto(t, tensor.Must(tensor.New(v, shapeOf(shape, len(v))...)),
		nil); err != nil {
		panic(err)
	}
	return t
}

// ints64 returns an int64 operand, see fixed.
func (w *chain) ints64(v ...int) link { return w.fixed(ints(v...)) }

// output makes a value a graph output.
func (w *chain) output(l link) {
	if !w.outputs[l.name] {
		w.outputs[l.name] = true
		w.b.OutputType(l.name, onnx.NewType(l.v.Type()))
	}
}

// op adds a node with one output, see node.
func (w *chain) op(op string, in ...any) link { return w.node(op, 1, in...)[0] }

// node adds a node. in holds links for inputs, nil for omitted inputs, and attributes as a
// name followed by a value.
func (w *chain) node(op string, outputs int, in ...any) []link {
	c := &Case{Op: op, Opset: w.opset, Out: make([]bool, outputs)}
	if domain, name, ok := strings.Cut(op, ":"); ok {
		c.Domain, c.Op, c.Opset = domain, name, 1
	}
	for i := range c.Out {
		c.Out[i] = true
	}
	var names []string
	for i := 0; i < len(in); i++ {
		switch v := in[i].(type) {
		case nil:
			c.In, names = append(c.In, nil), append(names, "")
		case link:
			c.In, names = append(c.In, v.v), append(names, v.name)
		case string:
			i++
			c.set(v, in[i])
		}
	}
	return w.add(c, names)
}

// add runs a case and adds it as a node with the given input names.
func (w *chain) add(c *Case, names []string) []link {
	res, err := Run(c, onward.ProviderConfig{Name: "reference"}, 1)
	if err != nil {
		if strings.Contains(err.Error(), "PANIC") {
			w.t.Fatalf("%v\n%s", err, c)
		}
		panic(refused(err.Error()))
	}
	var out []string
	var links []link
	for i, want := range c.Out {
		if !want {
			out = append(out, "")
			continue
		}
		l := link{w.name("v"), res[fmt.Sprintf("o%d", i)]}
		if t, ok := l.v.(*tensor.Tensor); ok && t.Len() > 1<<17 {
			panic(refused("too large"))
		}
		out, links = append(out, l.name), append(links, l)
	}
	n := w.at.Node(c.Op, names, out).Domain(c.Domain)
	n.Node().Attributes = c.Attrs
	w.record(names, links)
	return links
}

// record records the values that a node reads and makes, and adds another reader to some
// results.
func (w *chain) record(names []string, links []link) {
	for _, n := range names {
		w.read[n] = true
	}
	if w.depth > 0 {
		return
	}
	w.made = append(w.made, links...)
	for _, l := range links {
		if w.one(14) {
			w.output(l)
		}
		if t, ok := l.v.(*tensor.Tensor); ok && t.DType().IsFloat() && w.one(24) {
			w.values = append(w.values, w.op(pick(w.gen, "Neg", "Relu", "Identity", "Abs"), l))
		}
	}
}

// value returns a value of the main graph or the subgraph, mostly one of the latest.
func (w *chain) value() link {
	i := len(w.values) - 1 - min(len(w.values)-1, pick(w.gen, 0, 0, 0, 0, 1, 2, 3))
	return w.values[i]
}

// tensorValue returns a value that is a tensor.
func (w *chain) tensorValue() link {
	for range 4 {
		if l := w.value(); l.v != nil && l.v.Type().Kind == tensor.KindTensor {
			return l
		}
	}
	panic(refused("no tensor"))
}

// x returns a floating-point tensor that is not too large, mostly float32.
func (w *chain) x() link {
	l := w.tensorValue()
	t := l.t()
	if t.Len() > 1<<14 {
		l = w.op("Slice", w.op("Reshape", l, w.ints64(-1)), w.ints64(0), w.ints64(600))
	}
	switch {
	case t.DType() == tensor.TypeString, t.DType() == tensor.TypeComplex64, t.DType() == tensor.TypeComplex128:
		panic(refused("no floats"))
	case t.DType() == tensor.TypeFloat32:
	case !t.DType().IsFloat(), w.n(2) == 0, t.DType() != tensor.TypeFloat16 && t.DType() != tensor.TypeFloat64 &&
		t.DType() != tensor.TypeBFloat16:
		l = w.op("Cast", l, "to", int64(tensor.TypeFloat32))
	}
	return l
}

// ranked returns x reshaped to a rank of lo to hi, keeping the first dimension if possible.
func (w *chain) ranked(lo, hi int) link {
	l := w.x()
	r := l.rank()
	if r >= lo && r <= hi {
		return l
	}
	want := w.in(lo, hi)
	if r < want && (r == 0 || w.n(2) == 0) {
		var axes []int
		for i := r; i < want; i++ {
			axes = append(axes, i)
		}
		return w.op("Unsqueeze", l, w.ints64(axes...))
	}
	if want == 0 {
		return w.op("ReduceMax", l, "keepdims", int64(0))
	}
	if want == 1 {
		return w.op("Reshape", l, w.ints64(-1))
	}
	// The inner elements are distributed over the other dimensions.
	s := make([]int, want)
	s[0] = 0
	inner := 1
	for _, d := range l.shape()[1:] {
		inner *= d
	}
	for i := 1; i < want-1; i++ {
		s[i] = 1
		for _, d := range []int{16, 8, 4, 3, 2} {
			if inner > 0 && inner%d == 0 && w.n(2) == 0 {
				s[i] = d
				break
			}
		}
		inner /= max(1, s[i])
	}
	s[want-1] = -1
	if r == 1 {
		s[0] = 1
	}
	if l.t().Len() == 0 {
		panic(refused("no elements to distribute"))
	}
	return w.op("Reshape", l, w.ints64(s...))
}

// reduce adds a reduction over axes.
func (w *chain) reduce(op string, x link, keep int64, axes ...int) link {
	if w.opset < 18 && op != "ReduceSum" {
		return w.op(op, x, "axes", int64s(axes), "keepdims", keep)
	}
	return w.op(op, x, w.ints64(axes...), "keepdims", keep)
}

// adapt converts x to another type and shape.
func (w *chain) adapt(x link, d tensor.DType, shape []int) link {
	if x.dtype() != d {
		x = w.op("Cast", x, "to", int64(d))
	}
	if slices.Equal(x.shape(), shape) {
		return x
	}
	n := tensor.Must(tensor.Zeros(tensor.TypeUint8, shape...)).Len()
	if n == x.t().Len() && n > 0 {
		a, b := slices.Clone(x.shape()), slices.Clone(shape)
		slices.Sort(a)
		slices.Sort(b)
		if slices.Equal(a, b) && w.n(2) == 0 {
			var perm []int64
			for _, d := range shape {
				for i, s := range x.shape() {
					if s == d && !slices.Contains(perm, int64(i)) {
						perm = append(perm, int64(i))
						break
					}
				}
			}
			return w.op("Transpose", x, "perm", perm)
		}
		return w.op("Reshape", x, w.ints64(shape...))
	}
	x = w.op("Reshape", x, w.ints64(-1))
	x = w.op("Pad", x, w.ints64(0, n))
	x = w.op("Slice", x, w.ints64(0), w.ints64(n))
	if len(shape) != 1 {
		x = w.op("Reshape", x, w.fixed(ints(shape...)))
	}
	return x
}

// anyOperator adds a case of any operator with values of the chain as some of its operands.
func (w *chain) anyOperator() link {
	for range 8 {
		d := w.defs[w.n(len(w.defs))]
		name := kit.QualifiedName(d.Domain, d.Name)
		switch d.Domain {
		case "":
		case "com.microsoft", "ai.onnx.ml":
			if !w.one(3) {
				continue
			}
		default:
			continue
		}
		if random[name] || d.Name == "Dropout" {
			continue
		}
		outer := w.gen.def
		w.gen.def = d
		c := w.draw(name)
		w.gen.def = outer
		if c == nil || CrashesORT(c) {
			continue
		}
		switch d.Domain {
		case "":
			c.Opset = w.opset
		case "ai.onnx.ml":
			c.Opset = w.ml
		}
		if _, err := Run(c, onward.ProviderConfig{Name: "reference"}, 1); err != nil {
			continue
		}
		return w.plug(c)
	}
	panic(refused("no valid case"))
}

func (w *chain) draw(name string) *Case {
	g := w.gen
	of := w.seeds[name]
	if family, ok := families[name]; ok && (len(of) == 0 || g.n(4) != 3) {
		c := family(g)
		c.Domain, c.Op, c.From = g.def.Domain, g.def.Name, "generator"
		return c
	}
	if len(of) == 0 {
		return nil
	}
	return g.mutate(of, of[g.n(len(of))])
}

// plug replaces some operands of a case by adapted values of the chain, makes the others
// fixed operands, and adds the node.
func (w *chain) plug(c *Case) link {
	names := make([]string, len(c.In))
	plugged := false
	for i, v := range c.In {
		t, ok := v.(*tensor.Tensor)
		if !ok {
			if v != nil {
				panic(refused("only tensors are constants"))
			}
			continue
		}
		if (t.DType().IsFloat() && (!plugged || w.one(3)) || !t.DType().IsFloat() && t.DType() != tensor.TypeString &&
			w.one(8)) && len(w.values) > 0 {
			if x := w.tensorValue(); x.dtype() != tensor.TypeString && t.DType() != tensor.TypeString &&
				t.Len() < 4096 {
				x = w.adapt(x, t.DType(), t.Shape())
				c.In[i], names[i], plugged = x.v, x.name, true
				continue
			}
		}
		names[i] = w.fixed(t).name
	}
	out := w.add(c, names)
	if len(out) == 0 {
		panic(refused("no output"))
	}
	return out[w.n(len(out))]
}

// whole runs the model built so far and returns values of its main graph.
func (w *chain) whole(names ...string) map[string]tensor.Value {
	m, err := w.b.Model()
	if err != nil {
		panic(err)
	}
	c := *m
	g := *m.Graph
	g.Outputs = nil
	for _, n := range names {
		g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: n})
	}
	c.Graph = &g
	out, err := runModel(&c, []map[string]tensor.Value{w.feeds[0]},
		&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "reference"}}})
	if err != nil {
		if strings.Contains(err.Error(), "PANIC") {
			w.t.Fatal(err)
		}
		panic(refused(err.Error()))
	}
	return out[0]
}
