package frontend_test

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/onnx"
)

func TestFunctions(t *testing.T) {
	ref := func(name, of string) *onnx.Attribute {
		return &onnx.Attribute{Name: name, Type: onnx.AttrFloat, RefAttrName: of}
	}
	leaky := node("LeakyRelu", "a", "b", ref("alpha", "slope"))
	leaky.Name = "relu"
	scale := &onnx.Function{Name: "Scale", Inputs: []string{"a", "by"}, Outputs: []string{"b"},
		Nodes: []*onnx.Node{node("Mul", "a by", "b")}}
	optional := &onnx.Function{Name: "Clamp", Inputs: []string{"a", "lo", "hi"}, Outputs: []string{"b"},
		Nodes: []*onnx.Node{
			{OpType: "Clip", Inputs: []string{"a", "lo", "hi"}, Outputs: []string{"b"}}}}
	withDefault := &onnx.Function{Name: "Leaky", Inputs: []string{"a"}, Outputs: []string{"b"},
		Nodes:           []*onnx.Node{leaky},
		AttributeProtos: []*onnx.Attribute{{Name: "slope", Type: onnx.AttrFloat, F: 0.5}, nil}}
	twice := &onnx.Function{Domain: "f", Name: "Twice", Inputs: []string{"v"}, Outputs: []string{"o"},
		Nodes: []*onnx.Node{
			{Name: "in", OpType: "Leaky", Inputs: []string{"v"}, Outputs: []string{"m"}}, {Name: "out", OpType: "Leaky", Inputs: []string{"m"}, Outputs: []string{"o"},
				Attributes: []*onnx.Attribute{ref("slope", "given")}}}, Attributes: []string{"given"}}
	captures := &onnx.Function{Name: "Choose", Inputs: []string{"c", "v"}, Outputs: []string{"o"}, Nodes: []*onnx.Node{
		node("If", "c", "o", graphAttr("then_branch", graph("", "t", node("Neg", "v", "t"))), graphAttr("else_branch", graph("", "v")))}}
	old := &onnx.Function{Name: "Old", Inputs: []string{"a"}, Outputs: []string{"b"},
		OpsetImports: []onnx.OperatorSetID{{Version: 11}},
		Nodes:        []*onnx.Node{node("Unsqueeze", "a", "b", &onnx.Attribute{Name: "axes", Type: onnx.AttrInts, Ints: []int64{0}})}}
	call := node("Twice", "x", "y")
	call.Domain, call.Name = "f", "c"
	g := graph("x w", "y", call)
	for _, c := range []struct {
		name string
		g    *onnx.Graph
		want string
	}{
		{"inputs by position", graph("x w", "y", node("Scale", "x w", "p"), node("Scale", "p p", "y")), "p=Mul(x,w) y=Mul(p,p) ->y"},
		{"omitted inputs", graph("x hi", "y", &onnx.Node{OpType: "Clamp", Inputs: []string{"x", "", "hi"}, Outputs: []string{"y"}}), "y=Clip(x,_,hi) ->y"},
		{"fewer inputs", graph("x", "y", node("Clamp", "x", "y")), "y=Clip(x,_,_) ->y"},
		{"nested", g, "m=LeakyRelu(x) y=LeakyRelu(m) ->y"},
		{"captures", func() *onnx.Graph {
			g := graph("x", "y", node("Choose", "c x", "y"))
			g.Inputs = append(g.Inputs, value("c", onnx.Bool))
			return g
		}(), "y=If(c)[x>x]{t=Neg(x) ->t}[x>x]{->x} ->y"},
		{"own opset", graph("x", "y", node("Old", "x", "y")), "y=Unsqueeze(x,#) ->y"},
	} {
		m := model(17, c.g)
		m.Functions = []*onnx.Function{scale, optional, withDefault, twice, captures, old}
		got, err := frontend.Convert(m, frontend.Options{KeepSource: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if s := text(got); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}

	// Attributes of the call reach the node, else the function's default; names have
	// those of the calls before them.
	call.Attributes = []*onnx.Attribute{{Name: "given", Type: onnx.AttrFloat, F: 0.25}}
	m := model(17, g)
	m.Functions = []*onnx.Function{withDefault, twice}
	got, err := frontend.Convert(m, frontend.Options{KeepSource: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name  string
		alpha float32
	}{{"c/in/relu", 0.5}, {"c/out/relu", 0.25}} {
		if n := got.Nodes[i]; n.Name != want.name || n.Source.Attrs["alpha"] != want.alpha {
			t.Errorf("node %q has alpha %v, want %q with %v", n.Name, n.Source.Attrs["alpha"], want.name, want.alpha)
		}
	}
}

func TestFunctionErrors(t *testing.T) {
	call := func(in, out string) *onnx.Graph { return graph("x", "y", node("F", in, out)) }
	body := func(nodes ...*onnx.Node) *onnx.Function {
		return &onnx.Function{Name: "F", Inputs: []string{"a"}, Outputs: []string{"b"}, Nodes: nodes}
	}
	relu := body(node("Relu", "a", "b"))
	for _, c := range []struct {
		name  string
		g     *onnx.Graph
		funcs []*onnx.Function
		want  string
	}{
		{"defined twice", call("x", "y"), []*onnx.Function{relu, relu}, "function F is defined twice"},
		{"calls itself", call("x", "y"), []*onnx.Function{body(node("F", "a", "b"))}, "function F: function F calls itself"},
		{"too many inputs", call("x x", "y"), []*onnx.Function{relu}, `node "" calls function F with 2 inputs, want at most 1`},
		{"too many outputs", call("x", "y z"), []*onnx.Function{relu}, `node "" has 2 outputs, but function F has 1`},
		{"missing output", call("x", "y"), []*onnx.Function{body(node("Relu", "a", "c"))}, `function F does not compute its output "b"`},
		{"unknown name", call("x", "y"), []*onnx.Function{body(node("Relu", "x", "b"))}, `input "x" is neither a graph input, an initializer nor the output of a node`},
		{"a parameter twice", call("x", "y"), []*onnx.Function{{Name: "F", Inputs: []string{"a", "a"}, Outputs: []string{"a"}}}, `function F: value "a" is defined twice`},
		{"opset", call("x", "y"), []*onnx.Function{{Name: "F", OpsetImports: []onnx.OperatorSetID{{}}, Inputs: []string{"a"}, Outputs: []string{"a"}}}, "function F: model imports opset 0"},
		{"reference outside", graph("x", "y", node("LeakyRelu", "x", "y", &onnx.Attribute{Name: "alpha", RefAttrName: "z"})), nil, "attribute alpha refers to attribute z of a function, but the node is not in a function"},
	} {
		m := model(17, c.g)
		m.Functions = c.funcs
		if _, err := frontend.Convert(m, frontend.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestFunctionWithNameOfOperator prefers the engine's operators to model-local functions of the
// same name.
func TestFunctionWithNameOfOperator(t *testing.T) {
	unknown := node("NoSuchOperator", "a", "b")
	for _, c := range []struct {
		name, want string
		fn         *onnx.Function
		call       *onnx.Node
	}{
		{"the operator runs", "y=Relu(x) ->y", &onnx.Function{Name: "Relu", Inputs: []string{"a"}, Outputs: []string{"b"}, Nodes: []*onnx.Node{unknown}}, node("Relu", "x", "y")},
		{"another overload", "y=Neg(x) ->y", &onnx.Function{Name: "Relu", Overload: "o", Inputs: []string{"a"}, Outputs: []string{"b"}, Nodes: []*onnx.Node{node("Neg", "a", "b")}},
			&onnx.Node{OpType: "Relu", Overload: "o", Inputs: []string{"x"}, Outputs: []string{"y"}}},
		{"an attribute that the operator lacks", "y=Neg(x) ->y", &onnx.Function{Name: "Relu", Inputs: []string{"a"}, Outputs: []string{"b"}, Attributes: []string{"slope"}, Nodes: []*onnx.Node{node("Neg", "a", "b")}}, node("Relu", "x", "y", intAttr("slope", 1))},
		{"more inputs than the operator has", "y=Add(x,x) ->y", &onnx.Function{Name: "Relu", Inputs: []string{"a", "b"}, Outputs: []string{"c"}, Nodes: []*onnx.Node{node("Add", "a b", "c")}}, node("Relu", "x x", "y")},
		{"a missing input", "y=Neg(x) ->y", &onnx.Function{Name: "Add", Inputs: []string{"a"}, Outputs: []string{"b"}, Nodes: []*onnx.Node{node("Neg", "a", "b")}}, node("Add", "x", "y")},
	} {
		m := model(17, graph("x", "y", c.call))
		m.Functions = []*onnx.Function{c.fn}
		got, err := frontend.Convert(m, frontend.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if s := text(got); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		if err := frontend.CheckOperators(m, nil); err != nil {
			t.Errorf("%s: CheckOperators: %v", c.name, err)
		}
	}
}
