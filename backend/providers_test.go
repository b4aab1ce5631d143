package backend_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/provider/ort"
)

// onProviders runs a test on the Go engine and on the native libraries that this machine has.
func onProviders(t *testing.T, test func(t *testing.T, b backend.Provider)) {
	for _, b := range []backend.Provider{backend.Reference, backend.CPU, "ort", "openvino"} {
		t.Run(b.Name(), func(t *testing.T) {
			switch b {
			case "ort":
				t.Setenv(ort.Env, ortlib.Path(t))
			case "openvino":
				t.Setenv(openvino.Env, openvinolib.Path(t))
			}
			test(t, b)
		})
	}
}

// notReleased is ONNX Runtime's text for opset 1000.
const notReleased = "Skipping this test as only released onnx opsets are supported." +
	"To run this test set env variable ALLOW_RELEASED_ONNX_OPSET_ONLY to 0. Got Domain 'ai.onnx' version '1000'."

// TestReleasedOpsets prepares a model of an opset that is not released. All providers give
// ONNX Runtime's text; without the check, each decides: the Go engine and ONNX Runtime, which
// reads the environment variable itself, refuse the model, OpenVINO takes it.
func TestReleasedOpsets(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 1000).IRVersion(10)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Relu", []string{"x"}, []string{"y"})
	future, allowed := b.Must(), false
	onProviders(t, func(t *testing.T, b backend.Provider) {
		_, err := backend.Prepare(t.Context(), future, b, nil)
		if !errors.Is(err, backend.ErrSkip) || !errors.Is(err, onward.ErrNotImplemented) ||
			!strings.Contains(err.Error(), notReleased) {
			t.Errorf("by default: %v", err)
		}
		want := map[backend.Provider]string{"cpu": "versions 1 to ", "reference": "versions 1 to ",
			"ort": "Opset 1000 is under development"}[b]
		r, err := backend.Prepare(t.Context(), future, b,
			&backend.Options{ReleasedOpsetsOnly: &allowed, SkipCheck: true})
		if want != "" {
			if !errors.Is(err, backend.ErrSkip) || !strings.Contains(err.Error(), want) {
				t.Errorf("allowed: %v, want %q", err, want)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		out, err := r.Run(t.Context(), backend.One(vector(-1, 2)), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), vector(0, 2))
	})
}

// TestInvalidModelIsNotSkipped prepares models that OpenVINO does not convert, with the same
// status as for operators that it lacks.
func TestInvalidModelIsNotSkipped(t *testing.T) {
	models := map[string]*onnx.Model{}
	for name, inputs := range map[string][]string{"one input of two": {"x"}, "an input without a name": {"", "x"}} {
		b := onnx.NewModel(name)
		b.Input("x", onnx.Float, 2, 2).Output("y", onnx.Float, 2, 2)
		b.Node("MatMul", inputs, []string{"y"})
		models[name] = b.Must()
	}
	b := onnx.NewModel("shapes")
	b.Input("x", onnx.Float, 2, 3).Output("y", onnx.Float, 2, 3)
	b.Node("MatMul", []string{"x", "x"}, []string{"y"})
	models["shapes that do not fit"] = b.Must()
	onProviders(t, func(t *testing.T, b backend.Provider) {
		for name, m := range models {
			_, err := backend.Prepare(t.Context(), m, b, &backend.Options{SkipCheck: true})
			if err == nil || errors.Is(err, backend.ErrSkip) {
				t.Errorf("%s: %v, want an error that is not ErrSkip", name, err)
			}
		}
	})
}

// TestNewestOpset runs a node and a graph without an opset: each provider gets the newest one
// that it accepts.
func TestNewestOpset(t *testing.T) {
	top, _ := onward.MaxOpset("")
	graph := onnx.NewGraph("g")
	graph.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	graph.Node("Relu", []string{"x"}, []string{"y"})
	g, err := graph.Graph()
	if err != nil {
		t.Fatal(err)
	}
	f := onnx.NewModel("m").Opset("", 17).Opset("local", 1)
	f.Function("local", "Twice").Inputs("a").Outputs("c").Node("Add", []string{"a", "a"}, []string{"c"})
	function := f.Must().Functions[0]
	onProviders(t, func(t *testing.T, b backend.Provider) {
		relu := &onnx.Node{OpType: "Relu", Inputs: []string{"x"}, Outputs: []string{"y"}}
		out, err := backend.RunNode(t.Context(), relu, b, backend.One(vector(-1, 2)), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), vector(0, 2))
		r := prepare(t, g, b, nil)
		if out, err = r.Run(t.Context(), backend.One(vector(-1, 2)), nil); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), vector(0, 2))
		if out, err = backend.RunModel(t.Context(), function, b, backend.One(vector(1, 2)), nil); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), vector(2, 4))
		if ok, err := backend.IsCompatible(t.Context(), g, b, "CPU"); !ok {
			t.Error(err)
		}
		if v, ok := r.Model.OpsetVersion(""); !ok || int(v) > top || b != "ort" && int(v) != top || v < 21 {
			t.Errorf("the graph has opset %d", v)
		}
		later := onnx.NewModel("later").Opset("", int64(top)+1)
		later.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2).Node("Relu", []string{"x"}, []string{"y"})
		if ok, err := backend.IsCompatible(t.Context(), later.Must(), b, "CPU"); ok || err == nil {
			t.Errorf("opset %d is compatible, which is not released", top+1)
		}
	})
}

// TestFunctions runs a model with nested functions, an attribute and a subgraph in a function.
// OpenVINO has no functions: they are inlined, also for a model that is read from its file.
func TestFunctions(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).Opset("local", 1).IRVersion(9)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Function("local", "Twice").Inputs("a").Outputs("c").Node("Add", []string{"a", "a"}, []string{"c"})
	leaky := b.Function("local", "TwiceLeaky").Inputs("a").Outputs("c").Attributes("alpha")
	leaky.Node("Twice", []string{"a"}, []string{"h"}).Domain("local")
	leaky.Node("LeakyRelu", []string{"h"}, []string{"c"},
		onnx.Attrs{"alpha": onnx.Ref{Name: "alpha", Type: onnx.AttrFloat}})
	b.Node("TwiceLeaky", []string{"x"}, []string{"h"}, onnx.Attrs{"alpha": float32(0.5)}).Domain("local")
	b.Node("Twice", []string{"h"}, []string{"y"}).Domain("local")
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	onProviders(t, func(t *testing.T, p backend.Provider) {
		sess, err := onward.Open(t.Context(), path,
			&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p.Name()}}})
		if err != nil {
			t.Fatal(err)
		}
		defer sess.Close()
		for _, r := range []*backend.Rep{prepare(t, path, p, nil), prepare(t, b.Must(), p, nil),
			prepare(t, sess, p, nil)} {
			out, err := r.Run(t.Context(), backend.One(vector(-1, 2)), nil)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, out.Tensor(0), vector(-2, 8))
		}
	})
}

// TestYieldOp gives the outputs of YieldOp as inputs, as yield_ops of mlprodict does.
func TestYieldOp(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).Opset("com.microsoft", 1).IRVersion(9)
	b.Input("x", onnx.Float, 2).Output("g", onnx.Float, 2)
	b.Node("Exp", []string{"x"}, []string{"y"})
	b.Node("YieldOp", []string{"y"}, []string{"dy"}).Domain("com.microsoft")
	b.Node("Mul", []string{"dy", "y"}, []string{"g"})
	m := b.Must()
	onProviders(t, func(t *testing.T, p backend.Provider) {
		r := prepare(t, m, p, nil)
		out, err := r.Run(t.Context(), backend.Named{"x": vector(0, 1), "dy": vector(3, 0)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Get("g"), vector(3, 0))
		if _, err := r.Run(t.Context(), backend.Named{"x": vector(0, 1)}, nil); !errors.Is(err,
			onward.ErrInvalidArgument) || !strings.Contains(err.Error(), "Required inputs (['dy']) are missing") {
			t.Errorf("without the value of YieldOp: %v", err)
		}
	})
	if len(m.Graph.Nodes) != 3 || len(m.Graph.Inputs) != 1 {
		t.Error("Prepare has changed the model")
	}
}

// TestInplace sets mlprodict's inplace=False. The results are the same; the session's options
// tell the provider.
func TestInplace(t *testing.T) {
	for _, no := range []bool{false, true} {
		for _, p := range []backend.Provider{backend.CPU, backend.Reference} {
			r := prepare(t, linear(), p, &backend.Options{NoInplace: no})
			if got := r.Session.Options().DisableMemoryReuse; got != no {
				t.Errorf("%s: NoInplace %v gives DisableMemoryReuse %v", p, no, got)
			}
			out, err := r.Run(t.Context(), backend.One(matrix()), nil)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, out.Tensor(0), linearResult)
		}
	}
}

// TestMissingOperator prepares a model with operators that no provider has. Every provider
// names one, and this module all of them.
func TestMissingOperator(t *testing.T) {
	m := unknownOperators()
	m.OpsetImports[0].Version, m.IRVersion = 17, 8
	onProviders(t, func(t *testing.T, p backend.Provider) {
		_, err := backend.Prepare(t.Context(), m, p, nil)
		var st *onward.StatusError
		if !errors.As(err, &st) || !strings.Contains(err.Error(), "Frobnicate") {
			t.Errorf("got %v", err)
		}
		if own := p == backend.CPU || p == backend.Reference; own &&
			(!errors.Is(err, backend.ErrSkip) || st.Code != onward.CodeNotImplemented ||
				!strings.Contains(err.Error(), "Defrobnicate")) {
			t.Errorf("got %v", err)
		}
	})
}
