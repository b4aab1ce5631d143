package hostile

import (
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// small is the memory limit of hostile models.
const small = 64 << 20

// hostile opens and runs a model on both providers with limits. It fails the test if that
// takes too long, and returns the last error.
func hostile(t *testing.T, m *onnx.Model, feed onward.Values) error {
	t.Helper()
	var last error
	for _, p := range enginetest.Engines {
		start := cputime.Now()
		opts := enginetest.On(p)
		opts.Limits.MaxMemory = small
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, err := onward.OpenModel(ctx, m, opts)
		if err == nil {
			_, err = s.Run(ctx, feed, nil)
		}
		cancel()
		if d := start.Elapsed(); d > 10*time.Second {
			t.Errorf("%s took %v", p, d)
		}
		var st *onward.StatusError
		if err != nil && !errors.As(err, &st) {
			t.Errorf("%s: error %v is no StatusError", p, err)
		}
		last = err
	}
	return last
}

func scalars(v ...int64) *tensor.Tensor { return tensor.Must(tensor.New(v, len(v))) }

// TestHugeSizesFromValues: values known only at run time, and constants at load time, ask for
// huge results.
func TestHugeSizesFromValues(t *testing.T) {
	const huge = int64(1) << 40
	for _, c := range []struct {
		op    string
		in    map[string]any // name: Go slice of the constant input, in order of names
		attrs onnx.Attrs
	}{
		{"Expand", map[string]any{"a": []float32{1}, "b": []int64{huge, 1}}, nil},
		{"Expand", map[string]any{"a": []float32{1}, "b": []int64{math.MaxInt64, math.MaxInt64}}, nil},
		{"Tile", map[string]any{"a": []float32{1}, "b": []int64{huge}}, nil},
		{"ConstantOfShape", map[string]any{"a": []int64{huge, huge}}, nil},
		{"ConstantOfShape", map[string]any{"a": []int64{-1}}, nil},
		{"OneHot", map[string]any{"a": []int64{1}, "b": []int64{huge}, "c": []float32{0, 1}}, nil},
		{"Pad", map[string]any{"a": []float32{1}, "b": []int64{huge, huge}}, nil},
		{"Pad", map[string]any{"a": []float32{1}, "b": []int64{math.MinInt64, math.MinInt64}}, nil},
		{"Resize", map[string]any{"a": []float32{1}, "b": []float32{}, "c": []float32{1e12}}, nil},
		{"Resize", map[string]any{"a": []float32{1}, "b": []float32{}, "c": []float32{float32(math.Inf(1))}}, nil},
	} {
		for _, constant := range []bool{true, false} {
			b := onnx.NewModel("m").Opset("", 21)
			feed := onward.Values{}
			var names []string
			for _, n := range []string{"a", "b", "c"} {
				v, ok := c.in[n]
				if !ok {
					continue
				}
				names = append(names, n)
				if constant {
					b.Initializer(n, v)
					continue
				}
				switch v := v.(type) {
				case []float32:
					b.Input(n, onnx.Float, nil)
					feed[n] = tensor.Must(tensor.New(v, len(v)))
				case []int64:
					b.Input(n, onnx.Int64, nil)
					feed[n] = scalars(v...)
				}
			}
			b.Node(c.op, names, []string{"y"}, c.attrs)
			b.OutputType("y", nil)
			b.Node("Shape", []string{"y"}, []string{"z"})
			b.Output("z", onnx.Int64, nil)
			if err := hostile(t, b.Must(), feed); err == nil {
				t.Errorf("%s%v (constant: %t) has no error", c.op, c.in, constant)
			}
		}
	}
	// Range requires scalars.
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("n", onnx.Int64).Output("y", onnx.Int64, nil)
	b.Initializer("zero", int64(0)).Initializer("one", int64(1))
	b.Node("Range", []string{"zero", "n", "one"}, []string{"y"})
	if err := hostile(t, b.Must(), onward.Values{"n": tensor.Scalar(huge)}); !errors.Is(err, onward.ErrMemoryLimit) {
		t.Errorf("Range: error is %v, want the memory limit", err)
	}
}

// loop returns a model with an infinite loop over body.
func loop(carried onnx.DataType, body *onnx.GraphBuilder) *onnx.ModelBuilder {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", carried, nil).Output("y", carried, nil)
	b.Initializer("forever", int64(math.MaxInt64)).Initializer("true", true)
	b.Node("Loop", []string{"forever", "true", "x"}, []string{"y"}, onnx.Attrs{"body": body})
	return b
}

func loopBody(in onnx.DataType) *onnx.GraphBuilder {
	return onnx.NewGraph("body").Input("i", onnx.Int64).Input("c", onnx.Bool).Input("v", in, nil)
}

// TestEndlessAndGrowingLoops: endless loops stop at the deadline, growing ones at the memory limit.
func TestEndlessAndGrowingLoops(t *testing.T) {
	same := loopBody(onnx.Float).Output("c", onnx.Bool).Output("w", onnx.Float, nil)
	same.Node("Neg", []string{"v"}, []string{"w"})
	err := hostile(t, loop(onnx.Float, same).Must(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}))})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("endless loop: error is %v, want the deadline", err)
	}
	grow := loopBody(onnx.Float).Output("c", onnx.Bool).Output("w", onnx.Float, nil)
	grow.Node("Concat", []string{"v", "v"}, []string{"w"}, onnx.Attrs{"axis": 0})
	err = hostile(t, loop(onnx.Float, grow).Must(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}))})
	if !errors.Is(err, onward.ErrMemoryLimit) {
		t.Errorf("growing loop: error is %v, want the memory limit", err)
	}
}

func TestGrowingScanOutput(t *testing.T) {
	body := onnx.NewGraph("body").Input("i", onnx.Int64).Input("c", onnx.Bool)
	body.Output("c", onnx.Bool).Output("s", onnx.Float, nil)
	body.Initializer("n", []int64{1 << 16})
	body.Node("ConstantOfShape", []string{"n"}, []string{"s"})
	b := onnx.NewModel("m").Opset("", 21)
	b.Output("y", onnx.Float, nil, nil)
	b.Initializer("forever", int64(math.MaxInt64)).Initializer("true", true)
	b.Node("Loop", []string{"forever", "true"}, []string{"y"}, onnx.Attrs{"body": body})
	if err := hostile(t, b.Must(), nil); !errors.Is(err, onward.ErrMemoryLimit) {
		t.Errorf("error is %v, want the memory limit", err)
	}
}

func TestGrowingSequence(t *testing.T) {
	seq := onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32)))
	body := onnx.NewGraph("body").Input("i", onnx.Int64).Input("c", onnx.Bool).InputType("s", seq)
	body.Output("c", onnx.Bool).OutputType("t", seq)
	body.Initializer("n", []int64{1 << 16})
	body.Node("ConstantOfShape", []string{"n"}, []string{"v"})
	body.Node("SequenceInsert", []string{"s", "v"}, []string{"t"})
	b := onnx.NewModel("m").Opset("", 21)
	b.OutputType("y", seq)
	b.Initializer("forever", int64(math.MaxInt64)).Initializer("true", true)
	b.Node("SequenceEmpty", nil, []string{"s0"})
	b.Node("Loop", []string{"forever", "true", "s0"}, []string{"y"}, onnx.Attrs{"body": body})
	if err := hostile(t, b.Must(), nil); !errors.Is(err, onward.ErrMemoryLimit) {
		t.Errorf("error is %v, want the memory limit", err)
	}
}

// TestIndicesOutOfRange: Gather and Scatter fail, Slice clamps.
func TestIndicesOutOfRange(t *testing.T) {
	for _, op := range []string{"Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements"} {
		for _, index := range []int64{5, -6, math.MaxInt64, math.MinInt64} {
			b := onnx.NewModel("m").Opset("", 21)
			b.Input("x", onnx.Float, nil).Input("i", onnx.Int64, nil).Output("y", onnx.Float, nil)
			ins := []string{"x", "i"}
			if op == "ScatterND" || op == "ScatterElements" {
				ins = append(ins, "u")
				b.Initializer("u", []float32{9})
			}
			i := scalars(index)
			if op == "ScatterND" || op == "GatherND" {
				i = tensor.Must(i.Reshape(1, 1))
				b.Node("Identity", []string{"i"}, []string{"j"})
			}
			if op == "ScatterND" || op == "GatherND" {
				b = onnx.NewModel("m").Opset("", 21)
				b.Input("x", onnx.Float, nil).Input("i", onnx.Int64, nil, nil).Output("y", onnx.Float, nil)
				b.Initializer("u", []float32{9})
			}
			b.Node(op, ins, []string{"y"})
			x := tensor.Must(tensor.New([]float32{0, 1, 2, 3, 4}))
			if err := hostile(t, b.Must(), onward.Values{"x": x, "i": i}); !errors.Is(err, onward.ErrRuntimeException) {
				t.Errorf("%s at %d: error is %v, want a RUNTIME_EXCEPTION", op, index, err)
			}
		}
	}
	// Slice clamps indices instead of failing.
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, nil).Input("s", onnx.Int64, nil).Input("e", onnx.Int64, nil).Input("a", onnx.Int64, nil).
		Input("d", onnx.Int64, nil)
	b.Output("y", onnx.Float, nil)
	b.Node("Slice", []string{"x", "s", "e", "a", "d"}, []string{"y"})
	x := tensor.Must(tensor.New([]float32{0, 1, 2, 3, 4}))
	for _, v := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		for _, w := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
			for _, step := range []int64{1, -1, math.MaxInt64, math.MinInt64, 0} {
				err := hostile(t, b.Must(),
					onward.Values{"x": x, "s": scalars(v), "e": scalars(w), "a": scalars(0), "d": scalars(step)})
				if (err != nil) != (step == 0) {
					t.Errorf("Slice %d:%d:%d: error is %v", v, w, step, err)
				}
			}
		}
	}
}

// TestPackedProductWithScales multiplies by constant weights, which are packed, with more than one
// a_scale, without and with zero points.
func TestPackedProductWithScales(t *testing.T) {
	for _, zeros := range [][]uint8{nil, {1}, {1, 2}} {
		b := onnx.NewModel("m").Opset("", 21).Opset("com.microsoft", 1)
		b.Input("x", onnx.Uint8, 2, 2).Input("scale", onnx.Float, nil).Output("y", onnx.Float, 2, 2)
		b.Initializer("w", tensor.Must(tensor.New([]uint8{1, 2, 3, 4}, 2, 2))).Initializer("w_scale", float32(1))
		ins := []string{"x", "w", "scale", "w_scale"}
		if zeros != nil {
			b.Initializer("zero", zeros)
			ins = append(ins, "zero")
		}
		b.Node("com.microsoft.MatMulIntegerToFloat", ins, []string{"y"})
		x := tensor.Must(tensor.New([]uint8{1, 2, 3, 4}, 2, 2))
		for _, scales := range [][]float32{{}, {1}, {1, 2}} {
			err := hostile(t, b.Must(), onward.Values{"x": x, "scale": tensor.Must(tensor.New(scales, len(scales)))})
			if (err != nil) != (len(scales) != 1 || len(zeros) == 2) {
				t.Errorf("%d scales and %d zero points: error is %v", len(scales), len(zeros), err)
			}
		}
	}
}

// TestDivisionByZeroAndExtremeAxes divides by zero, INT_MIN by −1, and passes an axis of INT64_MIN.
func TestDivisionByZeroAndExtremeAxes(t *testing.T) {
	for _, op := range []string{"Div", "Mod"} {
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Int32, nil).Input("y", onnx.Int32, nil).Output("z", onnx.Int32, nil)
		b.Node(op, []string{"x", "y"}, []string{"z"})
		for _, y := range []int32{0, -1} {
			_ = hostile(t, b.Must(), onward.Values{"x": tensor.Must(tensor.New([]int32{math.MinInt32}, 1)),
				"y": tensor.Must(tensor.New([]int32{y}, 1))})
		}
	}
	for _, op := range []string{"Softmax", "Concat", "Gather", "ArgMax", "Flatten", "LogSoftmax", "Hardmax", "TopK",
		"Split", "LayerNormalization", "Unsqueeze"} {
		for _, axis := range []int64{math.MinInt64, math.MaxInt64, 7, -8} {
			b := onnx.NewModel("m").Opset("", 11)
			b.Input("x", onnx.Float, nil, nil).OutputType("z", nil)
			in := []string{"x"}
			attrs := onnx.Attrs{"axis": axis}
			switch op {
			case "Gather", "TopK":
				b.Initializer("i", []int64{0})
				in = append(in, "i")
			case "LayerNormalization":
				b.Opset("", 17)
				b.Initializer("i", []float32{1})
				in = append(in, "i")
			case "Unsqueeze":
				attrs = onnx.Attrs{"axes": []int64{axis}}
			}
			b.Node(op, in, []string{"z"}, attrs)
			if err := hostile(t, b.Must(),
				onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2, 2))}); err == nil {
				t.Errorf("%s with axis %d has no error", op, axis)
			}
		}
	}
}

// TestNaNInComparisons passes NaN, infinities and denormals to operators that compare.
func TestNaNInComparisons(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := tensor.Must(tensor.New([]float32{nan, inf, -inf, 1e-45, -1e-45, 0, nan, 1}))
	for _, op := range []string{"TopK", "ArgMax", "ArgMin", "ReduceMax", "Softmax", "Cast", "NonZero",
		"Unique", "CumSum"} {
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Float, nil).OutputType("y", nil)
		in, out, attrs := []string{"x"}, []string{"y"}, onnx.Attrs{}
		switch op {
		case "TopK":
			b.Initializer("k", []int64{3})
			in, out = append(in, "k"), append(out, "i")
		case "CumSum":
			b.Initializer("k", []int64{0})
			in = append(in, "k")
		case "Cast":
			attrs["to"] = onnx.Int32
		}
		b.Node(op, in, out, attrs)
		if err := hostile(t, b.Must(), onward.Values{"x": x}); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// TestOutputsDoNotAlias: outputs that are inputs or constants must be copies.
func TestOutputsDoNotAlias(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2).Output("z", onnx.Float, 2).Output("w", onnx.Float, 2).
		Output("x", onnx.Float, 2)
	b.Initializer("w", []float32{7, 8})
	b.Node("Identity", []string{"x"}, []string{"y"})
	b.Node("Identity", []string{"w"}, []string{"z"})
	m := b.Must()
	for _, p := range enginetest.Engines {
		s, err := onward.OpenModel(t.Context(), m, enginetest.On(p))
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.Must(tensor.New([]float32{1, 2}))
		for range 2 {
			out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]float32{"x": 1, "y": 1, "z": 7, "w": 7} {
				d := tensor.MustData[float32](out[name].(*tensor.Tensor))
				if d[0] != want {
					t.Errorf("%s: %s is %v, want %v first", p, name, d, want)
				}
				d[0] = 99
			}
			if d := tensor.MustData[float32](x); d[0] != 1 {
				t.Fatalf("%s: the input has changed to %v", p, d)
			}
		}
	}
}

// TestManyNodes: the load time of long chains is linear in their length. With ONWARD_LONG, which
// .ci/run sets, the chain has a million nodes.
func TestManyNodes(t *testing.T) {
	n := 100_000
	if os.Getenv("ONWARD_LONG") != "" {
		n = 1_000_000
	}
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, "N").Output("y", onnx.Float, "N")
	m := b.Must()
	prev := "x"
	for i := range n {
		out := "y"
		if i < n-1 {
			out = "v" + string(rune('a'+i%26)) + strconv.Itoa(i)
		}
		m.Graph.Nodes = append(m.Graph.Nodes, &onnx.Node{OpType: "Neg", Inputs: []string{prev}, Outputs: []string{out}})
		prev = out
	}
	start := cputime.Now()
	s, err := onward.OpenModel(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := tensor.MustData[float32](out["y"].(*tensor.Tensor)); d[1] != 2 {
		t.Errorf("y is %v, want [1 2]", d)
	}
	if d := start.Elapsed(); d > 60*time.Second {
		t.Errorf("%d nodes took %v", n, d)
	}
	t.Logf("%d nodes took %v", n, start.Elapsed())
}

// TestRecursiveFunctions calls functions that call each other.
func TestRecursiveFunctions(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21).Opset("f", 1)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("A", []string{"x"}, []string{"y"}).Domain("f")
	for _, f := range [][2]string{{"A", "B"}, {"B", "A"}} {
		b.Function("f", f[0]).Inputs("u").Outputs("v").Opset("f", 1).Node(f[1], []string{"u"}, []string{"v"}).
			Domain("f")
	}
	if err := hostile(t, b.Must(), nil); !errors.Is(err, onward.ErrInvalidGraph) {
		t.Errorf("error is %v, want INVALID_GRAPH", err)
	}
}

// TestFunctionDoubling calls functions that double the nodes at each level.
func TestFunctionDoubling(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21).Opset("f", 1)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("F0", []string{"x"}, []string{"y"}).Domain("f")
	const levels = 60
	for i := range levels {
		f := b.Function("f", "F"+strconv.Itoa(i)).Inputs("u").Outputs("w").Opset("f", 1).Opset("", 21)
		next := "F" + strconv.Itoa(i+1)
		if i == levels-1 {
			f.Node("Neg", []string{"u"}, []string{"w"})
			continue
		}
		f.Node(next, []string{"u"}, []string{"v"}).Domain("f")
		f.Node(next, []string{"v"}, []string{"w"}).Domain("f")
	}
	// A slow machine does not reach the limit of nodes within a second.
	if err := hostile(t, b.Must(), nil); !errors.Is(err, onward.ErrInvalidGraph) &&
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want INVALID_GRAPH or the deadline", err)
	}
}

// TestManyOutputs opens a node with 200,000 outputs: the time must be linear in their number.
func TestManyOutputs(t *testing.T) {
	const n = 200_000
	b := onnx.NewModel("m").Opset("", 18)
	b.Input("x", onnx.Float, n)
	names := make([]string, n)
	for i := range names {
		names[i] = "y" + strconv.Itoa(i)
		b.Output(names[i], onnx.Float, 1)
	}
	b.Node("Split", []string{"x"}, names, onnx.Attrs{"num_outputs": n})
	if err := hostile(t, b.Must(), onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, n))}); err != nil &&
		!errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestDeepSubgraphs nests subgraphs up to and beyond the limit.
func TestDeepSubgraphs(t *testing.T) {
	for _, depth := range []int{20, 90, 500} {
		leaf := onnx.NewGraph("g").OutputType("r", nil)
		leaf.Node("Neg", []string{"x"}, []string{"r"})
		g := leaf
		for range depth {
			outer := onnx.NewGraph("g").OutputType("r", nil)
			outer.Node("If", []string{"c"}, []string{"r"},
				onnx.Attrs{"then_branch": g, "else_branch": onnx.NewGraph("e").OutputType("x", nil)})
			g = outer
		}
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Float, 2).Input("c", onnx.Bool).Output("y", onnx.Float, 2)
		b.Node("If", []string{"c"}, []string{"y"},
			onnx.Attrs{"then_branch": g, "else_branch": onnx.NewGraph("e").OutputType("x", nil)})
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		feed := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2})), "c": tensor.Scalar(true)}
		err = hostile(t, m, feed)
		if depth < 100 && err != nil || depth > 100 && !errors.Is(err, onward.ErrInvalidGraph) {
			t.Errorf("depth %d: error is %v", depth, err)
		}
	}
}

// TestInvalidGraphs opens graphs with cycles, bad names, unknown operators and bad opsets.
func TestInvalidGraphs(t *testing.T) {
	node := func(op, in, out string) *onnx.Node {
		return &onnx.Node{OpType: op, Inputs: []string{in}, Outputs: []string{out}}
	}
	base := func(nodes ...*onnx.Node) *onnx.Model {
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
		m := b.Must()
		m.Graph.Nodes = nodes
		return m
	}
	imports := func(list ...onnx.OperatorSetID) *onnx.Model {
		m := base(node("Neg", "x", "y"))
		m.OpsetImports = list
		return m
	}
	for name, m := range map[string]*onnx.Model{
		"cycle":          base(node("Neg", "b", "a"), node("Neg", "a", "b"), node("Neg", "b", "y")),
		"self-loop":      base(node("Neg", "y", "y")),
		"duplicate":      base(node("Neg", "x", "y"), node("Neg", "x", "y")),
		"shadowed input": base(node("Neg", "x", "x"), node("Neg", "x", "y")),
		"missing input":  base(node("Neg", "nope", "y")),
		"missing output": base(node("Neg", "x", "z")),
		"unknown op":     base(node("Nope", "x", "y")),
		"empty op":       base(node("", "x", "y")),
		"no opset":       imports(),
		"opset 0":        imports(onnx.OperatorSetID{Version: 0}),
		"opset 2^63":     imports(onnx.OperatorSetID{Version: math.MinInt64}),
		"opset 2^62":     imports(onnx.OperatorSetID{Version: 1 << 62}),
		"opset -1":       imports(onnx.OperatorSetID{Version: -1}),
	} {
		if err := hostile(t, m, onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}))}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestInvalidReshape passes invalid shapes to Reshape.
func TestInvalidReshape(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, nil).Input("s", onnx.Int64, nil).OutputType("y", nil)
	b.Node("Reshape", []string{"x", "s"}, []string{"y"})
	for _, s := range [][]int64{{-1, -1}, {3}, {-2}, {math.MaxInt64, math.MaxInt64}, {0, 0}, {math.MinInt64}, {4, 0}} {
		if err := hostile(t, b.Must(),
			onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2})), "s": scalars(s...)}); err == nil {
			t.Errorf("Reshape to %v has no error", s)
		}
	}
}
