package frontend_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

const (
	float  = onnx.Float
	int64s = onnx.Int64
)

func node(op string, in, out string, attrs ...*onnx.Attribute) *onnx.Node {
	return &onnx.Node{OpType: op, Inputs: strings.Fields(in), Outputs: strings.Fields(out), Attributes: attrs}
}

func value(name string, t onnx.DataType, dims ...any) *onnx.ValueInfo {
	v := &onnx.ValueInfo{Name: name}
	var err error
	if v.Type, err = onnx.NewTensorType(t, dims...); err != nil {
		panic(err)
	}
	return v
}

// graph has float inputs of shape [2 3] and outputs without types.
func graph(inputs, outputs string, nodes ...*onnx.Node) *onnx.Graph {
	g := &onnx.Graph{Name: "g", Nodes: nodes}
	for _, name := range strings.Fields(inputs) {
		g.Inputs = append(g.Inputs, value(name, float, 2, 3))
	}
	for _, name := range strings.Fields(outputs) {
		g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: name})
	}
	return g
}

func model(opset int64, g *onnx.Graph) *onnx.Model {
	return &onnx.Model{IRVersion: 8, Graph: g, OpsetImports: []onnx.OperatorSetID{{Version: opset}}}
}

func initializer(name string, v tensor.Value) *onnx.Tensor {
	t := onnx.FromTensor(v.(*tensor.Tensor))
	t.Name = name
	return t
}

func intAttr(name string, v int64) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrInt, I: v}
}

func graphAttr(name string, g *onnx.Graph) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrGraph, G: g}
}

// text writes a graph: constants as #, values by name and subgraphs with what they
// capture.
func text(g *ir.Graph) string {
	name := func(id ir.ValueID) string {
		switch {
		case id == ir.None:
			return "_"
		case g.Values[id].Const != nil:
			return "#" + g.Values[id].Name
		}
		return g.Values[id].Name
	}
	list := func(ids []ir.ValueID) string {
		var r []string
		for _, id := range ids {
			r = append(r, name(id))
		}
		return strings.Join(r, ",")
	}
	var r []string
	for _, n := range g.Nodes {
		s := fmt.Sprintf("%s=%s(%s)", list(n.Out), n.OpType, list(n.In))
		for _, sub := range n.Graphs {
			var caps []string
			for _, c := range sub.Captures {
				caps = append(caps, g.Values[c.Outer].Name+">"+sub.Values[c.Inner].Name)
			}
			s += "[" + strings.Join(caps, ",") + "]{" + text(sub) + "}"
		}
		r = append(r, s)
	}
	return strings.Join(append(r, "->"+list(g.Outputs)), " ")
}

// Older forms become the newest: attributes that ONNX later made inputs are constants.
func TestConvertOpsets(t *testing.T) {
	clip := []*onnx.Attribute{{Name: "min", Type: onnx.AttrFloat, F: -1}, {Name: "max", Type: onnx.AttrFloat, F: 1}}
	axes := &onnx.Attribute{Name: "axes", Type: onnx.AttrInts, Ints: []int64{0}}
	withAxes := graph("x", "y", node("Unsqueeze", "x axes", "y"))
	withAxes.Initializers = []*onnx.Tensor{initializer("axes", tensor.Must(tensor.New([]int64{0}, 1)))}
	for _, c := range []struct {
		name  string
		opset int64
		g     *onnx.Graph
		want  string
		shape string
	}{
		{"Clip 6", 6, graph("x", "y", node("Clip", "x", "y", clip...)), "y=Clip(x) ->y", "tensor(float)[2 3]"},
		{"Clip 11", 11, graph("x lo", "y", node("Clip", "x lo", "y")), "y=Clip(x,lo) ->y", "tensor(float)[2 3]"},
		{"Unsqueeze 11", 11, graph("x", "y", node("Unsqueeze", "x", "y", axes)), "y=Unsqueeze(x,#) ->y", "tensor(float)[1 2 3]"},
		{"Unsqueeze 13", 13, withAxes, "y=Unsqueeze(x,#axes) ->y", "tensor(float)[1 2 3]"},
		{"ReduceSum 1", 1, graph("x", "y", node("ReduceSum", "x", "y", axes, intAttr("keepdims", 0))), "y=ReduceSum(x,#) ->y", "tensor(float)[3]"},
		{"Softmax 1 flattens", 1, graph("x", "y", node("Softmax", "x", "y")), "y=Softmax(x) ->y", "tensor(float)[2 3]"},
	} {
		g, err := frontend.Convert(model(c.opset, c.g), frontend.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := text(g); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := g.Values[g.Outputs[0]].Type.String(); got != c.shape {
			t.Errorf("%s: the output is %s, want %s", c.name, got, c.shape)
		}
		if n := g.Nodes[0]; n.Opset != int(c.opset) || n.Source != nil {
			t.Errorf("%s: opset %d, source %v", c.name, n.Opset, n.Source)
		}
	}
	g, err := frontend.Convert(model(11, graph("x", "y", node("Unsqueeze", "x", "y", axes))),
		frontend.Options{KeepSource: true})
	if err != nil {
		t.Fatal(err)
	}
	if s := g.Nodes[0].Source; s == nil || !slices.Equal(s.Extra, []int{1}) || s.Attrs["axes"] == nil ||
		!g.Nodes[0].FromSource() {
		t.Errorf("source %+v", s)
	}
}

func TestConvertImports(t *testing.T) {
	relu := graph("x", "y", node("Relu", "x", "y"))
	other := node("Relu", "x", "y")
	other.Domain = "com.example"
	gelu := node("Gelu", "x", "y")
	gelu.Domain = kit.DomainMicrosoft
	for _, c := range []struct {
		name    string
		ir      int64
		imports []onnx.OperatorSetID
		g       *onnx.Graph
		want    string
	}{
		{"spelled out", 8, []onnx.OperatorSetID{{Domain: "ai.onnx", Version: 17}}, relu, ""},
		{"IR version 2 without imports is opset 1", 2, nil, relu, ""},
		{"IR version 3 without imports", 3, nil, relu, `operator Relu belongs to domain "ai.onnx", which the model does not import`},
		{"opset 0", 8, []onnx.OperatorSetID{{}}, relu, `model imports opset 0 of domain "ai.onnx", which does not exist`},
		{"future opset", 8, []onnx.OperatorSetID{{Version: 1000}}, relu, `model imports opset 1000 of domain "ai.onnx", the newest supported one is `},
		{"huge opset of an unknown domain", 8, []onnx.OperatorSetID{{Version: 17}, {Domain: "a", Version: 1 << 40}}, relu, `opset 1099511627776 of domain "a", which does not exist`},
		{"com.microsoft need not be imported", 8, []onnx.OperatorSetID{{Version: 17}}, graph("x", "y", gelu), ""},
		{"ai.onnx.ml need not be imported", 8, []onnx.OperatorSetID{{Version: 17}}, graph("x", "y", &onnx.Node{Domain: "ai.onnx.ml", OpType: "Normalizer", Inputs: []string{"x"}, Outputs: []string{"y"}}), ""},
		{"ai.onnx need not be imported", 8, []onnx.OperatorSetID{{Domain: "com.example", Version: 1}}, relu, ""},
		{"another domain must be", 8, []onnx.OperatorSetID{{Version: 17}}, graph("x", "y", other), `operator com.example.Relu belongs to domain "com.example", which the model does not import`},
	} {
		_, err := frontend.Convert(&onnx.Model{IRVersion: c.ir, Graph: c.g, OpsetImports: c.imports},
			frontend.Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestRepeatedInitializer takes the last of several initializers of one name, as ONNX Runtime does.
func TestRepeatedInitializer(t *testing.T) {
	g := graph("x", "y", node("Add", "x k", "y"))
	last := tensor.Must(tensor.New([]float32{4, 5, 6}, 3))
	g.Initializers = []*onnx.Tensor{initializer("k", tensor.Must(tensor.New([]float32{1, 2, 3}, 3))),
		initializer("k", last)}
	got, err := frontend.Convert(model(17, g), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s, want := text(got), "y=Add(x,#k) ->y"; s != want {
		t.Errorf("%s, want %s", s, want)
	}
	if k := got.Values[got.Nodes[0].In[1]].Const; tensor.Equal(k, last) != nil {
		t.Errorf("k is %v, want %v", k, last)
	}
}

func TestUnsupportedOperators(t *testing.T) {
	named := node("Nothing", "x", "a")
	named.Name = "first"
	branch := graph("", "d", node("Trilu", "x", "d"))
	m := model(13, graph("x c", "b", named, node("Nothing", "a", "b"),
		node("If", "c", "e", graphAttr("then_branch", branch), graphAttr("else_branch", branch))))
	want := []kit.Unsupported{
		{OpType: "Nothing", Opset: 13, Nodes: 2, First: "first", Reason: "operator Nothing is not implemented"},
		{OpType: "Trilu", Opset: 13, Nodes: 2, First: "d", Reason: "operator Trilu exists since opset 14, the model imports opset 13"},
	}
	_, converted := frontend.Convert(m, frontend.Options{})
	for name, err := range map[string]error{"Convert": converted, "CheckOperators": frontend.CheckOperators(m, nil)} {
		e, ok := err.(*kit.UnsupportedError)
		if !ok || !slices.Equal(e.Ops, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}

	// A custom operator replaces a missing one, and a registered one.
	relu, err := kit.Lookup("", "Relu", 13)
	if err != nil {
		t.Fatal(err)
	}
	custom := func(domain, opType string, opset int) *kit.Def {
		if opType == "Nothing" || opType == "Tanh" {
			return relu
		}
		return nil
	}
	own := model(13, graph("x", "b", node("Nothing", "x", "a"), node("Tanh", "a", "b")))
	g, err := frontend.Convert(own, frontend.Options{Custom: custom})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprintf("%T", g.Nodes[0].Op), fmt.Sprintf("%T", g.Nodes[1].Op); a != b {
		t.Errorf("operators are of types %s and %s, want that of Relu", a, b)
	}
	if err := frontend.CheckOperators(own, custom); err != nil {
		t.Errorf("CheckOperators: %v", err)
	}
}

// A function in a domain that it does not import is checked too, with its own opsets.
func TestCheckOperatorsOfFunctions(t *testing.T) {
	m := model(17, graph("x", "y", node("F", "x", "y")))
	m.Functions = []*onnx.Function{
		{Name: "F", Inputs: []string{"a"}, Outputs: []string{"b"}, Nodes: []*onnx.Node{node("Trilu", "a", "b")}}}
	if err := frontend.CheckOperators(m, nil); err != nil {
		t.Errorf("opset 17: %v", err)
	}
	m.Functions[0].OpsetImports = []onnx.OperatorSetID{{Version: 13}}
	if err := frontend.CheckOperators(m, nil); err == nil ||
		!strings.Contains(err.Error(), "operator Trilu exists since opset 14, the model imports opset 13") {
		t.Errorf("opset 13: error %v", err)
	}
	m.Functions[0].OpsetImports[0].Version = 0
	if err := frontend.CheckOperators(m, nil); err == nil || !strings.HasPrefix(err.Error(), "function F: ") {
		t.Errorf("opset 0: error %v", err)
	}
}

func TestCaptures(t *testing.T) {
	inner := graph("", "i", node("Add", "x k", "i"))
	branch := func() *onnx.Graph {
		return graph("", "t", node("If", "c", "t", graphAttr("then_branch", inner),
			graphAttr("else_branch", graph("", "p"))))
	}
	g := graph("x d", "y", node("Neg", "x", "p"),
		node("If", "c", "y", graphAttr("then_branch", branch()), graphAttr("else_branch", graph("", "d"))))
	g.Inputs = append(g.Inputs, value("c", onnx.Bool))
	one := tensor.Must(tensor.New([]float32{1, 2, 3}, 3))
	g.Initializers = []*onnx.Tensor{initializer("k", one),
		initializer("d", tensor.Must(tensor.New(make([]float32, 6), 2, 3)))}
	got, err := frontend.Convert(model(17, g), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// k is a constant in the inner graph; d is not, because a caller may override it.
	want := "p=Neg(x) y=If(c)[c>c,x>x,p>p]{t=If(c)[x>x]{i=Add(x,#k) ->i}[p>p]{->p} ->t}[d>d]{->d} ->y"
	if s := text(got); s != want {
		t.Errorf("%s, want %s", s, want)
	}
	sub := got.Nodes[1].Graphs[0].Nodes[0].Graphs[0]
	if typ := sub.Values[sub.Outputs[0]].Type.String(); typ != "tensor(float)[2 3]" {
		t.Errorf("the inner output is %s, want tensor(float)[2 3]", typ)
	}
}

func TestLimits(t *testing.T) {
	nest := func(depth int) *onnx.Graph {
		g := graph("", "o", node("Neg", "x", "o"))
		for range depth {
			g = graph("", "o", node("If", "c", "o", graphAttr("then_branch", g),
				graphAttr("else_branch", graph("", "x"))))
		}
		g.Inputs = []*onnx.ValueInfo{value("x", float, 2), value("c", onnx.Bool)}
		return g
	}
	if _, err := frontend.Convert(model(17, nest(3)), frontend.Options{Limits: frontend.Limits{MaxDepth: 3}}); err !=
		nil {
		t.Errorf("depth 3: %v", err)
	}
	if _, err := frontend.Convert(model(17, nest(4)), frontend.Options{Limits: frontend.Limits{MaxDepth: 3}}); err ==
		nil || err.Error() != "subgraphs nest deeper than 3 levels" {
		t.Errorf("depth 4: error %v", err)
	}
	if err := frontend.CheckOperators(model(17, nest(101)), nil); err == nil ||
		err.Error() != "subgraphs nest deeper than 100 levels" {
		t.Errorf("CheckOperators at depth 101: error %v", err)
	}

	// Each function calls the one before it twice: 2ⁿ nodes from 2·n.
	var funcs []*onnx.Function
	last := "Relu"
	for i := range 12 {
		name := fmt.Sprint("F", i)
		funcs = append(funcs, &onnx.Function{Name: name, Inputs: []string{"a"}, Outputs: []string{"b"},
			Nodes: []*onnx.Node{node(last, "a", "m"), node(last, "m", "b")}})
		last = name
	}
	m := model(17, graph("x", "y", node(last, "x", "y")))
	m.Functions = funcs
	for _, c := range []struct {
		limits frontend.Limits
		want   string
	}{
		{frontend.Limits{}, ""},
		{frontend.Limits{MaxNodes: 1000}, "model has more than 1100 nodes after inlining its functions"},
		{frontend.Limits{MaxDepth: 11}, "function calls exceed depth 11, at F0"},
	} {
		g, err := frontend.Convert(m, frontend.Options{Limits: c.limits})
		if c.want == "" && (err != nil || len(g.Nodes) != 4096) || c.want != "" &&
			(err == nil || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("limits %+v: error %v, want %q", c.limits, err, c.want)
		}
	}
}

func TestGraphErrors(t *testing.T) {
	with := func(g *onnx.Graph, change func(g *onnx.Graph)) *onnx.Graph {
		change(g)
		return g
	}
	relu := func() *onnx.Graph { return graph("x", "y", node("Relu", "x", "y")) }
	one := tensor.Scalar(float32(1))
	for _, c := range []struct {
		name, want string
		g          *onnx.Graph
	}{
		{"no graph", "the model has no graph", nil},
		{"no node", "a node is missing", with(relu(), func(g *onnx.Graph) { g.Nodes[0] = nil })},
		{"input without a name", `graph "g" has an input without a name`, with(relu(), func(g *onnx.Graph) { g.Inputs[0].Name = "" })},
		{"input without a type", `input "x" of the main graph has no type`, with(relu(), func(g *onnx.Graph) { g.Inputs[0].Type = nil })},
		{"element type", `input "x": element type 999 does not exist`, with(relu(), func(g *onnx.Graph) { g.Inputs[0].Type.Tensor.ElemType = 999 })},
		{"rank", "exceeds the limit of ", with(relu(), func(g *onnx.Graph) { g.Inputs[0].Type.Tensor.Shape.Dims = make([]onnx.Dim, tensor.MaxRank+1) })},
		{"opaque", "opaque types are not supported", with(relu(), func(g *onnx.Graph) { g.Inputs[0].Type = &onnx.Type{Opaque: &onnx.OpaqueType{}} })},
		{"key of a map", "key type of a map is float, want an integer type or string", with(relu(), func(g *onnx.Graph) {
			g.Inputs[0].Type = &onnx.Type{Map: &onnx.MapType{Key: onnx.Float, Value: g.Inputs[0].Type}}
		})},
		{"input twice", `value "x" is defined twice`, graph("x x", "y", node("Relu", "x", "y"))},
		{"output twice", `value "y" is defined twice`, graph("x", "y", node("Relu", "x", "y"), node("Neg", "x", "y"))},
		{"node output is an input", `value "x" is defined twice`, graph("x w", "x", node("Relu", "w", "x"))},
		{"missing input", `node "" (Relu): input "z" is neither a graph input, an initializer nor the output of a node`, graph("x", "y", node("Relu", "z", "y"))},
		{"missing output", `output "z" of graph "g" is not computed by any node`, graph("x", "z", node("Relu", "x", "y"))},
		{"output without a name", `graph "g" has an output without a name`, with(relu(), func(g *onnx.Graph) { g.Outputs[0].Name = "" })},
		{"cycle", "has a cycle through node", graph("x", "y", node("Add", "x y", "z"), node("Relu", "z", "y"))},
		{"initializer without a name", `graph "g" has an initializer without a name`, with(relu(), func(g *onnx.Graph) { g.Initializers = []*onnx.Tensor{{}} })},
		{"initializer of another type", `initializer "x" has type tensor(int64), but its input has type tensor(float)`, with(relu(), func(g *onnx.Graph) { g.Initializers = []*onnx.Tensor{initializer("x", tensor.Scalar(int64(1)))} })},
		{"sparse initializer without a name", `graph "g" has a sparse initializer without a name`, with(relu(), func(g *onnx.Graph) { g.SparseInitializers = []*onnx.SparseTensor{{}} })},
		{"sparse initializer twice", `initializer "k" is defined twice`, with(relu(), func(g *onnx.Graph) {
			g.Initializers, g.SparseInitializers = []*onnx.Tensor{initializer("k", one)},
				[]*onnx.SparseTensor{sparse("k", 4)}
		})},
		{"sparse initializer that is large when dense", "takes 2147483648 bytes when dense, want at most 1073741824", with(relu(), func(g *onnx.Graph) {
			g.SparseInitializers = []*onnx.SparseTensor{sparse("k", 1<<29)}
		})},
		{"unknown attribute", "beta", graph("x", "y", node("Relu", "x", "y", intAttr("beta", 1)))},
		{"attribute twice", "attribute alpha is set twice", graph("x", "y", node("LeakyRelu", "x", "y", intAttr("alpha", 1), intAttr("alpha", 1)))},
		{"attribute without a name", "attribute without a name", graph("x", "y", node("LeakyRelu", "x", "y", intAttr("", 1)))},
		{"attribute type", "attribute alpha: attribute type 77 is not supported", graph("x", "y", node("LeakyRelu", "x", "y", &onnx.Attribute{Name: "alpha", Type: 77}))},
		{"attribute without its tensor", "attribute value: tensor is missing", graph("x", "y", node("Constant", "", "y", &onnx.Attribute{Name: "value", Type: onnx.AttrTensor}))},
		{"attribute without its sparse tensor", "sparse tensor is missing", graph("x", "y", node("Constant", "", "y", &onnx.Attribute{Name: "sparse_value", Type: onnx.AttrSparseTensor}))},
		{"attribute without its graph", "graph is missing", graph("x", "y", node("If", "x", "y", &onnx.Attribute{Name: "then_branch", Type: onnx.AttrGraph}))},
		{"attribute and input", `input 1 is set, but it is an attribute in opset 11`, nil},
		{"shape inference", `shape inference of node "Relu -> y" (Relu, opset 17) with inputs (tensor(float)[2 3], tensor(float)[2 3]): node has 2 inputs, want at most 1`,
			graph("x", "y", node("Relu", "x x", "y"))},
		{"output of another element type", `output "y" has type tensor(int64), but is declared with type tensor(float)`,
			with(graph("x", "y", node("Shape", "x", "y")), func(g *onnx.Graph) { g.Outputs[0] = value("y", float, 2) })},
		{"output of another kind", `output "y" has type seq(tensor(float)), but is declared with type tensor(float)`,
			with(graph("x", "y", node("SequenceConstruct", "x", "y")), func(g *onnx.Graph) { g.Outputs[0] = value("y", float, 2) })},
	} {
		m := model(17, c.g)
		if c.name == "attribute and input" {
			m = model(11,
				graph("x", "y", node("Unsqueeze", "x x", "y",
					&onnx.Attribute{Name: "axes", Type: onnx.AttrInts, Ints: []int64{0}})))
		}
		if _, err := frontend.Convert(m, frontend.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// sparse returns a sparse tensor of n elements, of which the second is 5.
func sparse(name string, n int64) *onnx.SparseTensor {
	return &onnx.SparseTensor{Values: initializer(name, tensor.Must(tensor.New([]float32{5}, 1))),
		Indices: initializer("", tensor.Must(tensor.New([]int64{1}, 1))), Dims: []int64{n}}
}

func TestInitializers(t *testing.T) {
	ones := func(v float32) *tensor.Tensor { return tensor.Must(tensor.New([]float32{v, v, v}, 3)) }
	build := func(irVersion int64) *onnx.Model {
		g := graph("x", "y", node("Sum", "x d k s", "y"))
		g.Inputs = append(g.Inputs, value("d", float, 3))
		g.Initializers = []*onnx.Tensor{initializer("d", ones(1)), initializer("k", ones(2))}
		g.SparseInitializers = []*onnx.SparseTensor{sparse("s", 3)}
		m := model(17, g)
		m.IRVersion = irVersion
		return m
	}
	g, err := frontend.Convert(build(8), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(g); got != "y=Sum(x,d,#k,#s) ->y" || len(g.Inputs) != 2 || g.Defaults[g.Inputs[1]] == nil {
		t.Errorf("%s with %d inputs", got, len(g.Inputs))
	}
	if s := g.Values[g.Nodes[0].In[3]].Const.(*tensor.Tensor); !slices.Equal(tensor.MustData[float32](s),
		[]float32{0, 5, 0}) {
		t.Errorf("the sparse initializer is %v", s)
	}

	// Before IR version 4 an initializer that is an input cannot be overridden.
	if g, err = frontend.Convert(build(3), frontend.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := text(g); got != "y=Sum(x,#d,#k,#s) ->y" || len(g.Inputs) != 1 {
		t.Errorf("IR version 3: %s with %d inputs", got, len(g.Inputs))
	}

	m := build(8)
	given := ones(7)
	if g, err = frontend.Convert(m,
		frontend.Options{Initializers: map[string]tensor.Value{"k": given}, Release: true}); err != nil {
		t.Fatal(err)
	}
	if v := g.Values[g.Nodes[0].In[2]]; v.Const != tensor.Value(given) || v.Owned {
		t.Errorf("k is %v, owned %v, want the given value", v.Const, v.Owned)
	}
	if m.Graph.Initializers[0].RawData != nil || m.Graph.Initializers[1].RawData == nil {
		t.Error("raw data must be released where it was used, and only there")
	}
}

func TestInputTypes(t *testing.T) {
	g := graph("", "a b c d")
	add := func(name string, typ *onnx.Type) {
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name, Type: typ})
	}
	list := value("", float, "N", -1, 3).Type
	add("a", list)
	add("b", &onnx.Type{Sequence: &onnx.SequenceType{Elem: list}})
	add("c", &onnx.Type{Optional: &onnx.OptionalType{Elem: value("", int64s).Type}})
	add("d", &onnx.Type{Map: &onnx.MapType{Key: onnx.String, Value: value("", float).Type}})
	ig, err := frontend.Convert(model(17, g), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"tensor(float)[N ? 3]", "seq(tensor(float))", "optional(tensor(int64))",
		"map(string,tensor(float))"} {
		if got := ig.Values[ig.Inputs[i]].Type.String(); got != want {
			t.Errorf("input %d is %s, want %s", i, got, want)
		}
	}
}

// TestLoopWithoutCarriedValues runs inference for a Loop without carried values, of which trailing
// inputs are omitted, in the main graph and inside of If.
func TestLoopWithoutCarriedValues(t *testing.T) {
	for _, inputs := range [][]string{{"m", "c"}, {"m", ""}, {"m"}, {"", ""}, {}} {
		loop := func(g *onnx.GraphBuilder, prefix string) {
			body := onnx.NewGraph(prefix + "body")
			body.Input(prefix+"i", onnx.Int64).Input(prefix+"on", onnx.Bool).Output(prefix+"less",
				onnx.Bool).Output(prefix+"next", onnx.Int64)
			body.Node("Less", []string{prefix + "i", "m"}, []string{prefix + "less"})
			body.Node("Add", []string{prefix + "i", "m"}, []string{prefix + "next"})
			g.Node("Loop", inputs, []string{prefix + "y"}, onnx.Attrs{"body": body})
			g.Output(prefix+"y", onnx.Int64, nil)
		}
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("m", onnx.Int64).Input("c", onnx.Bool).Output("z", onnx.Int64, nil)
		loop(b.GraphBuilder, "")
		var branches [2]*onnx.GraphBuilder
		for i, prefix := range []string{"t_", "e_"} {
			branches[i] = onnx.NewGraph(prefix)
			loop(branches[i], prefix)
		}
		b.Node("If", []string{"c"}, []string{"z"}, onnx.Attrs{"then_branch": branches[0], "else_branch": branches[1]})
		if _, err := frontend.Convert(b.Must(), frontend.Options{}); err != nil {
			t.Errorf("inputs %q: %v", inputs, err)
		}
	}
}

// counted is a context that counts the calls of Err and ends at one of them.
type counted struct {
	context.Context
	calls, end int
}

func (c *counted) Err() error {
	if c.calls++; c.calls == c.end {
		return context.Canceled
	}
	return nil
}

// TestConvertStops ends the context in a node with many outputs.
func TestConvertStops(t *testing.T) {
	var out []string
	for i := range 20_000 {
		out = append(out, fmt.Sprint("y", i))
	}
	g := graph("x", "y0", node("Split", "x", strings.Join(out, " "), intAttr("axis", 0),
		intAttr("num_outputs", 20_000)))
	c := &counted{Context: t.Context()}
	if _, err := frontend.Convert(model(18, g), frontend.Options{Context: c}); err != nil || c.calls < 5 {
		t.Fatalf("%d checks of the context, want at least 5; %v", c.calls, err)
	}
	for end := range c.calls {
		if _, err := frontend.Convert(model(18, g),
			frontend.Options{Context: &counted{Context: t.Context(), end: end + 1}}); err == nil {
			t.Errorf("no error after the context ended at check %d", end+1)
		}
	}
}
