package openvino_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestProfileHasShortNodes checks that a profile has every node that OpenVINO executes, also
// those of less than a microsecond, and neither a node fused into another nor graph inputs and
// outputs.
func TestProfileHasShortNodes(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n", 3).Output("y", onnx.Float, "n", 3).Output("z", onnx.Float, "n", 3)
	b.Initializer("w", []float32{1, 2, 3}, 3).Initializer("one", []float32{1}, 1)
	b.Node("Mul", []string{"x", "w"}, []string{"xw"})
	b.Node("Add", []string{"xw", "one"}, []string{"y"}) // OpenVINO fuses it into the MatMul
	b.Node("Neg", []string{"y"}, []string{"z"})
	s, err := onward.OpenModel(t.Context(), b.Must(), &onward.SessionOptions{Threads: 1, EnableProfiling: true,
		ProfilePrefix: filepath.Join(t.TempDir(), "p"), Providers: []onward.ProviderConfig{config(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const runs = 3
	for range runs {
		run(t, s, tensor.Must(tensor.New([]float32{1, 1, 1}, 1, 3)))
	}
	file, err := s.EndProfiling()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct{ Cat, Name string }
	if err := json.Unmarshal(data, &events); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]int{}
	for _, e := range events {
		if e.Cat == "Node" {
			nodes[e.Name]++
		}
	}
	if want := map[string]int{"xw_kernel_time": runs, "z_kernel_time": runs}; !maps.Equal(nodes, want) {
		t.Errorf("the profile has the nodes %v, want %v", nodes, want)
	}
}
