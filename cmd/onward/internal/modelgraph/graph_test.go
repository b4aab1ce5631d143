package modelgraph

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/onnx"
)

func of(t *testing.T, m *onnx.Model) *Graph {
	t.Helper()
	g, err := Of(m)
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, g)
	return g
}

// tree draws the items as indented text.
func (g *Graph) tree(parent int, indent string) string {
	var b strings.Builder
	names := func(list []int) string {
		var r []string
		for _, v := range list {
			switch {
			case v < 0:
				r = append(r, "-")
			case g.Values[v].Weight > 0:
				r = append(r, g.Values[v].Name+"*")
			default:
				r = append(r, g.Values[v].Name)
			}
		}
		return strings.Join(r, " ")
	}
	for i, x := range g.Items {
		if x.Parent != parent {
			continue
		}
		fmt.Fprintf(&b, "%s%s %s", indent, x.Kind, x.Title)
		if x.Repeats > 0 {
			fmt.Fprintf(&b, " ×%d", x.Repeats)
		}
		if x.Kind == Node {
			fmt.Fprintf(&b, "(%s) -> %s", names(x.In), names(x.Out))
		}
		b.WriteByte('\n')
		b.WriteString(g.tree(i, indent+"  "))
	}
	return b.String()
}

// checkTree fails unless each item is below the top once and no level has a cycle.
func checkTree(t *testing.T, g *Graph) {
	t.Helper()
	kids := map[int][]int{}
	for i, x := range g.Items {
		if x.Parent < -1 || x.Parent >= len(g.Items) || x.Kind == "" {
			t.Fatalf("item %d is %+v", i, x)
		}
		kids[x.Parent] = append(kids[x.Parent], i)
	}
	seen := 0
	var leaves func(i int) []int
	leaves = func(i int) []int {
		r := []int{i}
		for _, k := range kids[i] {
			r = append(r, leaves(k)...)
		}
		return r
	}
	var check func(i int)
	check = func(i int) {
		seen++
		box, maker, next := map[int]int{}, map[int]int{}, map[int][]int{}
		for _, k := range kids[i] {
			for _, x := range leaves(k) {
				box[x] = k
				for _, v := range g.Items[x].Out {
					maker[v] = x
				}
			}
		}
		for x, k := range box {
			for _, v := range g.Items[x].In {
				if m, ok := maker[v]; ok && v >= 0 && box[m] != k {
					next[box[m]] = append(next[box[m]], k)
				}
			}
		}
		state := map[int]int{}
		var visit func(k int)
		visit = func(k int) {
			state[k] = 1
			for _, n := range next[k] {
				if state[n] == 1 {
					t.Errorf("the boxes in %d have a cycle through %s %s", i, g.Items[n].Kind, g.Items[n].Title)
					return
				}
				if state[n] == 0 {
					visit(n)
				}
			}
			state[k] = 2
		}
		for _, k := range kids[i] {
			if state[k] == 0 {
				visit(k)
			}
			check(k)
		}
	}
	check(-1)
	if seen != len(g.Items)+1 {
		t.Errorf("%d items are below the top, want %d", seen-1, len(g.Items))
	}
}

// controlModel has an If, a Loop, a function and constants.
func controlModel() *onnx.Model {
	b := onnx.NewModel("control").Opset("", 21).Opset("local", 1)
	b.Input("x", onnx.Float, "n", 8).Input("flag", onnx.Bool).Output("y", onnx.Float, "n", 8)
	b.Initializer("w", make([]float32, 64), 8, 8)
	then, other, body := onnx.NewGraph("then"), onnx.NewGraph("else"), onnx.NewGraph("body")
	then.Node("MatMul", []string{"h", "w"}, []string{"t"})
	then.Output("t", onnx.Float, "n", 8)
	other.Node("Neg", []string{"h"}, []string{"e0"})
	other.Node("Abs", []string{"e0"}, []string{"e"})
	other.Output("e", onnx.Float, "n", 8)
	body.Input("i", onnx.Int64).Input("go", onnx.Bool).Input("s", onnx.Float, "n", 8).Output("go2", onnx.Bool).
		Output("s2", onnx.Float, "n", 8)
	body.Node("Identity", []string{"go"}, []string{"go2"})
	body.Node("Add", []string{"s", "h"}, []string{"s2"})
	b.Node("Swoosh", []string{"x"}, []string{"h"}).Domain("local")
	b.Node("Constant", nil, []string{"three"}, onnx.Attrs{"value_int": 3})
	b.Node("If", []string{"flag"}, []string{"start"}, onnx.Attrs{"then_branch": then, "else_branch": other}).
		Name("choose")
	b.Node("Loop", []string{"three", "", "start"}, []string{"y"}, onnx.Attrs{"body": body})
	f := b.Function("local", "Swoosh").Inputs("a").Outputs("b").Opset("", 21)
	f.Node("Sigmoid", []string{"a"}, []string{"s"})
	f.Node("Mul", []string{"a", "s"}, []string{"b"})
	return b.Must()
}

func TestBodies(t *testing.T) {
	g := of(t, controlModel())
	want := `input x
input flag
node Swoosh(x) -> h
  input a
  node Sigmoid(a) -> s
  node Mul(a s) -> b
  output b
node If(flag) -> start
  body then_branch
    node MatMul(h w*) -> t
    output t
  body else_branch
    node Neg(h) -> e0
    node Abs(e0) -> e
    output e
node Loop(three* - start) -> y
  body body
    input i
    input go
    input s
    node Identity(go) -> go2
    node Add(s h) -> s2
    output go2
    output s2
output y
`
	got := g.tree(-1, "")
	// Attributes may be in either order.
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" &&
		strings.Index(got, "else_branch") > strings.Index(got, "then_branch") {
		t.Error(d)
	}
	if x := g.Items[2]; x.Title != "Swoosh" || x.FLOPs == 0 || x.Bytes != 4*8 || x.Class != otherClass || x.Nodes != 3 {
		t.Errorf("the call is %+v: %s", x, g.Unknown)
	}
	for _, x := range g.Items {
		// Nodes in the bodies of control flow have types and the costs of one execution.
		if want := map[string]int64{"MatMul": 2 * 8 * 8, "Neg": 8, "Add": 8}[x.Title]; want > 0 {
			if typ := g.Values[x.Out[0]].Type; x.FLOPs != want || x.Bytes != 4*8 || typ != "float[n,8]" {
				t.Errorf("%s has %d FLOPs, %d bytes and type %s, want %d, 32 and float[n,8]", x.Title, x.FLOPs,
					x.Bytes, typ, want)
			}
		}
		if x.Title == "Loop" {
			if typ := g.Values[x.Out[0]].Type; typ != "float[n,8]" {
				t.Errorf("the result of the loop has type %s, want that of the model's output", typ)
			}
			if d := cmp.Diff([]string{"M", "cond", "v_initial"}, x.InNames); d != "" || x.Class != controlClass {
				t.Errorf("the loop is %+v", x)
			}
		}
	}
}

// The JSON form is what the script of the page reads.
func TestGolden(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, "n", 4).Output("y", onnx.Float, "n", 2)
	b.Initializer("w", []float32{0, 0, 0, 0, 1, 1, 1, 3}, 4, 2).Initializer("big", append(make([]float32, 32), 8), 33)
	b.Node("Gemm", []string{"x", "w"}, []string{"y"}, onnx.Attrs{"alpha": 0.5}).Name("fc")
	got, err := json.Marshal(of(t, b.Must()))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"items":[{"p":-1,"k":"input","t":"x","c":8,"o":[2]},` +
		`{"p":-1,"k":"node","t":"Gemm","n":"fc","c":0,"i":[2,0],"o":[3],"in":["A","B"],"on":["Y"],"a":[["alpha","0.5"]],"m":8,"f":16,"w":8,"b":8,"s":1},` +
		`{"p":-1,"k":"output","t":"y","c":8,"i":[3]}],` +
		`"values":[{"n":"w","t":"float[4,2]","w":1},{"n":"big","t":"float[33]","w":2},{"n":"x","t":"float[n,4]"},{"n":"y","t":"float[n,2]"}],` +
		`"weights":[{"n":"w","t":"float[4,2]","b":32,"v":"[0, 0, 0, 0, 1, 1, 1, 3]","c":8,"s":[0,3,0.75,0.9682458365518543,0.5]},` +
		`{"n":"big","t":"float[33]","b":132,"c":33,"s":[0,8,0.24242424242424243,1.3713586059375467,0.9696969696969697],"h":[32,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]}],` +
		`"flops":16}`
	if d := cmp.Diff(strings.ReplaceAll(want, ",\"", ",\n\""), strings.ReplaceAll(string(got), ",\"", ",\n\"")); d !=
		"" {
		t.Error(d)
	}
}

// chain adds nodes, each of which reads the one before, and returns the last value.
func chain(b *onnx.ModelBuilder, x, name string, ops ...string) string {
	for i, op := range ops {
		y := fmt.Sprintf("%s%d", name, i)
		in := []string{x}
		if op == "Add" {
			in = append(in, x)
		}
		b.Node(op, in, []string{y}).Name(y)
		x = y
	}
	return x
}

// Layers are found by the names of their nodes, and drawn as one block that repeats.
func TestBlocksByName(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	x := chain(b, "x", "/model/embed/", "Relu", "Abs", "Neg")
	for l := range 12 {
		x = chain(b, x, fmt.Sprintf("/model/encoder/layer.%d/attention/", l), "Exp", "Tanh", "Add")
		x = chain(b, x, fmt.Sprintf("/model/encoder/layer.%d/mlp/", l), "Gelu", "Add", "Sigmoid")
	}
	b.Node("Identity", []string{x}, []string{"y"}).Name("/model/out")
	g := of(t, b.Must())
	text := g.tree(-1, "")
	for _, want := range []string{"\nblock embed\n", "\nblock encoder ×12\n", "\n  block layer.11\n",
		"\n    block mlp\n"} {
		if strings.Count(text, want) != 1 && want != "\n    block mlp\n" || !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, x := range g.Items {
		if x.Title == "layer.3" && (x.Alike != 12 || x.Nodes != 6 || x.Open) {
			t.Errorf("layer 3 is %+v", x)
		}
	}
}

// A repetition of modules has their names, not counts of operators.
func TestBlocksOfModules(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	x := chain(b, "x", "/embed/", "Relu", "Abs", "Neg")
	for l := range 24 {
		x = chain(b, x, fmt.Sprintf("/attention_%d/", l), "Exp", "Tanh", "Add")
		x = chain(b, x, fmt.Sprintf("/loose_%d_", l), "Sin", "Cos")
		x = chain(b, x, fmt.Sprintf("/mlp_%d/", l), "Gelu", "Add", "Sigmoid")
	}
	b.Node("Identity", []string{x}, []string{"y"}).Name("/out")
	text := of(t, b.Must()).tree(-1, "")
	if want := "block attention_0, mlp_0 … attention_23, mlp_23 ×24\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// Without names, repetitions are found by their operators, and begin where few values cross.
func TestBlocksByStructure(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	x, n := "x", 0
	node := func(op string, in ...string) string {
		n++
		out := fmt.Sprint("v", n)
		b.Node(op, in, []string{out})
		return out
	}
	x = node("Floor", x)
	for range 7 {
		skip := x
		x = node("Tanh", x)
		x = node("Exp", x)
		x = node("Tanh", x)
		x = node("Add", x, skip)
		x = node("Relu", x)
	}
	b.Node("Ceil", []string{x}, []string{"y"})
	want := "input x\nnode Floor(x) -> v1\nnode Ceil(v36) -> y\noutput y\nblock 2 Tanh, Exp, … ×7\n"
	text := of(t, b.Must()).tree(-1, "")
	var top strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			top.WriteString(line)
		}
	}
	if d := cmp.Diff(want, top.String()); d != "" {
		t.Errorf("%s\n%s", d, text)
	}
	if !strings.Contains(text, "  block 2 Tanh, Exp, …\n    node Tanh(v1) -> v2\n") {
		t.Errorf("a block does not begin behind a Relu:\n%s", text)
	}
}

// Blocks have no cycles, whatever the names are.
func TestBlocksAreConvex(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("v0", onnx.Float, 4)
		n := 20 + r.IntN(60)
		for i := range n {
			from := func() string { return fmt.Sprint("v", max(0, i-r.IntN(4))) }
			path := fmt.Sprintf("a%d/b%d/n", (i+r.IntN(9))/10, (i+r.IntN(3))/4)
			b.Node([]string{"Add", "Mul"}[r.IntN(2)], []string{from(), from()}, []string{fmt.Sprint("v", i+1)}).
				Name(path)
		}
		b.Output(fmt.Sprint("v", n), onnx.Float, 4)
		of(t, b.Must())
	}
}

// Invalid models are drawn as far as possible, and long or strange texts are cut and escaped.
func TestHostileModels(t *testing.T) {
	long := strings.Repeat("</script>\x1b\u202e\"", 10_000)
	b := onnx.NewModel("m").Opset("", 21).Opset("f", 1)
	b.Input(long, onnx.Float, long).Output("y", onnx.Float)
	b.Node("Relu", []string{"b"}, []string{"a"}, onnx.Attrs{"text": long, "list": make([]int64, 1000)}) // a cycle
	b.Node("Relu", []string{"a"}, []string{"b"}).Name(strings.Repeat("m/", 50_000))
	b.Node("F", []string{"missing", long}, []string{"y"}).Domain("f")
	f := b.Function("f", "F").Inputs("p").Outputs("q").Opset("f", 1)
	f.Node("F", []string{"p"}, []string{"q"}).Domain("f")
	m := b.Must()
	m.Graph.Initializers = append(m.Graph.Initializers,
		&onnx.Tensor{Name: "t", Dims: []int64{1 << 40, 1 << 40}, DataType: onnx.Float},
		&onnx.Tensor{Name: "u", DataType: 99}, &onnx.Tensor{Name: "n", Dims: []int64{-1}, DataType: onnx.Int64})
	g, err := Of(m)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(data); len(s) > 20_000 || strings.ContainsAny(s, "<\x1b\u202e") ||
		!strings.Contains(s, "the function calls itself") || g.Unknown == "" {
		t.Errorf("%d bytes, unknown %q: %.2000s", len(s), g.Unknown, s)
	}
	for _, w := range g.Weights {
		if w.Error == "" {
			t.Errorf("no error for %+v", w)
		}
	}
	if _, err := Of(&onnx.Model{}); err == nil {
		t.Error("no error without a graph")
	}
	many := onnx.NewModel("m").Opset("", 21)
	for i := range MaxItems + 1 {
		many.Node("Relu", []string{"x"}, []string{fmt.Sprint(i)})
	}
	m, _ = many.Model()
	if _, err := Of(m); err == nil || !strings.Contains(err.Error(), "at most 50000") {
		t.Errorf("got %v for too many nodes", err)
	}
}

// The view refers to no other file, and a name cannot end the element of its data.
func TestView(t *testing.T) {
	view := func(name string) *page.View {
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
		b.Node("Relu", []string{"x"}, []string{"y"}).Name(name)
		v, err := of(t, b.Must()).View(name)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if s := string(view(`"></script><img src=x>`).Body); strings.Count(s, "</script>") != 1 ||
		strings.Contains(s, "<img") || !strings.Contains(s, `\u003cimg`) {
		t.Errorf("a name is not escaped: %s", s)
	}
	v := view("a")
	for _, m := range regexp.MustCompile(`(?i)\s(src|href|action|data)\s*=\s*"?[^"\s>]*|url\(|@import|https?://[^"'\s<]*|eval\(|innerHTML`).FindAllString(string(v.Body)+v.Style+v.Script, -1) {
		t.Errorf("the view has %q", m)
	}
}

// Functions that double at each call stop at the limit of a page.
func TestFunctionsGrow(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21).Opset("f", 1)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	for i := range 30 {
		f := b.Function("f", fmt.Sprint("F", i)).Inputs("a").Outputs("c").Opset("f", 1).Opset("", 21)
		op, domain := fmt.Sprint("F", i-1), "f"
		if i == 0 {
			op, domain = "Relu", ""
		}
		f.Node(op, []string{"a"}, []string{"b"}).Domain(domain)
		f.Node(op, []string{"b"}, []string{"c"}).Domain(domain)
	}
	b.Node("F29", []string{"x"}, []string{"y"}).Domain("f")
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	g, err := Of(m)
	if err != nil || len(g.Items) > MaxItems+MaxItems/minBlock || len(g.Items) < 1000 {
		t.Fatalf("%d items, %v", len(g.Items), err)
	}
}

func TestScopes(t *testing.T) {
	n := &onnx.Node{Name: "node_add",
		MetadataProps: []onnx.StringStringEntry{{Key: "pkg.torch.onnx.name_scopes", Value: "['', 'layers', 'layers.0', 'layers.0.fc', 'add']"}}}
	if d := cmp.Diff([]string{"layers", "0", "fc"}, modules(n)); d != "" {
		t.Error(d)
	}
	if got := modules(&onnx.Node{Name: "a/b/c"}); cmp.Diff([]string{"a", "b"}, got) != "" {
		t.Error(got)
	}
	if got := scopes("[]"); got != nil {
		t.Error(got)
	}
}
