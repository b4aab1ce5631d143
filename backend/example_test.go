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

// Inputs of other dimensions than the model's are refused by every engine, in ONNX
// Runtime's words.
func ExampleRep_Run_wrongDimensions() {
	ctx := context.Background()
	model, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.New([]float32{5.1, 3.5}, 1, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range []backend.Provider{backend.CPU, backend.Reference} {
		rep, err := backend.Prepare(ctx, model, b, nil)
		if err != nil {
			log.Fatal(err)
		}
		_, err = rep.Run(ctx, backend.One(x), nil)
		fmt.Println(err)
		if err := rep.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: float_input for the following indices
	//  index: 0 Got: 1 Expected: 3
	//  Please fix either the inputs or the model.
	// [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: float_input for the following indices
	//  index: 0 Got: 1 Expected: 3
	//  Please fix either the inputs or the model.
}
