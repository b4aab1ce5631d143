package onward_test

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
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

// This example runs a model with an operator that is written in Go. examples/customop also infers
// its shapes and reads attributes.
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
	sess, err := onward.OpenModel(context.Background(), b.Must(),
		&onward.SessionOptions{CustomOperators: []onward.CustomOperator{double}})
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

// The state of a stream goes back into the model, in the same memory.
func ExampleRunOptions_state() {
	b := onnx.NewModel("sum").Opset("", 21)
	b.Input("x", onnx.Float, 2).Input("state", onnx.Float, 2).Output("next", onnx.Float, 2)
	b.Node("Add", []string{"x", "state"}, []string{"next"})
	m, err := b.Model()
	if err != nil {
		panic(err)
	}
	s, err := onward.OpenModel(context.Background(), m, nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	state := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2))
	for i := range 3 {
		x := tensor.Must(tensor.New([]float32{float32(i), 10}))
		if _, err := s.Run(context.Background(), onward.Values{"x": x, "state": state},
			&onward.RunOptions{Into: map[string]*tensor.Tensor{"next": state}}); err != nil {
			panic(err)
		}
	}
	fmt.Println(tensor.MustData[float32](state))
	// Output: [3 30]
}

// A cache of tokens grows in place, and is cut back and forked.
func ExampleBinding_BindState() {
	b := onnx.NewModel("cache").Opset("", 21)
	b.Input("x", onnx.Float, 1, 1).Input("past", onnx.Float, 1, "past")
	b.Output("present", onnx.Float, 1, "total").Output("sum", onnx.Float, 1, 1)
	b.Node("Concat", []string{"past", "x"}, []string{"present"}, onnx.Attrs{"axis": 1})
	b.Initializer("axes", []int64{1}, 1)
	b.Node("ReduceSum", []string{"present", "axes"}, []string{"sum"})
	ctx := context.Background()
	s, err := onward.OpenModel(ctx, b.Must(), nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	binding, err := s.NewBinding()
	if err != nil {
		panic(err)
	}
	defer binding.Close()
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 1))
	none := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 0))
	if err := errors.Join(binding.BindCPUInput("x", x), binding.BindCPUInput("past", none),
		binding.BindState("present", "past"), binding.BindOutput("sum", onward.Buffer{})); err != nil {
		panic(err)
	}
	run := func(b *onward.Binding, v float32) {
		tensor.MustData[float32](x)[0] = v
		if err := s.RunBinding(ctx, b, nil); err != nil {
			panic(err)
		}
		out, err := b.CopyOutputsToCPU()
		if err != nil {
			panic(err)
		}
		cache, err := b.State("past")
		if err != nil {
			panic(err)
		}
		fmt.Println(tensor.MustData[float32](cache), "sum", tensor.MustData[float32](out[0].(*tensor.Tensor)))
	}
	run(binding, 1)
	run(binding, 2)
	fork, err := binding.Fork()
	if err != nil {
		panic(err)
	}
	defer fork.Close()
	run(fork, 3)
	if err := binding.TruncateState("past", 1, 1); err != nil {
		panic(err)
	}
	run(binding, 4)
	// Output:
	// [1] sum [1]
	// [1 2] sum [3]
	// [1 2 3] sum [6]
	// [1 4] sum [5]
}

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
	if err := b.BindOutput("Y", onward.Buffer{}); err != nil {
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
	err = b.BindInput("X", onward.Buffer{Device: onward.Device{Type: "cpu"}, Type: tensor.TypeFloat32,
		Shape: []int{3, 2}, Pointer: unsafe.Pointer(&x[0])})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := b.BindOutput("Y", onward.Buffer{}); err != nil {
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
func ExampleBinding_BindOutput() {
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
	err = b.BindOutput("Y",
		onward.Buffer{Type: tensor.TypeFloat32, Shape: []int{3, 2}, Pointer: unsafe.Pointer(&y[0])})
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
func ExampleBinding_BindOutput_device() {
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
	fmt.Println(b.BindOutput("Y", onward.Buffer{Device: onward.Device{Type: "cuda", ID: 0}}))
	fmt.Println(b.BindOutput("Y", onward.Buffer{Device: onward.Device{Type: "tpu"}}))
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
	fmt.Println(v.DeviceName(), v.Shape(), v.DataType(), v.ElementType(), v.HasValue(), v.IsTensor(),
		v.IsSparseTensor(), v.IsTensorSequence())
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
