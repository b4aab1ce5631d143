package main

import (
	"testing"

	"github.com/onward-ml/onward/onnx"
)

func TestCheckJSON(t *testing.T) {
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Relu", []string{"nowhere"}, []string{"h"})
	b.Node("NoSuchOperator", []string{"h"}, []string{"y"})
	code, stdout, _ := invoke(t, "check", saveModel(t, b.Must()), "--json")
	r := decode[checkJSON](t, stdout)
	if code != 1 || r.Valid || len(r.Errors) < 2 || r.Runs["cpu"] || r.Problems["cpu"] == "" {
		t.Errorf("code %d, %+v", code, r)
	}
	code, stdout, _ = invoke(t, "check", "digits.onnx", "--json")
	if r := decode[checkJSON](t, stdout); code != 0 || !r.Valid || len(r.Errors) != 0 || !r.Runs["cpu"] ||
		!r.Runs["reference"] {
		t.Errorf("code %d, %+v", code, r)
	}
}
