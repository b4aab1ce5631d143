package main

import (
	"testing"
)

func TestInspectJSON(t *testing.T) {
	_, stdout, _ := invoke(t, "inspect", "logreg_iris.onnx", "--json")
	r := decode[inspectJSON](t, stdout)
	if len(r.Inputs) != 1 || r.Inputs[0].Name != "float_input" || len(r.Inputs[0].Shape) != 2 || len(r.Outputs) != 2 || r.Providers["cpu"] != "ok" || r.Nodes == 0 {
		t.Errorf("got %+v", r)
	}
}
