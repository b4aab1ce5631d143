package calibration

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// ramp returns a tensor of numbers from −2 to 2.
func ramp(dims ...int) *tensor.Tensor {
	n := 1
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32((i*37)%101-50) / 25
	}
	return tensor.Must(tensor.New(v, dims...))
}

// weights returns the data of ramp for an initializer.
func weights(dims ...int) []float32 { return tensor.MustData[float32](ramp(dims...)) }

// everyWay quantizes a model in all ways and compares it with the original. The tolerance is
// relative to the largest value of the output.
func everyWay(t *testing.T, m *onnx.Model, feed onward.Values, tolerance float64,
	check func(t *testing.T, way string, q *onnx.Model)) {
	t.Helper()
	table, err := Calibrate(t.Context(), m, Batches(feed), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := runOn(t, m, "reference", feed)
	for _, w := range ways() {
		if w.name == "4 bits" {
			continue // too coarse for a few weights
		}
		t.Run(w.name, func(t *testing.T) {
			before, err := m.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			q, err := w.quantize(m, table)
			if err != nil {
				t.Fatal(err)
			}
			if after, err := m.Marshal(); err != nil || string(after) != string(before) {
				t.Errorf("quantizing changed the original: %v", err)
			}
			q = checkModel(t, q)
			for _, p := range []string{"reference", "cpu"} {
				got := runOn(t, q, p, feed)
				for name, v := range want {
					most := 0.0
					for _, x := range tensor.MustData[float32](v.(*tensor.Tensor)) {
						most = max(most, float64(x), -float64(x))
					}
					if err := tensor.AllClose(got[name], v, 0, tolerance*most); err != nil {
						t.Errorf("%s, %s: %v", p, name, err)
					}
				}
			}
			if check != nil {
				check(t, w.name, q)
			}
		})
	}
}

// This test has weights and biases that several nodes use, with inputs of different scales.
func TestQuantizeSharedWeights(t *testing.T) {
	b := onnx.NewModel("shared").Opset("", 17)
	b.Input("x", onnx.Float, 1, 4, 5, 5)
	b.Initializer("w", weights(4, 4, 1, 1), 4, 4, 1, 1).Initializer("b", weights(4), 4).
		Initializer("c", weights(4, 1, 1), 4, 1, 1)
	b.Node("Conv", []string{"x", "w", "b"}, []string{"p"}).Name("one")
	b.Node("Conv", []string{"p", "w", "b"}, []string{"q"}).Name("two")
	b.Node("Add", []string{"q", "c"}, []string{"r"}).Name("sum")
	b.Node("Mul", []string{"r", "c"}, []string{"y"}).Name("product")
	b.Node("Relu", []string{"b"}, []string{"z"}).Name("b_DequantizeLinear") // a name that the quantizer would give
	b.Output("y", onnx.Float, 1, 4, 5, 5).Output("z", onnx.Float, 4)
	everyWay(t, b.Must(), onward.Values{"x": ramp(1, 4, 5, 5)}, 0.08, nil)
}

// This test has outputs in the middle of the graph, and inputs that are outputs.
func TestQuantizeOutputsInTheMiddle(t *testing.T) {
	b := onnx.NewModel("middle").Opset("", 17)
	b.Input("x", onnx.Float, 2, 6)
	b.Initializer("w", weights(6, 6), 6, 6).Initializer("b", weights(6), 6)
	b.Node("Gemm", []string{"x", "w", "b"}, []string{"p"})
	b.Node("Relu", []string{"p"}, []string{"q"})
	b.Node("Gemm", []string{"q", "w", "b"}, []string{"r"})
	b.Node("Sigmoid", []string{"r"}, []string{"y"})
	for _, n := range []string{"p", "q", "r", "y"} {
		b.Output(n, onnx.Float, 2, 6)
	}
	everyWay(t, b.Must(), onward.Values{"x": ramp(2, 6)}, 0.08, nil)
}

// This test has subgraphs that use values of the main graph.
func TestQuantizeCapturedValues(t *testing.T) {
	then, other := onnx.NewGraph("then"), onnx.NewGraph("else")
	then.Node("Add", []string{"q", "w"}, []string{"t"})
	then.Output("t", onnx.Float, 6, 6)
	other.Node("Sub", []string{"p", "w"}, []string{"e"})
	other.Output("e", onnx.Float, 6, 6)
	b := onnx.NewModel("captured").Opset("", 17)
	b.Input("x", onnx.Float, 6, 6).Input("c", onnx.Bool)
	b.Initializer("w", weights(6, 6), 6, 6)
	b.Node("MatMul", []string{"x", "w"}, []string{"p"})
	b.Node("Relu", []string{"p"}, []string{"q"})
	b.Node("If", []string{"c"}, []string{"y"}, onnx.Attrs{"then_branch": then, "else_branch": other})
	b.Output("y", onnx.Float, 6, 6)
	for _, c := range []bool{true, false} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			everyWay(t, b.Must(), onward.Values{"x": ramp(6, 6), "c": tensor.Scalar(c)}, 0.08, nil)
		})
	}
}

// This test has Gemm's attributes, biases of other shapes, and rare layers.
func TestQuantizeUnusualLayers(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape []int
		build func(b *onnx.ModelBuilder)
	}{
		{"gemm with alpha and beta", []int{3, 6}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(5, 6), 5, 6).Initializer("b", weights(5), 5)
			b.Node("Gemm", []string{"x", "w", "b"}, []string{"y"},
				onnx.Attrs{"transB": int64(1), "alpha": float32(0.5), "beta": float32(3)})
		}},
		{"stacked matrices as weights", []int{2, 3, 6}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(2, 6, 5), 2, 6, 5)
			b.Node("MatMul", []string{"x", "w"}, []string{"y"})
		}},
		{"gemm with beta", []int{3, 6}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(6, 5), 6, 5).Initializer("b", weights(5), 5)
			b.Node("Gemm", []string{"x", "w", "b"}, []string{"y"}, onnx.Attrs{"beta": float32(3)})
		}},
		{"gemm with a matrix to add", []int{3, 6}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(6, 5), 6, 5).Initializer("b", weights(3, 5), 3, 5)
			b.Node("Gemm", []string{"x", "w", "b"}, []string{"y"})
		}},
		{"gemm with one number to add", []int{3, 6}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(6, 5), 6, 5).Initializer("b", weights(1), 1)
			b.Node("Gemm", []string{"x", "w", "b"}, []string{"y"})
		}},
		{"transposed convolution", []int{1, 4, 5, 5}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(4, 3, 3, 3), 4, 3, 3, 3).Initializer("b", weights(3), 3)
			b.Node("ConvTranspose", []string{"x", "w", "b"}, []string{"y"}, onnx.Attrs{"strides": []int64{2, 2}})
		}},
		{"transposed convolution in groups", []int{1, 4, 5, 5}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(4, 3, 3, 3), 4, 3, 3, 3).Initializer("b", weights(6), 6)
			b.Node("ConvTranspose", []string{"x", "w", "b"}, []string{"y"}, onnx.Attrs{"group": int64(2)})
		}},
		{"convolution over time", []int{2, 4, 9}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(6, 4, 3), 6, 4, 3).Initializer("b", weights(6), 6)
			b.Node("Conv", []string{"x", "w", "b"}, []string{"y"}, onnx.Attrs{"pads": []int64{1, 1}})
		}},
		{"a weight of zeros", []int{2, 4}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", make([]float32, 12), 4, 3).Initializer("b", weights(3), 3)
			b.Node("MatMul", []string{"x", "w"}, []string{"p"})
			b.Node("Add", []string{"p", "b"}, []string{"y"})
		}},
		{"a tiny weight with a large bias", []int{2, 4}, func(b *onnx.ModelBuilder) {
			w := weights(3, 4)
			for i := range w {
				w[i] *= 1e-9
			}
			b.Initializer("w", w, 3, 4).Initializer("b", []float32{100, -50, 25}, 3)
			b.Node("Gemm", []string{"x", "w", "b"}, []string{"y"}, onnx.Attrs{"transB": int64(1)})
		}},
		{"a stack of weights", []int{2, 3, 4}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(2, 4, 5), 2, 4, 5)
			b.Node("MatMul", []string{"x", "w"}, []string{"y"})
		}},
		{"constants of nodes", []int{2, 4}, func(b *onnx.ModelBuilder) {
			w, err := onnx.NewTensor("", weights(4, 3), 4, 3)
			if err != nil {
				panic(err)
			}
			b.Node("Constant", nil, []string{"w"}, onnx.Attrs{"value": w})
			b.Node("Constant", nil, []string{"k"}, onnx.Attrs{"value_float": float32(2)})
			b.Node("MatMul", []string{"x", "w"}, []string{"p"})
			b.Node("Mul", []string{"p", "k"}, []string{"y"})
		}},
		{"a table to gather from", []int{2, 8}, func(b *onnx.ModelBuilder) {
			b.Initializer("table", weights(7, 8), 7, 8).Initializer("i", []int64{3, 6}, 2)
			b.Node("Gather", []string{"table", "i"}, []string{"g"})
			b.Node("Add", []string{"g", "x"}, []string{"y"})
		}},
		{"parts and padding", []int{1, 4, 4, 4}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(4, 4, 1, 1), 4, 4, 1, 1).Initializer("pads", []int64{0, 0, 1, 0, 0, 0, 1, 2}).
				Initializer("fill", float32(0.5))
			b.Node("Conv", []string{"x", "w"}, []string{"c"})
			b.Node("Split", []string{"c"}, []string{"s0", "s1"}, onnx.Attrs{"axis": int64(1)})
			b.Node("Pad", []string{"s0", "pads"}, []string{"p0"})
			b.Node("Pad", []string{"s1", "pads", "fill"}, []string{"p1"})
			b.Node("Concat", []string{"p0", "p1"}, []string{"y"}, onnx.Attrs{"axis": int64(1)})
		}},
		{"shapes that change", []int{1, 2, 4, 4}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(2, 2, 1, 1), 2, 2, 1, 1).Initializer("scales", []float32{1, 1, 2, 2})
			b.Initializer("shape", []int64{2, -1}).Initializer("axes", []int64{0})
			b.Node("Conv", []string{"x", "w"}, []string{"c"})
			b.Node("Resize", []string{"c", "", "scales"}, []string{"r"}, onnx.Attrs{"mode": "nearest"})
			b.Node("Transpose", []string{"r"}, []string{"t"}, onnx.Attrs{"perm": []int64{0, 2, 3, 1}})
			b.Node("Reshape", []string{"t", "shape"}, []string{"s"})
			b.Node("Unsqueeze", []string{"s", "axes"}, []string{"u"})
			b.Node("Squeeze", []string{"u", "axes"}, []string{"y"})
		}},
		{"choices", []int{2, 4}, func(b *onnx.ModelBuilder) {
			b.Initializer("w", weights(4, 4), 4, 4).Initializer("zero", float32(0))
			b.Node("MatMul", []string{"x", "w"}, []string{"p"})
			b.Node("Greater", []string{"x", "zero"}, []string{"c"})
			b.Node("Where", []string{"c", "p", "x"}, []string{"y"})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := onnx.NewModel("unusual").Opset("", 17)
			dims := make([]any, len(c.shape))
			for i, d := range c.shape {
				dims[i] = d
			}
			b.Input("x", onnx.Float, dims...)
			c.build(b)
			b.Output("y", onnx.Float)
			everyWay(t, b.Must(), onward.Values{"x": ramp(c.shape...)}, 0.06, nil)
		})
	}
}

// This test selects nodes by name and type.
func TestQuantizeChoosesNodes(t *testing.T) {
	b := onnx.NewModel("choice").Opset("", 17)
	b.Input("x", onnx.Float, 4, 4).Initializer("w", weights(4, 4), 4, 4)
	b.Node("MatMul", []string{"x", "w"}, []string{"p"}).Name("one")
	b.Node("MatMul", []string{"p", "w"}, []string{"q"}).Name("two")
	b.Node("Add", []string{"q", "x"}, []string{"y"}).Name("sum")
	b.Output("y", onnx.Float, 4, 4)
	m := b.Must()
	table, err := Calibrate(t.Context(), m, Batches(onward.Values{"x": ramp(4, 4)}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    QuantizeOptions
		want map[string]int
	}{
		{QuantizeOptions{Style: QOperator}, map[string]int{"QLinearMatMul": 2, "QLinearAdd": 1}},
		{QuantizeOptions{Style: QOperator, Exclude: []string{"two"}}, map[string]int{"QLinearMatMul": 1, "MatMul": 1, "QLinearAdd": 1}},
		{QuantizeOptions{Style: QOperator, Nodes: []string{"two"}}, map[string]int{"QLinearMatMul": 1, "MatMul": 1, "Add": 1}},
		{QuantizeOptions{Style: QOperator, OpTypes: []string{"Add"}}, map[string]int{"MatMul": 2, "QLinearAdd": 1}},
		{QuantizeOptions{Exclude: []string{"one", "two", "sum"}}, map[string]int{"MatMul": 2, "Add": 1, "QuantizeLinear": 0}},
	} {
		q, err := QuantizeStatic(m, table, &c.o)
		if err != nil {
			t.Fatal(err)
		}
		ops := operators(checkModel(t, q))
		for op, n := range c.want {
			if ops[op] != n {
				t.Errorf("%+v: %d %s, want %d: %v", c.o, ops[op], op, n, ops)
			}
		}
	}
}

func TestQuantizeErrors(t *testing.T) {
	model := func(opset int64) *onnx.Model {
		b := onnx.NewModel("old").Opset("", opset)
		b.Input("x", onnx.Float, 4, 4).Initializer("w", weights(4, 4), 4, 4)
		b.Node("MatMul", []string{"x", "w"}, []string{"y"}).Name("product")
		b.Output("y", onnx.Float, 4, 4)
		return b.Must()
	}
	m := model(17)
	table := NewTable(MinMax)
	table.Ranges["x"], table.Ranges["y"] = Range{Lowest: -1, Highest: 1}, Range{Lowest: -1, Highest: 1}
	other := NewTable(MinMax)
	other.Ranges["z"] = Range{Lowest: -1, Highest: 1}
	static := func(m *onnx.Model, t *Table, o QuantizeOptions) error {
		_, err := QuantizeStatic(m, t, &o)
		return err
	}
	nbits := func(o NBitsOptions) error {
		_, err := QuantizeMatMulNBits(m, &o)
		return err
	}
	dynamic := func(m *onnx.Model, o QuantizeOptions) error {
		_, err := QuantizeDynamic(m, &o)
		return err
	}
	bad := onnx.NewModel("nan").Opset("", 17)
	bad.Input("x", onnx.Float, 1, 1).Initializer("w", []float32{float32(math.NaN())}, 1, 1)
	bad.Node("MatMul", []string{"x", "w"}, []string{"y"})
	bad.Output("y", onnx.Float, 1, 1)
	training := onnx.NewModel("training").Opset("", 17).Opset("ai.onnx.preview.training", 1)
	training.Input("x", onnx.Float, 4, 4).Initializer("w", weights(4, 4), 4, 4)
	training.Node("MatMul", []string{"x", "w"}, []string{"y"})
	training.Node("Gradient", []string{"x"}, []string{"g"}, onnx.Attrs{"xs": []string{"x"}, "y": "y"}).Name("slope").
		Domain("ai.onnx.preview.training")
	training.Output("g", onnx.Float, 4, 4)
	for _, c := range []struct {
		err  error
		want string
	}{
		{static(training.Must(), table, QuantizeOptions{}), `node "slope" computes a gradient`},
		{dynamic(training.Must(), QuantizeOptions{}), `node "slope" computes a gradient`},
		{static(m, nil, QuantizeOptions{}), "table of ranges is nil"},
		{static(m, other, QuantizeOptions{}), `no range for tensor "x", nor for any other`},
		{static(m, other, QuantizeOptions{Style: QOperator}), `no range for tensor "x", nor for any other`},
		{static(m, table, QuantizeOptions{Style: "onnx"}), `style "onnx"`},
		{static(m, table, QuantizeOptions{Weight: tensor.TypeFloat32}), "want uint8 or int8"},
		{static(m, table, QuantizeOptions{Activation: tensor.TypeInt8, Weight: tensor.TypeUint8}), "no engine multiplies"},
		{static(m, table, QuantizeOptions{SymmetricWeights: true, AsymmetricWeights: true}), "both set"},
		{static(m, table, QuantizeOptions{Exclude: []string{"missing"}}), `no node "missing"`},
		{static(model(9), table, QuantizeOptions{}), "imports opset 9, want at least 10"},
		{static(model(11), table, QuantizeOptions{PerChannel: true}), "imports opset 11, want at least 13"},
		{static(bad.Must(), table, QuantizeOptions{}), "contains NaN"},
		{static(&onnx.Model{}, table, QuantizeOptions{}), "no graph"},
		{dynamic(model(10), QuantizeOptions{}), "imports opset 10, want at least 11"},
		{dynamic(m, QuantizeOptions{Activation: tensor.TypeInt8}), "DynamicQuantizeLinear"},
		{nbits(NBitsOptions{Bits: 3}), "Bits is 3"},
		{nbits(NBitsOptions{Block: 24}), "Block is 24"},
		{nbits(NBitsOptions{Style: QDQ}), "imports opset 17, want at least 21"},
		{nbits(NBitsOptions{OpTypes: []string{"Conv"}}), `operator "Conv"`},
		{nbits(NBitsOptions{OpTypes: []string{"Gather"}, Bits: 8}), "GatherBlockQuantized"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", c.err, c.want)
		}
	}
}

// Weights of adapters, inputs without elements unless an adapter gives them, stay inputs.
func TestQuantizeKeepsAdapterInputs(t *testing.T) {
	b := onnx.NewModel("adapter").Opset("", 21)
	b.Input("x", onnx.Float, 1, 4).Input("a", onnx.Float, 4, 0).Initializer("w", weights(4, 4), 4, 4)
	b.Initializer("a", []float32{}, 4, 0).Node("MatMul", []string{"x", "w"}, []string{"y"})
	b.Node("MatMul", []string{"x", "a"}, []string{"z"})
	b.Output("y", onnx.Float, 1, 4).Output("z", onnx.Float, 1, 0)
	q, err := QuantizeDynamic(b.Must(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(q.Graph.Inputs); n != 2 || q.Graph.Inputs[1].Name != "a" {
		t.Errorf("the quantized model has %d inputs, want x and a", n)
	}
}

// Models that do not import ai.onnx are quantized with the opset that they run with.
func TestQuantizeWithoutImport(t *testing.T) {
	b := onnx.NewModel("import").Opset("com.example", 1)
	b.Input("x", onnx.Float, 1, 4).Initializer("w", weights(4, 4), 4, 4)
	b.Node("MatMul", []string{"x", "w"}, []string{"y"})
	b.Output("y", onnx.Float, 1, 4)
	m := b.Must()
	m.OpsetImports = []onnx.OperatorSetID{{Domain: "com.example", Version: 1}}
	q, err := QuantizeDynamic(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := q.OpsetVersion(""); !ok || v != onnx.LatestOpset || len(m.OpsetImports) != 1 {
		t.Errorf("the quantized model imports opset %d (%v), the original %v", v, ok, m.OpsetImports)
	}
	if !slices.ContainsFunc(q.Graph.Nodes, func(n *onnx.Node) bool { return n.OpType == "MatMulInteger" }) {
		t.Errorf("nothing is quantized: %v", q.Graph.Nodes)
	}
}

// Masks of attention have infinite elements, which no scale represents. They stay float, and
// all other tensors are quantized.
func TestQuantizeLeavesInfinityFloat(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, method := range []Method{MinMax, Entropy} {
		for _, constant := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, constant %v", method, constant), func(t *testing.T) {
				b := onnx.NewModel("mask").Opset("", 17)
				b.Input("x", onnx.Float, 2, 4).Initializer("w", weights(4, 3), 4, 3)
				feed := onward.Values{"x": ramp(2, 4)}
				mask := []float32{0, inf, 0}
				if constant {
					b.Initializer("m", mask, 3)
				} else {
					b.Input("m", onnx.Float, 3)
					feed["m"] = tensor.Must(tensor.New(mask, 3))
				}
				b.Node("MatMul", []string{"x", "w"}, []string{"p"})
				b.Node("Add", []string{"p", "m"}, []string{"q"})
				b.Node("Softmax", []string{"q"}, []string{"y"})
				b.Output("y", onnx.Float, 2, 3)
				m := b.Must()
				table, err := Calibrate(t.Context(), m, Batches(feed), &Options{Method: method})
				if err != nil {
					t.Fatal(err)
				}
				for _, style := range []Style{QDQ, QOperator} {
					q, err := QuantizeStatic(m, table, &QuantizeOptions{Style: style})
					if err != nil {
						t.Fatal(err)
					}
					q = checkModel(t, q)
					if n := operators(q); n["DequantizeLinear"] == 0 {
						t.Errorf("%s: no node is quantized: %v", style, n)
					}
					y := tensor.MustData[float32](runOn(t, q, "cpu", feed)["y"].(*tensor.Tensor))
					want := tensor.MustData[float32](runOn(t, m, "cpu", feed)["y"].(*tensor.Tensor))
					for i := range y {
						if i%3 == 1 && y[i] != 0 || !(math.Abs(float64(y[i]-want[i])) < 0.05) {
							t.Errorf("%s: element %d is %g, want about %g", style, i, y[i], want[i])
						}
					}
				}
			})
		}
	}
}

// QLinearAveragePool has no attribute dilations, which AveragePool has since opset 19.
func TestQLinearAveragePoolHasNoDilations(t *testing.T) {
	for _, c := range []struct {
		dilation  int64
		quantized int
	}{{1, 1}, {2, 0}} {
		b := onnx.NewModel("pool").Opset("", 19)
		b.Input("x", onnx.Float, 1, 1, 6, 6)
		b.Node("AveragePool", []string{"x"}, []string{"y"},
			onnx.Attrs{"kernel_shape": []int64{2, 2}, "dilations": []int64{c.dilation, c.dilation}})
		b.Output("y", onnx.Float, 1, 1, 6-c.dilation, 6-c.dilation)
		everyWay(t, b.Must(), onward.Values{"x": ramp(1, 1, 6, 6)}, 0.05,
			func(t *testing.T, way string, q *onnx.Model) {
				if n := operators(q); way == "operators" && n["QLinearAveragePool"] != c.quantized {
					t.Errorf("dilation %d: operators %v, want %d QLinearAveragePool", c.dilation, n, c.quantized)
				}
			})
	}
}

// Before version 4 of the format, initializers had to be inputs. This test checks that
// constants that are made initializers are not inputs.
func TestQuantizeRaisesIRVersion(t *testing.T) {
	b := onnx.NewModel("old").Opset("", 13)
	value, err := onnx.NewTensor("", weights(4, 3))
	if err != nil {
		t.Fatal(err)
	}
	value.Dims = []int64{4, 3}
	b.Input("x", onnx.Float, 2, 4)
	b.Node("Constant", nil, []string{"w"}, onnx.Attrs{"value": value})
	b.Node("MatMul", []string{"x", "w"}, []string{"y"})
	b.Output("y", onnx.Float, 2, 3)
	m := b.Must()
	m.IRVersion = 3
	everyWay(t, m, onward.Values{"x": ramp(2, 4)}, 0.08, func(t *testing.T, way string, q *onnx.Model) {
		if q.IRVersion != 4 {
			t.Errorf("%s: version %d of the format, want 4", way, q.IRVersion)
		}
	})
}

// TestQuantizeInitializersThatAreInputs quantizes weights that are inputs too: before IR version 4
// all had to be, and exporters with keep_initializers_as_inputs list them later.
func TestQuantizeInitializersThatAreInputs(t *testing.T) {
	for _, version := range []int64{3, 8} {
		b := onnx.NewModel("old").Opset("", 13)
		b.Input("x", onnx.Float, 16, 10).Input("w", onnx.Float, 10, 7)
		b.Initializer("w", weights(10, 7), 10, 7)
		b.Node("MatMul", []string{"x", "w"}, []string{"y"})
		b.Output("y", onnx.Float, 16, 7)
		m := b.Must()
		m.IRVersion = version
		everyWay(t, m, onward.Values{"x": ramp(16, 10)}, 0.08, func(t *testing.T, way string, q *onnx.Model) {
			ops := operators(q)
			if ops["DequantizeLinear"]+ops["MatMulInteger"]+ops["MatMulNBits"] == 0 {
				t.Errorf("%s: the operators are %v, and none is quantized", way, ops)
			}
			if len(q.Graph.Inputs) != 1 {
				t.Errorf("%s: the model has %d inputs, want x alone", way, len(q.Graph.Inputs))
			}
		})
	}
}

// Before opset 7, Add does not broadcast, and Gemm cannot become MatMul and Add.
func TestGemmIsKeptBeforeOpset7(t *testing.T) {
	b := onnx.NewModel("old").Opset("", 6)
	b.Input("x", onnx.Float, 2, 4).Initializer("w", weights(4, 3), 4, 3).Initializer("b", weights(3), 3)
	b.Node("Gemm", []string{"x", "w", "b"}, []string{"y"}, onnx.Attrs{"broadcast": int64(1)})
	b.Output("y", onnx.Float, 2, 3)
	q, err := QuantizeMatMulNBits(b.Must(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := operators(checkModel(t, q)); n["Gemm"] != 1 || len(n) != 1 {
		t.Errorf("operators %v, want one Gemm", n)
	}
}

// This test quantizes the rows of a table in blocks of 4 bits.
func TestGatherBlockQuantized(t *testing.T) {
	b := onnx.NewModel("embedding").Opset("", 17)
	b.Input("i", onnx.Int64, 2, 3).Initializer("table", weights(10, 40), 10, 40)
	b.Node("Gather", []string{"table", "i"}, []string{"y"}).Name("embed")
	b.Output("y", onnx.Float, 2, 3, 40)
	m := b.Must()
	feed := onward.Values{"i": tensor.Must(tensor.New([]int64{0, 9, 3, 3, 7, 1}, 2, 3))}
	want := runOn(t, m, "reference", feed)["y"]
	for _, provider := range onProviders(t) {
		for _, symmetric := range []bool{true, false} {
			q, err := QuantizeMatMulNBits(m,
				&NBitsOptions{OpTypes: []string{"Gather"}, Block: 16, Symmetric: symmetric})
			if err != nil {
				t.Fatal(err)
			}
			q = checkModel(t, q)
			if n := operators(q)["GatherBlockQuantized"]; n != 1 {
				t.Fatalf("%d GatherBlockQuantized", n)
			}
			if err := tensor.AllClose(runOn(t, q, provider, feed)["y"], want, 0, 0.27); err != nil {
				t.Errorf("%s, symmetric %t: %v", provider, symmetric, err)
			}
		}
	}
}

// This test checks that a quantized value differs from the original by at most half a step
// within the range, and that zero is exact.
func TestScaleAndZero(t *testing.T) {
	// The range is widened to 0, so that 0 is exact.
	for _, r := range [][2]float32{{1, 3}, {-3, -1}} {
		scale, zero, err := scaleAndZero(r[0], r[1], 0, 255, false, 0)
		if want := float32(3) / 255; err != nil || scale != want || zero != 0 && zero != 255 {
			t.Errorf("%v: scale %g and zero point %d, %v, want scale %g and an end of the integers", r, scale,
				zero, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float32Range(-1e6, 1e6).Draw(t, "a"), rapid.Float32Range(-1e6, 1e6).Draw(t, "b")
		lo, hi := min(a, b), max(a, b)
		dtype := rapid.SampledFrom([]tensor.DType{tensor.TypeInt8, tensor.TypeUint8}).Draw(t, "type")
		symmetric, reduce := rapid.Bool().Draw(t, "symmetric"), rapid.Bool().Draw(t, "reduce")
		qlo, qhi := steps(dtype, reduce, symmetric)
		scale, zero, err := scaleAndZero(lo, hi, qlo, qhi, symmetric, 0)
		if err != nil {
			t.Fatal(err)
		}
		if float64(zero) < qlo || float64(zero) > qhi || !(scale > 0) {
			t.Fatalf("scale %g and zero point %d of %g to %g", scale, zero, lo, hi)
		}
		x := lo + rapid.Float32Range(0, 1).Draw(t, "x")*(hi-lo)
		for _, v := range []float32{x, 0} {
			q := quantizeTo(nil, []float32{v}, scale, zero, dtype)[0]
			n := int32(q)
			if dtype == tensor.TypeInt8 {
				n = int32(int8(q))
			}
			back := float32(n-zero) * scale
			if d := float64(back - v); v == 0 && d != 0 || max(d, -d) > 1.01*float64(scale) {
				t.Fatalf("%g becomes %d and %g with scale %g", v, n, back, scale)
			}
		}
	})
}

// This test checks that the names of the methods are in the order of the constants.
func TestMethodNames(t *testing.T) {
	got := []string{MinMax.String(), Entropy.String(), Percentile.String(), Method(9).String()}
	if !slices.Equal(got, []string{"MinMax", "Entropy", "Percentile", "Method(9)"}) {
		t.Error(got)
	}
}

// TestNilData calibrates and evaluates without data.
func TestNilData(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Relu", []string{"x"}, []string{"y"})
	m := b.Must()
	if _, err := Calibrate(t.Context(), m, nil, nil); err == nil || !strings.Contains(err.Error(), "the data is nil") {
		t.Errorf("Calibrate: got %v", err)
	}
	if _, err := Evaluate(t.Context(), m, m, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "the data is nil") {
		t.Errorf("Evaluate: got %v", err)
	}
}
