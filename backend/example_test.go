package backend_test

import (
	"context"
	"fmt"
	"log"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/tensor"
)

func Example() {
	ctx := context.Background()
	model, err := datasets.Get("mul_1.onnx")
	if err != nil {
		log.Fatal(err)
	}
	rep, err := backend.Prepare(ctx, model, backend.CPU, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer rep.Close()
	x, err := tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	if err != nil {
		log.Fatal(err)
	}
	out, err := rep.Run(ctx, backend.One(x), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Names[0], tensor.Of[float32](out.Tensor(0)))
	// Output: Y [1 4 9 16 25 36]
}
