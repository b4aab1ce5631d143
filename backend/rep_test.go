package backend_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestRunTimed(t *testing.T) {
	out, times, err := prepare(t, linear(), backend.Reference, nil).RunTimed(t.Context(), backend.One(matrix()))
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out["y"], linearResult)
	var got []string
	for i, n := range times {
		if n.I != i || n.Time < 0 {
			t.Errorf("node %d is %+v", i, n)
		}
		got = append(got, n.Name+":"+n.OpType)
	}
	if want := []string{"product:MatMul", "sum:Add", ":Relu"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	data, err := json.Marshal(backend.NodeTime{I: 1, Name: "a", OpType: "Add", Time: 5})
	if err != nil || string(data) != `{"i":1,"name":"a","op_type":"Add","time":5}` {
		t.Errorf("%s, %v", data, err)
	}
}

func TestIntermediate(t *testing.T) {
	all, err := prepare(t, linear(), backend.Reference, nil).Intermediate(t.Context(), backend.One(matrix()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range all {
		names = append(names, v.Name)
	}
	if want := []string{"x", "xw", "h", "y"}; !slices.Equal(names, want) {
		t.Fatalf("names %v, want %v", names, want)
	}
	wantEqual(t, all[1].Value, tensor.Must(tensor.New([]float32{4, 6, 11, 16}, 2, 2)))
	wantEqual(t, all[3].Value, linearResult)
}

func TestStepsStopEarly(t *testing.T) {
	r := prepare(t, linear(), backend.Reference, nil)
	var ops []string
	for n, err := range r.Steps(t.Context(), backend.One(matrix())) {
		if err != nil {
			t.Fatal(err)
		}
		if ops = append(ops, n.OpType); len(ops) == 2 {
			break
		}
	}
	if !slices.Equal(ops, []string{"MatMul", "Add"}) {
		t.Errorf("ops %v", ops)
	}
	n := 0
	for _, err := range r.Steps(t.Context(), backend.List{}) {
		if n++; err == nil {
			t.Error("a run without its input yields a node")
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

func TestVerbose(t *testing.T) {
	r := prepare(t, linear(), backend.Reference, nil)
	want := map[int][]string{
		1: {`#0 MatMul(x, w) -> xw (name="product", T)`, `#1 Add(xw, b) -> h (name="sum", T)`, `#2 Relu(h) -> y (name="", T)`},
		2: {`+input "x": shape=[2 2] dtype=float min=1 max=3`,
			`#0 MatMul(x, w) -> xw (name="product", T)`, `  +"xw": shape=[2 2] dtype=float min=4 max=16`,
			`#1 Add(xw, b) -> h (name="sum", T)`, `  +"h": shape=[2 2] dtype=float min=-6 max=16.100000381469727`,
			`#2 Relu(h) -> y (name="", T)`, `  +"y": shape=[2 2] dtype=float min=0 max=16.100000381469727`},
	}
	duration := regexp.MustCompile(`, [0-9.]+[nµm]?s\)`)
	for level := range 4 {
		var lines []string
		out, err := r.RunVerbose(t.Context(), backend.One(matrix()), level, func(f string, a ...any) {
			lines = append(lines, duration.ReplaceAllString(fmt.Sprintf(f, a...), ", T)"))
		})
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), linearResult)
		if w, ok := want[level]; ok && !slices.Equal(lines, w) {
			t.Errorf("level %d:\n%s\nwant\n%s", level, strings.Join(lines, "\n"), strings.Join(w, "\n"))
		}
		if level == 0 && lines != nil {
			t.Errorf("level 0 logs %v", lines)
		}
		if level == 3 && !slices.Contains(lines, `  -"b": shape=[2] dtype=float min=-10 max=0.10000000149011612`) {
			t.Errorf("level 3 does not show inputs: %s", strings.Join(lines, "\n"))
		}
	}
}

func TestSummary(t *testing.T) {
	for want, v := range map[string]tensor.Value{
		"shape=[2] dtype=string":                  tensor.Must(tensor.New([]string{"a", "b"}, 2)),
		"shape=[0] dtype=float":                   vector(),
		"shape=[1] dtype=bool min=1 max=1":        tensor.Must(tensor.New([]bool{true}, 1)),
		"seq(tensor(float)) of 1 items":           &tensor.Sequence{Elem: tensor.TensorType(tensor.TypeFloat32), Items: []tensor.Value{vector(1)}},
		"optional(tensor(float)), empty":          &tensor.Optional{Elem: tensor.TensorType(tensor.TypeFloat32)},
		"none":                                    nil,
		"map(int64,tensor(float)) of 1 keys":      &tensor.Map{Keys: tensor.Must(tensor.New([]int64{7}, 1)), Values: vector(1)},
		"shape=[2] dtype=bfloat16 min=-2 max=0.5": tensor.Must(tensor.New([]tensor.BFloat16{tensor.NewBFloat16(-2), tensor.NewBFloat16(0.5)}, 2)),
	} {
		if got := backend.Summary(v); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestExecutionOrderAndTypes(t *testing.T) { onProviders(t, testExecutionOrderAndTypes) }

func testExecutionOrderAndTypes(t *testing.T, p backend.Provider) {
	r := prepare(t, linear(), p, nil)
	nodes, err := r.ExecutionOrder()
	if err != nil {
		t.Fatal(err)
	}
	var ops []string
	for i, n := range nodes {
		if n.Index != i {
			t.Errorf("node %d has index %d", i, n.Index)
		}
		ops = append(ops, n.OpType)
	}
	if !slices.Equal(ops, []string{"MatMul", "Add", "Relu"}) || !slices.Equal(nodes[1].Inputs, []string{"xw", "b"}) {
		t.Errorf("nodes %+v", nodes)
	}
	types, err := r.InferShapes()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"x": "x: tensor(float)[n,2]", "w": "w: tensor(float)[2,2]",
		"h": "h: tensor(float)[n,2]", "y": "y: tensor(float)[n,2]"} {
		if got := types[name].String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	m, err := r.ShapeInference()
	if err != nil {
		t.Fatal(err)
	}
	var info []string
	for _, v := range m.Graph.ValueInfo {
		info = append(info, v.Name)
	}
	if !slices.Equal(info, []string{"xw", "h"}) || len(r.Model.Graph.ValueInfo) != 0 {
		t.Errorf("value_info %v; in the Rep's own model %d", info, len(r.Model.Graph.ValueInfo))
	}
	if err := onnx.Check(m, nil); err != nil {
		t.Error(err)
	}
}

func TestBuildIntermediate(t *testing.T) { onProviders(t, testBuildIntermediate) }

func testBuildIntermediate(t *testing.T, p backend.Provider) {
	r := prepare(t, linear(), p, nil)
	h, err := r.BuildIntermediate(t.Context(), "h")
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.Run(t.Context(), backend.One(matrix()), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Get("h"), tensor.Must(tensor.New([]float32{-6, 6.1, 1, 16.1}, 2, 2)))
	if n := len(h.Model.Graph.Nodes); n != 2 {
		t.Errorf("%d nodes, want 2", n)
	}
	all, err := r.BuildIntermediate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err = all.Run(t.Context(), backend.One(matrix()), nil); err != nil ||
		!slices.Equal(out.Names, []string{"xw", "h", "y"}) {
		t.Errorf("all: %v, %v", out, err)
	}
	if _, err := r.BuildIntermediate(t.Context(), "nosuch"); err == nil || !strings.Contains(err.Error(), `"nosuch"`) {
		t.Errorf("unknown result: %v", err)
	}
}

func TestNewOutputsDropWhatIsNotNeeded(t *testing.T) {
	onProviders(t, testNewOutputsDropWhatIsNotNeeded)
}

func testNewOutputsDropWhatIsNotNeeded(t *testing.T, p backend.Provider) {
	r := prepare(t, linear(), p, &backend.Options{NewOutputs: []string{"xw"}})
	if g := r.Model.Graph; len(g.Nodes) != 1 || len(g.Initializers) != 1 {
		t.Errorf("%d nodes and %d initializers are left", len(g.Nodes), len(g.Initializers))
	}
	out, err := r.Run(t.Context(), backend.One(matrix()), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Get("xw"), tensor.Must(tensor.New([]float32{4, 6, 11, 16}, 2, 2)))
	// What only a subgraph reads stays.
	r = prepare(t, choice(), p, &backend.Options{NewOutputs: []string{"y"}})
	if len(r.Session.Inputs()) != 2 {
		t.Errorf("inputs %v", r.Session.Inputs())
	}
}

func TestStaticInputs(t *testing.T) { onProviders(t, testStaticInputs) }

func testStaticInputs(t *testing.T, p backend.Provider) {
	r := prepare(t, choice(), p, &backend.Options{StaticInputs: map[string]*tensor.Tensor{"c": tensor.Scalar(false)}})
	out, err := r.Run(t.Context(), backend.One(vector(1, 2)), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), vector(-1, -2))
	// A subgraph alone gets the values of the graph around it.
	branch := choice().Graph.Nodes[0].Attribute("then_branch").G
	r = prepare(t, branch, p, &backend.Options{StaticInputs: map[string]*tensor.Tensor{"x": vector(3, 4)}})
	if out, err = r.Run(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), vector(6, 8))
	if _, err := backend.Prepare(t.Context(), linear(), p,
		&backend.Options{StaticInputs: map[string]*tensor.Tensor{"h": vector(1)}}); err == nil ||
		!strings.Contains(err.Error(), "is the result of node") {
		t.Errorf("a result as input: %v", err)
	}
}

func TestNewOpsetAndIRVersion(t *testing.T) { onProviders(t, testNewOpsetAndIRVersion) }

func testNewOpsetAndIRVersion(t *testing.T, p backend.Provider) {
	m := linear()
	r := prepare(t, m, p, &backend.Options{NewOpset: 13, IRVersion: 7})
	if md := r.Session.Metadata(); md.Opsets[""] != 13 || md.IRVersion != 7 {
		t.Errorf("metadata %+v", md)
	}
	if v, _ := m.OpsetVersion(""); v != 17 || m.IRVersion != 8 {
		t.Error("the caller's model has changed")
	}
	if md := prepare(t, m.Graph, p, &backend.Options{TargetOpset: 14}).Session.Metadata(); md.Opsets[""] != 14 {
		t.Errorf("target opset: %+v", md)
	}
}

func TestSkipRun(t *testing.T) { onProviders(t, testSkipRun) }

func testSkipRun(t *testing.T, p backend.Provider) {
	r := prepare(t, linear(), p, &backend.Options{SkipRun: true})
	if _, err := r.Run(t.Context(), backend.One(matrix()), nil); err == nil ||
		!strings.Contains(err.Error(), "SkipRun") {
		t.Errorf("run: %v", err)
	}
	if err := r.CheckONNX(); err != nil {
		t.Error(err)
	}
	if _, err := r.RunVerbose(t.Context(), backend.One(matrix()), 1, t.Logf); err == nil {
		t.Error("a verbose run ran")
	}
	full := prepare(t, linear(), p, nil)
	if in, want := fmt.Sprint(r.Inputs(), r.Outputs()), fmt.Sprint(full.Inputs(), full.Outputs()); in != want {
		t.Errorf("inputs and outputs %s, with a session %s", in, want)
	}
}

func TestCheckONNX(t *testing.T) { onProviders(t, testCheckONNX) }

func testCheckONNX(t *testing.T, p backend.Provider) {
	m := linear()
	m.Graph.Nodes[0].Inputs[1] = "gone"
	r := prepare(t, m, p, &backend.Options{SkipRun: true, SkipCheck: true})
	if err := r.CheckONNX(); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got %v", err)
	}
}

func TestReduceSizeAndSerialization(t *testing.T) { onProviders(t, testReduceSizeAndSerialization) }

func testReduceSizeAndSerialization(t *testing.T, p backend.Provider) {
	r := prepare(t, linear(), p, nil)
	data, err := r.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	r.ReduceSize()
	out, err := r.Run(t.Context(), backend.One(matrix()), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), linearResult)
	if _, err := r.MarshalBinary(); err == nil {
		t.Error("a reduced Rep was serialized")
	}
	if _, err := r.InferShapes(); err == nil {
		t.Error("a reduced Rep inferred shapes")
	}
	if out, err = prepare(t, data, p, nil).Run(t.Context(), backend.One(matrix()), nil); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), linearResult)
}

func TestNodeLookUp(t *testing.T) { onProviders(t, testNodeLookUp) }

func testNodeLookUp(t *testing.T, p backend.Provider) {
	r := prepare(t, choice(), p, nil)
	for name, op := range map[string]string{"if": "If", "y": "If", "double": "Add", "e": "Neg"} {
		if n := r.Node(name); n == nil || n.OpType != op {
			t.Errorf("%s: %+v, want %s", name, n, op)
		}
	}
	if n := r.Node("nosuch"); n != nil || r.Node("") != nil {
		t.Errorf("found %+v", n)
	}
}

func TestSwitchInitializersDType(t *testing.T) { onProviders(t, testSwitchInitializersDType) }

func testSwitchInitializersDType(t *testing.T, p backend.Provider) {
	r := prepare(t, linear(), p, nil)
	d, err := r.SwitchInitializersDType(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.Convert(matrix(), tensor.TypeFloat64, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.Run(t.Context(), backend.One(x), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p == "openvino" {
		return // computes float64 in float32
	}
	// 0.1 is rounded to float32 in the file, the sum is not.
	if y := tensor.MustData[float64](out.Tensor(0)); y[1] != 6+float64(float32(0.1)) {
		t.Errorf("got %v", y)
	}
	if r.Model.Graph.Initializers[0].DataType != onnx.Float {
		t.Error("the model of the first Rep has changed")
	}
	b := onnx.NewModel("m").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.Int64, 2).Output("y", onnx.Float, 2)
	b.Node("Cast", []string{"x"}, []string{"f"}, onnx.Attrs{"to": onnx.Float})
	b.Node("Constant", nil, []string{"k"}, onnx.Attrs{"value_float": 0.5})
	b.Node("Shape", []string{"x"}, []string{"s"})
	b.Node("ConstantOfShape", []string{"s"}, []string{"zero"})
	b.Node("Mul", []string{"f", "k"}, []string{"fk"})
	b.Node("Add", []string{"fk", "zero"}, []string{"y"})
	if d, err = prepare(t, b.Must(), p, nil).SwitchInitializersDType(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err = d.Run(t.Context(), backend.One(tensor.Must(tensor.New([]int64{1, 3}, 2))), nil); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), tensor.Must(tensor.New([]float64{0.5, 1.5}, 2)))
}

func TestProfiling(t *testing.T) {
	r := prepare(t, linear(), backend.Reference, &backend.Options{Profile: true})
	seen := 0
	for range 2 {
		if _, err := r.Run(t.Context(), backend.One(matrix()), &onward.RunOptions{Observe: func(onward.NodeRun) {
			seen++
		}}); err != nil {
			t.Fatal(err)
		}
	}
	events, dropped, err := r.Profiling()
	if err != nil || len(events) != 6 || dropped != 0 || seen != 6 {
		t.Fatalf("%d events, %d dropped, %d observed", len(events), dropped, seen)
	}
	if e := events[4]; e.Name != "sum" || e.OpType != "Add" || e.Start < events[3].Start {
		t.Errorf("event 4 is %+v after %+v", e, events[3])
	}
	if events, _, err = r.Profiling(); err != nil || len(events) != 0 {
		t.Errorf("%d events are left, %v", len(events), err)
	}
	if events, _, err := prepare(t, linear(), backend.CPU, nil).Profiling(); err != nil || events != nil {
		t.Errorf("events without Options.Profile: %v, %v", events, err)
	}
}
