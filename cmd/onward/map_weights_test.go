package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// TestMapWeightsFlag gives --map-weights to the verbs that take it: results and
// forms are those without.
func TestMapWeightsFlag(t *testing.T) {
	b := onnx.NewModel("net").Opset("", 17)
	b.Input("ids", onnx.Int64, 2).Output("y", onnx.Float, 2, 64)
	table := make([]float32, 1024*64)
	for i := range table {
		table[i] = float32(i)
	}
	b.Initializer("table", table, 1024, 64)
	b.Node("Gather", []string{"table", "ids"}, []string{"y"})
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(path, b.Must(), &onnx.WriteOptions{ExternalData: "m.bin"}); err != nil {
		t.Fatal(err)
	}
	want, _ := command(t, exitOK, "run", path, "--input", "ids=[3,1000]", "--json")
	got, _ := command(t, exitOK, "run", path, "--input", "ids=[3,1000]", "--json", "--map-weights")
	if last := strconv.Itoa(1000*64 + 63); got != want || !strings.Contains(got, last) {
		t.Errorf("with --map-weights %s, without %s", got, want)
	}
	command(t, exitOK, "profile", path, "--input", "ids=[3,1000]", "--runs", "1", "--map-weights")
	command(t, exitOK, "bench", path, "--input", "ids=[3,1000]", "--rounds", "1", "--duration", "10ms", "--map-weights")
	// An example is no file.
	command(t, exitOK, "run", "mul_1.onnx", "--input", "X=[[1,2],[3,4],[5,6]]", "--map-weights")
}
