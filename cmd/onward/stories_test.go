package main

import (
	"os"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// cnn is an exported network with a batch of 1 in its inputs, its outputs, the declared shapes of
// its values and the shape of a Reshape, and with nodes that have no effect.
func cnn() *onnx.Model {
	weights := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(i*7919%101-50) / 200
		}
		return w
	}
	b := onnx.NewModel("cnn").Opset("", 17)
	b.Input("image", onnx.Float, 1, 3, 16, 16).Output("scores", onnx.Float, 1, 5).
		Value("features", onnx.Float, 1, 8, 16, 16)
	b.Initializer("conv1.weight", weights(8*3*9), 8, 3, 3, 3).Initializer("conv2.weight", weights(8*8*9), 8, 8, 3, 3)
	b.Initializer("fc1.weight", weights(8*8*8*16), 512, 16).Initializer("fc2.weight", weights(5*16), 5, 16)
	b.Initializer("flat", []int64{1, 512}, 2).Initializer("scale", []float32{4}).Initializer("half", []float32{0.5})
	b.Node("Conv", []string{"image", "conv1.weight"}, []string{"c1"}, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}).
		Name("/conv1/Conv")
	b.Node("Relu", []string{"c1"}, []string{"features"}).Name("/relu1/Relu")
	b.Node("Conv", []string{"features", "conv2.weight"}, []string{"c2"}, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}).
		Name("/conv2/Conv")
	b.Node("Mul", []string{"scale", "half"}, []string{"factor"}).Name("/Mul")
	b.Node("Mul", []string{"c2", "factor"}, []string{"m"}).Name("/Mul_1")
	b.Node("Identity", []string{"m"}, []string{"i"}).Name("/Identity")
	b.Node("MaxPool", []string{"i"}, []string{"p"},
		onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}).Name("/pool/MaxPool")
	b.Node("Reshape", []string{"p", "flat"}, []string{"r"}).Name("/Reshape")
	b.Node("MatMul", []string{"r", "fc1.weight"}, []string{"h"}).Name("/fc1/MatMul")
	b.Node("Flatten", []string{"h"}, []string{"f"}).Name("/Flatten")
	b.Node("Gemm", []string{"f", "fc2.weight"}, []string{"scores"}, onnx.Attrs{"transB": 1}).Name("/fc2/Gemm")
	return b.Must()
}

// TestRepairFixedBatch makes a network with a fixed batch dynamic, simplifies it, converts it to
// float16 and checks it, in four commands. The result runs with another batch.
func TestRepairFixedBatch(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := onnx.WriteFile("model.onnx", cnn(), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line  string
		wants []string
	}{
		{"edit dims model.onnx -o dynamic.onnx --batch N", []string{`"/Reshape"`, "ok: output scores, largest difference 0, with twice the batch"}},
		{"edit simplify dynamic.onnx -o simple.onnx", []string{"11 -> 8 nodes"}},
		{"edit convert simple.onnx -o half.onnx --float16", []string{"computed in float16: 8 nodes; inserted 2 casts"}},
		{"check half.onnx", []string{"valid ONNX", "cpu: runs it"}},
		{"run half.onnx --random --dimension N=3 --json", []string{`"scores"`}},
	} {
		out, _ := command(t, exitOK, strings.Fields(c.line)...)
		t.Logf("onward %s\n%s", c.line, out)
		for _, want := range c.wants {
			if !strings.Contains(out, want) {
				t.Errorf("onward %s prints no %q:\n%s", c.line, want, out)
			}
		}
	}
	if _, err := os.Stat("half.onnx"); err != nil {
		t.Error(err)
	}
}
