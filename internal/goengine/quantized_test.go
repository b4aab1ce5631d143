package goengine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestQuantizedLayers checks that a layer between DequantizeLinear and QuantizeLinear is
// fused to an integer operator whose results are within one step of those with floats.
func TestQuantizedLayers(t *testing.T) {
	for _, c := range []struct {
		name, op string
		want     string // operator after fusion
		attrs    onnx.Attrs
		x, w     []int64
		axis     int // of the weights' scales; −1 for one scale
		bias     bool
		relu     bool
		signed   bool
	}{
		{name: "conv", op: "Conv", want: "QLinearConv", x: []int64{2, 5, 9, 8}, w: []int64{7, 5, 3, 3}, axis: 0, bias: true, attrs: onnx.Attrs{"pads": []int64{1, 0, 1, 2}}},
		{name: "conv relu", op: "Conv", want: "QLinearConv", x: []int64{1, 8, 6, 6}, w: []int64{8, 8, 1, 1}, axis: -1, relu: true},
		{name: "depthwise", op: "Conv", want: "QLinearConv", x: []int64{1, 18, 7, 7}, w: []int64{18, 1, 3, 3}, axis: 0, bias: true, signed: true, attrs: onnx.Attrs{"group": int64(18), "strides": []int64{2, 2}}},
		{name: "conv by input channel", op: "Conv", want: "Conv", x: []int64{1, 4, 6, 6}, w: []int64{4, 4, 1, 1}, axis: 1},
		{name: "matmul", op: "MatMul", want: "QLinearMatMul", x: []int64{3, 5, 40}, w: []int64{40, 33}, axis: 1},
		{name: "matmul relu", op: "MatMul", want: "QLinearMatMul", x: []int64{5, 40}, w: []int64{40, 33}, axis: -1, relu: true, signed: true},
		{name: "gemm", op: "Gemm", want: "QGemm", x: []int64{5, 40}, w: []int64{33, 40}, axis: 0, bias: true, attrs: onnx.Attrs{"transB": int64(1)}},
		{name: "scaled gemm", op: "Gemm", want: "Linear", x: []int64{5, 40}, w: []int64{40, 33}, axis: 1, attrs: onnx.Attrs{"alpha": float32(0.5)}},
		{name: "add", op: "Add", want: "QLinearAdd", x: []int64{2, 4, 3}, w: []int64{4, 3}, axis: -1, signed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			b := onnx.NewModel("layer").Opset("", 21)
			yZero := any(uint8(0))
			elem, xZero := onnx.Uint8, any(uint8(117))
			if c.signed {
				elem, xZero, yZero = onnx.Int8, int8(-3), int8(-128)
			}
			if !c.relu && !c.signed {
				yZero = uint8(125)
			}
			channels := int64(1)
			if c.axis >= 0 {
				channels = c.w[c.axis]
			}
			scales, steps := make([]float32, channels), make([]float32, channels)
			for i := range scales {
				scales[i] = 0.002 + rng.Float32()/100
				steps[i] = scales[i] * 0.05
			}
			w := make([]int8, product64(c.w))
			for i := range w {
				w[i] = int8(rng.IntN(256) - 128)
			}
			zeros := make([]int8, channels)
			dims := make([]any, len(c.x))
			for i, d := range c.x {
				dims[i] = d
			}
			b.Input("x", elem, dims...)
			b.Initializer("xs", float32(0.05)).Initializer("xz", xZero).Initializer("ys", float32(0.11)).
				Initializer("yz", yZero)
			b.Initializer("w", w, c.w...)
			if channels == 1 {
				b.Initializer("ws", scales[0]).Initializer("wz", zeros[0])
			} else {
				b.Initializer("ws", scales, channels).Initializer("wz", zeros, channels)
			}
			b.Node("DequantizeLinear", []string{"x", "xs", "xz"}, []string{"xf"}, nil)
			b.Node("DequantizeLinear", []string{"w", "ws", "wz"}, []string{"wf"},
				onnx.Attrs{"axis": int64(max(c.axis, 0))})
			in := []string{"xf", "wf"}
			if c.bias {
				n := c.w[0]
				bias := make([]int32, n)
				for i := range bias {
					bias[i] = int32(rng.IntN(20000) - 10000)
				}
				b.Initializer("b", bias, n).Initializer("bs", steps, channels)
				b.Node("DequantizeLinear", []string{"b", "bs"}, []string{"bf"}, onnx.Attrs{"axis": int64(0)})
				in = append(in, "bf")
			}
			b.Node(c.op, in, []string{"f"}, c.attrs)
			last := "f"
			if c.relu {
				b.Node("Relu", []string{"f"}, []string{"r"}, nil)
				last = "r"
			}
			b.Node("QuantizeLinear", []string{last, "ys", "yz"}, []string{"y"}, nil)
			b.Output("y", elem)
			m := b.Must()

			e, err := driver.Lookup("cpu").Compile(t.Context(), &driver.Model{Model: m}, &driver.Options{Threads: 1},
				driver.Config{})
			if err != nil {
				t.Fatal(err)
			}
			kinds := goengine.Kinds(e)
			if c.want != "Conv" && c.want != "Linear" && (len(kinds) != 1 || kinds[0] != c.want) ||
				slices.Contains(kinds, "QLinearConv") && c.want == "Conv" {
				t.Errorf("the layer becomes %s, want %s", strings.Join(kinds, ", "), c.want)
			}

			x := tensor.Must(tensor.Zeros(tensor.TypeUint8, ints(c.x)...))
			if c.signed {
				x = tensor.Must(tensor.Zeros(tensor.TypeInt8, ints(c.x)...))
			}
			for i := range x.Bytes() {
				x.Bytes()[i] = uint8(rng.Uint32())
			}
			var out [2]*tensor.Tensor
			for i, p := range []string{"reference", "cpu"} {
				s, err := onward.OpenModel(t.Context(), m,
					&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}})
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
				if err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				out[i] = r["y"].(*tensor.Tensor)
			}
			most, differ, saturated := 0, 0, 0
			for i := range out[0].Bytes() {
				want, got := int(out[0].Bytes()[i]), int(out[1].Bytes()[i])
				if c.signed {
					want, got = int(int8(want)), int(int8(got))
				}
				d := int(math.Abs(float64(want - got)))
				most = max(most, d)
				differ += min(d, 1)
				if want == 0 || want == 255 || want == -128 || want == 127 {
					saturated++
				}
			}
			n := len(out[0].Bytes())
			if most > 1 || differ*50 > n || saturated*10 > n*9 {
				t.Errorf("%d of %d elements differ, by at most %d; %d are saturated", differ, n, most, saturated)
			}
		})
	}
}

// TestQuantizedChain checks that operators that only move or select elements run on
// integers if their quantization parameters are equal, and that a product with a float
// result is an integer product.
func TestQuantizedChain(t *testing.T) {
	w := make([]int8, 24*10)
	for i := range w {
		w[i] = int8(i*53 + 7)
	}
	b := onnx.NewModel("chain").Opset("", 21)
	b.Input("x", onnx.Uint8, 1, 6, 4, 4)
	b.Initializer("s", float32(0.05)).Initializer("z", uint8(101)).Initializer("w", w, 24, 10).
		Initializer("ws", float32(0.01)).Initializer("wz", int8(5))
	b.Initializer("shape", []int64{1, 24}, 2)
	b.Node("DequantizeLinear", []string{"x", "s", "z"}, []string{"a"}, nil)
	b.Node("MaxPool", []string{"a"}, []string{"p"}, onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}})
	b.Node("QuantizeLinear", []string{"p", "s", "z"}, []string{"pq"}, nil)
	b.Node("DequantizeLinear", []string{"pq", "s", "z"}, []string{"pf"}, nil)
	b.Node("Reshape", []string{"pf", "shape"}, []string{"r"}, nil)
	b.Node("QuantizeLinear", []string{"r", "s", "z"}, []string{"rq"}, nil)
	b.Node("DequantizeLinear", []string{"rq", "s", "z"}, []string{"rf"}, nil)
	b.Node("DequantizeLinear", []string{"w", "ws", "wz"}, []string{"wf"}, nil)
	b.Node("MatMul", []string{"rf", "wf"}, []string{"y"}, nil)
	b.Output("y", onnx.Float)
	m := b.Must()
	e, err := driver.Lookup("cpu").
		Compile(t.Context(), &driver.Model{Model: m}, &driver.Options{Threads: 1}, driver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := goengine.Kinds(e)
	if got, want := strings.Join(kinds, " "), "MaxPool Reshape Linear"; got != want {
		t.Errorf("the chain becomes %s, want %s", got, want)
	}
	x := tensor.Must(tensor.Zeros(tensor.TypeUint8, 1, 6, 4, 4))
	for i := range x.Bytes() {
		x.Bytes()[i] = uint8(i * 71)
	}
	var want onward.Values
	for _, p := range []string{"reference", "cpu"} {
		s, err := onward.OpenModel(t.Context(), m,
			&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), onward.Values{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = r
		} else if err := tensor.AllClose(r["y"], want["y"], 1e-5, 1e-5); err != nil {
			t.Error(err)
		}
	}
}

func product64(v []int64) int64 {
	p := int64(1)
	for _, d := range v {
		p *= d
	}
	return p
}

func ints(v []int64) []int {
	r := make([]int, len(v))
	for i, d := range v {
		r[i] = int(d)
	}
	return r
}
