package openvino_test

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	_ "github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/tensor"
)

// This example runs a model on OpenVINO if its library is on the machine, and else
// on the Go engine.
func Example() {
	model, err := datasets.Get("mul_1.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	sess, err := onward.OpenBytes(context.Background(), model, &onward.SessionOptions{
		Providers:   []onward.ProviderConfig{{Name: "openvino", Options: map[string]string{"device": "CPU"}}, {Name: "cpu"}},
		LogSeverity: onward.LogError, // no warning about a missing library
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	x, err := tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := sess.Run(context.Background(), onward.Values{"X": x}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.Data[float32](out["Y"]))
	// Output: [1 4 9 16 25 36] <nil>
}
