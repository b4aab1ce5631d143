package optimize

import (
	"context"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestUnsignedActivations checks which tensors of int8 become uint8: not those that an output,
// another operator or an unknown zero point needs.
func TestUnsignedActivations(t *testing.T) {
	if !cpu.VNNI(cpu.Active()) {
		t.Skip("the pass only runs on processors with VNNI")
	}
	b := onnx.NewModel("m").Opset("", 21)
	for _, step := range steps(input("x", 4), constant("s", float32(0.5)), constant("z", int8(-3)),
		constant("n", []int64{1, 4}, 2),
		node("QuantizeLinear", "x s z", "read"), node("DequantizeLinear", "read s z", "a"),
		node("DequantizeLinear", "read s", "b"),
		node("QuantizeLinear", "a s z", "output"), node("DequantizeLinear", "output s z", "c"),
		node("QuantizeLinear", "b s z", "moved"), node("Reshape", "moved n", "r"),
		node("DequantizeLinear", "r s z", "d"),
		node("QuantizeLinear", "c s z", "unknown"), func(b *onnx.ModelBuilder) {
			b.Input("k", onnx.Int8)
		}, node("DequantizeLinear", "unknown s k", "e"), node("Add", "d e", "y")) {
		step(b)
	}
	b.OutputType("output", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Int8}})
	b.OutputType("y", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}})
	g, err := frontend.Convert(b.Must(), frontend.Options{KeepSource: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(context.Background(), g, onlyPass("unsigned-activations")); err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Values {
		want := tensor.TypeInt8
		switch v.Name {
		case "read":
			want = tensor.TypeUint8
		case "output", "moved", "unknown":
		default:
			continue
		}
		if v.Type.Elem != want {
			t.Errorf("%s has type %s, want %s", v.Name, v.Type.Elem, want)
		}
	}
}
