package ir_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// operator infers with a function and does not run.
type operator struct {
	infer func(c *ir.InferContext) error
}

func (o *operator) Infer(c *ir.InferContext) error { return o.infer(c) }
func (o *operator) Run(c *ir.Call) error           { return errors.New("is not run") }

// same gives output 0 the type of input 0.
var same = &operator{func(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	return nil
}}

// chain returns x → Same → a → Same → y.
func chain() *ir.Graph {
	g := &ir.Graph{Name: "chain"}
	x, a, y := g.NewValue("x", floats(n)), g.NewValue("a", ir.Type{}), g.NewValue("y", ir.Type{})
	g.Inputs, g.Outputs = []ir.ValueID{x}, []ir.ValueID{y}
	g.Nodes = []*ir.Node{{OpType: "Same", Op: same, In: []ir.ValueID{x}, Out: []ir.ValueID{a}},
		{OpType: "Same", Op: same, In: []ir.ValueID{a, ir.None}, Out: []ir.ValueID{y, ir.None}}}
	return g
}

// around returns a graph whose node holds chain as its subgraph: c is captured as x.
func around(op ir.Operator) *ir.Graph {
	g, sub := &ir.Graph{Name: "around"}, chain()
	c, y := g.NewValue("c", floats(ir.Known(4))), g.NewValue("y", ir.Type{})
	sub.Captures, sub.Inputs = []ir.Capture{{Outer: c, Inner: 0}}, nil
	g.Inputs, g.Outputs = []ir.ValueID{c}, []ir.ValueID{y}
	g.Nodes = []*ir.Node{{Name: "holder", OpType: "Hold", Domain: "test", Opset: 3, Op: op, Out: []ir.ValueID{y},
		Graphs: []*ir.Graph{sub}}}
	return g
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *ir.Graph)
		want   string
	}{
		{"well formed", func(g *ir.Graph) {}, ""},
		{"a constant", func(g *ir.Graph) { g.Outputs = append(g.Outputs, g.NewConst("k", tensor.Scalar(1.0))) }, ""},
		{"order", func(g *ir.Graph) { slices.Reverse(g.Nodes) }, "node 0 (Same) uses value 1 (a) before it is computed"},
		{"made twice", func(g *ir.Graph) { g.Nodes[1].Out[0] = 1 }, "node 1 (Same) computes value 1 (a) a second time"},
		{"no operator", func(g *ir.Graph) { g.Nodes[0].Op = nil }, "node 0 (Same) has no operator"},
		{"input out of range", func(g *ir.Graph) { g.Nodes[0].In[0] = 9 }, "node 0 (Same) uses value 9, which does not exist"},
		{"negative input", func(g *ir.Graph) { g.Nodes[0].In[0] = -2 }, "node 0 (Same) uses value -2, which does not exist"},
		{"result out of range", func(g *ir.Graph) { g.Nodes[0].Out[0] = 9 }, "node 0 (Same) computes value 9, which does not exist"},
		{"output out of range", func(g *ir.Graph) { g.Outputs[0] = 9 }, "the graph's output uses value 9, which does not exist"},
		{"output of no node", func(g *ir.Graph) { g.Outputs[0] = g.NewValue("z", floats()) }, "the graph's output uses value 3 (z) before it is computed"},
		{"capture out of range", func(g *ir.Graph) { g.Captures = []ir.Capture{{Outer: 0, Inner: 7}} }, `graph "chain" has a capture for value 7, which does not exist`},
	} {
		g := chain()
		c.change(g)
		check := func(name, prefix string, g *ir.Graph) {
			err := ir.Verify(g)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != prefix+c.want) {
				t.Errorf("%s: error %v, want %q", name, err, prefix+c.want)
			}
		}
		check(c.name, "", g)
		outer := around(same)
		sub := outer.Nodes[0].Graphs[0]
		c.change(sub)
		if len(sub.Captures) > 0 { // the case may have replaced them
			check("in a subgraph, "+c.name, "in node 0 (Hold): ", outer)
		}
	}
	g := around(same)
	g.Nodes[0].Graphs[0].Captures[0].Outer = 1
	if err := ir.Verify(g); err == nil || err.Error() != "node 0 (Hold) uses value 1 (y) before it is computed" {
		t.Errorf("error %v", err)
	}
}

func TestUsesAndProducers(t *testing.T) {
	g := chain()
	g.Nodes[1].In[1] = 0 // x, once more
	if got, want := g.Uses(), []int{2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("Uses = %v, want %v", got, want)
	}
	if got, want := g.Producers(), []int{-1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("Producers = %v, want %v", got, want)
	}
	if got, want := around(same).Uses(), []int{1, 1}; !slices.Equal(got, want) {
		t.Errorf("Uses with a capture = %v, want %v", got, want)
	}
	if got := g.Nodes[0].Label(g); got != "Same -> a" {
		t.Errorf("Label = %q", got)
	}
	if got := around(same).Nodes[0].Label(g); got != "holder" {
		t.Errorf("Label = %q", got)
	}
}

func TestInfer(t *testing.T) {
	g := chain()
	if err := ir.Infer(context.Background(), g); err != nil || g.Values[2].Type.String() != "tensor(float)[N]" {
		t.Errorf("y is %s, %v, want tensor(float)[N]", g.Values[2].Type, err)
	}

	// A subgraph sees the type and the constant of what it captures.
	seen := ""
	hold := &operator{func(c *ir.InferContext) error {
		out, err := c.InferGraph(0, nil)
		if err != nil {
			return err
		}
		seen = out[0].Type.String()
		c.SetOut(0, out[0].Type)
		return nil
	}}
	g = around(hold)
	g.Values[0].Owned = true
	if err := ir.Infer(context.Background(), g); err != nil || seen != "tensor(float)[4]" {
		t.Errorf("the subgraph gives %s, %v, want tensor(float)[4]", seen, err)
	}
	if g.Values[0].Owned {
		t.Error("a captured value is owned")
	}

	for _, c := range []struct {
		name, want string
		op         func(c *ir.InferContext) error
	}{
		{"failing operator", "rank 9", func(*ir.InferContext) error { return errors.New("rank 9") }},
		{"no type", "type of output 0 (y) is unknown", func(*ir.InferContext) error { return nil }},
		{"no such subgraph", "subgraph 1 does not exist", func(c *ir.InferContext) error { _, err := c.InferGraph(1, nil); return err }},
		{"inputs of a subgraph", `subgraph "chain" has 0 inputs, want 1`, func(c *ir.InferContext) error {
			_, err := c.InferGraph(0, make([]ir.Value, 1))
			return err
		}},
	} {
		var at *ir.NodeError
		err := ir.Infer(context.Background(), around(&operator{c.op}))
		if !errors.As(err, &at) || at.Err.Error() != c.want || at.Node != "holder" || at.Stage != "shape inference" {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		} else if !strings.Contains(err.Error(),
			`shape inference of node "holder" (test.Hold, opset 3) with inputs (): `+c.want) {
			t.Errorf("%s: text %s", c.name, err)
		}
	}

	g = chain()
	var err error
	if g.Nodes[0].Sig, err = ir.ParseSignature("x:int64", "y:int64", nil); err != nil {
		t.Fatal(err)
	}
	if err := ir.Infer(context.Background(), g); err == nil || !strings.HasSuffix(err.Error(),
		"with inputs (tensor(float)[N]): input 0 (x) has type tensor(float), want int64") {
		t.Errorf("error %v", err)
	}
	untyped := around(&operator{func(c *ir.InferContext) error {
		_, err := c.InferGraph(0, make([]ir.Value, 1))
		return err
	}})
	sub := untyped.Nodes[0].Graphs[0]
	sub.Inputs = []ir.ValueID{sub.NewValue("i", ir.Type{})}
	if err := ir.Infer(context.Background(), untyped); err == nil ||
		!strings.Contains(err.Error(), `type of input "i" of subgraph "chain" is unknown`) {
		t.Errorf("error %v", err)
	}
}

func TestInferContext(t *testing.T) {
	shape := tensor.Must(tensor.New([]int64{2, 3}, 2))
	in := []*ir.Value{
		{Type: ir.TypeOf(shape), Const: shape},
		nil,
		{Type: ir.TensorType(tensor.TypeInt32, ir.Known(3))},
		{Type: ir.TensorType(tensor.TypeInt64), Contents: []ir.Dim{n}},
		{Type: ir.TensorType(tensor.TypeInt64)},
		{Type: ir.TensorType(tensor.TypeInt64, n)},
		{Type: floats(ir.Known(2))},
		{Type: ir.TensorType(tensor.TypeInt32), Const: tensor.Scalar(int32(7))},
		nil,
	}
	sub := chain()
	node := &ir.Node{In: make([]ir.ValueID, len(in)), Out: []ir.ValueID{0, ir.None}, Graphs: []*ir.Graph{sub}}
	c := ir.NewInferContext(node, in, nil)
	if c.NumIn() != 8 || c.NumOut() != 2 || !c.Has(0) || c.Has(1) || c.Has(-1) || c.Has(20) || !c.Wants(0) ||
		c.Wants(1) || c.Wants(2) {
		t.Errorf("%d inputs, %d outputs", c.NumIn(), c.NumOut())
	}
	for i, want := range map[int]string{0: "[2 3]", 1: "[]", 2: "[? ? ?]", 3: "[N]", 4: "[?]",
		5: "[]", 6: "[]", 7: "[7]"} {
		var text []string
		for _, d := range c.Contents(i) {
			text = append(text, d.String())
		}
		if got := "[" + strings.Join(text, " ") + "]"; got != want {
			t.Errorf("contents of input %d are %s, want %s", i, got, want)
		}
	}
	if c.Const(0) != shape || c.Const(1) != nil || c.Const(2) != nil || c.Shape(1) != nil ||
		c.Elem(2) != tensor.TypeInt32 {
		t.Error("wrong constants or types")
	}
	c.SetOut(0, floats(n))
	c.SetContents(0, []ir.Dim{m})
	c.SetOut(5, floats()) // beyond the outputs: ignored
	c.SetContents(5, nil)
	if r := c.Results(); r[0].Type.String() != "tensor(float)[N]" || !r[0].Contents[0].Same(m) || r[1].Type.Known() {
		t.Errorf("results %v", r)
	}
	if got := c.GraphInputs(0); len(got) != 1 || got[0].String() != "tensor(float)[N]" || c.GraphInputs(1) != nil ||
		c.GraphInputs(-1) != nil {
		t.Errorf("inputs of the subgraph are %v", got)
	}
	if got := ir.InputTypes([]tensor.Value{shape, nil}); got != "tensor(int64)[2], absent" {
		t.Errorf("InputTypes = %s", got)
	}
}

// uncomparable is of a type that cannot be compared.
type uncomparable []int

func (uncomparable) Infer(*ir.InferContext) error { return nil }
func (uncomparable) Run(*ir.Call) error           { return nil }

func TestFromSource(t *testing.T) {
	node := &ir.Node{Op: same}
	if node.FromSource() {
		t.Error("a node without a source has one")
	}
	node.Source = &ir.Source{Op: same}
	if !node.FromSource() {
		t.Error("a node with the operator of its source is changed")
	}
	node.Op = &operator{same.infer}
	if node.FromSource() {
		t.Error("a node with another operator is unchanged")
	}
	if a := (uncomparable{1}); ir.SameOperator(a, a) {
		t.Error("operators that cannot be compared are the same")
	}
}
