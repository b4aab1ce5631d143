//go:build !core

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/onnx"
)

func TestQuantizeCommand(t *testing.T) {
	folder, npz := digitData(t)
	dir := t.TempDir()
	tables := filepath.Join(dir, "tables")
	command(t, exitOK, "calibrate", "digits.onnx", "--data", npz, "-o", tables)
	for i, c := range []struct {
		args []string
		mode string
		ops  []string
	}{
		{[]string{"--data", npz}, "static", []string{"QuantizeLinear", "Conv"}},
		{[]string{"--data", npz, "--method", "percentile", "--batch", "2", "--per-channel", "--activation", "s8", "--weight", "s8"}, "static", []string{"QuantizeLinear", "Conv"}},
		{[]string{"--table", filepath.Join(tables, calibration.JSONFile), "--format", "qoperator", "--weight", "u8", "--data", folder}, "static", []string{"QLinearConv", "QGemm"}},
		{[]string{"--table", filepath.Join(tables, calibration.CacheFile), "--reduce-range"}, "static", []string{"QuantizeLinear"}},
		{nil, "dynamic", []string{"ConvInteger", "MatMulInteger"}},
		{[]string{"--mode", "dynamic", "--data", "random:2", "--op-types", "MatMul"}, "dynamic", []string{"Conv", "MatMulInteger"}},
		{[]string{"--mode", "nbits", "--block", "16", "--symmetric", "--data", npz}, "nbits", []string{"MatMulNBits"}},
		{[]string{"--mode", "nbits", "--bits", "8"}, "nbits", []string{"MatMulNBits"}},
	} {
		out := filepath.Join(dir, string(rune('a'+i)), "q.onnx")
		text, _ := command(t, exitOK, append([]string{"quantize", "digits.onnx", "-o", out, "--json"}, c.args...)...)
		var r quantizeJSON
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if r.Mode != c.mode || r.After >= r.Before || r.Accuracy != nil != slices.Contains(c.args, "--data") {
			t.Errorf("%v: %s", c.args, text)
		}
		for _, op := range c.ops {
			if r.Operators[op] == 0 {
				t.Errorf("%v: there is no %s: %v", c.args, op, r.Operators)
			}
		}
		if r.Accuracy != nil && (len(r.Accuracy.Outputs) != 2 || r.Accuracy.Outputs[0].Agreement == nil) {
			t.Errorf("%v: accuracy %+v", c.args, r.Accuracy)
		}
		m, err := onnx.ReadFile(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := onnx.Check(m, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		m.Close()
		command(t, exitOK, "run", out, "--input", "image=zeros:2x1x8x8")
	}
	text, _ := command(t, exitOK, "quantize", "digits.onnx", "-o", filepath.Join(dir, "q.onnx"), "--data", npz)
	for _, want := range []string{"static quantization", "same answer", "probabilities",
		"compared with the original on 1 batch"} {
		if !strings.Contains(text, want) {
			t.Errorf("output has no %q:\n%s", want, text)
		}
	}
	out := filepath.Join(dir, "none.onnx")
	for _, bad := range [][]string{
		{}, {"-o", out, "--mode", "static"}, {"-o", out, "--mode", "luck"}, {"-o", out, "--format", "onnx"}, {"-o", out, "--weight", "f4"},
		{"-o", out, "--activation", "s8"}, {"-o", out, "--mode", "nbits", "--bits", "3"}, {"-o", out, "--mode", "nbits", "--block", "24"},
	} {
		command(t, exitUsage, append([]string{"quantize", "digits.onnx"}, bad...)...)
	}
	for _, bad := range [][]string{{"--exclude", "missing"}, {"--table", npz},
		{"--data", filepath.Join(dir, "absent")}} {
		command(t, exitFailed, append([]string{"quantize", "digits.onnx", "-o", out}, bad...)...)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed quantization leaves a file")
	}
}
