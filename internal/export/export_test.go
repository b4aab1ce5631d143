package export_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/export"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// text writes the nodes of a graph with their attributes.
func text(g *onnx.Graph) string {
	var r []string
	for _, n := range g.Nodes {
		op := n.OpType
		if n.Domain != "" {
			op = n.Domain + "." + op
		}
		s := fmt.Sprintf("%s=%s(%s)", strings.Join(n.Outputs, ","), op, strings.Join(n.Inputs, ","))
		for _, a := range n.Attributes {
			switch a.Type {
			case onnx.AttrInt:
				s += fmt.Sprintf(" %s=%d", a.Name, a.I)
			case onnx.AttrInts:
				s += fmt.Sprintf(" %s=%d", a.Name, a.Ints)
			case onnx.AttrFloat:
				s += fmt.Sprintf(" %s=%g", a.Name, a.F)
			case onnx.AttrFloats:
				s += fmt.Sprintf(" %s=%g", a.Name, a.Floats)
			case onnx.AttrString:
				s += fmt.Sprintf(" %s=%s", a.Name, a.S)
			case onnx.AttrGraph:
				s += fmt.Sprintf(" %s={%s}", a.Name, text(a.G))
			default:
				s += fmt.Sprintf(" %s:%d", a.Name, a.Type)
			}
		}
		r = append(r, s)
	}
	return strings.Join(r, "; ")
}

func convert(t *testing.T, m *onnx.Model) *ir.Graph {
	t.Helper()
	g, err := frontend.Convert(m, frontend.Options{KeepSource: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func builder(opset int64) *onnx.ModelBuilder {
	b := onnx.NewModel("m").Opset("", opset)
	b.Input("x", onnx.Float, 2, 4)
	return b
}

// finish gives the model one output.
func finish(b *onnx.ModelBuilder, output string) *onnx.Model {
	b.Output(output, onnx.Float)
	return b.Must()
}

// A graph that no pass has changed is written as it was read.
func TestWritesSourceNodes(t *testing.T) {
	branch := func(in string) *onnx.GraphBuilder {
		g := onnx.NewGraph("branch")
		g.Node("Mul", []string{in, "k"}, []string{"t"})
		return g.Output("t", onnx.Float, 2, 4)
	}
	for _, c := range []struct {
		name string
		make func(b *onnx.ModelBuilder)
		want string
	}{
		{"attributes", func(b *onnx.ModelBuilder) {
			b.Node("Transpose", []string{"x"}, []string{"p"}, onnx.Attrs{"perm": []int64{1, 0}})
			b.Node("LeakyRelu", []string{"p"}, []string{"y"}, onnx.Attrs{"alpha": 0.5})
		}, "p=Transpose(x) perm=[1 0]; y=LeakyRelu(p) alpha=0.5"},
		{"vectors for scalars", func(b *onnx.ModelBuilder) {
			b.Initializer("n", []int64{3}, 1)
			for i, name := range []string{"zero", "one"} {
				b.Initializer(name, &onnx.Tensor{DataType: onnx.Int64, Int64Data: []int64{int64(i)}})
			}
			b.Node("Range", []string{"zero", "n", "one"}, []string{"p"})
			b.Node("Cast", []string{"p"}, []string{"y"}, onnx.Attrs{"to": onnx.Float})
		}, "n_scalar=Squeeze(n); p=Range(zero,n_scalar,one); y=Cast(p) to=1"},
		{"attributes that became inputs", func(b *onnx.ModelBuilder) {
			b.Node("Unsqueeze", []string{"x"}, []string{"y"}, onnx.Attrs{"axes": []int64{0}})
		}, "y=Unsqueeze(x) axes=[0]"},
		{"an output without a name", func(b *onnx.ModelBuilder) {
			b.Node("Dropout", []string{"x"}, []string{"y", ""})
		}, "y,=Dropout(x)"},
		{"tensors", func(b *onnx.ModelBuilder) {
			b.Node("Constant", nil, []string{"c"}, onnx.Attrs{"value": tensor.Scalar(float32(1))})
			b.Node("Add", []string{"x", "c"}, []string{"y"})
		}, fmt.Sprintf("c=Constant() value:%d; y=Add(x,c)", onnx.AttrTensor)},
		{"subgraphs", func(b *onnx.ModelBuilder) {
			b.Input("c", onnx.Bool)
			b.Initializer("k", []float32{1, 2, 3, 4}, 4)
			b.Node("If", []string{"c"}, []string{"y"},
				onnx.Attrs{"then_branch": branch("x"), "else_branch": branch("k")})
		}, "y=If(c) else_branch={t=Mul(k,k)} then_branch={t_1=Mul(x,k)}"},
	} {
		b := builder(11)
		c.make(b)
		m := finish(b, "y")
		r, err := export.Model(convert(t, m), m)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := text(r.Graph); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if err := onnx.Check(r, nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestWritesModel(t *testing.T) {
	b := builder(17)
	b.Input("w", onnx.Float, 4)
	b.Initializer("w", []float32{1, 2, 3, 4}, 4)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	m := finish(b, "y")
	m.IRVersion = 3 // w cannot be overridden
	r, err := export.Model(convert(t, m), m)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Graph.Inputs) != 1 || len(r.Graph.Initializers) != 1 || r.Graph.Initializers[0].Name != "w" ||
		r.IRVersion != 4 {
		t.Errorf("%d inputs, %d initializers, IR version %d", len(r.Graph.Inputs),
			len(r.Graph.Initializers), r.IRVersion)
	}
	if m.IRVersion != 3 || len(m.Graph.Inputs) != 2 {
		t.Error("the model itself was changed")
	}

	// From IR version 4 on the default of an input stays one.
	m.IRVersion = 8
	if r, err = export.Model(convert(t, m), m); err != nil || len(r.Graph.Inputs) != 2 ||
		len(r.Graph.Initializers) != 1 {
		t.Errorf("%d inputs, %d initializers, %v", len(r.Graph.Inputs), len(r.Graph.Initializers), err)
	}
}

// Functions are inlined: the main graph keeps its names, and their nodes take others.
func TestWritesFunctions(t *testing.T) {
	b := builder(17)
	b.Node("F", []string{"x"}, []string{"m"}).Name("call")
	b.Node("F", []string{"m"}, []string{"y"}).Name("call")
	m := finish(b, "y")
	f := &onnx.Function{Name: "F", Inputs: []string{"a"}, Outputs: []string{"y"}, Nodes: []*onnx.Node{
		{Name: "n", OpType: "Neg", Inputs: []string{"a"}, Outputs: []string{"m"}}, {OpType: "Relu", Inputs: []string{"m"}, Outputs: []string{"y"}}}}
	m.Functions = []*onnx.Function{f}
	r, err := export.Model(convert(t, m), m)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(r.Graph), "m_1=Neg(x); m=Relu(m_1); m_2=Neg(m); y=Relu(m_2)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r.Functions != nil || r.Graph.Nodes[0].Name != "call/n" || r.Graph.Nodes[2].Name != "call/n_1" {
		t.Errorf("nodes are called %q and %q", r.Graph.Nodes[0].Name, r.Graph.Nodes[2].Name)
	}
	// An initializer keeps its name, too, although the body of the function comes before it.
	b = builder(17)
	b.Initializer("w", []float32{1, 2, 3, 4}, 4)
	b.Node("F", []string{"x"}, []string{"p"})
	b.Node("Mul", []string{"p", "w"}, []string{"y"})
	m2 := finish(b, "y")
	m2.Functions = []*onnx.Function{{Name: "F", Inputs: []string{"a"}, Outputs: []string{"y"}, Nodes: []*onnx.Node{
		{OpType: "Neg", Inputs: []string{"a"}, Outputs: []string{"w"}}, {OpType: "Relu", Inputs: []string{"w"}, Outputs: []string{"y"}}}}}
	if r, err = export.Model(convert(t, m2), m2); err != nil {
		t.Fatal(err)
	}
	if got, want := text(r.Graph), "w_1=Neg(x); p=Relu(w_1); y=Mul(p,w)"; got != want ||
		r.Graph.Initializers[0].Name != "w" {
		t.Errorf("%s with the initializer %q, want %s with w", got, r.Graph.Initializers[0].Name, want)
	}
	f.Nodes = []*onnx.Node{{OpType: "ReduceSum", Inputs: []string{"a"}, Outputs: []string{"y"}}}
	f.OpsetImports = []onnx.OperatorSetID{{Version: 11}}
	_, err = export.Model(convert(t, m), m)
	if e, ok := err.(*kit.UnsupportedError); !ok || len(e.Ops) != 1 || e.Ops[0].Nodes != 2 ||
		e.Ops[0].Reason != "ReduceSum: it has opset 11 in a function, and the operator differs in "+
			"the model's opset 17" {
		t.Errorf("error %v", err)
	}
	f.Nodes[0].OpType = "Sin" // the same in both
	if _, err = export.Model(convert(t, m), m); err != nil {
		t.Error(err)
	}
}

// TestWritesMadeOperators writes operators that passes make, put in the place of a Sum.
func TestWritesMadeOperators(t *testing.T) {
	affine := func(act kit.Activation) ir.Operator {
		return &blocked.ChannelAffine{Scale: []float32{1, 2, 3, 4}, Shift: []float32{5, 6, 7, 8}, Act: act}
	}
	win := window.Window{Kernel: []int{3, 3}, Strides: []int{2, 2}, Pads: []int{1, 1, 1, 1}}
	const norm = "BatchNormalization(x,made_scale,made_shift,made_mean,made_variance) epsilon=0"
	plain, swapped := []int{0, 1}, []int{1, 0}
	for _, c := range []struct {
		name  string
		op    ir.Operator
		in    int
		opset int64
		want  string // "" if ONNX has no form
	}{
		{"Gelu", &ops.Gelu{}, 1, 20, "y=Gelu(x)"},
		{"Gelu by tanh", &ops.Gelu{Tanh: true}, 1, 20, "y=Gelu(x) approximate=tanh"},
		{"Gelu before opset 20", &ops.Gelu{}, 1, 19, "y=com.microsoft.Gelu(x)"},
		{"Gelu by tanh before opset 20", &ops.Gelu{Tanh: true}, 1, 19, "y=com.microsoft.FastGelu(x)"},
		{"Silu", blocked.NewSilu(1), 1, 17, "y=com.microsoft.QuickGelu(x) alpha=1"},
		{"QuickGelu", blocked.NewSilu(1.5), 1, 17, "y=com.microsoft.QuickGelu(x) alpha=1.5"},
		{"LayerNormalization", &ops.LayerNormalization{Axis: -1, Epsilon: 0.5}, 2, 17, "y=LayerNormalization(x,x1) axis=-1 epsilon=0.5"},
		{"RMSNormalization", &ops.RMSNormalization{Axis: -1, Epsilon: 0.5}, 2, 23, "y=RMSNormalization(x,x1) axis=-1 epsilon=0.5"},
		{"RMSNormalization before opset 23", &ops.RMSNormalization{Axis: -1, Epsilon: 0.5}, 2, 22, "y=SimplifiedLayerNormalization(x,x1) axis=-1 epsilon=0.5"},
		{"LayerNormalization before opset 17", &ops.LayerNormalization{Axis: -1}, 2, 16, ""},
		{"FusedConv", &ops.FusedConv{Conv: ops.Conv{Window: win, Group: 2}, Act: kit.Activation{Kind: kit.ActRelu}}, 2, 17,
			"y=com.microsoft.FusedConv(x,x1) activation=Relu group=2 kernel_shape=[3 3] pads=[1 1 1 1] strides=[2 2]"},
		{"FusedConv with bounds", &ops.FusedConv{Conv: ops.Conv{Window: window.Window{AutoPad: "SAME_UPPER", Pads: []int{0, 0}}, Group: 1}, Act: kit.Activation{Kind: kit.ActClip, Hi: 6}}, 2, 17,
			"y=com.microsoft.FusedConv(x,x1) activation=Clip activation_params=[0 6] auto_pad=SAME_UPPER group=1"},
		{"ChannelAffine", affine(kit.Activation{}), 1, 17, "y=" + norm},
		{"ChannelAffine with Relu", affine(kit.Activation{Kind: kit.ActRelu}), 1, 17, "made_affine=" + norm + "; y=Relu(made_affine)"},
		{"ChannelAffine with bounds", affine(kit.Activation{Kind: kit.ActClip, Hi: 6}), 1, 17, "made_affine=" + norm + "; y=Clip(made_affine,onward_1,onward_2)"},
		{"ChannelAffine with bounds before opset 11", affine(kit.Activation{Kind: kit.ActClip, Hi: 6}), 1, 10, "made_affine=" + norm + "; y=Clip(made_affine) max=6 min=0"},
		{"ChannelAffine before opset 9", affine(kit.Activation{}), 1, 8, ""},
		{"ChannelShuffle", &blocked.ChannelShuffle{Groups: 2}, 1, 17,
			"made_groups=Reshape(x,onward_1); made_turned=Transpose(made_groups) perm=[0 2 1 3]; made_shape=Shape(x); y=Reshape(made_turned,made_shape)"},
		{"StridedMatMul", &blocked.StridedMatMul{PermA: plain, PermB: plain, PermY: plain, Alpha: 1}, 2, 17, "y=MatMul(x,x1)"},
		{"StridedMatMul of a transposed matrix", &blocked.StridedMatMul{PermA: plain, PermB: swapped, PermY: plain, Alpha: 0.5}, 2, 17,
			"y=com.microsoft.FusedMatMul(x,x1) alpha=0.5 transB=1"},
		{"StridedMatMul with other permutations", &blocked.StridedMatMul{PermA: []int{1, 0, 2}, PermB: []int{0, 1, 2}, PermY: []int{1, 0, 2}, Alpha: 1}, 2, 17,
			"made_turned=Transpose(x) perm=[1 0 2]; made_product=MatMul(made_turned,x1); y=Transpose(made_product) perm=[1 0 2]"},
		{"QLinearConv", &ops.QLinearConv{Window: win, Group: 1}, 2, 17, "y=QLinearConv(x,x1) group=1 kernel_shape=[3 3] pads=[1 1 1 1] strides=[2 2]"},
		{"QLinearConv of another layout", &ops.QLinearConv{ChannelsLast: true}, 2, 17, ""},
		{"QLinearMatMul", &ops.QLinearMatMul{}, 2, 17, "y=QLinearMatMul(x,x1)"},
		{"QLinearAdd", &msft.QLinearAdd{}, 2, 17, "y=com.microsoft.QLinearAdd(x,x1)"},
		{"QLinearMul", &msft.QLinearMul{}, 2, 17, "y=com.microsoft.QLinearMul(x,x1)"},
		{"MatMulIntegerToFloat", &msft.MatMulIntegerToFloat{}, 2, 17, "y=com.microsoft.MatMulIntegerToFloat(x,x1)"},
		{"an operator of the engine", &msft.ActivatedConv{}, 2, 17, ""},
	} {
		b, in := builder(c.opset), []string{"x"}
		for i := 1; i < c.in; i++ {
			name := fmt.Sprint("x", i)
			b.Input(name, onnx.Float, 2, 4)
			in = append(in, name)
		}
		b.Node("Sum", in, []string{"y"}).Name("made")
		m := finish(b, "y")
		g := convert(t, m)
		g.Nodes[0].Op = c.op
		r, err := export.Model(g, m)
		if c.want == "" {
			if e, ok := err.(*kit.UnsupportedError); !ok || e.Ops[0].Reason !=
				"Sum: the operator is the engine's own and has no ONNX form" || e.Ops[0].First != "made" {
				t.Errorf("%s: error %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := text(r.Graph); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
		if v, ok := r.OpsetVersion(kit.DomainMicrosoft); ok != strings.Contains(c.want, "com.microsoft") ||
			ok && v != 1 {
			t.Errorf("%s: com.microsoft is imported as %d, %v", c.name, v, ok)
		}
	}
}

// Constants that passes fold become initializers, or nodes where they are no tensors.
func TestWritesFoldedConstants(t *testing.T) {
	one := tensor.Must(tensor.New([]float32{1}, 1))
	floats := one.Type()
	for _, c := range []struct {
		name string
		v    tensor.Value
		want string
		err  string
	}{
		{"tensor", one, "y=Identity(s)", ""},
		{"sequence", &tensor.Sequence{Elem: floats, Items: []tensor.Value{one, one}}, "y=SequenceConstruct(onward_1,onward_1)", ""},
		{"empty sequence", &tensor.Sequence{Elem: floats}, fmt.Sprintf("y=SequenceEmpty() dtype=%d", onnx.Float), ""},
		{"optional", &tensor.Optional{Elem: floats, Value: one}, "y=Optional(onward_1)", ""},
		{"empty optional", &tensor.Optional{Elem: floats}, fmt.Sprintf("y=Optional() type:%d", onnx.AttrTypeProto), ""},
		{"sparse tensor", &tensor.Sparse{Values: one, Shape: []int{1}}, "", "constants of type sparse_tensor(float) are not supported"},
	} {
		b := builder(17)
		b.Node("SequenceConstruct", []string{"x"}, []string{"s"})
		m := finish(b, "s")
		m.Graph.Outputs[0] = &onnx.ValueInfo{Name: "y"} // of what a pass left: a constant
		m.Graph.Nodes[0].Outputs[0] = "y"
		g := convert(t, m)
		g.Nodes = nil
		g.Outputs[0] = g.NewConst("s", one)
		g.Values[g.Outputs[0]].Const = c.v
		r, err := export.Model(g, m)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := text(r.Graph); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRefusesEngineDomains(t *testing.T) {
	for domain, want := range map[string]string{
		kit.DomainInternal: "Relu: the operator is the engine's own and has no ONNX form",
		kit.DomainNchwc:    "Relu: ONNX Runtime chose its block size for one processor",
	} {
		b := builder(17)
		b.Node("Relu", []string{"x"}, []string{"m"})
		b.Node("Relu", []string{"m"}, []string{"y"})
		m := finish(b, "y")
		g := convert(t, m)
		for _, n := range g.Nodes {
			n.Source.Domain = domain
		}
		_, err := export.Model(g, m)
		if e, ok := err.(*kit.UnsupportedError); !ok || len(e.Ops) != 1 || e.Ops[0].Reason != want ||
			e.Ops[0].Nodes != 2 {
			t.Errorf("%s: error %v, want %s", domain, err, want)
		}
	}
}

func TestOpset(t *testing.T) {
	for _, c := range []struct {
		ir      int64
		imports []onnx.OperatorSetID
		want    int
	}{
		{8, []onnx.OperatorSetID{{Version: 17}, {Domain: "ai.onnx.ml", Version: 3}}, 17},
		{8, []onnx.OperatorSetID{{Domain: "ai.onnx", Version: 16}}, 16},
		{8, []onnx.OperatorSetID{{Domain: "ai.onnx.ml", Version: 3}}, 1},
		{2, nil, 1},
	} {
		if got := export.Opset(&onnx.Model{IRVersion: c.ir, OpsetImports: c.imports}); got != c.want {
			t.Errorf("opsets %v: %d, want %d", c.imports, got, c.want)
		}
	}
}
