package opfuzz

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// form is the kind of a value in a control flow model.
type form int

const (
	truth  form = iota // bool scalar
	number             // int64 scalar
	pair               // float32 of shape [2]
	row                // float32 of rank 1, of at most maxRow elements
	list               // sequence of float32 tensors of rank 1
	maybe              // optional of a float32 tensor of rank 1
	forms
)

const maxRow = 12

// variable is a value that nodes of a scope may read.
type variable struct {
	name string
	form form
	here bool // a node of the innermost graph computes it
}

// block is a list of nodes: a graph or the body of a function.
type block interface {
	Node(opType string, inputs, outputs []string, attrs ...onnx.Attrs) *onnx.NodeBuilder
}

// control draws a model of nested control flow. Its numbers are small integers and halves, so
// that results are exact.
type control struct {
	*gen
	b         *onnx.ModelBuilder
	at        block
	values    []variable
	functions []function
	opset     int
	strict    bool // the model must run on ONNX Runtime too
	local     bool // in the body of a function, which cannot read initializers
	names     int
	nodes     int
	depth     int
}

// function is a model-local function that has been drawn.
type function struct {
	name    string
	in, out []form
}

// DrawControlFlow draws a model of nested Loop, Scan, If, SequenceMap and functions, which
// capture values of all enclosing graphs. A strict model leaves out what ONNX Runtime refuses or
// crashes at: optionals that enter or leave graphs, and branches that can never run.
func DrawControlFlow(t *rapid.T, strict bool) *Chain {
	w := &control{gen: newGen(t, nil), b: onnx.NewModel("control"), strict: strict}
	w.opset = pick(w.gen, 18, 17, 19, 21, 23, 16, 15, 14)
	w.b.Opset("", int64(w.opset)).Opset("local", 1)
	w.at = w.b.GraphBuilder
	for range w.n(3) {
		w.function()
	}
	feeds := make([]map[string]tensor.Value, w.in(1, 3))
	for i := range feeds {
		feeds[i] = map[string]tensor.Value{}
	}
	for _, f := range []form{truth, number, pair, row} {
		v := variable{w.name("x"), f, false}
		typ := w.typeOf(f)
		if f == row && w.one(2) {
			typ.Tensor.Shape.Dims[0] = onnx.Dim{Kind: onnx.DimParam, Param: "N"}
		}
		w.b.InputType(v.name, typ)
		for _, feed := range feeds {
			feed[v.name] = w.constant(f)
		}
		w.values = append(w.values, v)
		if w.one(2) {
			c := variable{w.name("c"), f, false}
			w.b.Initializer(c.name, w.constant(f))
			w.values = append(w.values, c)
		}
	}
	for range w.in(2, 5) {
		w.step()
	}
	outputs := 0
	for i := len(w.values) - 1; i >= 0 && outputs < 4; i-- {
		v := w.values[i]
		if !v.here || v.form == forms || outputs > 0 && w.one(3) {
			continue
		}
		if v.form == maybe { // ONNX Runtime's API has no empty optional
			v = w.op(truth, "OptionalHasElement", v.name)
		}
		w.b.OutputType(v.name, w.typeOf(v.form))
		outputs++
	}
	m, err := w.b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return &Chain{m, feeds}
}

func (w *control) name(prefix string) string {
	w.names++
	return fmt.Sprintf("%s%d", prefix, w.names)
}

// typeOf returns a form's type. Shapes are unknown in part, so that they differ from run to run.
func (w *control) typeOf(f form) *onnx.Type {
	tensorType := func(d tensor.DType, dims ...any) *onnx.Type {
		typ, err := onnx.NewTensorType(onnx.DataType(d), dims...)
		if err != nil {
			panic(err)
		}
		return typ
	}
	switch f {
	case truth:
		return tensorType(tensor.TypeBool)
	case number:
		return tensorType(tensor.TypeInt64)
	case pair:
		return tensorType(tensor.TypeFloat32, 2)
	case list:
		return &onnx.Type{Sequence: &onnx.SequenceType{Elem: tensorType(tensor.TypeFloat32, nil)}}
	case maybe:
		return &onnx.Type{Optional: &onnx.OptionalType{Elem: tensorType(tensor.TypeFloat32, nil)}}
	}
	return tensorType(tensor.TypeFloat32, nil)
}

// constant draws a tensor.
func (w *control) constant(f form) *tensor.Tensor {
	switch f {
	case truth:
		return tensor.Scalar(w.one(2))
	case number:
		return tensor.Scalar(int64(w.in(-2, 5)))
	case pair:
		return tensor.Must(tensor.New([]float32{float32(w.in(-4, 4)), float32(w.in(-4, 4)) / 2}, 2))
	}
	x := make([]float32, w.in(0, 4))
	for i := range x {
		x[i] = float32(w.in(-8, 8)) / 2
	}
	return tensor.Must(tensor.New(x, len(x)))
}

// op adds a node. The arguments are names of inputs, then pairs of names and values of attributes
// after a nil.
func (w *control) op(f form, op string, args ...any) variable {
	var in []string
	attrs := onnx.Attrs{}
	for i := 0; i < len(args); i++ {
		if args[i] == nil {
			for i++; i < len(args); i += 2 {
				attrs[args[i].(string)] = args[i+1]
			}
			break
		}
		in = append(in, args[i].(string))
	}
	v := variable{w.name("v"), f, true}
	w.nodes++
	w.at.Node(op, in, []string{v.name}, attrs)
	w.values = append(w.values, v)
	return v
}

func (w *control) fixed(t *tensor.Tensor) string {
	return w.op(forms, "Constant", nil, "value", t).name
}

// read returns the name of a value of a form, which is mostly one that exists already.
func (w *control) read(f form) string {
	var have []string
	for _, v := range w.values {
		if v.form == f || f == row && v.form == pair {
			have = append(have, v.name)
		}
	}
	if len(have) > 0 && !w.one(8) {
		// Later values depend on more nodes.
		return have[len(have)-1-min(w.n(len(have)), w.n(len(have)))]
	}
	switch f {
	case list:
		if w.one(3) {
			return w.op(list, "SequenceEmpty").name
		}
		return w.op(list, "SequenceConstruct", w.read(row)).name
	case maybe:
		if w.one(2) {
			return w.op(maybe, "Optional", nil, "type", w.typeOf(row)).name
		}
		return w.op(maybe, "Optional", w.read(row)).name
	}
	return w.op(f, "Constant", nil, "value", w.constant(f)).name
}

// short limits the length of a row.
func (w *control) short(x variable) variable {
	return w.op(row, "Slice", x.name, w.fixed(ints(0)), w.fixed(ints(maxRow)))
}

// optionals reports whether the model may contain optionals.
func (w *control) optionals() bool { return !w.strict && w.opset >= 16 }

// unsqueeze adds a first dimension.
func (w *control) unsqueeze(x string) variable {
	return w.op(forms, "Unsqueeze", x, w.fixed(ints(0)))
}

// length reads the first dimension.
func (w *control) length(x string) variable {
	return w.op(number, "Gather", w.op(forms, "Shape", x).name, w.fixed(tensor.Scalar(int64(0))), nil, "axis", int64(0))
}

// step adds an operator, or several ones.
func (w *control) step() {
	if w.nodes < 90 && w.depth < 3 && !w.one(3) {
		pick(w.gen, (*control).branch, (*control).loop, (*control).scan, (*control).branch, (*control).loop, (*control).mapped, (*control).call)(w)
		return
	}
	w.simple(pick(w.gen, w.all()...))
}

// simple adds an operator with a result of a form.
func (w *control) simple(f form) variable {
	switch f {
	case truth:
		switch w.n(5) {
		case 0:
			return w.op(truth, "Less", w.read(number), w.read(number))
		case 1:
			return w.op(truth, "Not", w.read(truth))
		case 2:
			if !w.optionals() {
				break
			}
			return w.op(truth, "OptionalHasElement", w.read(maybe))
		case 3:
			return w.op(truth, "Equal", w.op(number, "SequenceLength", w.read(list)).name, w.read(number))
		}
		return w.op(truth, pick(w.gen, "And", "Or", "Xor"), w.read(truth), w.read(truth))
	case number:
		switch w.n(6) {
		case 0:
			return w.op(number, "Size", w.read(row))
		case 3:
			return w.length(w.read(row))
		case 1:
			return w.op(number, "SequenceLength", w.read(list))
		case 2:
			return w.op(number, "Where", w.read(truth), w.read(number), w.read(number))
		}
		return w.op(number, pick(w.gen, "Add", "Sub", "Min", "Max"), w.read(number), w.read(number))
	case pair:
		switch w.n(6) {
		case 0:
			return w.op(pair, "Mul", w.read(pair), w.fixed(tensor.Scalar(float32(0.5))))
		case 1:
			return w.op(pair, "Where", w.read(truth), w.read(pair), w.read(pair))
		case 2:
			return w.op(pair, "Add", w.read(pair), w.op(forms, "ReduceSum", w.read(row), nil, "keepdims", int64(1)).name)
		case 3:
			return w.op(pair, "Add", w.read(pair), w.op(forms, "Cast", w.read(number), nil, "to", int64(tensor.TypeFloat32)).name)
		}
		return w.op(pair, pick(w.gen, "Add", "Sub", "Min", "Max"), w.read(pair), w.read(pair))
	case row:
		switch w.n(6) {
		case 4:
			n := w.op(number, "Mod", w.read(number), w.fixed(tensor.Scalar(int64(4))))
			return w.op(row, "Expand", w.fixed(tensor.Scalar(float32(1))), w.unsqueeze(n.name).name)
		case 0:
			return w.op(row, "Identity", w.read(row))
		case 1:
			return w.op(row, "Abs", w.read(row))
		case 2:
			some := w.op(list, "SequenceInsert", w.read(list), w.read(row))
			return w.op(row, "SequenceAt", some.name, w.fixed(tensor.Scalar(int64(-w.n(2)))))
		case 3:
			some := w.op(list, "SequenceInsert", w.read(list), w.read(row))
			return w.short(w.op(forms, "ConcatFromSequence", some.name, nil, "axis", int64(0)))
		}
		return w.short(w.op(forms, "Concat", w.read(row), w.read(row), nil, "axis", int64(0)))
	case list:
		switch w.n(4) {
		case 0:
			return w.op(list, "Identity", w.read(list))
		case 1:
			return w.op(list, "SequenceConstruct", w.read(row), w.read(row))
		case 2:
			if w.one(2) { // of at least one element
				some := w.op(list, "SequenceInsert", w.read(list), w.read(row))
				return w.op(list, "SequenceErase", some.name)
			}
		}
		return w.op(list, "SequenceInsert", w.read(list), w.read(row))
	}
	switch w.n(4) {
	case 0:
		return w.op(maybe, "Optional", nil, "type", w.typeOf(row))
	case 1:
		return w.op(maybe, "Identity", w.read(maybe))
	}
	return w.op(maybe, "Optional", w.op(row, "Identity", w.read(row)).name)
}

// graph builds a subgraph.
func (w *control) graph(build func(g *onnx.GraphBuilder)) *onnx.Graph {
	at, values := w.at, w.values
	g := onnx.NewGraph(w.name("graph"))
	w.at, w.values, w.depth = g, slices.Clone(values), w.depth+1
	for i := range w.values {
		w.values[i].here = false
	}
	build(g)
	w.at, w.values, w.depth = at, values, w.depth-1
	r, err := g.Graph()
	if err != nil {
		panic(err)
	}
	return r
}

// argument declares an input of a subgraph.
func (w *control) argument(g *onnx.GraphBuilder, f form) {
	v := variable{w.name("a"), f, false}
	g.InputType(v.name, w.typeOf(f))
	w.values = append(w.values, v)
}

// result declares an output of a subgraph, which a node of it computes.
func (w *control) result(g *onnx.GraphBuilder, f form) { w.output(g, w.own(f), f) }

func (w *control) output(g *onnx.GraphBuilder, name string, f form) { g.OutputType(name, w.typeOf(f)) }

// own returns a value of a form that a node of its own computes. In a model that is not strict, it
// may be any value instead: an input, a captured value, or one that is an output already.
func (w *control) own(f form) string {
	if !w.strict && !w.local && w.one(4) {
		return w.read(f)
	}
	if w.one(2) {
		return w.simple(f).name
	}
	return w.op(f, "Identity", w.read(f)).name
}

// all returns the forms that may enter and leave graphs.
func (w *control) all() []form {
	all := []form{truth, number, pair, row, list, maybe}
	if !w.optionals() {
		return all[:5]
	}
	return all
}

func (w *control) draw(n int, of ...form) []form {
	r := make([]form, n)
	for i := range r {
		r[i] = pick(w.gen, of...)
	}
	return r
}

// results adds a node of several results.
func (w *control) results(op string, in []string, out []form, attrs onnx.Attrs) []variable {
	var names []string
	var r []variable
	for _, f := range out {
		v := variable{w.name("v"), f, true}
		names, r = append(names, v.name), append(r, v)
	}
	w.nodes++
	w.at.Node(op, in, names, attrs)
	w.values = append(w.values, r...)
	return r
}

func (w *control) branch() {
	if w.optionals() && w.one(4) { // the element of an optional, if it has one
		m := w.read(maybe)
		has := w.op(truth, "OptionalHasElement", m)
		w.results("If", []string{has.name}, []form{row}, onnx.Attrs{
			"then_branch": w.graph(func(g *onnx.GraphBuilder) {
				w.output(g, w.op(row, "OptionalGetElement", m).name, row)
			}),
			"else_branch": w.graph(func(g *onnx.GraphBuilder) { w.result(g, row) })})
		return
	}
	cond := w.read(truth)
	if w.one(3) {
		cond = w.fixed(w.constant(truth))
	}
	out := w.draw(w.in(1, 3), w.all()...)
	dead := -1
	if !w.strict && !w.local && w.one(3) { // one branch cannot run, and need not
		dead = w.n(2)
		known := w.name("c")
		w.b.Initializer(known, tensor.Scalar(dead == 1))
		cond = known
	}
	sides := 0
	side := func() *onnx.Graph {
		return w.graph(func(g *onnx.GraphBuilder) {
			if sides++; sides-1 == dead {
				w.op(pair, "Add", w.read(pair), w.fixed(tensor.Must(tensor.New([]float32{1, 2, 3}, 3))))
			}
			for range w.n(3) {
				w.step()
			}
			for _, f := range out {
				w.result(g, f)
			}
		})
	}
	w.results("If", []string{cond}, out, onnx.Attrs{"then_branch": side(), "else_branch": side()})
}

// flatten turns a stack of scan outputs into a row, and reads its length.
func (w *control) flatten(stack variable, of form) {
	if w.one(2) {
		w.length(stack.name)
	}
	x := w.op(forms, "Reshape", stack.name, w.fixed(ints(-1)))
	if of != pair {
		x = w.op(forms, "Cast", x.name, nil, "to", int64(tensor.TypeFloat32))
	}
	w.short(x)
}

func (w *control) loop() {
	carried := w.draw(w.n(4), w.all()...)
	scans := w.draw(w.n(3), truth, number, pair)
	if len(carried)+len(scans) == 0 {
		scans = []form{pair}
	}
	in := []string{"", ""}
	if !w.one(4) {
		in[0] = w.op(number, "Mod", w.read(number), w.fixed(tensor.Scalar(int64(4)))).name
		if w.one(3) {
			in[0] = w.fixed(tensor.Scalar(int64(w.n(4))))
		}
	}
	if w.one(2) {
		in[1] = w.read(truth)
	}
	for _, f := range carried {
		in = append(in, w.read(f))
	}
	limited := in[0] != ""
	for !w.strict && len(in) > 0 && in[len(in)-1] == "" {
		in = in[:len(in)-1]
	}
	body := w.graph(func(g *onnx.GraphBuilder) {
		w.argument(g, number)
		i := w.values[len(w.values)-1].name
		w.argument(g, truth)
		cond := w.values[len(w.values)-1].name
		for _, f := range carried {
			w.argument(g, f)
		}
		for range w.n(4) {
			w.step()
		}
		switch {
		case !limited:
			cond = w.op(truth, "Less", i, w.fixed(tensor.Scalar(int64(w.n(3))))).name
		case w.one(3):
			cond = w.own(truth)
		case w.strict || w.one(2):
			cond = w.op(truth, "Identity", cond).name
		}
		w.output(g, cond, truth)
		for _, f := range append(slices.Clone(carried), scans...) {
			w.result(g, f)
		}
	})
	out := slices.Clone(carried)
	for range scans {
		out = append(out, forms)
	}
	r := w.results("Loop", in, out, onnx.Attrs{"body": body})
	for i, f := range scans {
		w.flatten(r[len(carried)+i], f)
	}
}

func (w *control) scan() {
	states := w.draw(w.n(3), truth, number, pair)
	inputs, scans := w.in(1, 2), w.draw(w.in(1, 2), truth, number, pair)
	var in []string
	for _, f := range states {
		in = append(in, w.read(f))
	}
	length := w.in(1, 3)
	var from, to []int64
	for range inputs {
		var pairs []any
		for range length {
			pairs = append(pairs, w.unsqueeze(w.read(pair)).name)
		}
		in = append(in, w.op(forms, "Concat", append(pairs, nil, "axis", int64(0))...).name)
		from = append(from, int64(w.n(2)))
	}
	for range scans {
		to = append(to, int64(w.n(2)))
	}
	body := w.graph(func(g *onnx.GraphBuilder) {
		for _, f := range states {
			w.argument(g, f)
		}
		for range inputs {
			w.argument(g, pair)
		}
		for range w.n(3) {
			w.step()
		}
		for _, f := range append(slices.Clone(states), scans...) {
			w.result(g, f)
		}
	})
	out := slices.Clone(states)
	for range scans {
		out = append(out, forms)
	}
	r := w.results("Scan", in, out, onnx.Attrs{"body": body, "num_scan_inputs": int64(inputs),
		"scan_input_directions": from, "scan_output_directions": to})
	for i, f := range scans {
		w.flatten(r[len(states)+i], f)
	}
}

// mapped adds a SequenceMap.
func (w *control) mapped() {
	if w.strict || w.opset < 17 {
		w.loop()
		return
	}
	body := w.graph(func(g *onnx.GraphBuilder) {
		w.argument(g, row)
		for range w.n(3) {
			w.step()
		}
		w.result(g, row)
	})
	w.results("SequenceMap", []string{w.read(list)}, []form{list}, onnx.Attrs{"body": body})
}

// function defines a model-local function, whose body may contain control flow.
func (w *control) function() {
	f := function{w.name("f"), w.draw(w.in(1, 3), w.all()...), w.draw(w.in(1, 2), w.all()...)}
	at, values := w.at, w.values
	b := w.b.Function("local", f.name)
	w.at, w.values = b, nil
	for _, k := range f.in {
		v := variable{w.name("p"), k, false}
		b.Inputs(v.name)
		w.values = append(w.values, v)
	}
	w.depth, w.local = w.depth+1, true
	for range w.in(1, 2) {
		w.step()
	}
	w.depth, w.local = w.depth-1, false
	for _, k := range f.out {
		b.Outputs(w.own(k))
	}
	w.at, w.values = at, values
	w.functions = append(w.functions, f)
}

// call calls a function.
func (w *control) call() {
	if len(w.functions) == 0 {
		w.branch()
		return
	}
	f := pick(w.gen, w.functions...)
	var in []string
	for _, k := range f.in {
		in = append(in, w.read(k))
	}
	var names []string
	for _, k := range f.out {
		v := variable{w.name("v"), k, true}
		names = append(names, v.name)
		w.values = append(w.values, v)
	}
	w.nodes++
	w.at.Node(f.name, in, names).Domain("local")
}
