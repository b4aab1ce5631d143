package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

func TestInspectJSON(t *testing.T) {
	_, stdout, _ := invoke(t, "inspect", "logreg_iris.onnx", "--json")
	r := decode[inspectJSON](t, stdout)
	if len(r.Inputs) != 1 || r.Inputs[0].Name != "float_input" || len(r.Inputs[0].Shape) != 2 || len(r.Outputs) != 2 ||
		r.Providers["cpu"] != "ok" || r.Nodes == 0 {
		t.Errorf("got %+v", r)
	}
}

func TestInspectCosts(t *testing.T) {
	_, stdout, _ := invoke(t, "inspect", "digits.onnx", "--layers", "--json")
	r := decode[inspectJSON](t, stdout)
	if r.MACs == nil || *r.MACs < 100_000 || *r.MACs > 1_000_000 || len(r.FreeDimensions) != 1 ||
		r.FreeDimensions[0] != "batch" {
		t.Errorf("got %s", stdout)
	}
	var macs, parameters int64
	for _, l := range r.Layers {
		macs, parameters = macs+l.MACs, parameters+l.Parameters
		if l.OpType == "Conv" && (l.Sparsity == nil || *l.Sparsity > 0.5) {
			t.Errorf("%s: got sparsity %v", l.Name, l.Sparsity)
		}
	}
	if len(r.Layers) != r.Nodes || macs != *r.MACs || parameters != r.Parameters {
		t.Errorf("the layers have %d MACs and %d parameters, the model %d and %d", macs, parameters,
			*r.MACs, r.Parameters)
	}
}

// TestInspectFitsOneScreen also runs the command that inspect suggests.
func TestInspectFitsOneScreen(t *testing.T) {
	for _, model := range []string{"digits.onnx", "logreg_iris.onnx"} {
		_, stdout, _ := invoke(t, "inspect", model)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if len(lines) > 24 {
			t.Errorf("%s: %d lines, want one screen of 24:\n%s", model, len(lines), stdout)
		}
		try, ok := strings.CutPrefix(lines[len(lines)-1], "try it: onward ")
		if !ok {
			t.Fatalf("the last line is %q", lines[len(lines)-1])
		}
		command(t, exitOK, strings.Fields(try)...)
	}
}

// TestInspectUnknownOperator inspects a model that cannot be analyzed: no costs, but the rest.
func TestInspectUnknownOperator(t *testing.T) {
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	out, _ := command(t, exitOK, "inspect", saveModel(t, b.Must()), "--layers")
	if !strings.Contains(out, "1 NoSuchOperator") || strings.Contains(out, "MACs") {
		t.Errorf("got\n%s", out)
	}
}

// TestInspectLargeModel inspects a model that native libraries would compile for seconds. They must
// not open it, so that those that are on the machine are reported as available.
func TestInspectLargeModel(t *testing.T) {
	path := flat(t, inspectOpens+1)
	_, stdout, _ := invoke(t, "inspect", path, "--json")
	for p, got := range decode[inspectJSON](t, stdout).Providers {
		want := "ok"
		if _, native := driver.Lookup(p).(driver.LibraryUser); native {
			want = "available"
		}
		if !strings.HasPrefix(got, want) && !strings.Contains(got, "is not available") {
			t.Errorf("provider %s: got %q, want %q", p, got, want)
		}
	}
	if out, _ := command(t, exitOK, "check", path); !strings.Contains(out, "cpu: runs it") ||
		strings.Contains(out, ": available") {
		t.Errorf("check opens no library:\n%s", out)
	}
}

// flat saves a chain of nodes.
func flat(t *testing.T, nodes int) string {
	t.Helper()
	b := onnx.NewModel("flat").Opset("", 21)
	b.Input("v0", onnx.Float, 4).Output(fmt.Sprint("v", nodes), onnx.Float, 4)
	for i := range nodes {
		b.Node("Neg", []string{fmt.Sprint("v", i)}, []string{fmt.Sprint("v", i+1)})
	}
	return saveModel(t, b.Must())
}

// TestInspectSaysHowManyPlans inspects convolutions over free and fixed sizes.
func TestInspectSaysHowManyPlans(t *testing.T) {
	for _, size := range []any{"width", 8} {
		b := onnx.NewModel("m").Opset("", 17)
		b.Input("x", onnx.Float, 1, 1, size, 8).Output("y", onnx.Float, 1, 1, size, 8)
		b.Initializer("w", []float32{2}, 1, 1, 1, 1)
		b.Node("Conv", []string{"x", "w"}, []string{"y"})
		out, _ := command(t, exitOK, "inspect", saveModel(t, b.Must()))
		if got, want := strings.Contains(out, "up to 8 shapes"), size != 8; got != want {
			t.Errorf("size %v: got\n%s", size, out)
		}
	}
}

// TestInspectWithoutSizes inspects a model that runs with no size: inspect says what it does not
// know.
func TestInspectWithoutSizes(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, "n").Output("y", onnx.Float, nil)
	b.Initializer("w", make([]float32, 1000003), 1000003)
	b.Node("NonZero", []string{"x"}, []string{"places"})
	b.Node("Cast", []string{"places"}, []string{"f"}, onnx.Attrs{"to": int64(1)})
	b.Node("Squeeze", []string{"f"}, []string{"s"})
	b.Node("Concat", []string{"s", "s"}, []string{"twice"}, onnx.Attrs{"axis": int64(0)})
	b.Node("Add", []string{"twice", "w"}, []string{"y"})
	out, _ := command(t, exitOK, "inspect", saveModel(t, b.Must()))
	if !strings.Contains(out, "the sizes that inputs must have are unknown: ") || !strings.Contains(out, "1000003") {
		t.Errorf("got\n%s", out)
	}
}
