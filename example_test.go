package onward_test

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/tensor"
)

// This example loads a model and runs it. One session serves any number of runs.
func ExampleSession() {
	model, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	sess, err := onward.OpenBytes(context.Background(), model, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	x, err := tensor.New([]float32{5.1, 3.5, 6.2, 2.9, 5.9, 3}, 3, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := sess.Run(context.Background(), onward.Values{"float_input": x}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	labels, err := tensor.Data[int64](out["output_label"])
	fmt.Println(labels, err)
	// Output: [0 2 2] <nil>
}
