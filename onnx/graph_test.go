package onnx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/testing/cputime"
)

// wantCheck fails unless Check finds exactly the errors, each given as "path: part of the message".
func wantCheck(t *testing.T, name string, m *Model, want ...string) {
	t.Helper()
	err := Check(m, nil)
	if len(want) == 0 {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	var found *CheckErrors
	if !errors.As(err, &found) {
		t.Errorf("%s: error is %v, want %q", name, err, want)
		return
	}
	if len(found.Errors) != len(want) {
		t.Errorf("%s: %d errors, want %d: %v", name, len(found.Errors), len(want), err)
		return
	}
	for i, w := range want {
		path, part, _ := strings.Cut(w, ": ")
		if e := found.Errors[i]; e.Path != path || !strings.Contains(e.Err.Error(), part) {
			t.Errorf("%s: error %d is %q, want %q", name, i, e, w)
		}
	}
}

// chain returns a valid model of n Neg nodes.
func chain(n int) *ModelBuilder {
	b := NewModel("g")
	b.Input("v0", Float, 1).Output(fmt.Sprint("v", n), Float, 1)
	for i := range n {
		b.Node("Neg", []string{fmt.Sprint("v", i)}, []string{fmt.Sprint("v", i+1)})
	}
	return b
}

func TestCycles(t *testing.T) {
	m := chain(3).Must()
	wantCheck(t, "chain", m)
	m.Graph.Nodes[1].Inputs[0] = "v2"
	wantCheck(t, "self-loop", m, "graph.node[1](Neg).input[0]: it is an output of the node itself, a cycle")
	m.Graph.Nodes[1].Inputs[0] = "v3"
	wantCheck(t, "cycle", m,
		"graph.node[1](Neg).input[0]: it is an output of node 2, which depends on this node, a cycle")

	m = chain(3).Must()
	m.Graph.Nodes[0], m.Graph.Nodes[2] = m.Graph.Nodes[2], m.Graph.Nodes[0]
	wantCheck(t, "order", m,
		"graph.node[0](Neg).input[0]: Nodes in a graph must be topologically sorted, however input \"v2\" is not "+
			"output of any previous nodes: it is an output of node 1, which comes later",
		"graph.node[1](Neg).input[0]: it is an output of node 2, which comes later")

	// A cycle through a subgraph.
	body := NewGraph("body").OutputType("i", nil)
	body.Node("Neg", []string{"z"}, []string{"i"})
	b := NewModel("g")
	b.Input("c", Bool).Output("z", Float, 1)
	b.Node("If", []string{"c"}, []string{"y"}, Attrs{"then_branch": body, "else_branch": body})
	b.Node("Neg", []string{"y"}, []string{"z"})
	wantCheck(t, "through a subgraph", b.Must(),
		`graph.node[0](If).attribute[0]("else_branch").g.node[0](Neg).input[0]: no node, input or initializer has that name`,
		`graph.node[0](If).attribute[1]("then_branch").g.node[0](Neg).input[0]: no node, input or initializer has that name`)
}

func TestDuplicateAndMissingNames(t *testing.T) {
	b := chain(2)
	b.Input("v0", Float, 1)
	wantCheck(t, "input twice", b.Must(), `graph.input[1]("v0"): has been used as graph input names multiple times`)

	b = chain(2)
	b.Node("Abs", []string{"v0"}, []string{"v1"})
	wantCheck(t, "output twice", b.Must(), `graph.node[2](Abs).output[0]: "v1" has been used as output names multiple times`)

	b = chain(2)
	b.Node("Abs", []string{"v0"}, []string{"v0"}).Name("bad")
	wantCheck(t, "output named as the input", b.Must(), `graph.node[2](Abs "bad").output[0]: single static assignment`)

	b = chain(2)
	b.Node("Split", []string{"v0"}, []string{"a", "a", ""})
	wantCheck(t, "one node, one name twice", b.Must(), `graph.node[2](Split).output[1]: "a" has been used`)

	b = chain(2)
	b.Initializer("w", []float32{1}).Initializer("w", []float32{1}).Initializer("", []float32{1})
	wantCheck(t, "initializers", b.Must(), `graph.initializer[1]: "w" initializer name is not unique`, "graph.initializer[2]: non-empty name")

	b = chain(2)
	b.Node("Add", []string{"v0", "gone"}, []string{"s"})
	b.Output("nothing", Float, 1)
	wantCheck(t, "missing", b.Must(), `graph.node[2](Add).input[1]: "gone" is not output of any previous nodes: no node, input or initializer has that name`,
		`graph.output[1]: Graph output "nothing" is not an output of any node in graph.`)

	// A subgraph sees outer values and must not define them again. Its own values are not
	// visible outside.
	sub := func(out string) *GraphBuilder {
		g := NewGraph("sub").OutputType(out, nil)
		g.Node("Neg", []string{"v1"}, []string{out})
		return g
	}
	model := func(then, otherwise *GraphBuilder) *Model {
		b := chain(2).Opset("", 21)
		b.Input("c", Bool)
		b.Node("If", []string{"c"}, []string{"y"}, Attrs{"then_branch": then, "else_branch": otherwise})
		return b.Must()
	}
	wantCheck(t, "same names in two branches", model(sub("r"), sub("r")))
	wantCheck(t, "shadowed name", model(sub("v0"), sub("r")),
		`graph.node[2](If).attribute[1]("then_branch").g.node[0](Neg).output[0]: multiple times (in a graph around this one)`)
	m := model(sub("r"), sub("r"))
	m.Graph.Nodes = append(m.Graph.Nodes, &Node{OpType: "Neg", Inputs: []string{"r"}, Outputs: []string{"q"}})
	wantCheck(t, "a subgraph's value outside", m, `graph.node[3](Neg).input[0]: no node, input or initializer has that name`)
	m = model(sub("r"), sub("r"))
	m.Graph.Nodes[2].Outputs = []string{"r"}
	wantCheck(t, "an output named as a subgraph's value", m)
}

func TestRecursiveFunctions(t *testing.T) {
	model := func(define func(b *ModelBuilder)) *Model {
		b := NewModel("g").Opset("", 21).Opset("my", 1)
		b.Input("x", Float, 1).Output("y", Float, 1)
		b.Node("F", []string{"x"}, []string{"y"}).Domain("my")
		define(b)
		return b.Must()
	}
	call := func(b *ModelBuilder, name, callee string) {
		b.Function("my", name).Inputs("a").Outputs("b").Node(callee, []string{"a"}, []string{"b"}).Domain("my")
	}
	const message = "functions[0]: Cycle detected in model-local function references: "
	wantCheck(t, "direct", model(func(b *ModelBuilder) { call(b, "F", "F") }), message+`"my:F" -> "my:F"`)
	wantCheck(t, "mutual", model(func(b *ModelBuilder) { call(b, "F", "G"); call(b, "G", "F") }), message+`"my:F" -> "my:G" -> "my:F"`)
	for _, op := range []string{"If", "Loop", "Scan"} {
		wantCheck(t, "through "+op, model(func(b *ModelBuilder) {
			body := NewGraph("body").OutputType("i", nil)
			body.Node("F", []string{"a"}, []string{"i"}).Domain("my")
			outer := NewGraph("outer").OutputType("j", nil)
			outer.Node("If", []string{"a"}, []string{"j"}, Attrs{"then_branch": body, "else_branch": body})
			b.Function("my", "F").Inputs("a").Outputs("b").Node(op, []string{"a"}, []string{"b"}, Attrs{"body": outer})
		}), message+`"my:F" -> "my:F"`)
	}
	m := model(func(b *ModelBuilder) { call(b, "F", "G"); call(b, "G", "F") })
	if _, err := InlinedNodes(m); err == nil || !strings.Contains(err.Error(), "recursive") {
		t.Errorf("InlinedNodes: %v", err)
	}
	m = model(func(b *ModelBuilder) { call(b, "F", "Neg"); call(b, "F", "Abs") })
	wantCheck(t, "two of one name", m, `functions[1]: Model contains multiple local functions with the same implementation id "my:F"`)
}

// functions returns n functions, each of which calls the next one k times.
func functions(n, k int) *Model {
	b := NewModel("g").Opset("", 21).Opset("my", 1)
	b.Input("x", Float, 1).Output("y", Float, 1)
	b.Node("F0", []string{"x"}, []string{"y"}).Domain("my")
	for i := range n {
		f := b.Function("my", fmt.Sprint("F", i)).Inputs("a0").Outputs(fmt.Sprint("a", k))
		for j := range k {
			node := f.Node("Neg", []string{fmt.Sprint("a", j)}, []string{fmt.Sprint("a", j+1)})
			if i+1 < n {
				node.Domain("my").Node().OpType = fmt.Sprint("F", i+1)
			}
		}
	}
	return b.Must()
}

func TestFunctionDoubling(t *testing.T) {
	m := functions(100, 2)
	start := cputime.Now()
	wantCheck(t, "2^100 nodes, 100 deep", m)
	if n, err := InlinedNodes(m); err != nil || n != math.MaxInt64 {
		t.Errorf("InlinedNodes is %d, %v", n, err)
	}
	if err := Check(m, &CheckOptions{MaxInlinedNodes: 1_000_000}); err == nil ||
		!strings.Contains(err.Error(), "after inlining") {
		t.Errorf("MaxInlinedNodes: %v", err)
	}
	if n, err := InlinedNodes(functions(10, 2)); err != nil || n != 1024 {
		t.Errorf("InlinedNodes is %d, %v, want 1024", n, err)
	}
	wantCheck(t, "101 deep", functions(101, 1), "functions[0]: Function call chain depth 101 exceeds limit (100).")
	wantCheck(t, "10,000 deep", functions(10_000, 2),
		"functions[0]: Function call chain depth 10000 exceeds limit (100).")
	if err := Check(functions(10_001, 1), nil); err == nil ||
		!strings.Contains(err.Error(), "Model contains 10001 local functions, exceeding the limit of 10000") {
		t.Errorf("10,001 functions: %v", err)
	}
	if d := start.Elapsed(); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestDeepSubgraphs(t *testing.T) {
	nested := func(n int) *Model {
		var g *GraphBuilder
		for i := range n {
			body := NewGraph("g").OutputType(fmt.Sprint("y", i), nil)
			node := body.Node("Op", []string{"x"}, []string{fmt.Sprint("y", i)})
			if g != nil {
				node.Attr("body", g)
			}
			g = body
		}
		b := NewModel("main")
		b.Input("x", Float, 1).Output("y", Float, 1)
		b.Node("Op", []string{"x"}, []string{"y"}, Attrs{"body": g})
		return b.Must()
	}
	m := nested(80)
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if m, err = Unmarshal(data, nil); err != nil {
		t.Fatalf("80 subgraphs deep: %v", err)
	}
	wantCheck(t, "80 deep", m)
	if data, err = nested(500).Marshal(); err != nil {
		t.Fatal(err)
	}
	if _, err := Unmarshal(data, nil); !errors.Is(err, ErrTooDeep) {
		t.Errorf("500 deep: %v, want ErrTooDeep", err)
	}
	if err := Check(nested(2000), nil); !errors.Is(err, ErrTooDeep) {
		t.Errorf("2,000 deep, built in Go: %v, want ErrTooDeep", err)
	}
	g := &Graph{Name: "g"}
	g.Nodes = []*Node{{OpType: "Op", Outputs: []string{"y"},
		Attributes: []*Attribute{{Name: "body", Type: AttrGraph, G: g}}}}
	if err := Check(&Model{IRVersion: 8, OpsetImports: []OperatorSetID{{"", 21}}, Graph: g},
		nil); !errors.Is(err, ErrTooDeep) {
		t.Errorf("a graph that contains itself: %v, want ErrTooDeep", err)
	}
}

func TestUnknownOperatorsAndOpsets(t *testing.T) {
	opset := func(imports ...OperatorSetID) *Model {
		m := chain(1).Must()
		m.OpsetImports = imports
		return m
	}
	wantCheck(t, "ai.onnx", opset(OperatorSetID{"ai.onnx", 21}))
	wantCheck(t, "opset 0", opset(OperatorSetID{"", 0}),
		"opset_import[0]: Opset import version 0 of domain \"\" is out of supported range")
	wantCheck(t, "opset -1", opset(OperatorSetID{"", -1}), "opset_import[0]: out of supported range")
	wantCheck(t, "opset 2^63-1", opset(OperatorSetID{"", math.MaxInt64}), "opset_import[0]: out of supported range")
	// 2^63 is a negative number on the wire.
	m, err := Unmarshal([]byte("\x42\x0b\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), nil)
	if err != nil || m.OpsetImports[0].Version != math.MinInt64 {
		t.Errorf("opset 2^63: %v", err)
	}
	wantCheck(t, "two versions", opset(OperatorSetID{"", 20}, OperatorSetID{"ai.onnx", 21}), `opset_import[1]: domain "" is imported at versions 20 and 21`)
	wantCheck(t, "missing import", opset(OperatorSetID{"other", 1}), `graph.node[0](Neg): No opset import for domain ""`)
	wantCheck(t, "no import", opset(), "model: model with IR version >= 3 must specify opset_import for ONNX", `graph.node[0](Neg): No opset import for domain ""`)

	m = chain(1).Must()
	m.Graph.Nodes[0].OpType = ""
	wantCheck(t, "no operator", m, "graph.node[0]: Field 'op_type' of 'node' is required to be non-empty.")

	schema := func(domain, op string, opset int64) (Schema, bool) {
		switch {
		case domain == "" && op == "Neg":
			return Schema{MinInputs: 1, MaxInputs: 1, MinOutputs: 1, MaxOutputs: 1, Deprecated: opset > 30}, true
		case domain == "" && op == "Concat":
			return Schema{MinInputs: 1, MaxInputs: -1, MinOutputs: 1, MaxOutputs: 1,
				Attributes: map[string]AttributeSchema{"axis": {AttrInt, true}, "mode": {AttrString, false}}}, true
		}
		return Schema{}, false
	}
	b := NewModel("g").Opset("", 21).Opset("my", 1).Opset("ai.onnx.ml", 3)
	b.Input("x", Float, 1).Output("y", Float, 1)
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Nope", []string{"x"}, []string{"a"})
	b.Node("Nope", []string{"x"}, []string{"b"}).Domain("ai.onnx.ml")
	b.Node("Nope", []string{"x"}, []string{"c"}).Domain("my")
	b.Node("Neg", []string{"x", "x"}, []string{"d", "e"})
	b.Node("Concat", []string{"x", "x", "x"}, []string{"f"}, Attrs{"axis": 0, "__tag": 1})
	b.Node("Concat", nil, []string{"g"}, Attrs{"mode": 1, "axes": 2})
	err = Check(b.Must(), &CheckOptions{Schema: schema})
	for _, want := range []string{
		"7 errors", "graph.node[1](Nope): No Op registered for Nope with domain_version of 21",
		"graph.node[2](Nope): No Op registered for Nope with domain_version of 3",
		"graph.node[4](Neg): Node has input size 2 not in range [min=1, max=1].",
		"graph.node[4](Neg): Node has output size 2 not in range [min=1, max=1].",
		"graph.node[6](Concat): Node has input size 0 not in range [min=1, max=unlimited].",
	} {
		if err == nil || !strings.Contains(err.Error(), want) && want != "7 errors" {
			t.Errorf("with a schema: error is %v, want %q", err, want)
		}
	}
	for _, want := range []string{`Unrecognized attribute: "axes"`, `"mode" is INT, want STRING`, `Required attribute "axis" is missing`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("with a schema: error is %v, want %q", err, want)
		}
	}
	if err := Check(b.Must(), &CheckOptions{Schema: schema, CustomDomains: true}); !strings.Contains(err.Error(),
		"graph.node[3](Nope)") {
		t.Errorf("CustomDomains: %v", err)
	}
}

func TestMissingAndMistypedAttributes(t *testing.T) {
	m := func(attrs ...*Attribute) *Model {
		m := chain(1).Must()
		m.Graph.Nodes[0].Attributes = attrs
		return m
	}
	g := &Graph{Name: "g"}
	wantCheck(t, "extreme values are sound", m(
		&Attribute{Name: "axis", Type: AttrInt, I: math.MinInt64},
		&Attribute{Name: "strides", Type: AttrInts, Ints: []int64{0, 0}},
		&Attribute{Name: "pads", Type: AttrInts, Ints: []int64{-1}}, &Attribute{Name: "group", Type: AttrInt},
		&Attribute{Name: "alpha", Type: AttrFloat, F: float32(math.NaN())}, &Attribute{Name: "empty", Type: AttrInts}))
	const at = `graph.node[0](Neg).attribute[0]("a")`
	wantCheck(t, "two values", m(&Attribute{Name: "a", Type: AttrInt, I: 1, F: 2}),
		at+": should not contain more than one value field")
	wantCheck(t, "other type", m(&Attribute{Name: "a", Type: AttrInt, F: 2}),
		at+": type field and data field mismatch in attribute \"a\": type is INT, the value field is that of FLOAT")
	wantCheck(t, "no type", m(&Attribute{Name: "a"}), at+": Field 'type' of 'attr' is required but missing.")
	wantCheck(t, "unknown type", m(&Attribute{Name: "a", Type: 99}), at+": unrecognized attribute type 99")
	wantCheck(t, "no graph", m(&Attribute{Name: "a", Type: AttrGraph}), at+": of type GRAPH has no value")
	wantCheck(t, "graph without a name", m(&Attribute{Name: "a", Type: AttrGraph, G: &Graph{}}),
		at+".g: Field 'name' of 'graph'")
	wantCheck(t, "no name", m(&Attribute{Type: AttrInt}), "graph.node[0](Neg).attribute[0]: Field 'name' of 'attr'")
	wantCheck(t, "twice", m(&Attribute{Name: "a", Type: AttrInt}, &Attribute{Name: "a", Type: AttrInt}), `graph.node[0](Neg).attribute[1]("a"): appeared multiple times`)
	wantCheck(t, "reference outside of a function", m(&Attribute{Name: "a", Type: AttrInt, RefAttrName: "b"}),
		at+": outside of a function")
	wantCheck(t, "bad tensor", m(&Attribute{Name: "a", Type: AttrTensor, T: &Tensor{DataType: Float}}),
		at+".t: one and only one value field")
	wantCheck(t, "nil", m(nil), "graph.node[0](Neg).attribute[0]: nil")
	wantCheck(t, "subgraph list", m(&Attribute{Name: "a", Type: AttrGraphs, Graphs: []*Graph{g, nil}}),
		at+".graphs[1]: nil")

	// On the wire, a type without its field is a default value, and a field without a type is
	// not an attribute.
	node := func(attr string) *Model {
		m := chain(1).Must()
		a, err := UnmarshalNode([]byte("\x2a"+string(rune(len(attr)))+attr), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.Graph.Nodes[0].Attributes = a.Attributes
		return m
	}
	wantCheck(t, "wire: type only", node("\x0a\x01a\xa0\x01\x02"))
	wantCheck(t, "wire: no type", node("\x0a\x01a\x18\x00"), at+": Field 'type' of 'attr' is required but missing.")
	wantCheck(t, "wire: two zero values", node("\x0a\x01a\x18\x00\x15\x00\x00\x00\x00\xa0\x01\x02"),
		at+": more than one value field")
	old := node("\x0a\x01a\x18\x00")
	old.IRVersion, old.OpsetImports = 1, nil
	wantCheck(t, "wire: no type in IR version 1", old)

	b := chain(1).Opset("", 21).Opset("my", 1)
	f := b.Function("my", "F").Inputs("a").Outputs("b").Attributes("k")
	f.Node("Op", []string{"a"}, []string{"b"}, Attrs{"i": Ref{"k", AttrInt}, "j": Ref{"gone", AttrInt}})
	wantCheck(t, "reference to nothing", b.Must(), `functions[0](F).node[0](Op).attribute[1]("j"): which the function does not declare`)
}

func TestMillionNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("a million nodes take seconds")
	}
	const n = 1_000_000
	data, err := chain(n).Must().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	start := cputime.Now()
	m, err := Unmarshal(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := start.Elapsed()
	wantCheck(t, "a million nodes", m)
	check := start.Elapsed() - read
	// Nodes in reverse order, in one cycle.
	nodes := m.Graph.Nodes
	for i := range n / 2 {
		nodes[i], nodes[n-1-i] = nodes[n-1-i], nodes[i]
	}
	nodes[n-1].Inputs = []string{fmt.Sprint("v", n)}
	start = cputime.Now()
	err = Check(m, nil)
	if err == nil || !strings.Contains(err.Error(), "a cycle") {
		t.Errorf("a million nodes backwards: %v", err)
	}
	wrong := start.Elapsed()
	t.Logf("%d bytes: read in %v, checked in %v, backwards in %v", len(data), read, check, wrong)
	if read+check+wrong > 30*time.Second {
		t.Error("too slow")
	}
}

func TestQuadraticTraps(t *testing.T) {
	const n = 100_000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	start := cputime.Now()

	m := chain(1).Must() // one node with many attributes
	for _, name := range names {
		m.Graph.Nodes[0].Attributes = append(m.Graph.Nodes[0].Attributes, &Attribute{Name: name, Type: AttrInt})
	}
	wantCheck(t, "attributes", m)

	b := chain(1) // one node with many outputs, then one with as many inputs
	b.Node("Split", []string{"v0"}, names)
	b.Node("Concat", names, []string{"all"})
	wantCheck(t, "outputs and inputs", b.Must())

	b = chain(1) // many inputs, initializers and metadata
	for _, name := range names {
		b.Metadata(name, "").Input(name, Float, 1).Initializer(name, []byte{1})
	}
	wantCheck(t, "inputs and initializers", b.Must())

	b = chain(1) // many subgraphs in a graph of many names
	for _, name := range names {
		b.Input(name, Float, 1)
	}
	b.Input("c", Bool)
	for i := range n / 10 {
		sub := NewGraph("s").OutputType("r", nil)
		sub.Node("Neg", []string{"n0"}, []string{"r"})
		b.Node("If", []string{"c"}, []string{fmt.Sprint("y", i)}, Attrs{"then_branch": sub, "else_branch": sub})
	}
	wantCheck(t, "subgraphs", b.Must())

	b = chain(1) // errors beyond the limit
	for range n {
		b.Node("Neg", []string{"gone"}, []string{"v0"})
	}
	var found *CheckErrors
	if err := Check(b.Must(), nil); !errors.As(err, &found) || len(found.Errors) != 100 || found.Omitted != 2*n-100 {
		t.Errorf("%d errors and %d more", len(found.Errors), found.Omitted)
	}
	if d := start.Elapsed(); d > 20*time.Second {
		t.Errorf("took %v", d)
	} else {
		t.Logf("took %v", d)
	}
}

func TestCheckVersionsAndTypes(t *testing.T) {
	m := chain(1).Must()
	m.IRVersion = 0
	wantCheck(t, "no IR version", m, "model: The model does not have an ir_version set properly.")
	m.IRVersion = LatestIRVersion + 1
	wantCheck(t, "IR version of the future", m, "model: Your model ir_version 15 is higher than the checker's (14).")
	m.IRVersion = 2
	wantCheck(t, "IR version 2 with imports", m, "model: model with IR version < 3 cannot have opset_import specified")
	m = chain(1).Must()
	m.Graph = nil
	wantCheck(t, "no graph", m, "model: Field 'graph' of 'model' is required but missing.")
	b := chain(1)
	b.Metadata("a", "1").Metadata("a", "2")
	wantCheck(t, "metadata", b.Must(), `model: Your model has duplicate keys in metadata_props: "a".`)

	b = chain(1)
	b.Initializer("w", []float32{1})
	m = b.Must()
	m.IRVersion = 3
	wantCheck(t, "IR version 3", m, `graph.initializer[0]: "w" in initializer but not in graph input`)

	for _, c := range []struct {
		typ  *Type
		want string
	}{
		{nil, ": Field 'type' of 'value_info' is required but missing."},
		{&Type{}, ".type: Unrecognized type value case"},
		{&Type{Tensor: &TensorType{ElemType: Float}}, ".type.tensor_type: Field 'shape' of 'type' is required but missing."},
		{&Type{Tensor: &TensorType{Shape: &Shape{}}}, ".type.tensor_type: Field 'elem_type' of 'type' is required but missing."},
		{&Type{Tensor: &TensorType{ElemType: 77, Shape: &Shape{}}}, ".type.tensor_type: unrecognized data_type 77"},
		{&Type{Sequence: &SequenceType{}}, ".type.sequence_type: Field 'elem_type' of 'type' is required but missing."},
		{&Type{Map: &MapType{Key: Float, Value: &Type{Tensor: &TensorType{ElemType: Float}}}}, ".type.map_type: invalid TensorProto key_type float"},
		{&Type{Opaque: &OpaqueType{}}, ".type: Field 'name' of 'opaque_type'"},
	} {
		b := chain(1)
		b.InputType("x", c.typ)
		wantCheck(t, c.want, b.Must(), `graph.input[1]("x")`+c.want)
	}
	wantCheck(t, "sample", sample(t))
}

func TestIRVersionOf(t *testing.T) {
	for opset, want := range map[int64]int64{1: 4, 9: 4, 10: 5, 11: 6, 12: 7, 14: 7, 15: 8, 18: 8, 19: 9, 20: 9, 21: 10,
		22: 10, 23: 11, 24: 12, 25: 13, 27: 13, 28: 14, 99: 14} {
		if got := IRVersionOf(opset); got != want {
			t.Errorf("IR version of opset %d is %d, want %d", opset, got, want)
		}
	}
}

// TestNilModel checks and writes a nil model.
func TestNilModel(t *testing.T) {
	if err := Check(nil, nil); err == nil || !strings.Contains(err.Error(), "model is nil") {
		t.Errorf("Check: got %v", err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := WriteFile(path, nil, nil); err == nil || !strings.Contains(err.Error(), "model is nil") {
		t.Errorf("WriteFile: got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("WriteFile left a file")
	}
}

// Some exporters import a domain several times. The last import holds, as in ONNX's checker and in
// ONNX Runtime.
func TestRepeatedImport(t *testing.T) {
	m := &Model{OpsetImports: []OperatorSetID{{"", 12}, {"a", 2}, {"ai.onnx", 9}}}
	for domain, want := range map[string]int64{"": 9, "ai.onnx": 9, "a": 2, "b": 0} {
		if v, ok := m.OpsetVersion(domain); v != want || ok != (want > 0) {
			t.Errorf("domain %q: version %d (%v), want %d", domain, v, ok, want)
		}
	}
}
