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
	int8  bool     // quantized by onward quantize: 8-bit weights and activations
	args  []string // additional arguments of onward bench
}

// isNetwork reports whether the model is a whole network, which has a line of its own in the chart.
func (m *model) isNetwork() bool {
	return m.group == gNetworks || m.group == gInt8 || m.group == gFP16 || m.group == gBF16
}

const (
	f32 = onnx.DataType(tensor.TypeFloat32)
	i64 = onnx.DataType(tensor.TypeInt64)
	u8  = onnx.DataType(tensor.TypeUint8)
	s8  = onnx.DataType(tensor.TypeInt8)
	i32 = onnx.DataType(tensor.TypeInt32)
)

// The groups of the table, in order.
const (
	gNetworks = "Networks"
	gInt8     = "Networks in 8-bit integers"
	gFP16     = "Networks in float16"
	gBF16     = "Networks with --precision bfloat16"
	gElem     = "Elementwise, reductions and moves"
	gDecode   = "Decoding a token after 256"
	gMatMul   = "Matrix products"
	gConv     = "Convolutions"
	gQuant    = "Integers and small weights"
	gTrees    = "Trees"
	gTiny     = "Small graphs"
	gRNN      = "Recurrent"
)

// models returns the models that this program builds, with the sizes given in docs/performance.md.
func models() []model {
	var list []model
	add := func(group, name string, build func() *onnx.Model, args ...string) {
		list = append(list, model{group: group, name: name, build: build, args: args})
	}

	add(gNetworks, "MobileNetV2", mobileNetV2)
	add(gNetworks, "ResNet-18", func() *onnx.Model { return resNet(false, 2, 2, 2, 2) })
	add(gNetworks, "EfficientNet-B0", efficientNet)
	add(gNetworks, "U-Net, 256²", unet)
	add(gNetworks, "YOLO-like, 320²", yolo)
	add(gNetworks, "BERT-base, 2 layers, S=128", func() *onnx.Model { return bert(2, 128, 768, 12) })
	add(gNetworks, "BERT-base, 2 layers, S=16", func() *onnx.Model { return bert(2, 16, 768, 12) })
	add(gNetworks, "BERT-base, 2 layers, S=384", func() *onnx.Model { return bert(2, 384, 768, 12) })
	add(gNetworks, "ViT-base, 2 layers, 224²", vit)
	add(gNetworks, "Whisper-base encoder, 2 layers, 10 s", whisper)

	resNet50 := func() *onnx.Model { return resNet(true, 3, 4, 6, 3) }
	bert128 := func() *onnx.Model { return bert(2, 128, 768, 12) }
	for _, m := range []model{{name: "ResNet-50", build: resNet50}, {name: "MobileNetV2", build: mobileNetV2},
		{name: "BERT-base, 2 layers, S=128", build: bert128}} {
		m.group, m.int8 = gInt8, true
		list = append(list, m)
	}
	add(gInt8, "BERT-base, 2 layers, S=128, dynamic ranges", func() *onnx.Model {
		return encoder(2, 128, 768, 12, true, (*transformer).dynamic)
	})

	add(gFP16, "MobileNetV2", func() *onnx.Model { return inFloat16(mobileNetV2()) })
	add(gFP16, "ResNet-18", func() *onnx.Model { return inFloat16(resNet(false, 2, 2, 2, 2)) })
	add(gFP16, "BERT-base, 2 layers, S=128", func() *onnx.Model { return inFloat16(bert128()) })

	for _, m := range []model{{name: "ResNet-50", build: resNet50}, {name: "MobileNetV2", build: mobileNetV2},
		{name: "BERT-base, 2 layers, S=128", build: bert128},
		{name: "BERT-base, 2 layers, S=384", build: func() *onnx.Model { return bert(2, 384, 768, 12) }},
		{name: "ViT-base, 2 layers, 224²", build: vit}} {
		m.group, m.args = gBF16, []string{"--precision", "bfloat16"}
		list = append(list, m)
	}

	for _, op := range []string{"Mish", "Softplus", "Elu", "Log", "Sin", "Erf", "Gelu", "Sigmoid", "Tanh", "Exp",
		"HardSwish", "Sqrt"} {
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
	add(gElem, "Softmax axis 1, 1×21×256²", func() *onnx.Model {
		return one("Softmax", onnx.Attrs{"axis": 1}, 1, 21, 256, 256)
	})
	add(gElem, "Softmax last axis, 1536×128", func() *onnx.Model {
		return one("Softmax", onnx.Attrs{"axis": -1}, 1536, 128)
	})
	add(gElem, "Transpose [3,2,1,0] 1M", func() *onnx.Model {
		return one("Transpose", onnx.Attrs{"perm": []int{3, 2, 1, 0}}, 32, 32, 32, 32)
	})
	add(gElem, "Transpose 1024²", func() *onnx.Model {
		return one("Transpose", onnx.Attrs{"perm": []int{1, 0}}, 1024, 1024)
	})
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
		b.Input("c", onnx.DataType(tensor.TypeBool), 64, 1024).Input("x", f32, 64, 1024).Input("y", f32, 64, 1024).
			Output("z", f32, 64, 1024)
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
		{in: 64, out: 64, size: 56, k: 3}, {in: 128, out: 128, size: 28, k: 3}, {in: 256, out: 256, size: 14, k: 3},
		{in: 512, out: 512, size: 7, k: 3},
		{in: 64, out: 64, size: 224, k: 3}, {in: 512, out: 512, size: 14, k: 3},
		{in: 3, out: 64, size: 224, k: 7, stride: 2}, {in: 128, out: 128, size: 56, k: 3, stride: 2},
		{in: 64, out: 256, size: 56, k: 1}, {in: 256, out: 64, size: 56, k: 1}, {in: 1024, out: 256, size: 14, k: 1},
		{in: 96, out: 96, size: 112, k: 3, stride: 2, group: 96}, {in: 384, out: 384, size: 14, k: 3, group: 384},
		{in: 960, out: 960, size: 7, k: 3, group: 960},
		{in: 128, out: 128, size: 56, k: 3, group: 32}, {in: 20, out: 20, size: 56, k: 3},
		{in: 24, out: 88, size: 28, k: 1}, {in: 40, out: 120, size: 28, k: 5},
	} {
		add(gConv, c.String(), c.model)
	}
	add(gConv, "3-D 16→32 3³ 16×28²", func() *onnx.Model {
		b := begin()
		w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
		b.Input("x", f32, 1, 16, 16, 28, 28).Output("y", f32, 1, 32, 16, 28, 28)
		b.Node("Conv", []string{"x", w.add(32, 16, 3, 3, 3), w.add(32)}, []string{"y"},
			onnx.Attrs{"pads": []int{1, 1, 1, 1, 1, 1}})
		return b.Must()
	})
	add(gConv, "1-D depthwise 256 k31, 400", func() *onnx.Model {
		b := begin()
		w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
		b.Input("x", f32, 1, 256, 400).Output("y", f32, 1, 256, 400)
		b.Node("Conv", []string{"x", w.add(256, 1, 31), w.add(256)}, []string{"y"},
			onnx.Attrs{"pads": []int{15, 15}, "group": 256})
		return b.Must()
	})
	add(gConv, "ConvTranspose 64→32 4² s2, 28²", func() *onnx.Model {
		b := begin()
		w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
		b.Input("x", f32, 1, 64, 28, 28).Output("y", f32, 1, 32, 56, 56)
		b.Node("ConvTranspose", []string{"x", w.add(64, 32, 4, 4), w.add(32)}, []string{"y"},
			onnx.Attrs{"pads": []int{1, 1, 1, 1}, "strides": []int{2, 2}})
		return b.Must()
	})

	for _, k := range [][2]onnx.DataType{{u8, s8}, {s8, s8}, {u8, u8}} {
		add(gQuant, fmt.Sprintf("MatMulInteger %s·%s 512³", tensor.DType(k[0]), tensor.DType(k[1])),
			func() *onnx.Model { return matMulInteger(k[0], k[1]) })
	}
	for _, c := range []conv{
		{in: 64, out: 64, size: 56, k: 3}, {in: 128, out: 128, size: 28, k: 3}, {in: 256, out: 256, size: 14, k: 3},
		{in: 512, out: 512, size: 7, k: 3},
		{in: 128, out: 128, size: 56, k: 3, stride: 2}, {in: 64, out: 256, size: 56, k: 1},
		{in: 256, out: 64, size: 56, k: 1},
		{in: 3, out: 64, size: 224, k: 7, stride: 2}, {in: 96, out: 96, size: 56, k: 3, group: 96},
	} {
		add(gQuant, "QLinearConv u8·s8 "+c.String(), c.quantized)
	}
	add(gDecode, "GPT-2, 4 layers, fp32", func() *onnx.Model { return gpt2(4, 256, 768, 12) })
	for _, k := range []struct {
		name  string
		dense dense
	}{
		{"fp32", (*transformer).plain}, {"fp16 weights", (*transformer).half},
		{"8-bit (dynamic)", (*transformer).dynamic},
		{"4-bit, accuracy level 4", nbits(4, 4)}, {"4-bit, default accuracy", nbits(4, 0)},
	} {
		add(gDecode, "Llama-like, 3 layers of 1024, "+k.name, func() *onnx.Model { return llama(3, 256, k.dense) })
	}
	for _, c := range []struct{ bits, acc, m int }{{4, 4, 1}, {4, 0, 1}, {8, 0, 1}, {4, 4, 128}, {8, 4, 1}, {8, 4, 4},
		{8, 4, 32}, {8, 4, 128}} {
		var args []string
		if c.acc == 0 {
			// its default rounds activations to 8 bits
			args = []string{"--option", "openvino/DYNAMIC_QUANTIZATION_GROUP_SIZE=0"}
		}
		add(gQuant, fmt.Sprintf("MatMulNBits %d-bit acc%d M=%d 4096²", c.bits, c.acc, c.m), func() *onnx.Model {
			return matMulNBits(c.bits, c.acc, c.m, 4096)
		}, args...)
	}

	for _, rows := range []int{1, 10, 100, 1000} {
		add(gTrees, fmt.Sprintf("100 trees of depth 6, %d rows", rows), func() *onnx.Model {
			return trees(100, 6, 1, rows)
		})
	}
	for _, rows := range []int{1, 1000, 10_000} {
		add(gTrees, fmt.Sprintf("500 trees of depth 8, %d rows", rows), func() *onnx.Model {
			return trees(500, 8, 1, rows)
		})
		add(gTrees, fmt.Sprintf("100 trees of depth 10, 10 targets, %d rows", rows), func() *onnx.Model {
			return trees(100, 10, 10, rows)
		})
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

// weights adds initializers with random values.
type weights struct {
	*onnx.GraphBuilder
	rng *rand.Rand
	n   int
}

// add adds an initializer whose standard deviation keeps activations near one, and returns its
// name.
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

// one returns a model of one node for random inputs in [0, 1].
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

// conv is a convolution with a bias over a square image, padded to keep the size.
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

// inFloat16 changes the weights, inputs and outputs of a model from float32 to float16.
func inFloat16(m *onnx.Model) *onnx.Model {
	for i, t := range m.Graph.Initializers {
		if t.DataType != f32 {
			continue
		}
		v, err := t.Decode(nil)
		if err == nil {
			v, err = tensor.Convert(v, tensor.TypeFloat16, nil)
		}
		if err != nil {
			panic(err) // the weights are those of this program
		}
		m.Graph.Initializers[i] = onnx.FromTensor(v)
		m.Graph.Initializers[i].Name = t.Name
	}
	for _, list := range [][]*onnx.ValueInfo{m.Graph.Inputs, m.Graph.Outputs} {
		for _, v := range list {
			if t := v.Type.Tensor; t.ElemType == f32 {
				t.ElemType = onnx.Float16
			}
		}
	}
	return m
}

// quantized returns the convolution in 8-bit integers.
func (c conv) quantized() *onnx.Model {
	b := begin()
	stride, group, pad := max(c.stride, 1), max(c.group, 1), c.k/2
	size := (c.size+2*pad-c.k)/stride + 1
	b.Input("x", u8, 1, c.in, c.size, c.size).Output("y", u8, 1, c.out, size, size)
	cg := c.in / group
	b.Initializer("w", bytesOf("w", s8, c.out*cg*c.k*c.k, int64(c.out), int64(cg), int64(c.k), int64(c.k))).
		Initializer("bias", make([]int32, c.out))
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
	b.Node("MatMulNBits", []string{"x", "w", "s"}, []string{"y"},
		onnx.Attrs{"K": n, "N": n, "bits": bits, "block_size": block, "accuracy_level": accuracy}).
		Domain("com.microsoft")
	return b.Must()
}

// trees returns a forest of full trees over 30 features. Each leaf has a weight for each target.
func trees(count, depth, targets, rows int) *onnx.Model {
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
				mode, feature, value = append(mode, "BRANCH_LEQ"), append(feature, rng.Int64N(features)),
					append(value, rng.Float32())
				yes, no = append(yes, 2*i+1), append(no, 2*i+2)
				continue
			}
			mode, feature, value, yes, no = append(mode, "LEAF"), append(feature, 0), append(value, 0),
				append(yes, 0), append(no, 0)
			for k := range int64(targets) {
				leafTree, leafNode, leafID, leaf = append(leafTree, t), append(leafNode, i), append(leafID, k),
					append(leaf, rng.Float32()-.5)
			}
		}
	}
	b := begin().Opset("ai.onnx.ml", 3)
	b.Input("x", f32, rows, features).Output("y", f32, rows, targets)
	b.Node("TreeEnsembleRegressor", []string{"x"}, []string{"y"},
		onnx.Attrs{"n_targets": targets, "nodes_nodeids": ids, "nodes_treeids": trees,
			"nodes_featureids": feature, "nodes_values": value, "nodes_modes": mode, "nodes_truenodeids": yes,
			"nodes_falsenodeids": no,
			"target_treeids":     leafTree, "target_nodeids": leafNode, "target_ids": leafID, "target_weights": leaf}).
		Domain("ai.onnx.ml")
	return b.Must()
}

func recurrent(op string, gates int) *onnx.Model {
	const steps, in, hidden = 100, 128, 256
	b := begin()
	w := weights{GraphBuilder: b.GraphBuilder, rng: seeded()}
	b.Input("x", f32, steps, 1, in).Output("y", f32, steps, 1, 1, hidden)
	b.Node(op, []string{"x", w.add(1, gates*hidden, in), w.add(1, gates*hidden, hidden), w.add(1, 2*gates*hidden)},
		[]string{"y"}, onnx.Attrs{"hidden_size": hidden})
	return b.Must()
}
