package opfuzz

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// patterns are groups of operators that optimizers replace, with variations that prevent
// it: another axis, rank, constant or reader.
var patterns []func(*chain) link

func init() {
	patterns = []func(*chain) link{(*chain).elementwise, (*chain).elementwise, (*chain).twoValues, (*chain).activation,
		(*chain).layerNorm, (*chain).linear, (*chain).linear, (*chain).attention,
		(*chain).convolution, (*chain).convolution, (*chain).channels, (*chain).quantized, (*chain).quantized,
		(*chain).twice, (*chain).passOn, (*chain).shapes, (*chain).pieces, (*chain).views,
		(*chain).branch, (*chain).loop, (*chain).sequence, (*chain).reduction, (*chain).poolings, (*chain).shuffled}
}

// near returns x, or seldom another number that does not match the pattern.
func (w *chain) near(x float64) float64 {
	if w.one(8) {
		return pick(w.gen, x*1.3, 1, 0, -x)
	}
	return x
}

// either returns two operands in random order.
func (w *chain) either(a, b link) (link, link) {
	if w.n(2) == 0 {
		return b, a
	}
	return a, b
}

func (w *chain) binary(op string, a, b link) link {
	a, b = w.either(a, b)
	return w.op(op, a, b)
}

func (w *chain) unary(x link) link {
	if w.one(6) {
		return w.clip(x)
	}
	return w.op(pick(w.gen, w.unaries...), x)
}

func (w *chain) clip(x link) link {
	in := []any{x, nil, nil}
	if !w.one(4) {
		in[1] = w.scalar(x.dtype(), pick(w.gen, 0, -1, -0.5, 0.5, math.Inf(-1)))
	}
	if !w.one(4) {
		in[2] = w.scalar(x.dtype(), pick(w.gen, 6, 1, 0.25, 2, math.Inf(1)))
	}
	return w.op("Clip", in...)
}

// elementwise adds a sequence of elementwise functions, which may run in place.
func (w *chain) elementwise() link {
	x := w.x()
	for range w.in(1, 4) {
		if w.one(3) {
			x = w.op(pick(w.gen, "Add", "Mul", "Sub", "Div", "Max", "Min"), x,
				w.number(x.dtype(), pick(w.gen, 2, 0.5, -1, 1, 0)))
		} else {
			x = w.unary(x)
		}
	}
	return x
}

// twoValues combines two values of the chain, or one with itself.
func (w *chain) twoValues() link {
	x, y := w.x(), w.x()
	if x.dtype() != y.dtype() {
		y = w.op("Cast", y, "to", int64(x.dtype()))
	}
	switch {
	case w.one(4):
		y = x
	case !slices.Equal(x.shape(), y.shape()):
		switch w.n(4) {
		case 0:
			y = w.reduce("ReduceMean", y, int64(w.n(2)))
		case 1:
			y = w.adapt(y, x.dtype(), x.shape())
		case 2:
			y = w.weights(x.dtype(), w.broadcast(x.shape())...)
		}
	}
	switch w.n(8) {
	case 0:
		c := w.op(pick(w.gen, "Greater", "Less", "Equal"), x, y)
		return w.op("Where", c, x, y)
	case 1:
		if x.rank() > 0 {
			return w.op("Concat", x, y, "axis", int64(w.in(-x.rank(), x.rank()-1)))
		}
	case 2:
		return w.op(pick(w.gen, "Sum", "Mean", "Max", "Min"), x, y, w.number(x.dtype(), 0.5))
	case 3:
		return w.op("Sum", x)
	}
	return w.binary(pick(w.gen, "Add", "Mul", "Sub", "Div", "Max", "Min", "Sum"), x, y)
}

func (w *chain) activation() link {
	x := w.x()
	if w.one(3) {
		x = w.linear()
	}
	d := x.dtype()
	y := x
	if w.one(8) {
		y = w.unary(x)
	}
	if w.n(3) == 0 {
		return w.binary("Mul", y, w.op("Sigmoid", x))
	}
	var inner link
	if w.n(2) == 0 {
		if w.n(2) == 0 {
			inner = w.op("Div", x, w.number(d, w.near(math.Sqrt2)))
		} else {
			inner = w.binary("Mul", x, w.number(d, w.near(1/math.Sqrt2)))
		}
		inner = w.op("Erf", inner)
	} else {
		var cube link
		if w.n(2) == 0 {
			cube = w.op("Pow", x, w.number(d, w.near(3)))
		} else {
			cube = w.op("Mul", x, w.op("Mul", x, x))
		}
		s := w.binary("Add", y, w.binary("Mul", cube, w.number(d, w.near(0.044715))))
		inner = w.op("Tanh", w.binary("Mul", s, w.number(d, w.near(math.Sqrt(2/math.Pi)))))
	}
	one := w.binary("Add", inner, w.number(d, w.near(1)))
	half := w.number(d, w.near(0.5))
	switch w.n(3) {
	case 0:
		return w.binary("Mul", w.binary("Mul", y, half), one)
	case 1:
		return w.binary("Mul", w.binary("Mul", y, one), half)
	}
	return w.binary("Mul", y, w.binary("Mul", one, half))
}

func (w *chain) layerNorm() link {
	x := w.ranked(1, 4)
	d, r := x.dtype(), x.rank()
	axis := -1
	if w.one(6) {
		axis = w.in(-r, r-1)
	}
	keep := int64(1)
	if w.one(12) {
		keep = 0
	}
	if w.one(5) && w.opset >= 17 && x.dim(-1) > 0 {
		in := []any{x, w.weights(d, x.dim(-1))}
		if w.n(2) == 0 {
			in = append(in, w.weights(d, x.dim(-1)))
		}
		return w.op("LayerNormalization", append(in, "axis", int64(-1))...)
	}
	c := w.op("Sub", x, w.reduce("ReduceMean", x, keep, axis))
	var sq link
	if w.n(2) == 0 {
		sq = w.op("Pow", c, w.number(d, w.near(2)))
	} else {
		sq = w.op("Mul", c, c)
	}
	v := w.reduce("ReduceMean", sq, keep, axis)
	n := w.op("Div", c, w.op("Sqrt", w.binary("Add", v, w.number(d, pick(w.gen, 1e-5, 1e-3, 0.1)))))
	n = w.binary("Mul", n, w.weights(d, w.vector(x.dim(-1))...))
	if w.one(6) {
		return n
	}
	return w.binary("Add", n, w.weights(d, w.vector(x.dim(-1))...))
}

// vector returns the shape of n numbers, one per column.
func (w *chain) vector(n int) []int {
	return pick(w.gen, []int{n}, []int{n}, []int{n}, []int{n}, []int{1}, []int{1, n}, []int{1, 1, n}, []int{})
}

// linear adds a matrix product with weights, and operators that passes may fuse into it.
func (w *chain) linear() link {
	x := w.ranked(1, 4)
	d, k := x.dtype(), x.dim(-1)
	n := pick(w.gen, k, 1, 8, 16, 33, 64, 5)
	if k > 512 {
		panic(refused("rows are too long"))
	}
	var y link
	switch {
	case x.rank() == 2 && w.n(2) == 0:
		tb := w.n(2)
		s := []int{k, n}
		if tb == 1 {
			s = []int{n, k}
		}
		in := []any{x, w.weights(d, s...)}
		if w.n(3) > 0 {
			in = append(in, w.weights(d, pick(w.gen, []int{n}, []int{n}, []int{1, n}, []int{1}, []int{})...))
		}
		if w.one(3) {
			in = append(in, "alpha", pick(w.gen, float32(0.5), 2, 0, -1), "beta", pick(w.gen, float32(1), 0.5, 0))
		}
		if w.one(8) {
			y = w.op("Transpose", x)
			in[0] = y
			in = append(in, "transA", int64(1))
		}
		y = w.op("Gemm", append(in, "transB", int64(tb))...)
	case w.one(5): // a Transpose of the weights, which is folded
		y = w.op("MatMul", x, w.op("Transpose", w.weights(d, n, k)))
	case w.one(8):
		y = w.op("MatMul", w.weights(d, pick(w.gen, 3, 8, 16), x.dim(max(-2, -x.rank()))), x)
	case w.one(8):
		y = w.op("MatMul", x, w.weights(d, k))
	default:
		y = w.op("MatMul", x, w.weights(d, k, n))
	}
	for range w.n(4) {
		switch w.n(6) {
		case 0, 1:
			if y.rank() == 0 {
				continue
			}
			y = w.binary("Add", y, w.weights(d, w.vector(y.dim(-1))...))
		case 2: // a residual
			z := w.weights(d, y.shape()...)
			if slices.Equal(x.shape(), y.shape()) {
				z = x
			} else if o := w.tensorValue(); o.dtype() == d && slices.Equal(o.shape(), y.shape()) {
				z = o
			}
			y = w.binary("Add", y, z)
		case 3: // another matrix product of the same
			if y.rank() > 0 && y.rank() == x.rank() && x.rank() > 1 {
				y = w.binary("Add", y, w.op("MatMul", x, w.weights(d, k, y.dim(-1))))
			}
		default:
			y = w.op(pick(w.gen, "Relu", "Sigmoid", "Tanh", "Relu", "LeakyRelu"), y)
		}
	}
	return y
}

// attention adds a scaled batched matrix product of a transposed operand.
func (w *chain) attention() link {
	x := w.ranked(3, 4)
	d, r := x.dtype(), x.rank()
	if x.dim(-1) > 64 || x.dim(-2) > 64 {
		panic(refused("too large"))
	}
	scale := func(y link) link {
		if w.n(3) > 0 {
			return y
		}
		if w.n(2) == 0 {
			return w.op("Div", y, w.number(d, pick(w.gen, 2, 8, -1, 0.5)))
		}
		return w.binary("Mul", y, w.number(d, pick(w.gen, 0.5, 0.125, -1, 0, 2)))
	}
	turned := func(y link) link {
		if w.n(3) == 0 {
			return y
		}
		p := identity(r)
		if w.one(4) {
			for i, v := range w.rng.Perm(r) {
				p[i] = int64(v)
			}
		} else if r == 4 && w.n(2) == 0 {
			p[1], p[2] = 2, 1
		} else {
			p[r-1], p[r-2] = int64(r-2), int64(r-1)
		}
		return w.op("Transpose", y, "perm", p)
	}
	a := scale(turned(scale(x)))
	var b link
	if w.n(3) == 0 {
		b = w.weights(d, append(slices.Clone(a.shape()[:r-2]), a.dim(-1), pick(w.gen, 4, 7, 16))...)
	} else {
		b = scale(turned(scale(x)))
	}
	if a.dim(-1) != b.dim(-2) {
		p := identity(r)
		p[r-1], p[r-2] = int64(r-2), int64(r-1)
		b = w.op("Transpose", b, "perm", p)
	}
	y := scale(w.op("MatMul", a, b))
	if w.n(2) == 0 {
		y = turned(y)
	}
	if w.n(2) == 0 {
		y = w.op("Softmax", scale(y), "axis", int64(pick(w.gen, -1, -1, -1, 1)))
	}
	return scale(y)
}

func identity(n int) []int64 {
	p := make([]int64, n)
	for i := range p {
		p[i] = int64(i)
	}
	return p
}

// reduction adds a reduction over some axes, whose result is combined with its operand.
func (w *chain) reduction() link {
	x := w.ranked(1, 4)
	axis := w.in(-x.rank(), x.rank()-1)
	op := pick(w.gen, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2",
		"ReduceLogSumExp", "ReduceProd")
	switch w.n(6) {
	case 0: // a Softmax in parts
		e := w.op("Exp", w.op("Sub", x, w.reduce("ReduceMax", x, 1, axis)))
		return w.op("Div", e, w.reduce("ReduceSum", e, 1, axis))
	case 1:
		return w.op(pick(w.gen, "Softmax", "LogSoftmax", "Hardmax"), x, "axis", int64(axis))
	case 2:
		a := w.op(pick(w.gen, "ArgMax", "ArgMin"), x, "axis", int64(axis))
		return w.op("GatherElements", x, a, "axis", int64(axis))
	case 3:
		return w.op("CumSum", x, w.scalar(tensor.TypeInt64, float64(axis)))
	}
	m := w.reduce(op, x, 1, axis)
	if w.n(2) == 0 {
		return m
	}
	return w.binary(pick(w.gen, "Sub", "Add", "Max"), x, m)
}

// twice adds the same computation, or a variation of it, twice.
func (w *chain) twice() link {
	x := w.ranked(1, 4)
	d, r := x.dtype(), x.rank()
	var again func(other bool) link
	k := pick(w.gen, 0.5, 2.0, 1)
	vec := w.tensor(d, unit, x.dim(-1))
	axis := w.in(0, r-1)
	switch w.n(6) {
	case 0:
		again = func(other bool) link {
			if other {
				return w.op("Add", x, w.filledOther(d, k))
			}
			return w.op("Add", x, w.scalar(d, k))
		}
	case 1:
		again = func(other bool) link {
			a := axis
			if other {
				a = w.in(0, r-1)
			}
			return w.op("Softmax", x, "axis", int64(a))
		}
	case 2:
		again = func(other bool) link {
			op := "Relu"
			if other {
				op = pick(w.gen, "Relu", "Abs")
			}
			return w.op(op, w.op("Mul", x, w.fixed(vec)))
		}
	case 3:
		again = func(other bool) link {
			a := axis - r
			if other {
				a = axis
			}
			return w.reduce("ReduceSum", x, 1, a)
		}
	case 4:
		again = func(other bool) link {
			return w.node("TopK", 1+btoi(other), x, w.ints64(min(2, x.dim(axis))), "axis", int64(axis))[0]
		}
	default:
		again = func(other bool) link {
			to := int64(tensor.TypeInt32)
			if other {
				to = int64(pick(w.gen, tensor.TypeInt32, tensor.TypeInt64, tensor.TypeInt8))
			}
			return w.op("Cast", w.op("Cast", w.op("Tanh", x), "to", to), "to", int64(d))
		}
	}
	a := again(false)
	if w.n(3) == 0 {
		x = w.unary(x)
	}
	b := again(w.n(2) == 0)
	if w.one(3) {
		w.output(a)
	}
	if w.one(3) {
		w.output(b)
	}
	return w.op("Concat", a, b, "axis", int64(axis))
}

// filledOther returns a number with the same bytes as constants of another type or shape.
func (w *chain) filledOther(d tensor.DType, k float64) link {
	return w.fixed(w.filled(d, k, pick(w.gen, []int{}, []int{1}, []int{1, 1})...))
}

// passOn adds operators that return their operand unchanged.
func (w *chain) passOn() link {
	x := w.tensorValue()
	for range w.in(1, 3) {
		switch w.n(7) {
		case 0:
			x = w.op("Identity", x)
		case 1:
			x = w.op("Cast", x, "to", int64(x.dtype()))
		case 2:
			if x.dtype() == tensor.TypeFloat32 {
				in := []any{x}
				if w.n(2) == 0 {
					in = append(in, w.scalar(tensor.TypeFloat32, 0.5))
				}
				x = w.node("Dropout", 1+w.n(2), in...)[0]
			}
		case 3:
			if x.rank() > 0 {
				x = w.op("Concat", x, "axis", int64(0))
			}
		case 4:
			x = w.op("Reshape", x, w.op("Shape", x))
		case 5:
			x = w.op("Transpose", w.op("Transpose", x))
		case 6:
			if x.dtype().IsFloat() && x.dtype() != tensor.TypeFloat64 {
				x = w.op("Cast", w.op("Cast", x, "to", int64(tensor.TypeFloat64)), "to", int64(x.dtype()))
			}
		}
		if w.one(4) {
			w.output(x)
		}
	}
	return x
}

// shapes adds nodes that compute a shape from a shape.
func (w *chain) shapes() link {
	x := w.ranked(1, 4)
	s := w.op("Shape", x)
	r := x.rank()
	switch w.n(6) {
	case 0: // the inner dimensions merged
		first := w.op("Gather", s, w.scalar(tensor.TypeInt64, 0))
		first = w.op("Unsqueeze", first, w.ints64(0))
		return w.op("Reshape", x, w.op("Concat", first, w.ints64(-1), "axis", int64(0)))
	case 1: // one dimension split
		head := w.op("Slice", s, w.ints64(0), w.ints64(r-1))
		last := w.op("Slice", s, w.ints64(-1), w.ints64(1<<40))
		n := 1
		if x.dim(-1)%2 == 0 {
			n = 2
		}
		last = w.op("Div", last, w.ints64(n))
		return w.op("Reshape", x, w.op("Concat", head, w.ints64(n), last, "axis", int64(0)))
	case 2:
		c := w.op("ConstantOfShape", s, "value", onnx.FromTensor(w.filled(x.dtype(), pick(w.gen, 0, 1.5), 1)))
		return w.binary("Add", x, c)
	case 3:
		n := w.op("Gather", s, w.scalar(tensor.TypeInt64, float64(w.in(-r, r-1))))
		i := w.op("Range", w.scalar(tensor.TypeInt64, 0), n, w.scalar(tensor.TypeInt64, 1))
		return w.op("Cast", i, "to", int64(tensor.TypeFloat32))
	case 4:
		y := w.weights(x.dtype(), w.broadcast(x.shape())...)
		return w.op("Expand", y, s)
	}
	n := w.reduce("ReduceProd", s, 0, 0)
	return w.binary("Add", x,
		w.op("Cast", w.op("Div", n, w.op("Add", w.op("Size", x), w.ints64(1))), "to", int64(x.dtype())))
}

// pieces splits a value and concatenates the parts.
func (w *chain) pieces() link {
	x := w.ranked(1, 4)
	axis := w.in(-x.rank(), x.rank()-1)
	n := x.dim(axis)
	if n < 2 {
		panic(refused("nothing to split"))
	}
	k := w.in(1, n-1)
	var parts []link
	switch w.n(3) {
	case 0:
		parts = w.node("Split", 2, x, w.ints64(k, n-k), "axis", int64(axis))
	case 1:
		parts = []link{w.op("Slice", x, w.ints64(0), w.ints64(k), w.ints64(axis)),
			w.op("Slice", x, w.ints64(k), w.ints64(1<<40), w.ints64(axis), w.ints64(1))}
	default:
		parts = []link{w.op("Slice", x, w.ints64(-1), w.ints64(-1<<40), w.ints64(axis), w.ints64(-1)),
			w.op("Gather", x, w.ints64(k, -1, 0), "axis", int64(axis))}
	}
	if w.n(2) == 0 {
		parts[0] = w.unary(parts[0])
	}
	if w.n(3) == 0 {
		parts[1] = w.op("Mul", parts[1], w.scalar(x.dtype(), 2))
	}
	if w.n(4) == 0 {
		parts = append(parts, x, parts[0])
	}
	slices.Reverse(parts)
	return w.op("Concat", linksAnd(parts, "axis", int64(axis))...)
}

func linksAnd(l []link, more ...any) []any {
	var r []any
	for _, x := range l {
		r = append(r, x)
	}
	return append(r, more...)
}

// views adds values that may share memory, each changed by a node of its own.
func (w *chain) views() link {
	x := w.ranked(2, 4)
	d := x.dtype()
	if w.n(2) == 0 {
		x = w.unary(x)
	}
	view := func() link {
		switch w.n(6) {
		case 0:
			return w.op("Reshape", x, w.ints64(-1))
		case 1:
			return w.op("Flatten", x)
		case 2:
			return w.op("Unsqueeze", x, w.ints64(0))
		case 3:
			return w.op("Slice", x, w.ints64(0), w.ints64(1), w.ints64(0))
		case 4:
			return w.op("Identity", x)
		}
		return w.op("Squeeze", w.op("Unsqueeze", x, w.ints64(1)), w.ints64(1))
	}
	a := w.unary(view())
	b := view()
	if w.n(2) == 0 && b.rank() > 0 && b.dim(0) > 0 {
		i := w.fixed(ints(0, b.dim(0)-1))
		u := w.weights(d, append([]int{2}, b.shape()[1:]...)...)
		b = w.op("ScatterND", b, w.op("Unsqueeze", i, w.ints64(1)), u)
	} else {
		b = w.unary(b)
	}
	w.values = append(w.values, a, b)
	if slices.Equal(a.shape(), b.shape()) {
		return w.binary("Sub", a, b)
	}
	return w.unary(x)
}
