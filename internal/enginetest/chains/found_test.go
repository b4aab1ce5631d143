package chains

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The tests below are bugs that TestRandomChains has found, reduced to the fewest nodes.

// rampOf returns a tensor of small, distinct numbers.
func rampOf(dims ...int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(tensor.TypeFloat32, dims...))
	for i := range tensor.MustData[float32](t) {
		tensor.MustData[float32](t)[i] = float32((i*37+11)%64)/32 - 1 + float32(i)/4096
	}
	return t
}

// sameOnCPU compares cpu with reference on a model, with each feed in turn.
func sameOnCPU(t *testing.T, b *onnx.ModelBuilder, feeds ...onward.Values) {
	t.Helper()
	m, err := b.Model()
	enginetest.Must(t, err)
	ref, err := onward.OpenModel(t.Context(), m, enginetest.On("reference"))
	enginetest.Must(t, err)
	defer ref.Close()
	for _, level := range []onward.OptimizationLevel{onward.OptimizeAll, onward.OptimizeExtended, onward.OptimizeBasic,
		onward.OptimizeNone} {
		s, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{OptimizationLevel: level})
		enginetest.Must(t, err)
		for i, f := range feeds {
			want, err := ref.Run(context.Background(), f, nil)
			enginetest.Must(t, err)
			got, err := s.Run(context.Background(), f, nil)
			if err != nil {
				t.Errorf("level %s, feed %d: %v", level, i, err)
				continue
			}
			for name, w := range want {
				if err := tensor.AllClose(got[name], w, 1e-4, 1e-5*scale(w)); err != nil {
					t.Errorf("level %s, feed %d: output %s: %v", level, i, name, err)
				}
			}
		}
		s.Close()
	}
}

// scale returns the largest finite magnitude of a tensor of float32, at least 1: Winograd's
// algorithm rounds in proportion to it, also where a sum cancels out.
func scale(v tensor.Value) float64 {
	most := 1.0
	if t, ok := v.(*tensor.Tensor); ok && t.DType() == tensor.TypeFloat32 {
		for _, x := range tensor.MustData[float32](t) {
			if a := math.Abs(float64(x)); a < math.Inf(1) {
				most = max(most, a)
			}
		}
	}
	return most
}

// Folded weights may be packed in place, but not for a Gemm that is not rewritten because
// its C is not a row.
func TestGemmWithScalarCKeepsItsWeights(t *testing.T) {
	for _, c := range []*tensor.Tensor{tensor.Scalar(float32(0.3)), rampOf(3, 1)} {
		b := onnx.NewModel("m").Opset("", 17)
		b.Input("x", onnx.Float, 3, 5)
		b.Initializer("w0", onnx.FromTensor(rampOf(64, 5))).Initializer("c", onnx.FromTensor(c))
		b.Node("Identity", []string{"w0"}, []string{"w"})
		b.Node("Gemm", []string{"x", "w", "c"}, []string{"y"}, onnx.Attrs{"transB": 1})
		b.Output("y", onnx.Float, 3, 64)
		sameOnCPU(t, b, onward.Values{"x": rampOf(3, 5)})
	}
}

// An optimized model keeps the declared shape of a Loop's output for a loop without
// iterations.
func TestLoopWithoutIterationsIsWritten(t *testing.T) {
	g := onnx.NewGraph("body")
	g.Input("i", onnx.Int64).Input("c", onnx.Bool).Input("v", onnx.Float, 1)
	g.Node("Add", []string{"v", "v"}, []string{"w"})
	g.Node("Identity", []string{"w"}, []string{"each"})
	g.Node("Identity", []string{"c"}, []string{"go"})
	g.Output("go", onnx.Bool).Output("w", onnx.Float, 1).Output("each", onnx.Float, 1)
	body, err := g.Graph()
	enginetest.Must(t, err)
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 1).Input("k", onnx.Bool)
	b.Node("Loop", []string{"", "k", "x"}, []string{"y", "all"}, onnx.Attrs{"body": body})
	b.Output("y", onnx.Float, 1).Output("all", onnx.Float, nil, nil)
	m, _, err := onward.OptimizeModel(context.Background(), b.Must(), nil)
	enginetest.Must(t, err)
	s, err := onward.OpenModel(t.Context(), m, enginetest.On("reference"))
	enginetest.Must(t, err)
	defer s.Close()
	out, err := s.Run(context.Background(), onward.Values{"x": rampOf(1), "k": tensor.Scalar(false)}, nil)
	enginetest.Must(t, err)
	if got := out["all"].(*tensor.Tensor).Shape(); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("the output has shape %v, want [0 1]", got)
	}
}

// TestLoopKeepsCarriedValues runs a Loop that carries a weight, an input and a computed value
// unchanged, and reads them afterwards, some times and never.
func TestLoopKeepsCarriedValues(t *testing.T) {
	g := onnx.NewGraph("body")
	g.Input("i", onnx.Int64).Input("c", onnx.Bool)
	for _, name := range []string{"a", "k", "s", "r"} {
		g.Input(name, onnx.Float, 5)
	}
	g.Node("Mul", []string{"s", "k"}, []string{"p"})
	g.Node("Sub", []string{"p", "a"}, []string{"q"})
	g.Node("Add", []string{"q", "r"}, []string{"t"})
	g.Node("Identity", []string{"r"}, []string{"each"})
	g.Output("c", onnx.Bool)
	for _, name := range []string{"a", "k", "t", "r", "each"} {
		g.Output(name, onnx.Float, 5)
	}
	body, err := g.Graph()
	enginetest.Must(t, err)
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 5).Input("n", onnx.Int64)
	b.Initializer("w", onnx.FromTensor(rampOf(5)))
	b.Node("Neg", []string{"x"}, []string{"z"})
	b.Node("Loop", []string{"n", "", "x", "w", "z", "z"}, []string{"a", "k", "y", "r", "all"}, onnx.Attrs{"body": body})
	for _, name := range []string{"a", "k", "y", "r"} {
		b.Output(name, onnx.Float, 5)
	}
	b.Output("all", onnx.Float, nil, 5)
	for _, n := range []int64{0, 1, 4} {
		sameOnCPU(t, b, onward.Values{"x": rampOf(5), "n": tensor.Scalar(n)})
	}
}

// This model multiplies quantized tensors without zero points; the result is a float.
func TestProductOfQuantizedWithoutZeroPoints(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Uint8, "N", 5)
	b.Initializer("s", float32(0.1)).
		Initializer("w", onnx.FromTensor(tensor.Must(tensor.New([]int8{1, -2, 3, 4, -5, 6, 7, 8, 9, -10}, 5, 2))))
	b.Node("DequantizeLinear", []string{"x", "s"}, []string{"a"})
	b.Node("DequantizeLinear", []string{"w", "s"}, []string{"v"})
	b.Node("MatMul", []string{"a", "v"}, []string{"y"})
	b.Output("y", onnx.Float, "N", 2)
	x := tensor.Must(tensor.New([]uint8{1, 2, 3, 4, 5, 250, 7, 8, 9, 0}, 2, 5))
	sameOnCPU(t, b, onward.Values{"x": x})
}

// The size that -1 stands for must be the same for an empty batch, since a plan serves
// all batch sizes.
func TestReshapeOfAnEmptyBatch(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, "N", 6)
	b.Initializer("shape", []int64{0, 2, 1, -1}).Initializer("w", onnx.FromTensor(rampOf(3, 2, 1, 1)))
	b.Node("Reshape", []string{"x", "shape"}, []string{"i"})
	b.Node("Conv", []string{"i", "w"}, []string{"y"})
	b.Output("y", onnx.Float, "N", 3, 1, 3)
	sameOnCPU(t, b, onward.Values{"x": rampOf(2, 6)}, onward.Values{"x": rampOf(0, 6)},
		onward.Values{"x": rampOf(1, 6)})
}

// PyTorch's exporter writes the batch and -1 into a shape, with allowzero. ONNX Runtime runs such
// models on an empty batch.
func TestReshapeOfAnEmptyBatchWithAllowZero(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, "N", 2, 3)
	b.Initializer("zero", []int64{0}).Initializer("rest", []int64{-1}).
		Initializer("w", onnx.FromTensor(rampOf(6, 4)))
	b.Node("Shape", []string{"x"}, []string{"shape"})
	b.Node("Gather", []string{"shape", "zero"}, []string{"n"})
	b.Node("Concat", []string{"n", "rest"}, []string{"to"}, onnx.Attrs{"axis": 0})
	b.Node("Reshape", []string{"x", "to"}, []string{"flat"}, onnx.Attrs{"allowzero": 1})
	b.Node("MatMul", []string{"flat", "w"}, []string{"y"})
	b.Output("y", onnx.Float, "N", 4)
	sameOnCPU(t, b, onward.Values{"x": rampOf(2, 2, 3)}, onward.Values{"x": rampOf(0, 2, 3)},
		onward.Values{"x": rampOf(1, 2, 3)})
}

// An empty activation name is an error, as in ONNX Runtime.
func TestFusedConvWithAnEmptyActivation(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).Opset("com.microsoft", 1)
	b.Input("x", onnx.Float, 1, 2, 3, 3)
	b.Initializer("w", onnx.FromTensor(rampOf(3, 2, 1, 1)))
	b.Node("FusedConv", []string{"x", "w"}, []string{"y"}, onnx.Attrs{"activation": ""}).Domain("com.microsoft")
	b.Output("y", onnx.Float, 1, 3, 3, 3)
	if _, err := onward.OpenModel(t.Context(), b.Must(), nil); err == nil ||
		!strings.Contains(err.Error(), "activation must not be empty") {
		t.Errorf("got %v, want an error for the empty activation", err)
	}
}

// A replay also computes the activation.
func TestFusedGemmRunsAgain(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).Opset("com.microsoft", 1)
	b.Input("x", onnx.Float, 2, 3)
	b.Initializer("w", onnx.FromTensor(rampOf(3, 4))).Initializer("c", onnx.FromTensor(rampOf(2, 4)))
	b.Node("FusedGemm", []string{"x", "w", "c"}, []string{"y"}, onnx.Attrs{"activation": "Sigmoid"}).
		Domain("com.microsoft")
	b.Output("y", onnx.Float, 2, 4)
	feed := onward.Values{"x": rampOf(2, 3)}
	sameOnCPU(t, b, feed, feed, feed, feed)
}

// An exponent of another type is converted for each run: a replay must not read the memory
// that it was converted in.
func TestPowOfAnotherTypeRunsAgain(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 2, 3).Input("z", onnx.Float16, 40)
	b.Initializer("e", []int64{1, 2, 3}).Initializer("f", float32(2))
	b.Node("Pow", []string{"x", "e"}, []string{"y"})
	b.Node("Pow", []string{"z", "f"}, []string{"w"}) // reuses that memory
	b.Output("y", onnx.Float, 2, 3).Output("w", onnx.Float16, 40)
	x := tensor.Must(tensor.New([]float32{2, 3, 4, -5, 6, 7}, 2, 3))
	z := tensor.Must(tensor.Zeros(tensor.TypeFloat16, 40))
	feed := onward.Values{"x": x, "z": z}
	sameOnCPU(t, b, feed, feed, feed, feed, onward.Values{"x": rampOf(2, 3), "z": z})
}

// A value whose size differs from that in the captured run counts once against the memory
// limit, and is released.
func TestSizeThatContentsDecideChanges(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("n", onnx.Int64)
	b.Initializer("zero", int64(0)).Initializer("one", int64(1))
	b.Node("Range", []string{"zero", "n", "one"}, []string{"r"})
	b.Node("Cast", []string{"r"}, []string{"x"}, onnx.Attrs{"to": int(onnx.Float)})
	b.Node("Exp", []string{"x"}, []string{"e"})
	b.Node("ReduceSum", []string{"e"}, []string{"y"})
	b.Output("y", onnx.Float, nil)
	var feeds []onward.Values
	for _, n := range []int64{3, 3, 3, 100000, 50, 3, 3, 3, 20, 3} {
		feeds = append(feeds, onward.Values{"n": tensor.Scalar(n)})
	}
	sameOnCPU(t, b, feeds...)
}

// A Pad that repeats the edge must not read its constant_value, which is still a float
// after the other inputs have become int8.
func TestQuantizedPadOfTheEdge(t *testing.T) {
	for _, mode := range []string{"edge", "reflect", "constant"} {
		b := onnx.NewModel("m").Opset("", 17)
		b.Input("x", onnx.Float, 3, 5)
		b.Initializer("scale", []float32{0.01}).Initializer("zero", []int8{3}).Initializer("value", []float32{0})
		b.Initializer("pads", []int64{0, 1, 1, 2}, 4)
		b.Node("QuantizeLinear", []string{"x", "scale", "zero"}, []string{"q"})
		b.Node("DequantizeLinear", []string{"q", "scale", "zero"}, []string{"d"})
		b.Node("Pad", []string{"d", "pads", "value"}, []string{"p"}, onnx.Attrs{"mode": mode})
		b.Node("QuantizeLinear", []string{"p", "scale", "zero"}, []string{"r"})
		b.Node("DequantizeLinear", []string{"r", "scale", "zero"}, []string{"y"})
		b.Output("y", onnx.Float, 4, 8)
		sameOnCPU(t, b, onward.Values{"x": rampOf(3, 5)})
	}
}

// Blocks of 16 channels hold several groups, and padding: neither may turn an
// infinity into NaN elsewhere.
func TestInfinityStaysInItsChannels(t *testing.T) {
	for _, c := range []struct{ in, mid, out, group, kernel int }{{16, 5, 7, 1, 1}, {6, 17, 9, 1, 5}, {3, 6, 5, 1, 3},
		{16, 16, 16, 4, 3}, {24, 48, 12, 6, 3}, {24, 24, 24, 3, 1}, {40, 40, 10, 2, 3}} {
		b := onnx.NewModel("m").Opset("", 17)
		b.Input("x", onnx.Float, 1, c.in, 12, 12)
		w0 := rampOf(c.mid, c.in/c.group, c.kernel, c.kernel)
		per := w0.Len() / c.mid
		for i := range c.mid { // no output becomes +Inf, and ReLU removes -Inf
			for k := range c.kernel * c.kernel {
				tensor.MustData[float32](w0)[i*per+k] = -0.1
			}
		}
		b.Initializer("w0", onnx.FromTensor(w0)).Initializer("w1", onnx.FromTensor(rampOf(c.out, c.mid, 3, 3)))
		b.Node("Conv", []string{"x", "w0"}, []string{"a"}, onnx.Attrs{"group": c.group, "pads": []int64{1, 1, 1, 1}})
		b.Node("Relu", []string{"a"}, []string{"b"})
		b.Node("Conv", []string{"b", "w1"}, []string{"y"})
		b.Output("y", onnx.Float, 1, c.out, 15-c.kernel-2, 15-c.kernel-2)
		x := rampOf(1, c.in, 12, 12)
		tensor.MustData[float32](x)[5*12+6] = float32(math.Inf(1)) // of channel 0
		sameOnCPU(t, b, onward.Values{"x": x})
	}
}

// TestInfinityStaysInItsPart splits channels in the middle of a block. The infinities behind it
// must not become padding of the part before, which convolutions multiply by zeros.
func TestInfinityStaysInItsPart(t *testing.T) {
	for _, c := range []struct {
		channels []int64
		kernel   int
	}{{[]int64{4, 28}, 3}, {[]int64{20, 12}, 1}, {[]int64{4, 28}, 1}, {[]int64{16, 4, 12}, 3}, {[]int64{12, 20}, 5}} {
		channels := c.channels
		b := onnx.NewModel("m").Opset("", 17)
		b.Input("x", onnx.Float, 1, 3, 9, 9)
		w := rampOf(32, 3, 1, 1)
		parts := []string{"d", "e", "f"}[:len(channels)]
		last := int(channels[len(channels)-1])
		for i := range tensor.MustData[float32](w)[3*(32-last):] {
			tensor.MustData[float32](w)[3*(32-last)+i] = 3e38
		}
		read := len(parts) - 2
		b.Initializer("w", onnx.FromTensor(w)).
			Initializer("v", onnx.FromTensor(rampOf(5, int(channels[read]), c.kernel, c.kernel)))
		b.Initializer("n", onnx.FromTensor(tensor.Must(tensor.New(channels, len(channels)))))
		b.Node("Conv", []string{"x", "w"}, []string{"c"})
		b.Node("Split", []string{"c", "n"}, parts, onnx.Attrs{"axis": 1})
		b.Node("Conv", []string{parts[read], "v"}, []string{"y"})
		b.Node("Sigmoid", []string{parts[read+1]}, []string{"z"})
		b.Output("y", onnx.Float, 1, 5, 10-c.kernel, 10-c.kernel).Output("z", onnx.Float, 1, last, 9, 9)
		x := rampOf(1, 3, 9, 9)
		for i := range tensor.MustData[float32](x) {
			tensor.MustData[float32](x)[i] = 1 + float32(i%7)
		}
		sameOnCPU(t, b, onward.Values{"x": x})
	}
}
