package opfuzz

import "github.com/onward-ml/onward/tensor"

// quantized adds an operator between DequantizeLinear and QuantizeLinear.
func (w *chain) quantized() link {
	x := w.ranked(1, 4)
	if x.dtype() != tensor.TypeFloat32 {
		x = w.op("Cast", x, "to", int64(tensor.TypeFloat32))
	}
	d := pick(w.gen, tensor.TypeUint8, tensor.TypeInt8, tensor.TypeInt8)
	scale := func() float64 { return pick(w.gen, 0.03125, 0.02, 0.1, 0.01, 0.5) }
	zero := func(d tensor.DType) *tensor.Tensor {
		if d == tensor.TypeUint8 {
			return w.filled(d, float64(pick(w.gen, 128, 0, 3)))
		}
		return w.filled(d, float64(pick(w.gen, 0, 0, -128, 5)))
	}
	// one step of quantization; the same scale and zero point again at times
	s0, z0 := scale(), zero(d)
	parameters := func() []any {
		s, z := s0, z0
		if w.n(2) == 0 {
			s, z = scale(), zero(d)
		}
		if w.one(12) && d == tensor.TypeUint8 {
			z = w.filled(tensor.TypeInt8, 0)
		}
		p := []any{w.scalar(tensor.TypeFloat32, s)}
		if z.DType() == tensor.TypeUint8 && w.one(8) {
			return p // 0
		}
		return append(p, w.fixed(z))
	}
	quantize := func(x link, p []any) link { return w.op("QuantizeLinear", append([]any{x}, p...)...) }
	dequantize := func(x link, p []any) link { return w.op("DequantizeLinear", append([]any{x}, p...)...) }
	both := func(x link) link { p := parameters(); return dequantize(quantize(x, p), p) }
	// weights, quantized by column, by row or as a whole
	weights := func(axis int, shape ...int) (link, []float32) {
		dw := pick(w.gen, tensor.TypeInt8, tensor.TypeInt8, d)
		n := shape[axis]
		q := w.fixed(w.tensor(dw, pick(w.gen, normal, special), shape...))
		if w.n(2) == 0 {
			s := w.filled(tensor.TypeFloat32, scale())
			return w.op("DequantizeLinear", q, w.fixed(s),
				w.fixed(w.filled(dw, float64(btoi(dw == tensor.TypeUint8)*128)))), tensor.MustData[float32](s)
		}
		s := w.tensor(tensor.TypeFloat32, positive, n)
		for i := range tensor.MustData[float32](s) {
			tensor.MustData[float32](s)[i] *= 0.02
		}
		if w.one(8) {
			axis = 0
		}
		return w.op("DequantizeLinear", q, w.fixed(s), w.fixed(w.filled(dw, 0, n)), "axis", int64(axis)),
			tensor.MustData[float32](s)
	}
	p := parameters()
	q := quantize(x, p)
	x = dequantize(q, p)
	if w.one(5) {
		w.output(x)
	}
	bias := func(n int, s []float32) link {
		if w.n(3) == 0 {
			return w.weights(tensor.TypeFloat32, n)
		}
		xs := float32(tensor.MustData[float32](p[0].(link).t())[0])
		b := w.filled(tensor.TypeFloat32, 0, len(s))
		for i := range s {
			tensor.MustData[float32](b)[i] = xs * s[i]
		}
		if len(s) == 1 && w.n(2) == 0 {
			b = tensor.Must(b.Reshape())
		}
		return w.op("DequantizeLinear", w.fixed(w.tensor(tensor.TypeInt32, normal, n)), w.fixed(b))
	}
	var y link
	r := x.rank()
	switch w.n(14) {
	case 0, 1:
		n := pick(w.gen, 4, 8, 17)
		if r < 1 || x.dim(-1) == 0 {
			panic(refused("no columns"))
		}
		if r == 2 && w.n(2) == 0 {
			wt, s := weights(0, n, x.dim(1))
			y = w.op("Gemm", x, wt, bias(n, s), "transB", int64(1))
			break
		}
		wt, s := weights(1, x.dim(-1), n)
		y = w.op("MatMul", x, wt)
		if w.n(2) == 0 {
			y = w.binary("Add", y, bias(n, s))
		}
		if w.one(4) {
			return y
		}
	case 2, 3:
		if r != 4 && r != 3 || x.dim(1) == 0 || x.dim(1) > 64 {
			panic(refused("no image"))
		}
		m, group := pick(w.gen, 4, 16, x.dim(1)), 1
		if m == x.dim(1) && w.n(2) == 0 {
			group = m
		}
		s := []int{m, x.dim(1) / group, 3, 3}[:r]
		wt, ws := weights(0, s...)
		in := []any{x, wt}
		if w.n(2) == 0 {
			in = append(in, bias(m, ws))
		}
		pads := make([]int64, 2*(r-2))
		for i := range pads {
			pads[i] = 1
		}
		y = w.op("Conv", append(in, "pads", pads, "group", int64(group))...)
		if w.n(2) == 0 {
			y = w.op("Relu", y)
		}
	case 4:
		z := both(w.weights(tensor.TypeFloat32, w.broadcast(x.shape())...))
		y = w.binary(pick(w.gen, "Add", "Mul", "Sub"), x, z)
	case 5:
		y = w.binary(pick(w.gen, "Add", "Mul"), x, x)
	case 6:
		y = w.op("Concat", x, both(x), x, "axis", int64(w.n(r)))
	case 7:
		switch w.n(7) {
		case 0:
			y = w.op("Reshape", x, w.ints64(-1))
		case 1:
			y = w.op("Transpose", x)
		case 2:
			y = w.op("Unsqueeze", x, w.ints64(0))
		case 3:
			y = w.op("Slice", x, w.ints64(-1), w.ints64(-1<<40), w.ints64(0), w.ints64(-1))
		case 4:
			y = w.op("Gather", x, w.ints64(0, -1), "axis", int64(r-1))
		case 5:
			in := []any{x, w.ints64(make([]int, 2*r-1)...), nil}
			pads := make([]int, 2*r)
			pads[r-1], pads[2*r-1] = 1, 2
			in[1] = w.ints64(pads...)
			if w.n(2) == 0 {
				in[2] = w.scalar(tensor.TypeFloat32, pick(w.gen, 0.0, 0, 1))
			}
			y = w.op("Pad", append(in, "mode", pick(w.gen, "constant", "constant", "edge"))...)
		default:
			y = w.op("Tile", x, w.ints64(append(make([]int, r-1), 2)...))
		}
	case 8:
		if r < 3 {
			y = w.op("Softmax", x)
			break
		}
		k := make([]int64, r-2)
		for i := range k {
			k[i] = int64(min(2, x.dim(i+2)))
		}
		y = w.op(pick(w.gen, "MaxPool", "AveragePool"), x, "kernel_shape", k)
	case 9:
		if r < 3 {
			panic(refused("no image"))
		}
		y = w.op("GlobalAveragePool", x)
	case 10:
		y = w.op("Softmax", x, "axis", int64(w.in(-r, r-1)))
	case 11:
		y = w.op("Mul", x, w.op("Sigmoid", x))
	case 12:
		y = w.op("Add", w.op("Mul", w.unary(x), w.number(tensor.TypeFloat32, 0.5)), x)
	default:
		y = w.unary(x)
	}
	if w.one(5) {
		y = w.op("Relu", y)
	}
	if w.one(8) {
		return y
	}
	out := parameters()
	if w.n(3) == 0 {
		out = p
	}
	qy := quantize(y, out)
	switch w.n(4) {
	case 0:
		return qy
	case 1:
		w.output(qy)
	}
	return dequantize(qy, out)
}
