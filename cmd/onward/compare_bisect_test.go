//go:build !core

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/layers"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// branches is a model of 40 nodes in two branches, with an Abs that an Elu reads, and an Erf.
func branches() *onnx.Model {
	b := onnx.NewModel("m").Opset("", 18)
	b.Input("x", onnx.Float, "N", 4).Output("y", onnx.Float, "N", 4)
	b.Initializer("w", []float32{1, 2, 3, 4}, 4)
	at := "x"
	next := func(op string, in ...string) {
		out := "v" + string(rune('A'+len(at)%26)) + at
		b.Node(op, append([]string{at}, in...), []string{out}).Name(op + " of " + at)
		at = out
	}
	for i := range 38 {
		switch i {
		case 20:
			next("Abs")
		case 21:
			next("Elu")
		case 30:
			next("Erf")
		default:
			next([]string{"Neg", "Relu", "Tanh"}[i%3])
		}
	}
	next("Add", "w")
	b.Node("Mul", []string{at, "x"}, []string{"y"}).Name("last")
	return b.Must()
}

// faulty runs models on reference. As provider "bad", it calls fault for each model.
func faulty(fault func(m *onnx.Model, out onward.Values) error) runner {
	return func(ctx context.Context, m *onnx.Model, provider string, _ onward.Precision, o *compareOptions,
		feed onward.Values) (onward.Values, error) {
		out, err := runOn(ctx, m, "reference", onward.PrecisionFloat32, o, feed)
		if err == nil && provider == "bad" {
			err = fault(m, out)
		}
		return out, err
	}
}

// pair reports whether an Elu reads an Abs.
func pair(m *onnx.Model) bool {
	made := map[string]bool{}
	for _, n := range m.Graph.Nodes {
		if n.OpType == "Abs" {
			made[n.Outputs[0]] = true
		}
		if n.OpType == "Elu" && made[n.Inputs[0]] {
			return true
		}
	}
	return false
}

func TestBisect(t *testing.T) {
	m := branches()
	x := tensor.Must(tensor.New([]float32{1, -2, 3, -4, 5, 6, 7, 8}, 2, 4))
	for name, c := range map[string]struct {
		fault func(m *onnx.Model, out onward.Values) error
		ops   []string
		err   string
	}{
		"wrong result of two nodes": {func(m *onnx.Model, out onward.Values) error {
			if pair(m) {
				for _, v := range out {
					for i := range tensor.MustData[float32](v.(*tensor.Tensor)) {
						tensor.MustData[float32](v.(*tensor.Tensor))[i] += 100
					}
				}
			}
			return nil
		}, []string{"Abs", "Elu"}, "differ"},
		"error at a node": {func(m *onnx.Model, out onward.Values) error {
			if slices.ContainsFunc(m.Graph.Nodes, func(n *onnx.Node) bool { return n.OpType == "Erf" }) {
				return errors.New("no kernel for Erf")
			}
			return nil
		}, []string{"Erf"}, "no kernel for Erf"},
	} {
		folder := filepath.Join(t.TempDir(), "new", "failing")
		o := &compareOptions{providers: []string{"bad", "reference"}, bisect: folder,
			tolerance: layers.Tolerance{Rtol: 1e-3, Atol: 1e-5}}
		r, err := bisect(t.Context(), o, m, onward.Values{"x": x}, faulty(c.fault))
		if err != nil {
			t.Fatal(name, err)
		}
		var ops []string
		small, err := onnx.ReadFile(filepath.Join(folder, "model.onnx"), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, n := range small.Graph.Nodes {
			ops = append(ops, n.OpType)
		}
		small.Close()
		if !slices.Equal(ops, c.ops) || len(r.Nodes) != len(c.ops) || r.Of != 40 || !strings.Contains(r.Error, c.err) {
			t.Errorf("%s: %v, %+v", name, ops, r)
		}
		// The saved outputs are those of the second provider: the folder is a case
		// of the suite's form.
		entries, _ := os.ReadDir(filepath.Dir(folder))
		if len(entries) != 1 {
			t.Errorf("%s: beside the folder are %v", name, entries)
		}
		command(t, exitOK, "compare", filepath.Join(folder, "model.onnx"), "--inputs", filepath.Join(folder, dataSet),
			"--provider", "reference,reference")
		if _, err := os.Stat(filepath.Join(folder, dataSet, "output_0.pb")); err != nil {
			t.Error(err)
		}
		if _, err := bisect(t.Context(), o, m, onward.Values{"x": x}, faulty(c.fault)); err == nil ||
			!strings.Contains(err.Error(), "exists") {
			t.Errorf("%s: an existing folder: %v", name, err)
		}
	}
}

// TestBisectFedInitializer: a value that is fed in place of an initializer is an input
// of the small model.
func TestBisectFedInitializer(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 18)
	b.Input("x", onnx.Float, 2).Input("w", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Initializer("w", []float32{1, 2}, 2)
	b.Node("Neg", []string{"x"}, []string{"n"})
	b.Node("Mul", []string{"n", "w"}, []string{"m"})
	b.Node("Abs", []string{"m"}, []string{"y"})
	fault := func(m *onnx.Model, out onward.Values) error {
		for _, n := range m.Graph.Nodes {
			for _, v := range out {
				if x := tensor.MustData[float32](v.(*tensor.Tensor))[0]; n.OpType == "Mul" && (x == 30 || x == -30) {
					return errors.New("wrong for w = 30")
				}
			}
		}
		return nil
	}
	folder := filepath.Join(t.TempDir(), "failing")
	o := &compareOptions{providers: []string{"bad", "reference"}, bisect: folder,
		tolerance: layers.Tolerance{Rtol: 1e-3, Atol: 1e-5}}
	feed := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}, 2)),
		"w": tensor.Must(tensor.New([]float32{30, 40}, 2))}
	r, err := bisect(t.Context(), o, b.Must(), feed, faulty(fault))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Nodes) != 1 || !strings.Contains(r.Nodes[0], "Mul") {
		t.Errorf("nodes %v, want the Mul", r.Nodes)
	}
}

// A canceled bisection writes nothing.
func TestBisectCanceled(t *testing.T) {
	m := branches()
	folder := filepath.Join(t.TempDir(), "failing")
	o := &compareOptions{providers: []string{"bad", "reference"}, bisect: folder}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := 0
	run := faulty(func(*onnx.Model, onward.Values) error {
		if runs++; runs == 5 {
			cancel()
		}
		return errors.New("always")
	})
	x := tensor.Must(tensor.New([]float32{1, 2, 3, 4}, 1, 4))
	if _, err := bisect(ctx, o, m, onward.Values{"x": x}, run); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(folder)); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

func TestBisectCommand(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "none")
	out, _ := command(t, exitOK, "compare", "digits.onnx", "--bisect", folder)
	if _, err := os.Stat(folder); err == nil || strings.Contains(out, "still fail") {
		t.Errorf("providers that agree: %v\n%s", err, out)
	}
	command(t, exitUsage, "compare", "digits.onnx", "digits.onnx", "--bisect", folder)
}

// The layers that lose the most have a command that leaves them out.
func TestCompareExcludes(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 13)
	b.Input("x", onnx.Float, 4, 8).Output("y", onnx.Float, 4, 8)
	good, bad := make([]float32, 64), make([]float32, 64)
	for i := range good {
		good[i] = float32(i%7-3) / 4
		bad[i] = float32(i%5-2) * 1e-3
	}
	bad[7] = 50 // one large weight takes the precision of the others
	b.Initializer("w1", good, 8, 8).Initializer("w2", bad, 8, 8)
	b.Node("MatMul", []string{"x", "w1"}, []string{"a"}).Name("fine")
	b.Node("MatMul", []string{"a", "w2"}, []string{"y"}).Name("it's bad")
	original := b.Must()
	path := saveModel(t, original)
	quantized, err := calibration.QuantizeDynamic(original, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, exitFailed, "compare", saveModel(t, quantized), path, "--layers", "--json")
	r := decode[compareJSON](t, out)
	if !slices.Contains(r.Exclude, "it's bad") || !strings.Contains(r.Requantize, `--exclude 'it'\''s bad'`) ||
		!strings.Contains(r.Requantize, "onward quantize "+path+" --mode dynamic --output OUT") {
		t.Errorf("exclude %q, %q, losses %+v", r.Exclude, r.Requantize, r.Losses)
	}
	text, _ := command(t, exitFailed, "compare", saveModel(t, quantized), path, "--layers")
	if !strings.Contains(text, "quantize without these layers: onward quantize ") {
		t.Errorf("no command in\n%s", text)
	}
	if out, _ = command(t, exitOK, "compare", path, path, "--layers", "--json"); decode[compareJSON](t,
		out).Requantize != "" {
		t.Errorf("a command for a model that is not quantized:\n%s", out)
	}
}
