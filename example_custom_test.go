package onward_test

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This example runs a model with an operator that is written in Go. examples/customop also infers its shapes and
// reads attributes.
func ExampleCustomOperator() {
	double := onward.CustomOperator{
		Domain: "example", Name: "Double", Inputs: "x:T", Outputs: "y:T", Types: map[string]string{"T": "float"},
		Run: func(ctx context.Context, c onward.CustomCall) ([]tensor.Value, error) {
			x, err := tensor.Data[float32](c.In[0])
			if err != nil {
				return nil, err
			}
			y := make([]float32, len(x))
			for i, v := range x {
				y[i] = 2 * v
			}
			t, err := tensor.New(y, c.In[0].(*tensor.Tensor).Shape()...)
			return []tensor.Value{t}, err
		},
	}
	b := onnx.NewModel("m").Opset("", 21).Opset("example", 1)
	b.Input("x", onnx.Float, "n").Output("y", onnx.Float, "n")
	b.Node("Double", []string{"x"}, []string{"y"}).Domain("example")
	sess, err := onward.OpenModel(context.Background(), b.Must(), &onward.SessionOptions{CustomOperators: []onward.CustomOperator{double}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	out, err := sess.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3}, 3))}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.Data[float32](out["y"]))
	// Output: [2 4 6] <nil>
}
