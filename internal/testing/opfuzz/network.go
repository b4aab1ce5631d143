package opfuzz

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// networkOpset is the opset of networks.
const networkOpset = 15

var activations = Functions(networkOpset, hasVector)

// network builds a random convolutional network of operators that the optimizer fuses and
// converts to the blocked layout, in any order.
type network struct {
	t      *rapid.T
	b      *onnx.ModelBuilder
	rng    *rand.Rand
	n      int
	values []string
	shape  map[string][3]int // channels, height, width
	line   bool              // tensors are N×C×W, with a height of 1
}

// axes returns the dimensions of h×w pixels, for tensors with one spatial axis without h.
func axes[T any](w *network, height, width T) []T {
	if w.line {
		return []T{width}
	}
	return []T{height, width}
}

// both returns the attribute of a window that is v for each spatial axis.
func (w *network) both(v int) []int64 { return axes(w, int64(v), int64(v)) }

// pads returns the padding of a window, the same on all sides.
func (w *network) pads(v int) []int64 { return append(w.both(v), w.both(v)...) }

func (w *network) name() string {
	w.n++
	return fmt.Sprintf("v%d", w.n)
}

func (w *network) weights(dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(w.rng.NormFloat64()) / 2
	}
	name := w.name()
	w.b.Initializer(name, data, dims...)
	return name
}

func (w *network) positive(c int) string {
	data := make([]float32, c)
	for i := range data {
		data[i] = 0.5 + w.rng.Float32()
	}
	name := w.name()
	w.b.Initializer(name, data, int64(c))
	return name
}

func (w *network) add(op string, in []string, c, h, width int, attrs onnx.Attrs) string {
	out := w.name()
	w.b.Node(op, in, []string{out}, attrs)
	w.values = append(w.values, out)
	w.shape[out] = [3]int{c, h, width}
	return out
}

// step adds one operator that reads the value x.
func (w *network) step(x string) {
	s := w.shape[x]
	c, h, wd := s[0], s[1], s[2]
	t := w.t
	switch rapid.SampledFrom([]string{"conv", "conv", "conv", "depthwise", "grouped", "bn", "activation", "activation",
		"activation", "clip", "add", "concat", "max", "average", "lrn",
		"mul", "leaky", "shuffle", "shuffle unit", "excite", "transpose"}).Draw(t, "op") {
	case "conv", "grouped":
		m := rapid.SampledFrom([]int{1, 3, 8, 16, 20, 32, 40}).Draw(t, "m")
		w.conv(x, m, 1)
		if c%2 == 0 && m%2 == 0 {
			w.conv(x, m, 2)
		}
	case "depthwise":
		w.conv(x, c, c)
	case "bn":
		w.add("BatchNormalization", []string{x, w.positive(c), w.weights(int64(c)), w.weights(int64(c)), w.positive(c)},
			c, h, wd, nil)
	case "activation":
		w.add(rapid.SampledFrom(activations).Draw(t, "activation"), []string{x}, c, h, wd, nil)
	case "leaky":
		w.add("LeakyRelu", []string{x}, c, h, wd, onnx.Attrs{"alpha": float32(0.2)})
	case "clip":
		lo, hi := w.name(), w.name()
		w.b.Initializer(lo, float32(-0.5)).Initializer(hi, float32(2))
		w.add("Clip", []string{x, lo, hi}, c, h, wd, nil)
	case "add", "mul":
		for _, y := range w.values {
			if w.shape[y] == s && rapid.Bool().Draw(t, "take") {
				w.add(rapid.SampledFrom([]string{"Add", "Mul", "Sub"}).Draw(t, "binary"), []string{x, y}, c, h, wd, nil)
				return
			}
		}
		k := w.weights(append([]int64{int64(c)}, w.both(1)...)...)
		w.add(rapid.SampledFrom([]string{"Add", "Mul", "Sub"}).Draw(t, "with channels"), []string{x, k}, c, h, wd, nil)
	case "concat":
		in, total := []string{x}, c
		for _, y := range w.values {
			if q := w.shape[y]; q[1] == h && q[2] == wd && len(in) < 4 && rapid.Bool().Draw(t, "join") {
				in, total = append(in, y), total+q[0]
			}
		}
		w.add("Concat", in, total, h, wd, onnx.Attrs{"axis": 1})
	case "max", "average":
		if h < 3 && !w.line || wd < 3 {
			return
		}
		op := rapid.SampledFrom([]string{"MaxPool", "AveragePool"}).Draw(t, "pool")
		stride := rapid.IntRange(1, 2).Draw(t, "stride")
		ceil := rapid.IntRange(0, 1).Draw(t, "ceil")
		out := func(n int) int { return (n+2-3+ceil*(stride-1))/stride + 1 }
		oh, ow := out(h), out(wd)
		if ceil == 1 {
			if (oh-1)*stride >= h+1 {
				oh--
			}
			if (ow-1)*stride >= wd+1 {
				ow--
			}
		}
		if w.line {
			oh = 1
		}
		w.add(op, []string{x}, c, oh, ow,
			onnx.Attrs{"kernel_shape": w.both(3), "strides": w.both(stride), "pads": w.pads(1), "ceil_mode": ceil})
	case "lrn":
		if w.line { // ONNX Runtime wants two spatial axes
			return
		}
		w.add("LRN", []string{x}, c, h, wd, onnx.Attrs{"size": 5, "alpha": float32(0.1), "beta": float32(0.75)})
	case "transpose":
		if w.line {
			return
		}
		y := w.name()
		w.b.Node("Transpose", []string{x}, []string{y}, onnx.Attrs{"perm": []int64{0, 1, 3, 2}})
		w.add("Relu", []string{y}, c, wd, h, nil)
	case "shuffle":
		w.shuffle(x)
	case "shuffle unit": // of ShuffleNet
		x = w.shuffle(x)
		if rapid.Bool().Draw(t, "between") {
			x = w.conv(x, c, c)
		}
		if group := rapid.SampledFrom([]int{1, 2, c}).Draw(t, "group"); x != "" && c%group == 0 {
			w.pointwise(x, 2*c, group)
		}
	case "excite":
		p := w.add("GlobalAveragePool", []string{x}, c, 1, 1, nil)
		q := w.add("Sigmoid", []string{p}, c, 1, 1, nil)
		w.add("Mul", []string{x, q}, c, h, wd, nil)
	}
}

// shuffle interleaves the two halves of the channels of x if their number is even.
func (w *network) shuffle(x string) string {
	c, h, wd := w.shape[x][0], w.shape[x][1], w.shape[x][2]
	if c%2 != 0 {
		return x
	}
	s1, s2, a, b := w.name(), w.name(), w.name(), w.name()
	pixels := axes(w, int64(h), int64(wd))
	w.b.Initializer(s1, append([]int64{0, 2, int64(c / 2)}, pixels...)).
		Initializer(s2, append([]int64{0, int64(c)}, pixels...))
	w.b.Node("Reshape", []string{x, s1}, []string{a})
	w.b.Node("Transpose", []string{a}, []string{b}, onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}[:3+len(pixels)]})
	return w.add("Reshape", []string{b, s2}, c, h, wd, nil)
}

// conv adds a convolution to m channels and returns its result, "" if the image is too small.
func (w *network) conv(x string, m, group int) string {
	return w.convolve(x, m, group, rapid.SampledFrom([]int{1, 3, 3, 5}).Draw(w.t, "kernel"), rapid.IntRange(0, 2).
		Draw(w.t, "pad"))
}

func (w *network) pointwise(x string, m, group int) string { return w.convolve(x, m, group, 1, 0) }

func (w *network) convolve(x string, m, group, k, pad int) string {
	s := w.shape[x]
	stride := rapid.SampledFrom([]int{1, 1, 2}).Draw(w.t, "stride")
	dilation := rapid.SampledFrom([]int{1, 1, 2}).Draw(w.t, "dilation")
	out := func(n int) int { return (n+2*pad-(k-1)*dilation-1)/stride + 1 }
	if s[1]+2*pad < (k-1)*dilation+1 && !w.line || s[2]+2*pad < (k-1)*dilation+1 {
		return ""
	}
	in := []string{x, w.weights(append([]int64{int64(m), int64(s[0] / group)}, w.both(k)...)...)}
	if rapid.Bool().Draw(w.t, "bias") {
		in = append(in, w.weights(int64(m)))
	}
	op, attrs := "Conv",
		onnx.Attrs{"strides": w.both(stride), "dilations": w.both(dilation), "pads": w.pads(pad), "group": group}
	if rapid.IntRange(0, 3).Draw(w.t, "contrib") == 0 {
		op = "FusedConv"
		// The attribute is omitted, because an empty one is invalid.
		if a := rapid.SampledFrom([]string{"Relu", "Clip", "Sigmoid", ""}).Draw(w.t, "activation"); a != "" {
			attrs["activation"] = a
			if a == "Clip" {
				attrs["activation_params"] = []float32{-1, 1.5}
			}
		}
	}
	height := 1
	if !w.line {
		height = out(s[1])
	}
	y := w.add(op, in, m, height, out(s[2]), attrs)
	if nodes := w.b.Must().Graph.Nodes; op == "FusedConv" {
		for _, n := range nodes {
			if n.Outputs[0] == y {
				n.Domain = "com.microsoft"
			}
		}
	}
	return y
}

// Network returns a random convolutional network and a value for its input x of
// shape [N, C, H, W], or [N, C, W]; nil for one without outputs.
func Network(t *rapid.T) (*onnx.Model, *tensor.Tensor) {
	w := &network{t: t, b: onnx.NewModel("net").Opset("", networkOpset),
		rng: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed"))), shape: map[string][3]int{}}
	c, h, wd := rapid.SampledFrom([]int{1, 3, 16, 18}).Draw(t, "c"), rapid.IntRange(1, 18).Draw(t, "h"),
		rapid.IntRange(1, 18).Draw(t, "w")
	if w.line = rapid.IntRange(0, 3).Draw(t, "line") == 0; w.line {
		h = 1
	}
	batch := rapid.IntRange(1, 3).Draw(t, "batch")
	w.b.Input("x", onnx.Float, append([]any{"N", c}, axes[any](w, h, wd)...)...)
	w.values, w.shape["x"] = []string{"x"}, [3]int{c, h, wd}
	for range rapid.IntRange(1, 9).Draw(t, "steps") {
		// Mostly the last value, so that the nodes form chains.
		i := len(w.values) - 1 - min(len(w.values)-1, rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "back"))
		if s := w.shape[w.values[i]]; s[0] <= 128 {
			w.step(w.values[i])
		}
	}
	for i, v := range w.values[1:] {
		if i == len(w.values)-2 || rapid.IntRange(0, 4).Draw(t, "output") == 0 {
			w.b.Output(v, onnx.Float, append([]any{nil, nil}, axes[any](w, nil, nil)...)...)
		}
	}
	m := w.b.Must()
	if len(m.Graph.Outputs) == 0 {
		return nil, nil
	}
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, append([]int{batch, c}, axes(w, h, wd)...)...))
	for i, d := 0, tensor.MustData[float32](x); i < len(d); i++ {
		d[i] = float32(w.rng.NormFloat64())
	}
	return m, x
}
