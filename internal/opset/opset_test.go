package opset_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/opset"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/recorded"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// constant makes initializers of the inputs but the first of a model of one node.
func constant(t *testing.T, m *onnx.Model, feed map[string]tensor.Value) (*onnx.Model, map[string]tensor.Value) {
	r, g, rest := *m, *m.Graph, map[string]tensor.Value{}
	g.Inputs = nil
	for _, v := range m.Graph.Inputs {
		x, ok := feed[v.Name].(*tensor.Tensor)
		if !ok || v.Name == "i0" {
			g.Inputs, rest[v.Name] = append(g.Inputs, v), feed[v.Name]
			continue
		}
		p := onnx.FromTensor(x)
		p.Name = v.Name
		g.Initializers = append(g.Initializers, p)
	}
	r.Graph = &g
	a, err := onward.Analyze(&r, onward.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = slices.Clone(g.Outputs)
	for i, o := range g.Outputs { // which have no types
		g.Outputs[i] = a.ByName()[o.Name].Declaration()
	}
	return &r, rest
}

// ort returns the options of a session on ONNX Runtime, nil if it is not on this machine.
func ort() *onward.SessionOptions {
	lib, err := ortlib.Find()
	if err != nil {
		return nil
	}
	return &onward.SessionOptions{Threads: 1,
		Providers: []onward.ProviderConfig{{Name: "ort", Options: map[string]string{"library": lib, "graph_optimization_level": "none"}}}}
}

func opens(t *testing.T, m *onnx.Model, o *onward.SessionOptions) error {
	s, err := onward.OpenModel(t.Context(), m, o)
	if err == nil {
		err = s.Close()
	}
	return err
}

// verify runs a converted model and compares its results with the recorded ones. ONNX Runtime must
// accept it, if it accepts the original.
func verify(t *testing.T, c *recorded.Case, original, m *onnx.Model, feed map[string]tensor.Value,
	lib *onward.SessionOptions, accepted *int) {
	t.Helper()
	v, _ := m.OpsetVersion("")
	// where no rank is known
	if err := onnx.Check(m, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil &&
		!strings.Contains(err.Error(), "Field 'shape'") {
		t.Errorf("opset %d: %v", v, err)
		return
	}
	if lib != nil {
		if err := opens(t, m, lib); err == nil {
			*accepted++
		} else if opens(t, original, lib) == nil && v <= 25 { // the newest that it accepts
			if !strings.Contains(err.Error(), "NOT_IMPLEMENTED") { // a valid model, for which it has no kernel
				t.Errorf("opset %d: ONNX Runtime accepts the original only: %v", v, err)
			}
		}
	}
	s, err := onward.OpenModel(t.Context(), m,
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}})
	if err != nil {
		t.Errorf("opset %d: %v", v, err)
		return
	}
	defer s.Close()
	got, err := s.Run(t.Context(), feed, nil)
	if err != nil {
		t.Errorf("opset %d: %v", v, err)
		return
	}
	tol := c.Tol
	if tol == 0 {
		tol = 1e-3
	}
	for i, o := range c.Out {
		if want := o.Value(); want != nil && !optest.Same(got[fmt.Sprint("o", i)], want, tol) {
			t.Errorf("opset %d: output %d is %s, want %s", v, i, optest.Show(got[fmt.Sprint("o", i)]),
				optest.Show(want))
		}
	}
}

// TestEveryVersion converts the recorded case of every version of every operator of opset 7 and
// later to the newest opset, back, and to the oldest one that can state it, and runs the results.
func TestEveryVersion(t *testing.T) {
	files, err := recorded.Load("../ops/all/testdata/recorded")
	if err != nil {
		t.Fatal(err)
	}
	lib := ort()
	up, down := map[string]int{}, map[string]int{}
	n, below, accepted := 0, 0, 0
	for _, file := range slices.Sorted(maps.Keys(files)) {
		for i, c := range files[file] {
			domain, op := c.Domain()
			if domain != "" || c.Opset < opset.First || c.Opset > opset.Last || !strings.HasPrefix(file, "versions") {
				continue
			}
			m, feed, err := c.Model()
			if err != nil {
				t.Fatal(err)
			}
			n++
			t.Run(fmt.Sprintf("%s/%d_%s_%d", file, i, op, c.Opset), func(t *testing.T) {
				m, feed := constant(t, m, feed)
				newest, err := opset.Convert(m, opset.Last)
				if err != nil {
					if e := new(opset.Error); !errors.As(err, &e) {
						t.Fatal(err)
					}
					up[op]++
					t.Log(err)
					newest = m
				} else {
					verify(t, c, m, newest, feed, lib, &accepted)
				}
				again, err := opset.Convert(newest, int64(c.Opset))
				if err != nil {
					down[op]++
					t.Log(err)
				} else {
					verify(t, c, m, again, feed, lib, &accepted)
				}
				lowest := newest
				for v := int64(c.Opset) - 1; v >= opset.First; v-- {
					old, err := opset.Convert(newest, v)
					if err != nil {
						t.Log(err)
						break
					}
					lowest = old
					if os.Getenv("ONWARD_LONG") != "" {
						verify(t, c, m, old, feed, lib, &accepted)
					}
				}
				if lowest != newest {
					below++
					verify(t, c, m, lowest, feed, lib, &accepted)
				}
			})
		}
	}
	if want := map[string]int{"BatchNormalization": 1}; !maps.Equal(up, want) { // of spatial 0
		t.Errorf("not converted upward: %v, want %v", up, want)
	}
	if want := map[string]int{"Resize": 1}; !maps.Equal(down, want) { // of a mode that version 13 dropped
		t.Errorf("not converted back: %v, want %v", down, want)
	}
	if below < 1000 {
		t.Errorf("%d cases can be stated by an older opset, want at least 1000", below)
	}
	t.Logf("%d cases, %d stated by an older opset, too; not upward %v, not back %v; ONNX Runtime accepts %d models", n,
		below, up, down, accepted)
}

// one returns a model of one node, with the given constants.
func one(t *testing.T, opset int64, op string, attrs onnx.Attrs, shape []any, consts map[string]any,
	outputs int) *onnx.Model {
	b := onnx.NewModel("m").Opset("", opset)
	b.Input("x", onnx.Float, shape...)
	in, out := []string{"x"}, []string{}
	for _, name := range slices.Sorted(maps.Keys(consts)) {
		b.Initializer(name, consts[name])
		in = append(in, name)
	}
	for i := range outputs {
		out = append(out, fmt.Sprint("y", i))
		b.Output(out[i], onnx.Float, slices.Repeat([]any{nil}, len(shape))...)
	}
	b.Node(op, in, out, attrs).Name("n")
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ops(g *onnx.Graph) string {
	var r []string
	for _, n := range g.Nodes {
		r = append(r, n.OpType)
	}
	return strings.Join(r, " ")
}

// same runs two models on a ramp and compares their outputs.
func same(t *testing.T, a, b *onnx.Model, shape ...int) {
	t.Helper()
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
	for i := range tensor.MustData[float32](x) {
		tensor.MustData[float32](x)[i] = float32(i%7) - 2.5
	}
	var r [2]onward.Values
	for i, m := range []*onnx.Model{a, b} {
		s, err := onward.OpenModel(t.Context(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if r[i], err = s.Run(t.Context(), onward.Values{"x": x}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range r[0] {
		if !optest.Same(r[1][name], want, 1e-5) {
			t.Errorf("%s is %s, want %s", name, optest.Show(r[1][name]), optest.Show(want))
		}
	}
}

func convert(t *testing.T, m *onnx.Model, to int64) *onnx.Model {
	t.Helper()
	r, err := opset.Convert(m, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.Check(r, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDecompositions(t *testing.T) {
	for _, c := range []struct {
		m        *onnx.Model
		to       int64
		ops      string
		constant int // initializers of the result
		shape    []int
	}{
		{one(t, 12, "Softmax", nil, []any{2, 3, 4}, nil, 1), 13, "Shape Flatten Softmax Reshape", 0, []int{2, 3, 4}},
		{one(t, 12, "Softmax", nil, []any{2, 3, 0}, nil, 1), 13, "Softmax", 0, []int{2, 3, 0}},
		{one(t, 12, "Softmax", onnx.Attrs{"axis": 2}, []any{2, 3, 4}, nil, 1), 13, "Softmax", 0, []int{2, 3, 4}},
		{one(t, 13, "Softmax", onnx.Attrs{"axis": 1}, []any{2, 3, 4}, nil, 1), 12, "Transpose Softmax Transpose", 0, []int{2, 3, 4}},
		{one(t, 13, "Softmax", onnx.Attrs{"axis": -2}, []any{2, 3, 4}, nil, 1), 7, "Transpose Softmax Transpose", 0, []int{2, 3, 4}},
		{one(t, 18, "Split", onnx.Attrs{"num_outputs": 2}, []any{5, 2}, nil, 2), 11, "Split", 0, []int{5, 2}},
		{one(t, 18, "Split", onnx.Attrs{"num_outputs": 2}, []any{"N", 2}, nil, 2), 18, "Split", 0, []int{5, 2}},
		{one(t, 18, "Pad", nil, []any{2, 3}, map[string]any{"a_pads": []int64{1, 2}, "b": float32(3), "c_axes": []int64{-1}}, 1), 8, "Pad", 0, []int{2, 3}},
		{one(t, 18, "ReduceMean", nil, []any{2, 3}, map[string]any{"axes": []int64{-1}}, 1), 7, "ReduceMean", 0, []int{2, 3}},
		{one(t, 9, "ReduceMean", onnx.Attrs{"axes": []int64{1}}, []any{2, 3}, nil, 1), 21, "ReduceMean", 1, []int{2, 3}},
		{one(t, 21, "GroupNormalization", onnx.Attrs{"num_groups": 2}, []any{1, 4, 3}, map[string]any{"a": []float32{1, 2, 3, 4}, "b": []float32{5, 6, 7, 8}}, 1), 13,
			"Shape Reshape InstanceNormalization Reshape Reshape Mul Reshape Add", 6, []int{1, 4, 3}},
		{one(t, 18, "GroupNormalization", onnx.Attrs{"num_groups": 2}, []any{1, 4, 3}, map[string]any{"a": []float32{1, 2}, "b": []float32{5, 6}}, 1), 21,
			"Shape Div Concat Reshape Expand Reshape Reshape Expand Reshape GroupNormalization", 6, []int{1, 4, 3}},
		{one(t, 9, "Upsample", nil, []any{1, 1, 2, 2}, map[string]any{"scales": []float32{1, 1, 2, 3}}, 1), 13, "Resize", 2, []int{1, 1, 2, 2}},
		{one(t, 15, "Clip", nil, []any{4}, map[string]any{"a": float32(-1), "b": float32(2)}, 1), 7, "Clip", 0, []int{4}},
		{one(t, 7, "Clip", onnx.Attrs{"min": -1.0, "max": 2.0}, []any{4}, nil, 1), 23, "Clip", 2, []int{4}},
		{one(t, 8, "Sum", nil, []any{2, 3}, map[string]any{"a": []float32{1, 2, 3}, "b": []float32{4}}, 1), 7, "Add Add", 2, []int{2, 3}},
		{one(t, 10, "Slice", nil, []any{4, 3}, map[string]any{"a": []int64{1}, "b": []int64{3}, "c": []int64{0}}, 1), 9, "Slice", 0, []int{4, 3}},
		{one(t, 13, "Unsqueeze", nil, []any{4, 3}, map[string]any{"a": []int64{-1}}, 1), 7, "Unsqueeze", 0, []int{4, 3}},
		{one(t, 11, "TopK", onnx.Attrs{"sorted": 1}, []any{4}, map[string]any{"k": []int64{2}}, 1), 8, "TopK", 0, []int{4}},
		{one(t, 18, "Resize", onnx.Attrs{"axes": []int64{-1}, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, []any{1, 1, 2, 2},
			map[string]any{"a": []float32{}, "b": []float32{2}}, 1), 9, "Upsample", 1, []int{1, 1, 2, 2}},
	} {
		t.Run(fmt.Sprintf("%s_to_%d", ops(c.m.Graph), c.to), func(t *testing.T) {
			r := convert(t, c.m, c.to)
			if got := ops(r.Graph); got != c.ops || len(r.Graph.Initializers) != c.constant {
				t.Errorf("got %s and %d initializers, want %s and %d", got, len(r.Graph.Initializers),
					c.ops, c.constant)
			}
			if r.IRVersion != onnx.IRVersionOf(c.to) {
				t.Errorf("IR version %d", r.IRVersion)
			}
			same(t, c.m, r, c.shape...)
		})
	}
}

// TestSubgraphsAndFunctions converts the nodes of a branch, which reads a constant of the main
// graph, and of a function that imports another opset.
func TestSubgraphsAndFunctions(t *testing.T) {
	branch := func(name string) *onnx.Graph {
		g := onnx.NewGraph(name)
		g.Node("Squeeze", []string{"x", "axes"}, []string{name + "_s"})
		g.Node("Softmax", []string{name + "_s"}, []string{name + "_o"}, onnx.Attrs{"axis": -1})
		g.Output(name+"_o", onnx.Float, 3)
		r, err := g.Graph()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	b := onnx.NewModel("m").Opset("", 15).Opset("f", 1)
	b.Input("x", onnx.Float, 1, 3).Output("y", onnx.Float, 3).Initializer("axes", []int64{0}).Initializer("c", true)
	b.Node("If", []string{"c"}, []string{"i"}, onnx.Attrs{"then_branch": branch("a"), "else_branch": branch("b")})
	b.Node("Sum", []string{"i"}, []string{"y"}).Domain("f")
	f := b.Function("f", "Sum").Inputs("v").Outputs("r").Opset("", 12)
	f.Node("ReduceSum", []string{"v"}, []string{"s"}, onnx.Attrs{"axes": []int64{0}})
	f.Node("Add", []string{"v", "s"}, []string{"r"})
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	up := convert(t, m, opset.Last)
	if got := ops(&onnx.Graph{Nodes: up.Functions[0].Nodes}); got != "Constant ReduceSum Add" ||
		up.Functions[0].OpsetImports[0].Version != opset.Last {
		t.Errorf("the function has nodes %s of opset %v", got, up.Functions[0].OpsetImports)
	}
	same(t, m, up, 1, 3)
	down := convert(t, up, 12)
	if n := down.Graph.Nodes[0].Subgraphs()[0].Nodes[0]; len(n.Inputs) != 1 || n.Attribute("axes") == nil {
		t.Errorf("Squeeze has inputs %v", n.Inputs)
	}
	if slices.ContainsFunc(down.Graph.Initializers, func(t *onnx.Tensor) bool { return t.Name == "axes" }) {
		t.Error("the axes, which are attributes, are still an initializer")
	}
	same(t, m, down, 1, 3)
}

// TestErrorsNameAllNodes converts two nodes that an older opset cannot state.
func TestErrorsNameAllNodes(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 20)
	b.Input("x", onnx.Float, 2, 3).Input("axes", onnx.Int64, 1).Output("y", onnx.Float, nil, nil)
	b.Node("ReduceSum", []string{"x", "axes"}, []string{"s"}).Name("sum")
	b.Node("Gelu", []string{"s"}, []string{"y"}).Name("gelu")
	m := b.Must()
	_, err := opset.Convert(m, 12)
	for _, want := range []string{`node "sum": ReduceSum of version 13 has no form in opset 12: input "axes" is not a constant`,
		`node "gelu": Gelu of version 20 has no form in opset 19: the operator exists since opset 20`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, v := range []int64{6, 99, -1} {
		if _, err := opset.Convert(m, v); err == nil || !strings.Contains(err.Error(), "between 7 and") {
			t.Errorf("opset %d: got %v", v, err)
		}
	}
}

// TestConvertKeepsOmittedOutputs converts a Split whose last output has no name: the number of
// outputs remains the number of parts. An omitted mask of Dropout is removed.
func TestConvertKeepsOmittedOutputs(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 11)
	b.Input("x", onnx.Float, 6, 2).Output("y", onnx.Float, nil, nil)
	b.Node("Dropout", []string{"x"}, []string{"d", ""})
	b.Node("Split", []string{"d"}, []string{"y", "p", ""})
	r := convert(t, b.Must(), 18)
	if d, s := r.Graph.Nodes[0], r.Graph.Nodes[1]; len(d.Outputs) != 1 || len(s.Outputs) != 3 ||
		s.Attribute("num_outputs").I != 3 {
		t.Errorf("Dropout has outputs %q, Split %q with num_outputs %v", d.Outputs, s.Outputs,
			s.Attribute("num_outputs"))
	}
}

// TestOldIR converts a model of IR version 3, whose initializers are inputs,
// too: they are constants.
func TestOldIR(t *testing.T) {
	b := onnx.NewModel("m").IRVersion(3).Opset("", 7)
	b.Input("x", onnx.Float, 2, 3).Input("s", onnx.Int64, 2).Output("y", onnx.Float, nil, nil).
		Initializer("s", []int64{3, 2})
	b.Node("Reshape", []string{"x", "s"}, []string{"y"})
	m := b.Must()
	r := convert(t, m, 21)
	if len(r.Graph.Inputs) != 1 || r.IRVersion != 10 {
		t.Errorf("got %d inputs and IR version %d", len(r.Graph.Inputs), r.IRVersion)
	}
	same(t, m, r, 2, 3)
}

// TestHostileNodes converts nodes whose attributes and shapes ask for too much memory, or that have
// no outputs.
func TestHostileNodes(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, "N", "C", "L").Input("s", onnx.Float, 1<<40).Input("b", onnx.Float, "C").
		Output("y", onnx.Float, nil, nil, nil)
	b.Node("GroupNormalization", []string{"x", "b", "b"}, []string{"y"}, onnx.Attrs{"num_groups": 1 << 50})
	b.Node("QuantizeLinear", []string{"x", "s"}, []string{"q"}, onnx.Attrs{"output_dtype": int64(onnx.Int8)})
	b.Node("Softmax", []string{"x"}, nil, onnx.Attrs{"axis": 1})
	b.Node("Split", []string{"x"}, nil, onnx.Attrs{"num_outputs": 1})
	m := b.Must()
	for v := int64(7); v < 21; v++ {
		if _, err := opset.Convert(m, v); err == nil {
			t.Errorf("opset %d: want an error", v)
		}
	}
}
