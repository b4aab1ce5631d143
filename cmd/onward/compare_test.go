//go:build !core

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestCompareCommand(t *testing.T) {
	out, _ := command(t, exitOK, "compare", "logreg_iris.onnx", "--provider", "cpu,reference", "--layers", "--json")
	var r compareJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !r.Agree || len(r.Values) < 3 {
		t.Fatalf("%+v", r)
	}
	outputs := 0
	for _, v := range r.Values {
		if !v.Agree || v.Op == "" || v.Initializer {
			t.Errorf("%+v", v)
		}
		if v.Output {
			outputs++
		}
	}
	if outputs != 2 {
		t.Errorf("%d outputs among the layers, want 2", outputs)
	}
}

// changed returns digits.onnx with a fault, and its file.
func changed(t *testing.T, edit func(g *onnx.Graph)) string {
	t.Helper()
	m, err := modelfile.Load("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	edit(m.Graph)
	return saveModel(t, m)
}

// scaleWeight multiplies the k-th weight of the model that has at least two dimensions.
func scaleWeight(t *testing.T, g *onnx.Graph, k int, factor float32) string {
	for i, w := range g.Initializers {
		if len(w.Dims) < 2 {
			continue
		}
		if k--; k >= 0 {
			continue
		}
		x, err := w.Decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		x = x.Clone()
		for j := range tensor.MustData[float32](x) {
			tensor.MustData[float32](x)[j] *= factor
		}
		g.Initializers[i] = onnx.FromTensor(x)
		g.Initializers[i].Name = w.Name
		return w.Name
	}
	t.Fatal("the model has too few weights")
	return ""
}

// TestCompareNamesChangedWeight changes one weight of a model; comparing it with the original names
// the weight and its node, also if all values were renamed.
func TestCompareNamesChangedWeight(t *testing.T) {
	for _, rename := range []bool{false, true} {
		var weight, op string
		path := changed(t, func(g *onnx.Graph) {
			weight = scaleWeight(t, g, 1, 1.7)
			if rename {
				renamed := func(s string) string {
					if s == "" || slices.ContainsFunc(g.Inputs, func(v *onnx.ValueInfo) bool { return v.Name == s }) {
						return s
					}
					return "new_" + s
				}
				for _, n := range g.Nodes {
					for i := range n.Inputs {
						n.Inputs[i] = renamed(n.Inputs[i])
					}
					for i := range n.Outputs {
						n.Outputs[i] = renamed(n.Outputs[i])
					}
				}
				for _, w := range g.Initializers {
					w.Name = renamed(w.Name)
				}
				for _, v := range slices.Concat(g.Outputs, g.ValueInfo) {
					v.Name = renamed(v.Name)
				}
				weight = renamed(weight)
			}
			for _, n := range g.Nodes {
				if slices.Contains(n.Inputs, weight) {
					op = n.OpType
				}
			}
		})
		out, _ := command(t, exitFailed, "compare", path, "digits.onnx", "--layers", "--json")
		var r compareJSON
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Agree || r.First == nil || !r.First.Initializer || r.First.Value != weight || r.First.Op != op {
			t.Errorf("renamed %v: first difference %+v, want weight %s of a %s", rename, r.First, weight, op)
		}
		if n := len(r.Values); n < 9 {
			t.Errorf("renamed %v: %d values are compared, want those of all 9 nodes", rename, n)
		}
		text, _ := command(t, exitFailed, "compare", path, "digits.onnx", "--layers")
		if want := fmt.Sprintf("first difference: weight %q of node", weight); !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %s", text, want)
		}
	}
	command(t, exitOK, "compare", "digits.onnx", "digits.onnx", "--layers")
}

// TestCompareNamesBadRange quantizes a model with a range of one activation that is far too small:
// the largest loss of signal is at that value.
func TestCompareNamesBadRange(t *testing.T) {
	m, err := modelfile.Load("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	_, npz := digitData(t)
	z, err := tensor.ReadNPZFile(npz, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	feed := onward.Values{}
	for n, x := range z.Arrays {
		feed[n] = x
	}
	table, err := calibration.Calibrate(t.Context(), m, calibration.Batches(feed), nil)
	if err != nil {
		t.Fatal(err)
	}
	var bad string
	for _, n := range m.Graph.Nodes {
		if n.OpType == "MaxPool" {
			bad = n.Inputs[0]
		}
	}
	r := table.Ranges[bad]
	r.Lowest, r.Highest = r.Lowest/20, r.Highest/20
	table.Ranges[bad] = r
	q, err := calibration.QuantizeStatic(m, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, exitFailed, "compare", saveModel(t, q), "digits.onnx", "--layers", "--inputs", npz, "--json")
	var c compareJSON
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	with := ""
	for _, v := range c.Values {
		if len(c.Losses) > 0 && v.Name == c.Losses[0].Value {
			with = cmp.Or(v.With, v.Name)
		}
	}
	if with != bad {
		t.Errorf("the largest losses are %+v, want the value %s first", c.Losses, bad)
	}
}

func TestCompareGolden(t *testing.T) {
	_, npz := digitData(t)
	golden := filepath.Join(t.TempDir(), "golden.npz")
	command(t, exitOK, "run", "digits.onnx", "--inputs", npz, "--save", golden)
	command(t, exitOK, "compare", "digits.onnx", "--inputs", npz, "--golden", golden)
	text, _ := command(t, exitOK, "compare", "digits.onnx", "--inputs", npz, "--golden", golden, "--layers")
	if !strings.Contains(text, "2 of 2 values agree") {
		t.Errorf("got\n%s\nwant the two outputs in the file alone", text)
	}
	path := changed(t, func(g *onnx.Graph) { scaleWeight(t, g, 0, 2) })
	command(t, exitFailed, "compare", path, "--inputs", npz, "--golden", golden)
	if _, stderr := command(t, exitFailed, "compare", "mul_1.onnx", "--golden", golden); !strings.Contains(stderr,
		"none of the values") {
		t.Errorf("other outputs: got %q", stderr)
	}
	near := &tensor.NPZ{} // an element near 0 beside large ones
	if err := near.Add("y", tensor.Must(tensor.New([]float32{1000, 0, 2000}, 3))); err != nil {
		t.Fatal(err)
	}
	if err := tensor.WriteNPZFile(golden, near, false); err != nil {
		t.Fatal(err)
	}
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 3).Output("y", onnx.Float, 3)
	b.Node("Identity", []string{"x"}, []string{"y"})
	args := []string{"compare", saveModel(t, b.Must()), "-i", "x=[1000,0.003,2000]", "--golden", golden}
	command(t, exitOK, args...)
	command(t, exitFailed, append(args, "--atol", "1e-5")...)
	if _, stderr := command(t, exitUsage, "compare", path, "digits.onnx", "--golden", golden); !strings.Contains(stderr,
		"--golden") {
		t.Errorf("got %q", stderr)
	}
}
