package opfuzz

import (
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// inside builds a subgraph with its own steps and returns it.
func (w *chain) inside(name string, build func(g *onnx.GraphBuilder)) *onnx.Graph {
	at, values, consts := w.at, w.values, len(w.consts)
	defer func() { w.at, w.values, w.consts = at, values, w.consts[:min(consts, len(w.consts))]; w.depth-- }()
	w.at, w.depth, w.values = onnx.NewGraph(name), w.depth+1, append([]link{}, values...)
	build(w.at)
	g, err := w.at.Graph()
	if err != nil {
		panic(err)
	}
	return g
}

// simple adds a step inside a subgraph.
func (w *chain) simple() link {
	return pick(w.gen, (*chain).elementwise, (*chain).linear, (*chain).activation, (*chain).twoValues,
		(*chain).channels, (*chain).passOn, (*chain).layerNorm)(w)
}

// branch adds an If whose branches read values of the outer graph.
func (w *chain) branch() link {
	if w.depth > 1 {
		return w.elementwise()
	}
	x := w.x()
	var cond link
	switch w.n(4) {
	case 0:
		cond = w.fixed(w.filled(tensor.TypeBool, float64(w.n(2))))
	case 1:
		cond = link{w.name("x"), w.filled(tensor.TypeBool, float64(w.n(2)))}
		w.b.InputType(cond.name, onnx.NewType(cond.v.Type()))
		for i, f := range w.feeds {
			if f[cond.name] = cond.v; i > 0 {
				f[cond.name] = w.filled(tensor.TypeBool, float64(w.n(2)))
			}
		}
	default:
		m := w.op("ReduceMax", w.op("Reshape", x, w.ints64(-1)), "keepdims", int64(0))
		cond = w.op("Greater", m, w.scalar(m.dtype(), 0.5))
	}
	var types [2]tensor.Type
	var taken [2]tensor.Value
	var graphs [2]*onnx.Graph
	for i := range graphs {
		graphs[i] = w.inside("branch", func(g *onnx.GraphBuilder) {
			var y link
			if w.one(8) {
				y = w.fixed(w.tensor(x.dtype(), normal, x.shape()...))
			} else if y = w.simple(); w.one(3) {
				y = w.simple()
			}
			if i == 1 {
				y = w.op("Cast", y, "to", int64(types[0].Elem))
			} else if w.one(6) { // a value of the outer graph, unchanged
				y = w.op("Identity", x)
			}
			types[i], taken[i] = y.v.Type(), y.v
			if y.v.Type().Kind != tensor.KindTensor {
				panic(refused("no tensor"))
			}
			g.OutputType(y.name, onnx.NewType(y.v.Type()))
		})
	}
	l := link{w.name("v"), taken[1]}
	if tensor.MustData[bool](cond.t())[0] {
		l.v = taken[0]
	}
	w.at.Node("If", []string{cond.name}, []string{l.name},
		onnx.Attrs{"then_branch": graphs[0], "else_branch": graphs[1]})
	w.record([]string{cond.name, x.name}, []link{l})
	return l
}

// loop adds a Loop with a carried value and a scan output.
func (w *chain) loop() link {
	if w.depth > 0 {
		return w.elementwise()
	}
	x := w.x()
	count := w.in(0, 4)
	m := w.scalar(tensor.TypeInt64, float64(count))
	state := link{w.name("s"), x.v}
	i, cond := link{w.name("i"), tensor.Scalar(int64(0))}, link{w.name("b"), w.filled(tensor.TypeBool, 1)}
	g := w.inside("body", func(g *onnx.GraphBuilder) {
		for _, l := range []link{i, cond, state} { // ONNX Runtime requires their ranks
			typ := onnx.NewType(l.v.Type())
			typ.Tensor.Shape = &onnx.Shape{Dims: make([]onnx.Dim, l.rank())}
			g.InputType(l.name, typ)
		}
		w.values = append(w.values, state)
		y := state
		for range w.in(1, 3) {
			switch w.n(4) {
			case 0:
				y = w.op("Add", y, w.op("Cast", i, "to", int64(y.dtype())))
			case 1:
				y = w.op("Mul", y, w.scalar(y.dtype(), 0.5))
			case 2:
				y = w.binary("Add", y, x)
			default:
				y = w.op(pick(w.gen, "Tanh", "Relu", "Sigmoid", "Neg", "Identity"), y)
			}
		}
		next := w.op("Identity", cond)
		if w.one(3) {
			next = w.op("Less", i, w.scalar(tensor.TypeInt64, 1))
		}
		w.values = append(w.values, y)
		scan := y
		if w.n(2) == 0 {
			scan = w.op("Mul", y, w.scalar(y.dtype(), 2))
		}
		if scan.name == y.name || scan.name == state.name {
			scan = w.op("Identity", scan)
		}
		if y.name == state.name {
			y = w.op("Identity", y)
		}
		for _, o := range []link{next, y, scan} {
			g.OutputType(o.name, onnx.NewType(o.v.Type()))
		}
	})
	last, all := w.name("v"), w.name("v")
	w.at.Node("Loop", []string{m.name, "", x.name}, []string{last, all}, onnx.Attrs{"body": g})
	got := w.whole(last, all)
	links := []link{{last, got[last]}, {all, got[all]}}
	w.record([]string{m.name, x.name}, links)
	return links[w.n(2)]
}

// sequence splits a value to a sequence, and concatenates it or reads items of it.
func (w *chain) sequence() link {
	x := w.ranked(1, 4)
	axis := int64(w.n(x.rank()))
	if x.dim(int(axis)) == 0 {
		panic(refused("no parts"))
	}
	var s link
	if w.n(2) == 0 {
		s = w.op("SplitToSequence", x, "axis", axis, "keepdims", int64(1))
	} else {
		s = w.op("SequenceConstruct", x, w.op("Relu", x), x)
	}
	if w.one(3) {
		s = w.op("SequenceInsert", s, w.op("SequenceAt", s, w.scalar(tensor.TypeInt64, 0)))
	}
	if w.one(3) {
		return w.op("SequenceAt", s, w.scalar(tensor.TypeInt64, -1))
	}
	return w.op("ConcatFromSequence", s, "axis", axis)
}
