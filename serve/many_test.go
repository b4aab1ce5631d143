package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestManyInputsAndOutputs loads a model of many inputs and outputs, which the configuration names
// in another order, and asks for all outputs in another order.
func TestManyInputsAndOutputs(t *testing.T) {
	const n = 2000
	b := onnx.NewModel("many").Opset("", 17).IRVersion(8)
	var config strings.Builder
	r := &request{model: "m"}
	for i := range n {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		b.Input(x, onnx.Float, "n", 1).Output(y, onnx.Float, "n", 1).Node("Identity", []string{x}, []string{y})
		fmt.Fprintf(&config, "input{name:%q}output{name:%q}", fmt.Sprint("x", n-1-i), fmt.Sprint("y", n-1-i))
		r.inputs = append(r.inputs, namedTensor{x, tensor.Must(tensor.New([]float32{float32(i)}, 1, 1))})
		r.outputs = append(r.outputs, wanted{name: fmt.Sprint("y", n-1-i), classes: 1})
	}
	config.WriteString(`max_batch_size: 1 model_warmup { inputs { key: "x7" value { data_type: TYPE_FP32 dims: 1 zero_data: true } } }`)
	files := map[string][]byte{"m/1/model.onnx": modelBytes(t, b), "m/config.pbtxt": []byte(config.String())}
	if _, err := New(t.Context(), writeRepo(t, files), quiet(nil)); err == nil ||
		!strings.Contains(err.Error(), "expected 2000 inputs but got 1 inputs") || !strings.Contains(err.Error(), `"x9"`) {
		t.Errorf("a warm-up with one input: error %.300v", err)
	}
	files["m/config.pbtxt"] = []byte(`max_batch_size: 1 output { name: "y9" label_filename: "l" }`)
	files["m/l"] = []byte("label")
	s := newServer(t, writeRepo(t, files), nil)
	resp, err := s.infer(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range resp.outputs {
		want := fmt.Sprintf("%d.000000:0", n-1-i)
		if i == n-10 {
			want += ":label"
		}
		if got := tensor.MustData[string](o.value)[0]; o.name != r.outputs[i].name || got != want {
			t.Fatalf("output %d is %s, %s, want %s, %s", i, o.name, got, r.outputs[i].name, want)
		}
	}
	resp.release()
	r.outputs = append(r.outputs, r.outputs[1])
	if _, err := s.infer(t.Context(), r); err == nil || !strings.Contains(err.Error(), `output "y1998" is wanted twice`) {
		t.Errorf("an output that is wanted twice: error %v", err)
	}
}
