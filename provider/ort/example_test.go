package ort_test

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// The three ways to bind, on ONNX Runtime where its library is on the machine and on
// the pure Go engine elsewhere. With the provider ort:cuda the device is "cuda".
func Example_binding() {
	model, err := datasets.Get("mul_1.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	sess, err := onward.OpenBytes(context.Background(), model,
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "ort"}, {Name: "cpu"}},
			LogSeverity: onward.LogError})
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
	run := func(bind ...error) {
		for _, err := range bind {
			if err != nil {
				fmt.Println(err)
				return
			}
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
	}

	// 1. The input comes from the CPU.
	x, y := []float32{1, 2, 3, 4, 5, 6}, make([]float32, 6)
	t, err := tensor.New(x, 3, 2)
	run(err, b.BindCPUInput("X", t), b.BindOutput("Y", onward.Buffer{}))

	// 2. The input is on the device.
	on := func(p []float32) onward.Buffer {
		return onward.Buffer{Device: onward.Device{Type: "cpu"}, Type: tensor.TypeFloat32, Shape: []int{3, 2},
			Pointer: unsafe.Pointer(&p[0])}
	}
	run(b.BindInput("X", on(x)), b.BindOutput("Y", onward.Buffer{}))

	// 3. Input and output are on the device.
	run(b.BindInput("X", on(x)), b.BindOutput("Y", on(y)))
	fmt.Println(y)
	// Output:
	// [1 4 9 16 25 36] <nil>
	// [1 4 9 16 25 36] <nil>
	// [1 4 9 16 25 36] <nil>
	// [1 4 9 16 25 36]
}
