package webp_test

import (
	"context"
	"fmt"
	"os"

	"github.com/onward-ml/onward"
	_ "github.com/onward-ml/onward/imagecodec/webp"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This example decodes an image with the operator ImageDecoder.
func Example() {
	b := onnx.NewModel("decoder").Opset("", 21)
	b.Input("file", onnx.Uint8, "bytes").Output("image", onnx.Uint8, "height", "width", 3)
	b.Node("ImageDecoder", []string{"file"}, []string{"image"})
	sess, err := onward.OpenModel(context.Background(), b.Must(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	file, err := os.ReadFile("../../internal/imagecodec/testdata/wla3x2.webp")
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := sess.Run(context.Background(), onward.Values{"file": tensor.Must(tensor.New(file, len(file)))}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out["image"].(*tensor.Tensor).Shape())
	// Output: [2 3 3]
}
