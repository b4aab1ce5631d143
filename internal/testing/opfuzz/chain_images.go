package opfuzz

import (
	"slices"

	"github.com/onward-ml/onward/tensor"
)

func (w *chain) positive(d tensor.DType, shape ...int) link {
	return w.fixed(w.tensor(d, positive, shape...))
}

// convolution adds a Conv and operators that may be merged into it.
func (w *chain) convolution() link {
	x := w.ranked(3, 5)
	d, r, c := x.dtype(), x.rank(), x.dim(1)
	if c == 0 || c > 64 || x.t().Len() > 1<<13 {
		panic(refused("no image"))
	}
	m := pick(w.gen, c, 1, 3, 8, 16, 20, 32)
	group := 1
	switch w.n(4) {
	case 0:
		group, m = c, c
	case 1:
		if c%2 == 0 && m%2 == 0 {
			group = 2
		}
	}
	dims := r - 2
	k := pick(w.gen, 1, 3, 3, 2)
	pads, strides := make([]int64, 2*dims), make([]int64, dims)
	shape := []int{m, c / group}
	for i := range dims {
		shape = append(shape, k)
		pads[i], pads[i+dims] = int64(pick(w.gen, k/2, k/2, 0)), int64(pick(w.gen, k/2, k/2, 1))
		strides[i] = int64(pick(w.gen, 1, 1, 1, 2))
	}
	var weights link
	conv := func() link {
		weights = w.weights(d, shape...)
		in := []any{x, weights}
		if w.n(2) == 0 {
			in = append(in, w.weights(d, m))
		}
		return w.op("Conv", append(in, "group", int64(group), "pads", pads, "strides", strides)...)
	}
	y := conv()
	for range w.n(5) {
		y = w.afterConv(x, y, conv)
	}
	return y
}

// channel returns the shape of n numbers, one per channel of a tensor of rank r, or seldom
// another shape.
func (w *chain) channel(n, r int) []int {
	s := []int{n}
	for range r - 2 {
		s = append(s, 1)
	}
	return pick(w.gen, s, s, s, s, append([]int{1}, s...), []int{n}, []int{1}, []int{}, append([]int{1, 1}, s...))
}

func (w *chain) afterConv(x, y link, conv func() link) link {
	d, r := y.dtype(), y.rank()
	if r < 2 {
		return w.unary(y)
	}
	c := y.dim(1)
	switch w.n(12) {
	case 0, 1:
		in := []any{y, w.positive(d, c), w.weights(d, c), w.weights(d, c), w.positive(d, c), "epsilon",
			pick(w.gen, float32(1e-5), 0.1)}
		if w.one(8) {
			return w.node("BatchNormalization", 3, append(in, "training_mode", int64(1))...)[0]
		}
		return w.op("BatchNormalization", in...)
	case 2, 3:
		return w.binary(pick(w.gen, "Mul", "Add", "Sub", "Div"), y, w.positive(d, w.channel(c, r)...))
	case 4:
		return w.op("Relu", y)
	case 5:
		return w.clip(y)
	case 6:
		if slices.Equal(x.shape(), y.shape()) {
			return w.binary(pick(w.gen, "Add", "Sum", "Sub"), y, x)
		}
		return w.binary("Add", y, w.weights(d, y.shape()...))
	case 7:
		if r > 2 && conv != nil {
			z := conv()
			if slices.Equal(z.shape(), y.shape()) {
				return w.binary(pick(w.gen, "Add", "Sum", "Mul"), y, z)
			}
			return w.op("Concat", y, z, "axis", int64(1))
		}
	case 8:
		if o := w.tensorValue(); o.dtype() == d && slices.Equal(o.shape(), y.shape()) {
			return w.binary("Add", y, o)
		}
	case 9:
		return w.op(pick(w.gen, w.vectors...), y)
	case 10:
		if r == 4 {
			p := w.op("GlobalAveragePool", y)
			return w.binary("Mul", y, w.op("Sigmoid", p))
		}
	}
	return w.op("PRelu", y, w.weights(d, w.channel(c, r)...))
}

// channels adds arithmetic per channel without a Conv.
func (w *chain) channels() link {
	x := w.ranked(2, 5)
	y := x
	for range w.in(1, 4) {
		y = w.afterConv(x, y, nil)
	}
	return y
}

// poolings adds operators that are common between convolutions.
func (w *chain) poolings() link {
	x := w.ranked(3, 5)
	k := make([]int64, x.rank()-2)
	for i := range k {
		k[i] = int64(w.in(1, 3))
		if x.dim(i+2) < int(k[i]) {
			k[i] = 1
		}
	}
	switch w.n(6) {
	case 0:
		return w.node("MaxPool", 1+w.n(2), x, "kernel_shape", k, "ceil_mode", int64(w.n(2)))[0]
	case 1:
		return w.op("AveragePool", x, "kernel_shape", k, "strides", k)
	case 2:
		return w.op(pick(w.gen, "GlobalAveragePool", "GlobalMaxPool"), x)
	case 3:
		return w.op("LRN", x, "size", int64(pick(w.gen, 3, 5, 1)), "alpha", float32(0.1))
	case 4:
		s := make([]float32, x.rank())
		for i := range s {
			s[i] = 1
			if i > 1 {
				s[i] = pick(w.gen, float32(2), 1, 0.5, 1.5)
			}
		}
		return w.op("Resize", x, nil, w.fixed(tensor.Must(tensor.New(s, len(s)))), "mode",
			pick(w.gen, "nearest", "linear"))
	}
	pads := make([]int, 2*x.rank())
	for i := 2; i < x.rank(); i++ {
		pads[i], pads[i+x.rank()] = w.n(3), w.n(3)
	}
	in := []any{x, w.ints64(pads...)}
	if w.n(2) == 0 {
		in = append(in, w.scalar(x.dtype(), pick(w.gen, 0, 1.5)))
	}
	return w.op("Pad", in...)
}

// shuffled adds a channel shuffle or a variation of it.
func (w *chain) shuffled() link {
	x := w.ranked(4, 4)
	s := slices.Clone(x.shape())
	g := pick(w.gen, 2, 4, 3)
	if s[1]%g != 0 || s[1] == 0 {
		panic(refused("no groups"))
	}
	perm := []int64{0, 2, 1, 3, 4}
	if w.one(5) {
		perm = pick(w.gen, []int64{0, 2, 1, 4, 3}, []int64{0, 1, 2, 3, 4}, []int64{0, 3, 2, 1, 4})
	}
	n := pick(w.gen, 0, 0, -1)
	y := w.op("Reshape", x, w.ints64(n, g, s[1]/g, s[2], s[3]))
	y = w.op("Transpose", y, "perm", perm)
	if w.one(6) {
		y = w.op("Reshape", y, w.ints64(n, s[1], s[2]*s[3], 1))
	} else {
		y = w.op("Reshape", y, w.ints64(n, s[1], s[2], s[3]))
	}
	if w.n(2) == 0 {
		y = w.op("Conv", y, w.weights(y.dtype(), s[1], 1, 1, 1), "group", int64(s[1]))
		if w.n(2) == 0 {
			y = w.op("Conv", y, w.weights(y.dtype(), 16, s[1], 1, 1))
		}
	}
	return y
}
