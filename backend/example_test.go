package backend_test

import (
	"context"
	"fmt"
	"log"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
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
	fmt.Println(out.Names[0], tensor.MustData[float32](out.Tensor(0)))
	// Output: Y [1 4 9 16 25 36]
}

// ONNX Runtime's example prepares a model for the device that GetDevice returns.
func ExampleForDevice() {
	ctx := context.Background()
	device := onward.GetDevice()
	b, err := backend.ForDevice(device)
	if err != nil {
		log.Fatal(err)
	}
	model, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		log.Fatal(err)
	}
	rep, err := backend.Prepare(ctx, model, b, &backend.Options{Device: device})
	if err != nil {
		log.Fatal(err)
	}
	defer rep.Close()
	out, err := rep.Run(ctx, backend.One(tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Names, out.Tensor(0).Shape())
	// Output: [output_label output_probability] [3]
}

// The methods of mlprodict's OnnxInferenceBackend are functions here.
func ExampleRuntime() {
	ctx := context.Background()
	b, err := backend.Runtime("python") // OnnxInferenceBackend with runtime="python"
	if err != nil {
		log.Fatal(err)
	}
	data, err := datasets.Get("mul_1.onnx")
	if err != nil {
		log.Fatal(err)
	}
	model, err := onnx.Unmarshal(data, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Name(), backend.SupportsDevice(b, "CPU"), backend.SupportsDevice(b, "CUDA"))
	supported, _ := backend.IsOpsetSupported(model)
	fmt.Println(supported)
	fmt.Println(backend.IsCompatible(ctx, model, b, "CPU"))
	x := tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	out, err := backend.RunModel(ctx, model, b, backend.One(x), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor.MustData[float32](out.Tensor(0)))
	node := &onnx.Node{OpType: "Neg", Inputs: []string{"x"}, Outputs: []string{"y"}}
	if out, err = backend.RunNode(ctx, node, b, backend.One(x), nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor.MustData[float32](out.Tensor(0)))
	// Output:
	// reference true false
	// true
	// true <nil>
	// [1 4 9 16 25 36]
	// [-1 -2 -3 -4 -5 -6]
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
