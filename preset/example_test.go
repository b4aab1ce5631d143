package preset_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	"github.com/onward-ml/onward/tensor"
)

// mul is a model of one input X and one output Y = X·W, both [3, 2].
func mul() []byte {
	model, err := datasets.Get("mul_1.onnx")
	if err != nil {
		log.Fatal(err)
	}
	return model
}

func sample() *tensor.Tensor {
	return tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
}

// show opens a preset and runs it, or says why it cannot be opened.
func show(p preset.Preset) {
	ctx := context.Background()
	rep, err := p.Open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rep.Close()
	out, err := rep.Run(ctx, backend.One(sample()), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Names[0], tensor.MustData[float32](out.Tensor(0)))
}

// A model with one input takes a bare value, every model a list or a map.
func ExamplePreset() {
	ctx := context.Background()
	b := onnx.NewModel("sum")
	b.Input("input_name_0", onnx.Float, 2).Input("input_name_1", onnx.Float, 2).Output("sum", onnx.Float, 2)
	b.Node("Add", []string{"input_name_0", "input_name_1"}, []string{"sum"})
	sess, err := preset.Onward{Model: preset.From(b.Must())}.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer sess.Close()
	fmt.Println(sess.Inputs(), sess.Outputs())
	input0, input1 := vector(1, 2), vector(10, 20)
	for _, in := range []backend.Inputs{
		backend.One(input0), // for models with only one input
		backend.List{input0, input1},
		backend.Named{"input_name_0": input0, "input_name_1": input1},
	} {
		out, err := sess.Run(ctx, in, nil)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(tensor.MustData[float32](out.Tensor(0)))
	}
	// Output:
	// [input_name_0: tensor(float)[2] input_name_1: tensor(float)[2]] [sum: tensor(float)[2]]
	// Expecting one input not 2.
	// [11 22]
	// [11 22]
}

func ExampleOnward() {
	show(preset.Onward{Model: preset.From(mul())})
	// Output: Y [1 4 9 16 25 36]
}

func ExampleOnwardReference() {
	show(preset.OnwardReference{Model: preset.From(mul())})
	// Output: Y [1 4 9 16 25 36]
}

func ExampleRegistered() {
	show(preset.Registered{Provider: "cpu", Model: preset.From(mul()), Threads: 1})
	// Output: Y [1 4 9 16 25 36]
}

// The presets of ONNX Runtime need its driver. This program does not import it, and
// each preset says so; it says as well which library is missing.
func ExampleOrt() {
	show(preset.Ort{Model: preset.From(mul()), Provider: "CPUExecutionProvider",
		ProviderOptions: map[string]string{"enable_cpu_mem_arena": "False"},
		Session:         &onward.SessionOptions{Threads: 1}})
	// Output: Ort CPUExecutionProvider: provider "ort:cpu" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOrtCPU() {
	show(preset.OrtCPU{Model: preset.From(mul()), InterOpThreads: 1, IntraOpThreads: 4})
	// Output: OrtCPU: provider "ort:cpu" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOrtCUDA() {
	show(preset.OrtCUDA{Model: preset.From(mul()), ProviderOptions: map[string]string{"device_id": "0"}})
	// Output: OrtCUDA: provider "ort:cuda" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOrtOpenVINO() {
	show(preset.OrtOpenVINO{Model: preset.From(mul()), InputExample: backend.One(sample()),
		ProviderOptions: map[string]string{"device_type": "GPU"}})
	// Output: OrtOpenVINO: provider "ort:openvino" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOrtOpenVINOFloat() {
	show(preset.OrtOpenVINOFloat{Model: preset.From(mul()), InputExample: backend.One(sample()), OpenVINOThreads: 4})
	// Output: OrtOpenVINOFloat: provider "ort:openvino" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOrtOpenVINOInt8() {
	show(preset.OrtOpenVINOInt8{Model: preset.From(mul()), InputExample: backend.One(sample())})
	// Output: OrtOpenVINOInt8: provider "ort:openvino" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

// Engines for batches of 1 to 8 samples, which are fastest for those of the example.
func ExampleOrtTensorRT() {
	show(preset.OrtTensorRT{Model: preset.From(mul()), InputExample: backend.One(sample()),
		ProviderOptions: map[string]string{"trt_max_workspace_size": "1073741824"},
		Profile:         map[string]preset.ShapeRange{"X": {Min: []int{1, 2}, Max: []int{8, 2}}}})
	// Output: OrtTensorRT: provider "ort:tensorrt" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOrtTensorRTFloat() {
	show(preset.OrtTensorRTFloat{Model: preset.From(mul()), InputExample: backend.One(sample())})
	// Output: OrtTensorRTFloat: provider "ort:tensorrt" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOrtTensorRTFloatOptim() {
	show(preset.OrtTensorRTFloatOptim{Model: preset.From(mul()), InputExample: backend.One(sample())})
	// Output: OrtTensorRTFloatOptim: provider "ort:tensorrt" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

// The calibration table comes from a few batches of data, or from a file:
// Table: preset.TableFile("table.flatbuffers").
func ExampleOrtTensorRTInt8() {
	ctx := context.Background()
	m, err := onnx.Unmarshal(mul(), nil)
	if err != nil {
		log.Fatal(err)
	}
	table, err := calibration.Calibrate(ctx, m, calibration.Batches(onward.Values{"X": sample()}), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Names())
	show(preset.OrtTensorRTInt8{Model: preset.From(m), Table: table, InputExample: backend.One(sample())})
	// Output:
	// [X Y]
	// OrtTensorRTInt8: provider "ort:tensorrt" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

// The scales are in the model's QuantizeLinear and DequantizeLinear nodes.
func ExampleOrtTensorRTInt8QDQ() {
	show(preset.OrtTensorRTInt8QDQ{Model: preset.From(mul()), InputExample: backend.One(sample()), NoFP16: true})
	// Output: OrtTensorRTInt8QDQ: provider "ort:tensorrt" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort"
}

func ExampleOpenVINO() {
	show(preset.OpenVINO{Model: preset.From(mul()), InputExample: backend.One(sample())})
	// Output: OpenVINO: provider "openvino" is not registered: the program must import _ "github.com/onward-ml/onward/provider/openvino"
}

func ExampleAuto() {
	ctx := context.Background()
	best, report, err := preset.Auto{Model: preset.From(mul()), InputExample: backend.One(sample()),
		MinDuration: 30 * time.Millisecond, NoCache: true}.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer best.Close()
	out, err := best.Run(ctx, backend.One(sample()), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Best, tensor.MustData[float32](out.Tensor(0)))
	fmt.Println(report.Result("OrtCUDA").Status)
	// Output:
	// Onward [1 4 9 16 25 36]
	// skipped
}

func ExampleCreate() {
	ctx := context.Background()
	t, err := preset.ParseType("auto_cpu")
	if err != nil {
		log.Fatal(err)
	}
	rep, err := preset.Create(ctx, mul(), t, &preset.CreateOptions{InputExample: backend.One(sample()),
		Auto: preset.Auto{NoCache: true, MinDuration: 30 * time.Millisecond}})
	if err != nil {
		log.Fatal(err)
	}
	defer rep.Close()
	fmt.Println(t, rep.Session.Provider())
	// Output: AUTO_CPU cpu
}

func ExampleBenchmark() {
	var out strings.Builder
	b := preset.Benchmark{BatchSize: 3, Model: preset.From(mul()), Input: backend.One(sample()),
		Backends: []preset.Preset{preset.Onward{}, preset.OrtCPU{}},
		Repeat:   5, Verbose: true, Output: &out}
	if err := b.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(os.Stdout, out.String())
	r := b.Results()[0]
	fmt.Println(r.FPS > 0, r.MSPerBatch > r.MSPerSample)
	// Output:
	// Benchmarking: Onward... OK
	// Benchmarking: OrtCPU... FAILED (Error=OrtCPU: provider "ort:cpu" is not registered: the program must import _ "github.com/onward-ml/onward/provider/ort")
	// true true
}
