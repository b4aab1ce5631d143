package datasets_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

func ExampleNames() {
	fmt.Println(datasets.Names())
	// Output: [digits.onnx logreg_iris.onnx mul_1.onnx sigmoid.onnx]
}

// This example reads the digit on the sample image.
func ExampleGet() {
	model, err := datasets.Get("digits.onnx")
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
	image, err := preprocess.Decode(bytes.NewReader(datasets.SampleImage()), 1) // gray
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := image.Tensor(preprocess.Layout{}) // 0 to 1
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := sess.Run(context.Background(), onward.Values{"image": x}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.Data[int64](out["digit"]))
	// Output: [7] <nil>
}
