package opfuzz

import (
	"fmt"

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
	name  string
	form  form
	from  origin
	small bool // a number in [-3, 3], which may limit a Loop
}

// origin says what defines a value.
type origin int

const (
	node   origin = iota // a node of the innermost graph
	input                // an input or an initializer of the innermost graph
	outer                // an enclosing graph
	absent               // nothing: the node has no such output
)

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
	strict    bool   // the model must run on ONNX Runtime too
	attr      string // in the body of a function: its attribute, an int
	names     int
	nodes     int
	depth     int
	kept      string // a value that subgraphs do not hide
	dead      int    // branches that can never run
}

// DrawControlFlow draws a model of nested Loop, Scan, If, SequenceMap and functions, which
// capture values of all enclosing graphs. A strict model leaves out what ONNX Runtime refuses,
// crashes at or confuses:
//   - optionals that enter or leave graphs, and SequenceMap
//   - branches that can never run
//   - Loops whose input cond is absent and that have no carried values
//   - names that values of several graphs have, except branches of one If
//
// The other things that it cannot run are replaced by [Chain.Explicit].
func DrawControlFlow(t *rapid.T, strict bool) *Chain {
	w := &control{gen: newGen(t, nil), b: onnx.NewModel("control"), strict: strict}
	w.opset = pick(w.gen, 18, 17, 19, 21, 23, 16, 15, 14)
	w.b.Opset("", int64(w.opset)).Opset("local", 1)
	w.at = w.b.GraphBuilder
	for range w.n(3) {
		w.function()
	}
	feeds := make([]map[string]tensor.Value, w.in(1, 4))
	for i := range feeds {
		feeds[i] = map[string]tensor.Value{}
	}
	for _, f := range []form{truth, number, pair, row} {
		v := variable{name: w.name("x"), form: f, from: input}
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
			w.initializer(w.b.GraphBuilder, w.name("c"), w.constant(f), f)
		}
	}
	for range w.in(2, 5) {
		w.step()
	}
	outputs := 0
	for i := len(w.values) - 1; i >= 0 && outputs < 4; i-- {
		v := w.values[i]
		if v.from != node && !w.one(6) || v.form == forms || outputs > 0 && w.one(3) {
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
	v := variable{name: w.name("v"), form: f}
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

// initializer adds a constant to a graph.
func (w *control) initializer(g *onnx.GraphBuilder, name string, t *tensor.Tensor, f form) variable {
	g.Initializer(name, t)
	v := variable{name: name, form: f, from: input}
	w.values = append(w.values, v)
	return v
}

// known returns the name of a constant tensor: the result of a Constant, or an initializer of the
// innermost graph.
func (w *control) known(t *tensor.Tensor) string {
	if g, ok := w.at.(*onnx.GraphBuilder); ok && w.one(2) {
		return w.initializer(g, w.name("c"), t, forms).name
	}
	return w.fixed(t)
}

// position returns the name of a number in [-n, n), or for an insertion in [-n, n], where n is the
// length of a list.
func (w *control) position(list string, insertion bool) string {
	n := w.op(forms, "SequenceLength", list).name
	end := n
	if insertion {
		end = w.op(forms, "Add", n, w.fixed(tensor.Scalar(int64(1)))).name
	}
	at := w.op(forms, "Mod", w.read(number), end).name
	if w.one(2) {
		at = w.op(forms, "Sub", at, n).name
	}
	return at
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
		pick(w.gen, (*control).branch, (*control).loop, (*control).scan, (*control).branch, (*control).loop,
			(*control).mapped, (*control).call)(w)
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
		if w.attr != "" && w.one(3) {
			return w.op(number, "Constant", nil, "value_int", onnx.Ref{Type: onnx.AttrInt, Name: w.attr})
		}
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
			return w.op(pair, "Add", w.read(pair),
				w.op(forms, "ReduceSum", w.read(row), nil, "keepdims", int64(1)).name)
		case 3:
			return w.op(pair, "Add", w.read(pair),
				w.op(forms, "Cast", w.read(number), nil, "to", int64(tensor.TypeFloat32)).name)
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
			some := w.op(list, "SequenceInsert", w.read(list), w.read(row)).name
			return w.op(row, "SequenceAt", some, w.position(some, false))
		case 3:
			some := w.op(list, "SequenceInsert", w.read(list), w.read(row))
			return w.short(w.op(forms, "ConcatFromSequence", some.name, nil, "axis", int64(0)))
		}
		return w.short(w.op(forms, "Concat", w.read(row), w.read(row), nil, "axis", int64(0)))
	case list:
		switch w.n(5) {
		case 0:
			return w.op(list, "Identity", w.read(list))
		case 1:
			return w.op(list, "SequenceConstruct", w.read(row), w.read(row))
		case 2: // of at least one element
			some := w.op(list, "SequenceInsert", w.read(list), w.read(row)).name
			if w.one(2) {
				return w.op(list, "SequenceErase", some, w.position(some, false))
			}
			return w.op(list, "SequenceErase", some)
		case 3:
			some := w.read(list)
			return w.op(list, "SequenceInsert", some, w.read(row), w.position(some, true))
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
