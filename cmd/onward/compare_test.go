package main

import (
	"encoding/json"
	"math"
	"testing"

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
		if !v.Agree || v.Op == "" {
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

func TestCompareValues(t *testing.T) {
	a := tensor.Must(tensor.New([]float32{1, 2, 4, float32(math.NaN())}, 4))
	b := tensor.Must(tensor.New([]float32{1, 2.5, 4, float32(math.NaN())}, 4))
	v := compareValues(a, b, 0.1, 0.1)
	if v.Agree || *v.MaxAbs != 0.5 || math.Abs(*v.MaxRel-0.2) > 1e-12 || math.Abs(*v.NeedRtol-0.16) > 1e-12 || math.Abs(*v.NeedAtol-0.25) > 1e-12 {
		t.Errorf("%+v: %v %v %v %v", v, *v.MaxAbs, *v.MaxRel, *v.NeedRtol, *v.NeedAtol)
	}
	for _, tol := range [][2]float64{{*v.NeedRtol * (1 + 1e-9), 0.1}, {0.1, *v.NeedAtol * (1 + 1e-9)}} {
		if w := compareValues(a, b, tol[0], tol[1]); !w.Agree {
			t.Errorf("rtol %g, atol %g does not pass: %s", tol[0], tol[1], w.Error)
		}
	}
	inf := tensor.Must(tensor.New([]float32{1, float32(math.Inf(1)), 4, 0}, 4))
	if v := compareValues(inf, b, 0, 0); v.Agree || v.MaxAbs != nil || v.NeedAtol != nil {
		t.Errorf("an infinity has distance %v", v.MaxAbs)
	}
	if v := compareValues(nil, b, 0, 0); v.Agree || v.Error == "" {
		t.Error("nothing agrees with something")
	}
}
