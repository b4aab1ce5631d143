package onward_test

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/tensor"
)

// This example binds an input on the CPU and copies the output to the CPU.
func ExampleBinding_BindCPUInput() {
	sess, err := openDataset("mul_1.onnx")
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

	b, err := sess.NewBinding()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	if err := b.BindCPUInput("X", x); err != nil {
		fmt.Println(err)
		return
	}
	if err := b.BindOutput("Y"); err != nil {
		fmt.Println(err)
		return
	}
	if err := sess.RunBinding(context.Background(), b, nil); err != nil {
		fmt.Println(err)
		return
	}
	out, err := b.CopyOutputsToCPU()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.Data[float32](out[0]))
	// Output: [1 4 9 16 25 36] <nil>
}

// This example binds an input by its address on the device that the model runs on. The
// device is "cpu" here. A session with the provider ort:cuda takes the device "cuda" and
// an address of CUDA memory.
func ExampleBinding_BindInput() {
	sess, err := openDataset("mul_1.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	x := []float32{1, 2, 3, 4, 5, 6}

	b, err := sess.NewBinding()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	err = b.BindInput("X", onward.Buffer{Device: onward.Device{Type: "cpu"}, Type: tensor.TypeFloat32, Shape: []int{3, 2}, Pointer: unsafe.Pointer(&x[0])})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := b.BindOutput("Y"); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if err := sess.RunBinding(context.Background(), b, nil); err != nil {
			fmt.Println(err)
			return
		}
		out, err := b.CopyOutputsToCPU()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(tensor.Data[float32](out[0]))
		x[0] = 10 // the next run reads the new value
	}
	// Output:
	// [1 4 9 16 25 36] <nil>
	// [10 4 9 16 25 36] <nil>
}

// This example binds input and output to memory on the device that the model runs on, so
// that runs neither copy nor allocate.
func ExampleBinding_BindOutputBuffer() {
	sess, err := openDataset("mul_1.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	x, y := []float32{1, 2, 3, 4, 5, 6}, make([]float32, 6)

	b, err := sess.NewBinding()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	err = b.BindInput("X", onward.Buffer{Type: tensor.TypeFloat32, Shape: []int{3, 2}, Pointer: unsafe.Pointer(&x[0])})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = b.BindOutputBuffer("Y", onward.Buffer{Type: tensor.TypeFloat32, Shape: []int{3, 2}, Pointer: unsafe.Pointer(&y[0])})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := sess.RunBinding(context.Background(), b, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(y)
	// Output: [1 4 9 16 25 36]
}

// This example shows the errors for devices that the session's provider does not support.
func ExampleBinding_BindOutputTo() {
	sess, err := openDataset("mul_1.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()
	b, err := sess.NewBinding()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	fmt.Println(b.BindOutputTo("Y", onward.Device{Type: "cuda", ID: 0}))
	fmt.Println(b.BindOutputTo("Y", onward.Device{Type: "tpu"}))
	// Output:
	// [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Error when binding output: the Go engine works on the memory of the cpu, not of cuda:0: open the session with a provider for that device, such as ort:cuda
	// [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unsupported device type: tpu
}

// This example inspects the type, shape and device of an OrtValue.
func ExampleOrtValue() {
	x, err := tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := onward.NewOrtValue(x)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.DeviceName(), v.Shape(), v.DataType(), v.ElementType(), v.HasValue(), v.IsTensor(), v.IsSparseTensor(), v.IsTensorSequence())
	// Output: cpu [3 2] tensor(float) float true true false false
}

func ExampleSession_RunAsync() {
	sess, err := openDataset("mul_1.onnx")
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
	done := make(chan struct{})
	sess.RunAsync(context.Background(), onward.Values{"X": x}, nil, func(out onward.Values, err error) {
		defer close(done)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(tensor.Data[float32](out["Y"]))
	})
	<-done
	// Output: [1 4 9 16 25 36] <nil>
}

func openDataset(name string) (*onward.Session, error) {
	model, err := datasets.Get(name)
	if err != nil {
		return nil, err
	}
	return onward.OpenBytes(context.Background(), model, nil)
}
