package opfuzz

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// function is a model-local function that has been drawn. It has the attribute k, an int.
type function struct {
	name     string
	in, out  []form
	required bool // k has no default
}

// graph builds a subgraph. In a model that is not strict, values that are defined later may have
// names of values of the subgraph.
func (w *control) graph(build func(g *onnx.GraphBuilder)) *onnx.Graph {
	at, values, names := w.at, w.values, w.names
	g := onnx.NewGraph(w.name("graph"))
	w.at, w.values, w.depth = g, slices.Clone(values), w.depth+1
	for i := range w.values {
		w.values[i].from = outer
	}
	for w.one(4) {
		f := pick(w.gen, truth, number, pair, row)
		name := w.name("c")
		if k := w.n(max(1, len(w.values))); !w.strict && w.one(3) && k < len(w.values) && w.values[k].from == outer &&
			w.values[k].name != w.kept {
			name = w.values[k].name // which this subgraph no longer sees
			w.values = slices.DeleteFunc(w.values, func(v variable) bool { return v.name == name })
		}
		w.initializer(g, name, w.constant(f), f)
	}
	build(g)
	w.at, w.values, w.depth = at, values, w.depth-1
	if !w.strict && w.one(4) {
		w.names = names
	}
	r, err := g.Graph()
	if err != nil {
		panic(err)
	}
	return r
}

// argument declares an input of a subgraph.
func (w *control) argument(g *onnx.GraphBuilder, f form) *variable {
	v := variable{name: w.name("a"), form: f, from: input}
	g.InputType(v.name, w.typeOf(f))
	w.values = append(w.values, v)
	return &w.values[len(w.values)-1]
}

// result declares an output of a subgraph.
func (w *control) result(g *onnx.GraphBuilder, f form) { w.output(g, w.own(f), f) }

func (w *control) output(g *onnx.GraphBuilder, name string, f form) { g.OutputType(name, w.typeOf(f)) }

// own returns a value of a form that an output may return: mostly one that a node of its own
// computes, else an input or an initializer of the innermost graph, a captured value, or one that
// is an output already. A function returns results of nodes only.
func (w *control) own(f form) string {
	if _, ok := w.at.(*onnx.GraphBuilder); ok {
		switch w.n(6) {
		case 0:
			return w.read(f)
		case 1:
			for _, v := range w.values {
				if v.form == f && v.from == input && w.one(2) {
					return v.name
				}
			}
		}
	}
	if w.one(2) {
		return w.simple(f).name
	}
	return w.op(f, "Identity", w.read(f)).name
}

// results adds a node of several results, one of which it may lack.
func (w *control) results(op string, in []string, out []form, attrs onnx.Attrs) []variable {
	var names []string
	var r []variable
	for _, f := range out {
		v := variable{name: w.name("v"), form: f}
		names, r = append(names, v.name), append(r, v)
	}
	if k := w.n(len(out)); len(out) > 1 && w.one(6) {
		names[k], r[k].from = "", absent
	}
	w.nodes++
	w.at.Node(op, in, names, attrs)
	for _, v := range r {
		if v.from != absent {
			w.values = append(w.values, v)
		}
	}
	return r
}

// condition returns the name of a truth: mostly one that nodes compute, else a constant.
func (w *control) condition() string {
	if w.one(4) {
		return w.known(w.constant(truth))
	}
	return w.read(truth)
}

func (w *control) branch() {
	if w.optionals() && w.one(4) { // the element of an optional, if it has one
		m := w.read(maybe)
		has := w.op(truth, "OptionalHasElement", m)
		w.kept = m
		w.results("If", []string{has.name}, []form{row}, onnx.Attrs{
			"then_branch": w.graph(func(g *onnx.GraphBuilder) {
				w.output(g, w.op(row, "OptionalGetElement", m).name, row)
			}),
			"else_branch": w.graph(func(g *onnx.GraphBuilder) { w.result(g, row) })})
		return
	}
	cond := w.condition()
	out := w.draw(w.in(1, 3), w.all()...)
	dead := -1
	if !w.strict && w.attr == "" && w.one(3) { // one branch cannot run, and need not
		dead = w.n(2)
		cond = fmt.Sprint("never", w.dead)
		w.dead++
		w.b.Initializer(cond, tensor.Scalar(dead == 1))
	}
	first, last := w.names, 0
	side := func(k int) *onnx.Graph {
		if k == 1 && w.one(2) { // the branches have names in common
			w.names, last = first, w.names
		}
		defer func() { w.names = max(w.names, last) }()
		unchanged := w.one(4)
		return w.graph(func(g *onnx.GraphBuilder) {
			if k == dead {
				w.op(pair, "Add", w.read(pair), w.fixed(tensor.Must(tensor.New([]float32{1, 2, 3}, 3))))
			}
			for range w.n(3) {
				w.step()
			}
			for _, f := range out {
				if unchanged {
					w.output(g, w.read(f), f)
				} else {
					w.result(g, f)
				}
			}
		})
	}
	then := side(0)
	w.results("If", []string{cond}, out, onnx.Attrs{"then_branch": then, "else_branch": side(1)})
}

// flatten turns a stack of scan outputs into a row, and reads its length.
func (w *control) flatten(stack variable, of form) {
	if stack.from == absent {
		return
	}
	if w.one(2) {
		w.length(stack.name)
	}
	x := w.op(forms, "Reshape", stack.name, w.fixed(ints(-1)))
	if of != pair {
		x = w.op(forms, "Cast", x.name, nil, "to", int64(tensor.TypeFloat32))
	}
	w.short(x)
}

// trips returns the name of a number of at most 3, the trip count of a Loop.
func (w *control) trips() string {
	var small []string
	for _, v := range w.values {
		if v.small {
			small = append(small, v.name)
		}
	}
	switch w.n(6) {
	case 0:
		return w.known(tensor.Scalar(int64(w.in(-1, 3))))
	case 1:
		return w.op(number, "Min", w.read(number), w.fixed(tensor.Scalar(int64(3)))).name
	case 2, 3:
		if len(small) > 0 {
			return pick(w.gen, small...)
		}
	}
	m := w.op(number, "Mod", w.read(number), w.fixed(tensor.Scalar(int64(4))))
	w.values[len(w.values)-1].small = true
	return m.name
}

func (w *control) loop() {
	carried := w.draw(w.n(4), w.all()...)
	scans := w.draw(w.n(3), truth, number, pair)
	if len(carried)+len(scans) == 0 {
		scans = []form{pair}
	}
	in := []string{"", ""}
	if !w.one(4) {
		in[0] = w.trips()
	}
	if w.one(2) {
		in[1] = w.condition()
	}
	for _, f := range carried {
		in = append(in, w.read(f))
	}
	limited := in[0] != ""
	for !w.strict && len(in) > 0 && in[len(in)-1] == "" {
		in = in[:len(in)-1]
	}
	body := w.graph(func(g *onnx.GraphBuilder) {
		i := w.argument(g, number)
		i.small = true
		index, cond := i.name, w.argument(g, truth).name
		var states []string
		for _, f := range carried {
			states = append(states, w.argument(g, f).name)
		}
		for range w.n(4) {
			w.step()
		}
		// The condition may be a carried value before or after the iteration.
		end := w.n(4 * (len(carried) + 1))
		if k := end / 2; limited && k < len(carried) && carried[k] == truth && end%2 == 0 {
			cond = states[k]
		} else {
			cond = w.more(index, cond, limited)
		}
		w.output(g, cond, truth)
		for k, f := range append(slices.Clone(carried), scans...) {
			if f == truth && end/2 == k && end%2 == 1 {
				w.output(g, cond, truth)
			} else {
				w.result(g, f)
			}
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

// more returns the condition of a Loop for the iteration after that of a number.
func (w *control) more(index, cond string, limited bool) string {
	if !limited {
		less := w.op(truth, "Less", index, w.fixed(tensor.Scalar(int64(w.n(3))))).name
		if w.one(3) {
			less = w.op(truth, "And", less, w.read(truth)).name
		}
		return less
	}
	switch w.n(4) {
	case 0:
		return w.own(truth)
	case 1:
		return w.known(tensor.Scalar(!w.one(3)))
	case 2:
		return cond
	}
	return w.op(truth, "Identity", cond).name
}

func (w *control) scan() {
	states := w.draw(w.n(4), truth, number, pair)
	inputs, scans := w.in(1, 2), w.draw(w.in(1, 2), truth, number, pair)
	var in []string
	for _, f := range states {
		in = append(in, w.read(f))
	}
	length := w.in(1, 3)
	var from, to, inAxes, outAxes []int64
	for range inputs {
		var pairs []any
		for range length {
			pairs = append(pairs, w.unsqueeze(w.read(pair)).name)
		}
		x := w.op(forms, "Concat", append(pairs, nil, "axis", int64(0))...).name
		axis := int64(-2 * w.n(2))
		if w.one(2) {
			x, axis = w.op(forms, "Transpose", x).name, int64(1-2*w.n(2))
		}
		in, inAxes, from = append(in, x), append(inAxes, axis), append(from, int64(w.n(2)))
	}
	for _, f := range scans {
		axis := -int64(w.n(2))
		if f == pair {
			axis = int64(w.in(-2, 1))
		}
		outAxes, to = append(outAxes, axis), append(to, int64(w.n(2)))
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
	attrs := onnx.Attrs{"body": body, "num_scan_inputs": int64(inputs)}
	for _, a := range []struct {
		name string
		list []int64
	}{{"scan_input_directions", from}, {"scan_output_directions", to}, {"scan_input_axes", inAxes},
		{"scan_output_axes", outAxes}} {
		if w.one(2) || slices.ContainsFunc(a.list, func(v int64) bool { return v != 0 }) {
			attrs[a.name] = a.list
		}
	}
	r := w.results("Scan", in, out, attrs)
	for i, f := range scans {
		w.flatten(r[len(states)+i], f)
	}
}

// mapped adds a SequenceMap over one list, with another input that is the same list or a tensor.
func (w *control) mapped() {
	if w.strict || w.opset < 17 {
		w.loop()
		return
	}
	in, more := []string{w.read(list)}, forms
	switch w.n(3) {
	case 0:
		in, more = append(in, in[0]), row
	case 1:
		in, more = append(in, w.read(pair)), pair
	}
	out := w.draw(w.in(1, 2), row)
	body := w.graph(func(g *onnx.GraphBuilder) {
		w.argument(g, row)
		if more != forms {
			w.argument(g, more)
		}
		for range w.n(3) {
			w.step()
		}
		for range out {
			w.result(g, row)
		}
	})
	lists := make([]form, len(out))
	for i := range lists {
		lists[i] = list
	}
	w.results("SequenceMap", in, lists, onnx.Attrs{"body": body})
}

// function defines a model-local function, whose body may contain control flow. Its values have
// names that values of the main graph and of other functions have too.
func (w *control) function() {
	f := function{fmt.Sprint("f", len(w.functions)), w.draw(w.in(1, 3), w.all()...), w.draw(w.in(1, 2), w.all()...),
		w.one(2)}
	at, values, names := w.at, w.values, w.names
	b := w.b.Function("local", f.name)
	if f.required {
		b.Attributes("k")
	} else {
		b.Default("k", int64(w.in(-2, 4)))
	}
	w.at, w.values, w.names, w.attr = b, nil, 0, "k"
	for _, k := range f.in {
		v := variable{name: w.name(pick(w.gen, "x", "v")), form: k, from: outer}
		b.Inputs(v.name)
		w.values = append(w.values, v)
	}
	w.depth++
	for range w.in(1, 2) {
		w.step()
	}
	w.depth--
	for _, k := range f.out {
		b.Outputs(w.own(k))
	}
	w.at, w.values, w.names, w.attr = at, values, names, ""
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
	attrs := onnx.Attrs{}
	if f.required || w.one(2) {
		attrs["k"] = int64(w.in(-2, 4))
		if w.attr != "" && w.one(2) {
			attrs["k"] = onnx.Ref{Type: onnx.AttrInt, Name: w.attr}
		}
	}
	var names []string
	var out []variable
	for _, k := range f.out {
		v := variable{name: w.name("v"), form: k}
		names, out = append(names, v.name), append(out, v)
	}
	w.nodes++
	w.at.Node(f.name, in, names, attrs).Domain("local")
	w.values = append(w.values, out...)
}
