package onward_test

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The state of a stream goes back into the model, in the same memory.
func ExampleRunOptions_state() {
	b := onnx.NewModel("sum").Opset("", 21)
	b.Input("x", onnx.Float, 2).Input("state", onnx.Float, 2).Output("next", onnx.Float, 2)
	b.Node("Add", []string{"x", "state"}, []string{"next"})
	m, err := b.Model()
	if err != nil {
		panic(err)
	}
	s, err := onward.OpenModel(context.Background(), m, nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	state := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2))
	for i := range 3 {
		x := tensor.Must(tensor.New([]float32{float32(i), 10}))
		if _, err := s.Run(context.Background(), onward.Values{"x": x, "state": state}, &onward.RunOptions{Into: map[string]*tensor.Tensor{"next": state}}); err != nil {
			panic(err)
		}
	}
	fmt.Println(tensor.Of[float32](state))
	// Output: [3 30]
}
