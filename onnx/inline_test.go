package onnx_test

import (
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestMarshalInline saves a model with external data in its graph, in a subgraph
// and in an attribute, and reads it back from memory.
func TestMarshalInline(t *testing.T) {
	data := func(first float32) []float32 {
		v := make([]float32, 600)
		for i := range v {
			v[i] = first + float32(i)
		}
		return v
	}
	branch := func(name string, first float32) *onnx.GraphBuilder {
		g := onnx.NewGraph(name)
		g.Output("o_"+name, onnx.DataType(tensor.TypeFloat32), 600)
		g.Initializer("w_"+name, data(first))
		g.Node("Identity", []string{"w_" + name}, []string{"o_" + name})
		return g
	}
	b := onnx.NewModel("inline").Opset("", 13)
	b.Input("c", onnx.DataType(tensor.TypeBool)).Output("y", onnx.DataType(tensor.TypeFloat32), 600)
	b.Initializer("w", data(1000))
	b.Node("If", []string{"c"}, []string{"a"}, onnx.Attrs{"then_branch": branch("t", 1), "else_branch": branch("e", 2)})
	b.Node("Add", []string{"a", "w"}, []string{"y"})
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(path, b.Must(), &onnx.WriteOptions{ExternalData: "m.data"}); err != nil {
		t.Fatal(err)
	}
	m, err := onnx.ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	external := 0
	m.EachTensor(func(t *onnx.Tensor) bool {
		if t.DataLocation == onnx.LocationExternal {
			external++
		}
		return true
	})
	if external != 3 {
		t.Fatalf("%d tensors are external, want 3", external)
	}
	raw, err := m.MarshalInline()
	if err != nil {
		t.Fatal(err)
	}
	got, err := onnx.Unmarshal(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float32{"w": 1000, "w_t": 1, "w_e": 2}
	got.EachTensor(func(x *onnx.Tensor) bool {
		v, err := x.Decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if f := tensor.MustData[float32](v); f[599] != want[x.Name]+599 {
			t.Errorf("%s ends with %v, want %v", x.Name, f[599], want[x.Name]+599)
		}
		delete(want, x.Name)
		return true
	})
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
	n := 0
	got.EachTensor(func(*onnx.Tensor) bool { n++; return false })
	if n != 1 {
		t.Errorf("EachTensor made %d calls, want 1 since the function returns false", n)
	}
	if m.Graph.Initializers[0].DataLocation != onnx.LocationExternal {
		t.Error("MarshalInline changed the model")
	}
}
