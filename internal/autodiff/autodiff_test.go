package autodiff_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/autodiff"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
)

func node(op string, in, out string, attrs ...*onnx.Attribute) *onnx.Node {
	return &onnx.Node{OpType: op, Inputs: strings.Fields(in), Outputs: strings.Fields(out), Attributes: attrs}
}

// gradient returns a Gradient node that differentiates y with respect to xs.
func gradient(xs, y, out string) *onnx.Node {
	n := node("Gradient", xs, out, &onnx.Attribute{Name: "xs", Strings: strings.Fields(xs)},
		&onnx.Attribute{Name: "y", S: y})
	n.Domain, n.Name = kit.DomainPreviewTraining, "grad"
	return n
}

func graph(inputs, outputs string, nodes ...*onnx.Node) *onnx.Graph {
	g := &onnx.Graph{Nodes: nodes}
	for _, name := range strings.Fields(inputs) {
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name})
	}
	for _, name := range strings.Fields(outputs) {
		g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: name})
	}
	return g
}

func model(opset int64, g *onnx.Graph) *onnx.Model {
	return &onnx.Model{IRVersion: 8, Graph: g, OpsetImports: []onnx.OperatorSetID{{Domain: "ai.onnx", Version: opset}}}
}

// text writes nodes as assignments.
func text(nodes []*onnx.Node) string {
	var r []string
	for _, n := range nodes {
		op := n.OpType
		if n.Domain != "" {
			op = n.Domain + "." + op
		}
		var subs []string
		for _, a := range n.Attributes {
			for _, g := range a.Subgraphs() {
				subs = append(subs, "{"+text(g.Nodes)+"}")
			}
		}
		r = append(r, fmt.Sprintf("%s=%s(%s)%s", strings.Join(n.Outputs, ","), op, strings.Join(n.Inputs, ","),
			strings.Join(subs, "")))
	}
	return strings.Join(r, " ")
}

func TestExpand(t *testing.T) {
	branch := func(nodes ...*onnx.Node) *onnx.Attribute {
		return &onnx.Attribute{Name: "b", G: graph("", "y", nodes...)}
	}
	for _, c := range []struct {
		name string
		g    *onnx.Graph
		want string
	}{
		{"a product", graph("x w", "y d", node("Mul", "x w", "y"), gradient("x", "y", "d")),
			"y=Mul(x,w) gradient_1=onward.Fill(y) gradient_2=Mul(gradient_1,w) gradient_3=onward.SumTo(gradient_2,x) " +
				"gradient_4=Mul(gradient_1,x) gradient_5=onward.SumTo(gradient_4,w) d=Identity(gradient_3)"},
		{"the gradient comes first", graph("x", "d", gradient("x", "y", "d"), node("Neg", "x", "y")),
			"y=Neg(x) gradient_1=onward.Fill(y) gradient_2=Neg(gradient_1) d=Identity(gradient_2)"},
		{"names that exist are not given", graph("x gradient_1", "d gradient_2", node("Neg", "x", "y"), node("Neg", "x", "gradient_2"), gradient("x", "y", "d")),
			"y=Neg(x) gradient_2=Neg(x) gradient_3=onward.Fill(y) gradient_4=Neg(gradient_3) d=Identity(gradient_4)"},
		{"a step in between", graph("x", "d", node("Floor", "x", "s"), node("Neg", "s", "y"), gradient("x", "y", "d")),
			"s=Floor(x) y=Neg(s) gradient_1=onward.Fill(x) d=Identity(gradient_1)"},
		{"an input of no influence", graph("x w", "d e", node("Neg", "w", "y"), gradient("x w", "y", "d e")),
			"y=Neg(w) gradient_1=onward.Fill(y) gradient_2=Neg(gradient_1) gradient_3=onward.Fill(x) d=Identity(gradient_3) e=Identity(gradient_2)"},
		{"within a subgraph", graph("x c", "o", node("If", "c", "o", branch(node("Neg", "x", "y"), gradient("x", "y", "d")))),
			"o=If(c){y=Neg(x) gradient_1=onward.Fill(y) gradient_2=Neg(gradient_1) d=Identity(gradient_2)}"},
	} {
		m := model(17, c.g)
		before := text(m.Graph.Nodes)
		r, err := autodiff.Expand(m, 10)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := text(r.Graph.Nodes); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
		if after := text(m.Graph.Nodes); after != before {
			t.Errorf("%s: the model was changed to %s", c.name, after)
		}
	}
}

// A subgraph in a function is expanded for the opset that the function imports: Max
// has a gradient since opset 11.
func TestExpandInFunctions(t *testing.T) {
	m := model(17, graph("x c", "o", node("F", "x c", "o")))
	f := &onnx.Function{Name: "F", Inputs: []string{"x", "c"}, Outputs: []string{"o"}, Nodes: []*onnx.Node{
		node("If", "c", "o", &onnx.Attribute{Name: "then_branch", G: graph("", "d", node("Max", "x", "y"), gradient("x", "y", "d"))})}}
	m.Functions = []*onnx.Function{f}
	r, err := autodiff.Expand(m, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(r.Functions[0].Nodes); strings.Contains(got, "Gradient") || !strings.Contains(got, "Where") {
		t.Errorf("the function became %s", got)
	}
	f.OpsetImports = []onnx.OperatorSetID{{Version: 10}}
	if _, err := autodiff.Expand(m, 10); err == nil ||
		!strings.Contains(err.Error(),
			"function F: node \"\" (If): node \"grad\" (Gradient): operator Max: is differentiable since opset 11, "+
				"the model imports 10") {
		t.Errorf("error %v", err)
	}
}

func TestExpandWithoutGradients(t *testing.T) {
	m := model(17, graph("x", "y", node("Neg", "x", "y")))
	want := *m
	r, err := autodiff.Expand(m, 10)
	if err != nil || r != m || !reflect.DeepEqual(*m, want) {
		t.Errorf("model %v, error %v, want the same model", r, err)
	}
}

func TestExpandErrors(t *testing.T) {
	wrong := gradient("x", "y", "d")
	wrong.Inputs = nil
	deep := graph("", "o", node("Neg", "x", "o"))
	for range 3 {
		deep = graph("", "o", node("If", "c", "o", &onnx.Attribute{Name: "b", G: deep}))
	}
	for _, c := range []struct {
		name string
		g    *onnx.Graph
		want string
	}{
		{"no graph", nil, "the model has no graph"},
		{"nesting", deep, "subgraphs nest deeper than 2 levels"},
		{"inputs", graph("x", "d", node("Neg", "x", "y"), wrong), `node "grad" (Gradient): got 0 inputs and 1 outputs, which does not match 1 xs, 0 zs and y "y"`},
		{"no rule", graph("x", "d", node("Multinomial", "x", "y"), gradient("x", "y", "d")), "operator Multinomial is not differentiable"},
		{"another domain", graph("x", "d", &onnx.Node{OpType: "Neg", Domain: "com.example", Inputs: []string{"x"}, Outputs: []string{"y"}}, gradient("x", "y", "d")),
			"operator com.example.Neg is not differentiable"},
		{"second output", graph("x", "d", node("MaxPool", "x", "p y"), gradient("x", "y", "d")), "output 1 of MaxPool is not differentiable"},
		{"fifth output", graph("x", "d", node("Attention", "x x x", "a b c e y"), gradient("x", "y", "d")), "output 4 of Attention is not differentiable"},
		{"cycle", graph("x", "d", node("Add", "x y", "y"), gradient("x", "y", "d")), "cycle"},
	} {
		if _, err := autodiff.Expand(model(17, c.g), 2); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// Nodes that lack required inputs are expanded; the conversion refuses them.
func TestExpandWithoutRequiredInputs(t *testing.T) {
	for _, op := range []string{"Where", "GridSample", "onward.ScatterBack", "onward.GatherBack",
		"onward.GridSampleGradBack", "onward.AttentionMask",
		"onward.ConvInputGradient", "onward.ConvWeightGradient"} {
		n := node(op, "x", "y")
		if own, ok := strings.CutPrefix(op, "onward."); ok {
			n.Domain, n.OpType = kit.DomainInternal, own
		}
		m := model(17, graph("x", "d", n, gradient("x", "y", "d")))
		if _, err := autodiff.Expand(m, 10); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}
