package goengine_test

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// quantizedGroup is an operator between DequantizeLinear and QuantizeLinear, and the
// operator that fusion makes of it.
type quantizedGroup struct {
	name  string
	nodes func(b *onnx.ModelBuilder) // adds the nodes that compute y from f0 and f1
	want  string
	exact bool // equal to the results of reference; otherwise within one quantization step
	same  bool // the result has the quantization parameters of the inputs
	shape []any
	other []any // shape of the second input; nil for that of the first
}

// op returns nodes for a group of one operator.
func op(name string, in []string, attrs onnx.Attrs) func(b *onnx.ModelBuilder) {
	return func(b *onnx.ModelBuilder) { b.Node(name, in, []string{"y"}, attrs) }
}

// TestQuantizedGroups checks that groups are fused to integer operators, and unary
// functions to lookup tables.
func TestQuantizedGroups(t *testing.T) {
	x, xy := []string{"f0"}, []string{"f0", "f1"}
	image := []any{2, 3, 9, 7}
	for _, c := range []quantizedGroup{
		{name: "sigmoid", nodes: op("Sigmoid", x, nil), want: "ByteMap", exact: true},
		{name: "leaky relu", nodes: op("LeakyRelu", x, onnx.Attrs{"alpha": float32(0.3)}), want: "ByteMap", exact: true},
		{name: "relu", nodes: op("Relu", x, nil), want: "ByteMap", exact: true},
		{name: "clip", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("six", float32(2))
			b.Node("Clip", []string{"f0", "", "six"}, []string{"y"}, nil)
		}, want: "ByteMap", exact: true},
		{name: "requantize", nodes: op("Identity", x, nil), want: "ByteMap", exact: true},
		{name: "gelu by hand", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("root", float32(1.4142135)).Initializer("one", float32(1)).
				Initializer("half", []float32{0.5}, 1, 1)
			b.Node("Div", []string{"f0", "root"}, []string{"a"}, nil)
			b.Node("Erf", []string{"a"}, []string{"b"}, nil)
			b.Node("Add", []string{"b", "one"}, []string{"c"}, nil)
			b.Node("Mul", []string{"f0", "c"}, []string{"d"}, nil)
			b.Node("Mul", []string{"d", "half"}, []string{"y"}, nil)
		}, want: "ByteMap", exact: true},
		{name: "silu", nodes: func(b *onnx.ModelBuilder) {
			b.Node("Sigmoid", []string{"f0"}, []string{"a"}, nil)
			b.Node("Mul", []string{"f0", "a"}, []string{"y"}, nil)
		}, want: "ByteMap", exact: true},
		{name: "bias of a channel is no table", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("bias", []float32{1, 2, 3}, 3, 1, 1)
			b.Node("Add", []string{"f0", "bias"}, []string{"y"}, nil)
		}, want: "DequantizeLinear"},
		{name: "mul", nodes: op("Mul", xy, nil), want: "QLinearMul"},
		{name: "mul by channel", nodes: op("Mul", xy, nil), want: "QLinearMul", other: []any{2, 3, 1, 1}},
		{name: "add", nodes: op("Add", xy, nil), want: "QLinearAdd"},
		{name: "average", nodes: op("AveragePool", x, onnx.Attrs{"kernel_shape": []int64{3, 2}, "pads": []int64{1, 0, 1, 1}}), want: "QLinearAveragePool"},
		{name: "average with padding", nodes: op("AveragePool", x, onnx.Attrs{"kernel_shape": []int64{3, 2}, "pads": []int64{1, 0, 1, 1}, "count_include_pad": int64(1), "ceil_mode": int64(1), "strides": []int64{2, 2}}), want: "QLinearAveragePool"},
		{name: "average dilated", nodes: op("AveragePool", x, onnx.Attrs{"kernel_shape": []int64{2, 2}, "dilations": []int64{2, 3}}), want: "QLinearAveragePool"},
		{name: "global average", nodes: op("GlobalAveragePool", x, nil), want: "QLinearGlobalAveragePool"},
		{name: "concat", nodes: op("Concat", xy, onnx.Attrs{"axis": int64(1)}), want: "QLinearConcat", exact: true},
		{name: "softmax", nodes: op("Softmax", x, nil), want: "QLinearSoftmax"},
		{name: "softmax of channels", nodes: op("Softmax", x, onnx.Attrs{"axis": int64(1)}), want: "QLinearSoftmax"},
		{name: "stacks of matrices", nodes: op("MatMul", xy, nil), want: "QLinearMatMul", other: []any{2, 3, 7, 5}},
		{name: "max", nodes: op("MaxPool", x, onnx.Attrs{"kernel_shape": []int64{2, 2}}), want: "MaxPool", same: true, exact: true},
		{name: "slice", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("from", []int64{1, 2}).Initializer("to", []int64{8, 6}).Initializer("axes", []int64{2, 3})
			b.Node("Slice", []string{"f0", "from", "to", "axes"}, []string{"y"}, nil)
		}, want: "Slice", same: true, exact: true},
		{name: "gather", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("index", []int64{2, 0, 2})
			b.Node("Gather", []string{"f0", "index"}, []string{"y"}, onnx.Attrs{"axis": int64(1)})
		}, want: "Gather", same: true, exact: true},
		{name: "pad", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("pads", []int64{0, 0, 1, 2, 0, 1, 0, 3})
			b.Node("Pad", []string{"f0", "pads"}, []string{"y"}, nil)
		}, want: "Pad", same: true, exact: true},
		{name: "pad with a number", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("pads", []int64{0, 0, 1, 2, 0, 1, 0, 3}).Initializer("fill", float32(1.5))
			b.Node("Pad", []string{"f0", "pads", "fill"}, []string{"y"}, nil)
		}, want: "DequantizeLinear", same: true, exact: true},
		{name: "pad by reflection", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("pads", []int64{0, 0, 1, 2, 0, 1, 0, 3})
			b.Node("Pad", []string{"f0", "pads"}, []string{"y"}, onnx.Attrs{"mode": "reflect"})
		}, want: "Pad", same: true, exact: true},
		{name: "resize", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("scales", []float32{1, 1, 2, 1.5})
			b.Node("Resize", []string{"f0", "", "scales"}, []string{"y"}, onnx.Attrs{"mode": "nearest"})
		}, want: "Resize", same: true, exact: true},
		{name: "resize linearly", nodes: func(b *onnx.ModelBuilder) {
			b.Initializer("scales", []float32{1, 1, 2, 1.5})
			b.Node("Resize", []string{"f0", "", "scales"}, []string{"y"}, onnx.Attrs{"mode": "linear"})
		}, want: "DequantizeLinear", same: true},
		{name: "depth to space", nodes: op("DepthToSpace", x, onnx.Attrs{"blocksize": int64(2)}), want: "DepthToSpace", same: true, exact: true, shape: []any{1, 8, 3, 5}},
	} {
		if c.shape == nil {
			c.shape = image
		}
		if c.other == nil {
			c.other = c.shape
		}
		for _, signed := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: " signed"}[signed], func(t *testing.T) { c.test(t, signed) })
		}
	}
}

func (c *quantizedGroup) test(t *testing.T, signed bool) {
	elem, zeros := onnx.Uint8, [3]any{uint8(117), uint8(100), uint8(9)}
	if signed {
		elem, zeros = onnx.Int8, [3]any{int8(-3), int8(20), int8(-77)}
	}
	scales := [3]float32{0.05, 0.03, 0.07}
	if c.same {
		scales[2], zeros[2] = scales[0], zeros[0]
	}
	b := onnx.NewModel("group").Opset("", 21)
	b.Input("x0", elem, c.shape...)
	b.Input("x1", elem, c.other...)
	for i, n := range []string{"0", "1", "y"} {
		b.Initializer("s"+n, scales[i]).Initializer("z"+n, zeros[i])
	}
	for _, n := range []string{"0", "1"} {
		b.Node("DequantizeLinear", []string{"x" + n, "s" + n, "z" + n}, []string{"f" + n}, nil)
	}
	c.nodes(b)
	b.Node("QuantizeLinear", []string{"y", "sy", "zy"}, []string{"q"}, nil)
	b.Output("q", elem)
	m := b.Must()
	e, err := driver.Lookup("cpu").
		Compile(t.Context(), &driver.Model{Model: m}, &driver.Options{Threads: 1}, driver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := goengine.Kinds(e)
	if got := strings.Join(kinds, " "); got != c.want &&
		!(c.want == "DequantizeLinear" && strings.HasPrefix(got, c.want)) {
		t.Errorf("the group becomes %s, want %s", got, c.want)
	}
	feed := onward.Values{}
	for i, shape := range [][]any{c.shape, c.other} {
		dims := make([]int, len(shape))
		for k, d := range shape {
			dims[k] = d.(int)
		}
		v := tensor.Must(tensor.Zeros(tensor.DType(elem), dims...))
		for k := range v.Bytes() {
			v.Bytes()[k] = byte(k*(71+2*i) + i)
		}
		feed[[]string{"x0", "x1"}[i]] = v
	}
	var want *tensor.Tensor
	for _, p := range []string{"reference", "cpu"} {
		s, err := onward.OpenModel(t.Context(), m,
			&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), feed, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := r["q"].(*tensor.Tensor)
		if want == nil {
			want = got
			continue
		}
		tolerance := 1.0
		if c.exact {
			tolerance = 0
		}
		if err := tensor.AllClose(got, want, 0, tolerance); err != nil {
			t.Error(err)
		}
	}
}
