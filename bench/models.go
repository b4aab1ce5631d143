package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// model is one benchmark model.
type model struct {
	group string
	name  string
	build func() *onnx.Model // nil for a file of the suite
	file  string
	args  []string // more arguments of onward bench
}

const (
	f32 = onnx.DataType(tensor.TypeFloat32)
	i64 = onnx.DataType(tensor.TypeInt64)
	u8  = onnx.DataType(tensor.TypeUint8)
	s8  = onnx.DataType(tensor.TypeInt8)
	i32 = onnx.DataType(tensor.TypeInt32)
)

// The groups of the table, in its order.
const (
	gNetworks = "Networks"
	gElem     = "Elementwise, reductions and moves"
	gMatMul   = "Matrix products"
	gConv     = "Convolutions"
	gQuant    = "Integers and small weights"
	gTrees    = "Trees"
	gTiny     = "Small graphs"
	gRNN      = "Recurrent"
)

// models are all models that are built here, with the sizes that
// docs/performance.md names.
func models() []model {
	var list []model
	add := func(group, name string, build func() *onnx.Model, args ...string) {
		list = append(list, model{group: group, name: name, build: build, args: args})
	}

	add(gNetworks, "MobileNetV2", mobileNetV2)
	add(gNetworks, "ResNet blocks, 64 to 512 channels", resNetBlocks)
	add(gNetworks, "BERT-base, 2 layers, S=128", func() *onnx.Model { return bert(2, 128, 768, 12) })

	for _, op := range []string{"Mish", "Softplus", "Elu", "Log", "Sin", "Erf", "Gelu", "Sigmoid", "Tanh", "Exp", "HardSwish", "Sqrt"} {
		add(gElem, op+" 64k", func() *onnx.Model { return one(op, nil, 65536) })
	}
	add(gElem, "Exp 4M", func() *onnx.Model { return one("Exp", nil, 4<<20) })
	add(gElem, "Relu 4M", func() *onnx.Model { return one("Relu", nil, 4<<20) })
	add(gElem, "Add 4M", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 4<<20).Input("y", f32, 4<<20).Output("z", f32, 4<<20)
		b.Node("Add", []string{"x", "y"}, []string{"z"})
		return b.Must()
	})
	add(gElem, "Softmax axis 1, 1×21×256²", func() *onnx.Model { return one("Softmax", onnx.Attrs{"axis": 1}, 1, 21, 256, 256) })
	add(gElem, "Softmax last axis, 1536×128", func() *onnx.Model { return one("Softmax", onnx.Attrs{"axis": -1}, 1536, 128) })
	add(gElem, "Transpose [3,2,1,0] 1M", func() *onnx.Model { return one("Transpose", onnx.Attrs{"perm": []int{3, 2, 1, 0}}, 32, 32, 32, 32) })
	add(gElem, "Transpose 1024²", func() *onnx.Model { return one("Transpose", onnx.Attrs{"perm": []int{1, 0}}, 1024, 1024) })
	add(gElem, "ReduceMax axis 0, 1024²", func() *onnx.Model { return reduce("ReduceMax", 0) })
	add(gElem, "ReduceSum axis 1, 1024²", func() *onnx.Model { return reduce("ReduceSum", 1) })
	add(gElem, "ReduceMean axis 0, 1024²", func() *onnx.Model { return reduce("ReduceMean", 0) })
	add(gElem, "ArgMax axis 1, 1024²", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 1024, 1024).Output("y", i64, 1024, 1)
		b.Node("ArgMax", []string{"x"}, []string{"y"}, onnx.Attrs{"axis": 1})
		return b.Must()
	})
	for _, op := range []string{"Less", "Equal"} {
		add(gElem, op+" 64k", func() *onnx.Model {
			b := begin()
			b.Input("x", f32, 64, 1024).Input("y", f32, 64, 1024).Output("z", onnx.DataType(tensor.TypeBool), 64, 1024)
			b.Node(op, []string{"x", "y"}, []string{"z"})
			return b.Must()
		})
	}
	add(gElem, "Where 64k", func() *onnx.Model {
		b := begin()
		b.Input("c", onnx.DataType(tensor.TypeBool), 64, 1024).Input("x", f32, 64, 1024).Input("y", f32, 64, 1024).Output("z", f32, 64, 1024)
		b.Node("Where", []string{"c", "x", "y"}, []string{"z"})
		return b.Must()
	})
	add(gElem, "ArgMax axis 0, 1024²", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 1024, 1024).Output("y", i64, 1, 1024)
		b.Node("ArgMax", []string{"x"}, []string{"y"}, onnx.Attrs{"axis": 0})
		return b.Must()
	})
	add(gElem, "CumSum axis 1, 512²", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 512, 512).Output("y", f32, 512, 512).Initializer("axis", int64(1))
		b.Node("CumSum", []string{"x", "axis"}, []string{"y"})
		return b.Must()
	})
	add(gElem, "Resize linear 1×16×64² ×2", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 1, 16, 64, 64).Output("y", f32, 1, 16, 128, 128).Initializer("s", []float32{1, 1, 2, 2})
		b.Node("Resize", []string{"x", "", "s"}, []string{"y"}, onnx.Attrs{"mode": "linear"})
		return b.Must()
	})
	add(gElem, "LayerNormalization 128×768", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 128, 768).Output("y", f32, 128, 768)
		w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
		b.Node("LayerNormalization", []string{"x", w.add(768), w.add(768)}, []string{"y"})
		return b.Must()
	})

	for _, n := range []int{64, 256, 512, 1024} {
		add(gMatMul, fmt.Sprintf("MatMul %d³", n), func() *onnx.Model { return matMul(n, n, n) })
	}
	add(gMatMul, "MatMul 128×768×768", func() *onnx.Model { return matMul(128, 768, 768) })
	add(gMatMul, "MatMul 128×768×3072", func() *onnx.Model { return matMul(128, 768, 3072) })
	add(gMatMul, "MatMul 1×4096×4096", func() *onnx.Model { return matMul(1, 4096, 4096) })
	add(gMatMul, "MatMul of two inputs, 12×128×64×128", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 12, 128, 64).Input("y", f32, 12, 64, 128).Output("z", f32, 12, 128, 128)
		b.Node("MatMul", []string{"x", "y"}, []string{"z"})
		return b.Must()
	})

	for _, c := range []conv{
		{in: 64, out: 64, size: 56, k: 3}, {in: 128, out: 128, size: 28, k: 3}, {in: 256, out: 256, size: 14, k: 3}, {in: 512, out: 512, size: 7, k: 3},
		{in: 64, out: 64, size: 224, k: 3}, {in: 512, out: 512, size: 14, k: 3},
		{in: 3, out: 64, size: 224, k: 7, stride: 2}, {in: 128, out: 128, size: 56, k: 3, stride: 2},
		{in: 64, out: 256, size: 56, k: 1}, {in: 256, out: 64, size: 56, k: 1}, {in: 1024, out: 256, size: 14, k: 1},
		{in: 96, out: 96, size: 112, k: 3, stride: 2, group: 96}, {in: 384, out: 384, size: 14, k: 3, group: 384}, {in: 960, out: 960, size: 7, k: 3, group: 960},
		{in: 128, out: 128, size: 56, k: 3, group: 32}, {in: 20, out: 20, size: 56, k: 3}, {in: 24, out: 88, size: 28, k: 1}, {in: 40, out: 120, size: 28, k: 5},
	} {
		add(gConv, c.String(), c.model)
	}
	add(gConv, "3-D 16→32 3³ 16×28²", func() *onnx.Model {
		b := begin()
		w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
		b.Input("x", f32, 1, 16, 16, 28, 28).Output("y", f32, 1, 32, 16, 28, 28)
		b.Node("Conv", []string{"x", w.add(32, 16, 3, 3, 3), w.add(32)}, []string{"y"}, onnx.Attrs{"pads": []int{1, 1, 1, 1, 1, 1}})
		return b.Must()
	})
	add(gConv, "1-D depthwise 256 k31, 400", func() *onnx.Model {
		b := begin()
		w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
		b.Input("x", f32, 1, 256, 400).Output("y", f32, 1, 256, 400)
		b.Node("Conv", []string{"x", w.add(256, 1, 31), w.add(256)}, []string{"y"}, onnx.Attrs{"pads": []int{15, 15}, "group": 256})
		return b.Must()
	})
	add(gConv, "ConvTranspose 64→32 4² s2, 28²", func() *onnx.Model {
		b := begin()
		w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
		b.Input("x", f32, 1, 64, 28, 28).Output("y", f32, 1, 32, 56, 56)
		b.Node("ConvTranspose", []string{"x", w.add(64, 32, 4, 4), w.add(32)}, []string{"y"}, onnx.Attrs{"pads": []int{1, 1, 1, 1}, "strides": []int{2, 2}})
		return b.Must()
	})

	for _, k := range [][2]onnx.DataType{{u8, s8}, {s8, s8}, {u8, u8}} {
		add(gQuant, fmt.Sprintf("MatMulInteger %s·%s 512³", tensor.DType(k[0]), tensor.DType(k[1])), func() *onnx.Model { return matMulInteger(k[0], k[1]) })
	}
	for _, c := range []conv{
		{in: 64, out: 64, size: 56, k: 3}, {in: 128, out: 128, size: 28, k: 3}, {in: 256, out: 256, size: 14, k: 3}, {in: 512, out: 512, size: 7, k: 3},
		{in: 128, out: 128, size: 56, k: 3, stride: 2}, {in: 64, out: 256, size: 56, k: 1}, {in: 256, out: 64, size: 56, k: 1},
		{in: 3, out: 64, size: 224, k: 7, stride: 2}, {in: 96, out: 96, size: 56, k: 3, group: 96},
	} {
		add(gQuant, "QLinearConv u8·s8 "+c.String(), c.quantized)
	}
	add(gNetworks, "ResNet blocks, 8-bit (QDQ)", quantizedResNetBlocks)
	for _, c := range []struct{ bits, acc, m int }{{4, 4, 1}, {4, 0, 1}, {8, 0, 1}, {4, 4, 128}} {
		add(gQuant, fmt.Sprintf("MatMulNBits %d-bit acc%d M=%d 4096²", c.bits, c.acc, c.m), func() *onnx.Model { return matMulNBits(c.bits, c.acc, c.m, 4096) })
	}

	for _, rows := range []int{1, 10, 100, 1000} {
		add(gTrees, fmt.Sprintf("100 trees of depth 6, %d rows", rows), func() *onnx.Model { return trees(100, 6, rows) })
	}

	add(gTiny, "chain of 100 Add and Mul of 4", func() *onnx.Model {
		b := begin()
		b.Input("x", f32, 4).Output("v100", f32, 4)
		b.Initializer("a", []float32{.5, .25, .125, 1}).Initializer("m", []float32{.5, 1, .25, .75})
		at := "x"
		for i := range 100 {
			op, c := "Add", "a"
			if i%2 == 1 {
				op, c = "Mul", "m"
			}
			next := fmt.Sprintf("v%d", i+1)
			b.Node(op, []string{at, c}, []string{next})
			at = next
		}
		return b.Must()
	})
	add(gTiny, "MLP 784-512-256-10, batch 1", func() *onnx.Model { return mlp(1) })
	add(gTiny, "MLP 784-512-256-10, batch 64", func() *onnx.Model { return mlp(64) })
	list = append(list, model{group: gTiny, name: "logreg_iris", file: "logreg_iris.onnx"})

	add(gRNN, "LSTM T=100, 128→256", func() *onnx.Model { return recurrent("LSTM", 4) })
	add(gRNN, "GRU T=100, 128→256", func() *onnx.Model { return recurrent("GRU", 3) })
	return list
}

func seeded() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

func begin() *onnx.ModelBuilder { return onnx.NewModel("bench").Opset("", 20).IRVersion(9) }

// weights adds initializers of random numbers.
type weights struct {
	*onnx.GraphBuilder
	rng *rand.Rand
	n   int
}

// add adds one of a standard deviation that keeps activations near one, and returns
// its name.
func (w *weights) add(dims ...int) string {
	total, fan := 1, 1
	d := make([]int64, len(dims))
	for i, n := range dims {
		total *= n
		if i > 0 {
			fan *= n
		}
		d[i] = int64(n)
	}
	data := make([]float32, total)
	scale := float32(1 / math.Sqrt(float64(fan)))
	for i := range data {
		data[i] = (w.rng.Float32()*2 - 1) * 1.7 * scale
	}
	w.n++
	name := fmt.Sprintf("w%d", w.n)
	w.Initializer(name, data, d...)
	return name
}

func anys(dims []int) []any {
	r := make([]any, len(dims))
	for i, d := range dims {
		r[i] = d
	}
	return r
}

// one is a model of one node on random numbers from 0 to 1.
func one(op string, attrs onnx.Attrs, dims ...int) *onnx.Model {
	b := begin()
	out := dims
	if perm, ok := attrs["perm"].([]int); ok {
		out = make([]int, len(dims))
		for i, p := range perm {
			out[i] = dims[p]
		}
	}
	b.Input("x", f32, anys(dims)...).Output("y", f32, anys(out)...)
	b.Node(op, []string{"x"}, []string{"y"}, attrs)
	return b.Must()
}

func reduce(op string, axis int) *onnx.Model {
	b := begin()
	out := []any{1, 1024}
	if axis == 1 {
		out = []any{1024, 1}
	}
	b.Input("x", f32, 1024, 1024).Output("y", f32, out...).Initializer("axes", []int64{int64(axis)})
	b.Node(op, []string{"x", "axes"}, []string{"y"})
	return b.Must()
}

func matMul(m, k, n int) *onnx.Model {
	b := begin()
	w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
	b.Input("x", f32, m, k).Output("y", f32, m, n)
	b.Node("MatMul", []string{"x", w.add(k, n)}, []string{"y"})
	return b.Must()
}

// conv is a convolution with a bias over a square picture, padded to keep its size.
type conv struct{ in, out, size, k, stride, group int }

func (c conv) String() string {
	s := fmt.Sprintf("%d→%d %d² %d@%d", c.in, c.out, c.k, c.in, c.size)
	if c.stride > 1 {
		s += fmt.Sprintf(" s%d", c.stride)
	}
	if c.group > 1 {
		s += fmt.Sprintf(" g%d", c.group)
	}
	return s
}

func (c conv) model() *onnx.Model {
	b := begin()
	w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
	stride, group, pad := max(c.stride, 1), max(c.group, 1), c.k/2
	size := (c.size+2*pad-c.k)/stride + 1
	b.Input("x", f32, 1, c.in, c.size, c.size).Output("y", f32, 1, c.out, size, size)
	b.Node("Conv", []string{"x", w.add(c.out, c.in/group, c.k, c.k), w.add(c.out)}, []string{"y"},
		onnx.Attrs{"pads": []int{pad, pad, pad, pad}, "strides": []int{stride, stride}, "group": group})
	return b.Must()
}

// net builds a network of convolutions.
type net struct {
	*onnx.ModelBuilder
	weights
	at    string // the value that the next layer reads
	next  int
	clips bool // the bounds of relu6 are there
}

func newNet(size int) *net {
	b := begin()
	b.Input("x", f32, 1, 3, size, size)
	return &net{ModelBuilder: b, weights: weights{GraphBuilder: b.GraphBuilder, rng: seeded()}, at: "x"}
}

func (n *net) node(op string, attrs onnx.Attrs, inputs ...string) string {
	n.next++
	out := fmt.Sprintf("t%d", n.next)
	n.ModelBuilder.Node(op, inputs, []string{out}, attrs)
	n.at = out
	return out
}

// conv adds a convolution with its BatchNormalization, which any engine folds.
func (n *net) conv(in, out, k, stride, group int) string {
	pad := k / 2
	c := n.node("Conv", onnx.Attrs{"pads": []int{pad, pad, pad, pad}, "strides": []int{stride, stride}, "group": group}, n.at, n.weights.add(out, in/group, k, k))
	one := make([]float32, out)
	for i := range one {
		one[i] = 1
	}
	scale, mean := fmt.Sprintf("scale%d", n.next), fmt.Sprintf("mean%d", n.next)
	n.ModelBuilder.Initializer(scale, one).Initializer(mean, make([]float32, out))
	return n.node("BatchNormalization", nil, c, scale, mean, mean, scale)
}

func (n *net) relu() string { return n.node("Relu", nil, n.at) }

func (n *net) relu6() string {
	if !n.clips {
		n.clips = true
		n.ModelBuilder.Initializer("zero", float32(0)).Initializer("six", float32(6))
	}
	return n.node("Clip", nil, n.at, "zero", "six")
}

// classify ends a network of that many channels.
func (n *net) classify(channels, classes int) *onnx.Model {
	n.node("GlobalAveragePool", nil, n.at)
	n.node("Flatten", nil, n.at)
	n.node("Gemm", onnx.Attrs{"transB": 1}, n.at, n.weights.add(classes, channels), n.weights.add(classes))
	n.ModelBuilder.Output(n.at, f32, 1, classes)
	return n.Must()
}

// mobileNetV2 has the layers of MobileNetV2 1.0 at 224² (Sandler and others, 2018,
// table 2).
func mobileNetV2() *onnx.Model {
	n := newNet(224)
	n.conv(3, 32, 3, 2, 1)
	n.relu6()
	in := 32
	for _, s := range []struct{ expand, out, count, stride int }{
		{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
	} {
		for i := range s.count {
			stride := s.stride
			if i > 0 {
				stride = 1
			}
			from, mid := n.at, in*s.expand
			if s.expand > 1 {
				n.conv(in, mid, 1, 1, 1)
				n.relu6()
			}
			n.conv(mid, mid, 3, stride, mid)
			n.relu6()
			n.conv(mid, s.out, 1, 1, 1)
			if stride == 1 && in == s.out {
				n.node("Add", nil, from, n.at)
			}
			in = s.out
		}
	}
	n.conv(in, 1280, 1, 1, 1)
	n.relu6()
	return n.classify(1280, 1000)
}

// resNetBlocks has one strided and one plain basic block per stage, as ResNet-18
// does, after its stem.
func resNetBlocks() *onnx.Model {
	n := newNet(224)
	n.conv(3, 64, 7, 2, 1)
	n.relu()
	n.node("MaxPool", onnx.Attrs{"kernel_shape": []int{3, 3}, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}}, n.at)
	in := 64
	for _, out := range []int{64, 128, 256, 512} {
		for i := range 2 {
			from, stride := n.at, 1
			if i == 0 && out != in {
				stride = 2
			}
			n.conv(in, out, 3, stride, 1)
			n.relu()
			body := n.conv(out, out, 3, 1, 1)
			if stride != 1 || in != out {
				n.at = from
				from = n.conv(in, out, 1, stride, 1)
			}
			n.node("Add", nil, body, from)
			n.relu()
			in = out
		}
	}
	return n.classify(512, 1000)
}

// quantizedResNetBlocks has the convolutions of resNetBlocks with QuantizeLinear and
// DequantizeLinear around them, as the quantizers of ONNX Runtime and PyTorch write them.
func quantizedResNetBlocks() *onnx.Model {
	n := newNet(224)
	n.ModelBuilder.Initializer("as", float32(.02)).Initializer("az", uint8(128)).Initializer("ps", float32(.01)).Initializer("pz", uint8(0))
	signed := func() string {
		return n.node("DequantizeLinear", nil, n.node("QuantizeLinear", nil, n.at, "as", "az"), "as", "az")
	}
	positive := func() string { // after a Relu
		return n.node("DequantizeLinear", nil, n.node("QuantizeLinear", nil, n.at, "ps", "pz"), "ps", "pz")
	}
	conv := func(in, out, k, stride int) string {
		x := n.at
		n.next++
		w, s, z, b, bs := fmt.Sprintf("w%d", n.next), fmt.Sprintf("ws%d", n.next), fmt.Sprintf("wz%d", n.next), fmt.Sprintf("b%d", n.next), fmt.Sprintf("bs%d", n.next)
		scales, steps := make([]float32, out), make([]float32, out)
		from := float32(.01)
		if in == 3 {
			from = .02
		}
		for i := range scales {
			scales[i] = float32(1 / (73 * math.Sqrt(float64(in*k*k))) * (1 + .1*n.rng.Float64()))
			steps[i] = scales[i] * from
		}
		n.ModelBuilder.Initializer(w, bytesOf(w, s8, out*in*k*k, int64(out), int64(in), int64(k), int64(k))).Initializer(s, scales).Initializer(z, make([]int8, out))
		n.ModelBuilder.Initializer(b, make([]int32, out)).Initializer(bs, steps)
		wd := n.node("DequantizeLinear", onnx.Attrs{"axis": 0}, w, s, z)
		bd := n.node("DequantizeLinear", onnx.Attrs{"axis": 0}, b, bs)
		return n.node("Conv", onnx.Attrs{"pads": []int{k / 2, k / 2, k / 2, k / 2}, "strides": []int{stride, stride}}, x, wd, bd)
	}
	signed()
	conv(3, 64, 7, 2)
	n.relu()
	positive()
	n.node("MaxPool", onnx.Attrs{"kernel_shape": []int{3, 3}, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}}, n.at)
	positive()
	in := 64
	for _, out := range []int{64, 128, 256, 512} {
		for i := range 2 {
			from, stride := n.at, 1
			if i == 0 && out != in {
				stride = 2
			}
			conv(in, out, 3, stride)
			n.relu()
			positive()
			conv(out, out, 3, 1)
			body := signed()
			if stride != 1 || in != out {
				n.at = from
				conv(in, out, 1, stride)
				from = signed()
			}
			n.node("Add", nil, body, from)
			n.relu()
			positive()
			in = out
		}
	}
	n.node("GlobalAveragePool", nil, n.at)
	positive()
	n.node("Flatten", nil, n.at)
	n.node("Gemm", onnx.Attrs{"transB": 1}, n.at, n.weights.add(1000, 512), n.weights.add(1000))
	n.ModelBuilder.Output(n.at, f32, 1, 1000)
	return n.Must()
}

func mlp(batch int) *onnx.Model {
	b := begin()
	w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
	b.Input("x", f32, batch, 784).Output("y", f32, batch, 10)
	at := "x"
	for i, d := range [][2]int{{784, 512}, {512, 256}, {256, 10}} {
		out := fmt.Sprintf("g%d", i)
		b.Node("Gemm", []string{at, w.add(d[1], d[0]), w.add(d[1])}, []string{out}, onnx.Attrs{"transB": 1})
		if i < 2 {
			b.Node("Relu", []string{out}, []string{out + "r"})
			out += "r"
		}
		at = out
	}
	b.Node("Softmax", []string{at}, []string{"y"})
	return b.Must()
}

// bert has the encoder layers of BERT (Devlin and others, 2018), as exporters write
// them, without the embeddings.
func bert(layers, seq, width, heads int) *onnx.Model {
	b := begin()
	w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
	b.Input("x", f32, 1, seq, width).Output("y", f32, 1, seq, width)
	b.Initializer("split", []int64{0, 0, int64(heads), int64(width / heads)}).Initializer("join", []int64{0, 0, int64(width)})
	b.Initializer("root", float32(math.Sqrt(float64(width/heads))))
	n := 0
	node := func(op string, attrs onnx.Attrs, in ...string) string {
		n++
		out := fmt.Sprintf("t%d", n)
		b.Node(op, in, []string{out}, attrs)
		return out
	}
	dense := func(x string, in, out int) string {
		return node("Add", nil, node("MatMul", nil, x, w.add(in, out)), w.add(out))
	}
	head := func(x string, perm []int) string {
		return node("Transpose", onnx.Attrs{"perm": perm}, node("Reshape", nil, dense(x, width, width), "split"))
	}
	x := "x"
	for range layers {
		q, k, v := head(x, []int{0, 2, 1, 3}), head(x, []int{0, 2, 3, 1}), head(x, []int{0, 2, 1, 3})
		p := node("Softmax", onnx.Attrs{"axis": -1}, node("Div", nil, node("MatMul", nil, q, k), "root"))
		a := node("Reshape", nil, node("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}}, node("MatMul", nil, p, v)), "join")
		x = node("LayerNormalization", nil, node("Add", nil, dense(a, width, width), x), w.add(width), w.add(width))
		x = node("LayerNormalization", nil, node("Add", nil, dense(node("Gelu", nil, dense(x, width, 4*width)), 4*width, width), x), w.add(width), w.add(width))
	}
	b.Node("Identity", []string{x}, []string{"y"})
	return b.Must()
}

// bytesOf returns random bytes of an 8-bit type.
func bytesOf(name string, t onnx.DataType, n int, dims ...int64) *onnx.Tensor {
	rng := seeded()
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return &onnx.Tensor{Name: name, DataType: t, Dims: dims, RawData: raw}
}

func matMulInteger(x, y onnx.DataType) *onnx.Model {
	const n = 512
	b := begin()
	b.Input("x", x, n, n).Output("z", i32, n, n).Initializer("y", bytesOf("y", y, n*n, n, n))
	b.Node("MatMulInteger", []string{"x", "y"}, []string{"z"})
	return b.Must()
}

// quantized is the convolution of bytes.
func (c conv) quantized() *onnx.Model {
	b := begin()
	stride, group, pad := max(c.stride, 1), max(c.group, 1), c.k/2
	size := (c.size+2*pad-c.k)/stride + 1
	b.Input("x", u8, 1, c.in, c.size, c.size).Output("y", u8, 1, c.out, size, size)
	cg := c.in / group
	b.Initializer("w", bytesOf("w", s8, c.out*cg*c.k*c.k, int64(c.out), int64(cg), int64(c.k), int64(c.k))).Initializer("bias", make([]int32, c.out))
	b.Initializer("xs", float32(.02)).Initializer("ws", float32(.01)).Initializer("ys", float32(.5))
	b.Initializer("xz", uint8(128)).Initializer("wz", int8(0)).Initializer("yz", uint8(128))
	b.Node("QLinearConv", []string{"x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "bias"}, []string{"y"},
		onnx.Attrs{"pads": []int{pad, pad, pad, pad}, "strides": []int{stride, stride}, "group": group})
	return b.Must()
}

func matMulNBits(bits, accuracy, m, n int) *onnx.Model {
	const block = 32
	b := begin().Opset("com.microsoft", 1)
	b.Input("x", f32, m, n).Output("y", f32, m, n)
	blob := block * bits / 8
	b.Initializer("w", bytesOf("w", u8, n*(n/block)*blob, int64(n), int64(n/block), int64(blob)))
	scales := make([]float32, n*n/block)
	for i := range scales {
		scales[i] = 1.0 / 1024
	}
	b.Initializer("s", scales)
	b.Node("MatMulNBits", []string{"x", "w", "s"}, []string{"y"}, onnx.Attrs{"K": n, "N": n, "bits": bits, "block_size": block, "accuracy_level": accuracy}).Domain("com.microsoft")
	return b.Must()
}

// trees is a forest of full trees over 30 features.
func trees(count, depth, rows int) *onnx.Model {
	const features = 30
	rng := seeded()
	var ids, trees, feature, yes, no, leafTree, leafNode, leafID []int64
	var value, leaf []float32
	var mode []string
	inner := 1<<depth - 1
	for t := range int64(count) {
		for i := range int64(2*inner + 1) {
			ids, trees = append(ids, i), append(trees, t)
			if i < int64(inner) {
				mode, feature, value = append(mode, "BRANCH_LEQ"), append(feature, rng.Int64N(features)), append(value, rng.Float32())
				yes, no = append(yes, 2*i+1), append(no, 2*i+2)
				continue
			}
			mode, feature, value, yes, no = append(mode, "LEAF"), append(feature, 0), append(value, 0), append(yes, 0), append(no, 0)
			leafTree, leafNode, leafID, leaf = append(leafTree, t), append(leafNode, i), append(leafID, 0), append(leaf, rng.Float32()-.5)
		}
	}
	b := begin().Opset("ai.onnx.ml", 3)
	b.Input("x", f32, rows, features).Output("y", f32, rows, 1)
	b.Node("TreeEnsembleRegressor", []string{"x"}, []string{"y"}, onnx.Attrs{"n_targets": 1, "nodes_nodeids": ids, "nodes_treeids": trees,
		"nodes_featureids": feature, "nodes_values": value, "nodes_modes": mode, "nodes_truenodeids": yes, "nodes_falsenodeids": no,
		"target_treeids": leafTree, "target_nodeids": leafNode, "target_ids": leafID, "target_weights": leaf}).Domain("ai.onnx.ml")
	return b.Must()
}

func recurrent(op string, gates int) *onnx.Model {
	const steps, in, hidden = 100, 128, 256
	b := begin()
	w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
	b.Input("x", f32, steps, 1, in).Output("y", f32, steps, 1, 1, hidden)
	b.Node(op, []string{"x", w.add(1, gates*hidden, in), w.add(1, gates*hidden, hidden), w.add(1, 2*gates*hidden)}, []string{"y"}, onnx.Attrs{"hidden_size": hidden})
	return b.Must()
}
