package preset

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
)

// Onward runs a model on the Go engine, the provider "cpu". It runs inputs of all shapes
// at full speed, so the example is only checked.
type Onward struct {
	Model        Model
	InputExample backend.Inputs
	Threads      int // of one run; default: all cores
	Session      *onward.SessionOptions
}

// Name returns "Onward".
func (Onward) Name() string { return "Onward" }

// Open loads the model.
func (p Onward) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p Onward) plan() *plan {
	return own(p.Name(), backend.CPU, p.Model, p.InputExample, p.Session, p.Threads)
}

// OnwardReference runs a model on the Go engine's provider "reference", node by node and
// slowly. [Auto] compares the results of other presets with its results.
type OnwardReference struct {
	Model        Model
	InputExample backend.Inputs
	Threads      int // of one run; default: all cores
	Session      *onward.SessionOptions
}

// Name returns "OnwardReference".
func (OnwardReference) Name() string { return "OnwardReference" }

// Open loads the model.
func (p OnwardReference) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OnwardReference) plan() *plan {
	return own(p.Name(), backend.Reference, p.Model, p.InputExample, p.Session, p.Threads)
}

func own(name string, provider backend.Provider, model Model, example backend.Inputs, session *onward.SessionOptions,
	threads int) *plan {
	p := &plan{name: name, config: onward.ProviderConfig{Name: string(provider)}, model: model, example: example}
	p.sessionOptions(session, 0, threads)
	return p
}

// Registered runs a model on a registered provider, by its name.
type Registered struct {
	Provider        string            // its name
	ProviderOptions map[string]string // its options
	Model           Model
	InputExample    backend.Inputs
	Threads         int // of one run; default: all cores
	Session         *onward.SessionOptions
}

// Name returns the name of the provider.
func (p Registered) Name() string { return p.Provider }

// Open loads the model.
func (p Registered) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p Registered) plan() *plan {
	c := onward.ProviderConfig{Name: p.Provider, Options: p.ProviderOptions}
	o := &plan{name: p.Provider, config: c, model: p.Model, example: p.InputExample, binds: !goEngine(p.Provider)}
	o.sessionOptions(p.Session, 0, p.Threads)
	return o
}

// OpenVINO runs a model on OpenVINO without ONNX Runtime. InputExample is required for
// models with dynamic axes.
type OpenVINO struct {
	Model           Model
	InputExample    backend.Inputs
	ProviderOptions map[string]string // of provider/openvino
	Threads         int               // of one run; default: all cores
}

// Name returns "OpenVINO".
func (OpenVINO) Name() string { return "OpenVINO" }

// Open loads the model.
func (p OpenVINO) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OpenVINO) plan() *plan {
	c := onward.ProviderConfig{Name: "openvino", Options: p.ProviderOptions}
	o := &plan{name: p.Name(), config: c, model: p.Model, example: p.InputExample, binds: true, demands: true}
	o.sessionOptions(nil, 0, p.Threads)
	return o
}

// sessionOptions sets the options of the session. A number of threads that is 0 keeps
// the one in o.
func (p *plan) sessionOptions(o *onward.SessionOptions, inter, intra int) {
	if o != nil {
		p.session = *o
	}
	if intra != 0 {
		p.session.Threads = intra
	}
	if inter != 0 {
		p.session.InterOpThreads = inter
	}
	if inter > 1 {
		p.session.ExecutionMode = onward.ExecutionParallel // the only mode that uses the number
	}
}

// options merges options of a provider. Later ones replace earlier ones.
func options(list ...map[string]string) map[string]string {
	r := map[string]string{}
	for _, o := range list {
		maps.Copy(r, o)
	}
	return r
}

// Ort runs a model on an execution provider of ONNX Runtime (OrtBackend).
type Ort struct {
	Model Model
	// Provider names the execution provider as ONNX Runtime does
	// ("CUDAExecutionProvider") or as package onward does ("ort:cuda"). Default: the
	// CPU execution provider.
	Provider        string
	ProviderOptions map[string]string
	Session         *onward.SessionOptions
	// InputExample, if set, fixes dynamic axes.
	InputExample backend.Inputs
}

// ortProviders maps the values of [Ort.Provider] to registered providers.
var ortProviders = map[string]string{
	"": "ort:cpu", "CPUExecutionProvider": "ort:cpu", "CUDAExecutionProvider": "ort:cuda",
	"TensorrtExecutionProvider": "ort:tensorrt", "OpenVINOExecutionProvider": "ort:openvino",
	"WebGpuExecutionProvider": "ort:webgpu",
	"ort":                     "ort", "ort:cpu": "ort:cpu", "ort:cuda": "ort:cuda", "ort:tensorrt": "ort:tensorrt",
	"ort:openvino": "ort:openvino", "ort:webgpu": "ort:webgpu",
}

// Name returns "Ort" with the name of the execution provider.
func (p Ort) Name() string {
	if p.Provider == "" {
		return "Ort"
	}
	return "Ort " + p.Provider
}

// Open loads the model.
func (p Ort) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p Ort) plan() *plan {
	c := onward.ProviderConfig{Name: ortProviders[p.Provider], Options: p.ProviderOptions}
	if c.Name == "" {
		c = onward.ProviderConfig{Name: "ort",
			Options: options(p.ProviderOptions, map[string]string{"execution_provider": p.Provider})}
	}
	o := &plan{name: p.Name(), config: c, model: p.Model, example: p.InputExample, binds: true}
	o.sessionOptions(p.Session, 0, 0)
	return o
}

// OrtCPU runs a model on ONNX Runtime's CPU execution provider (OrtCpuBackend).
type OrtCPU struct {
	Model          Model
	InterOpThreads int // threads between operators; default: ONNX Runtime's, which runs one operator at a time
	IntraOpThreads int // threads inside operators; default: ONNX Runtime's
	Session        *onward.SessionOptions
}

// Name returns "OrtCPU".
func (OrtCPU) Name() string { return "OrtCPU" }

// Open loads the model.
func (p OrtCPU) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtCPU) plan() *plan {
	o := &plan{name: p.Name(), config: onward.ProviderConfig{Name: "ort:cpu"}, model: p.Model}
	o.sessionOptions(p.Session, p.InterOpThreads, p.IntraOpThreads)
	return o
}

// OrtCUDA runs a model on ONNX Runtime's CUDA execution provider (OrtCudaBackend).
type OrtCUDA struct {
	Model           Model
	ProviderOptions map[string]string // such as "device_id"
	Session         *onward.SessionOptions
}

// Name returns "OrtCUDA".
func (OrtCUDA) Name() string { return "OrtCUDA" }

// Open loads the model.
func (p OrtCUDA) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtCUDA) plan() *plan {
	o := &plan{name: p.Name(), config: onward.ProviderConfig{Name: "ort:cuda", Options: p.ProviderOptions},
		model: p.Model}
	o.sessionOptions(p.Session, 0, 0)
	return o
}

// OrtWebGPU runs a model on ONNX Runtime's WebGPU execution provider, on any GPU with a driver
// for Vulkan, Direct3D 12 or Metal. [Auto] does not try it.
type OrtWebGPU struct {
	Model           Model
	ProviderOptions map[string]string // such as "powerPreference"
	InputExample    backend.Inputs    // if set, fixes dynamic axes
	Session         *onward.SessionOptions
}

// Name returns "OrtWebGPU".
func (OrtWebGPU) Name() string { return "OrtWebGPU" }

// Open loads the model.
func (p OrtWebGPU) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtWebGPU) plan() *plan {
	o := &plan{name: p.Name(), config: onward.ProviderConfig{Name: "ort:webgpu", Options: p.ProviderOptions},
		model: p.Model, example: p.InputExample, binds: true}
	o.sessionOptions(p.Session, 0, 0)
	return o
}

// OrtOpenVINO runs a model on ONNX Runtime's OpenVINO execution provider
// (OrtOpenvinoBackend). InputExample is required for models with dynamic axes.
type OrtOpenVINO struct {
	Model           Model
	ProviderOptions map[string]string // such as "device_type"
	InputExample    backend.Inputs
	InterOpThreads  int // threads between operators; default: ONNX Runtime's
	IntraOpThreads  int // threads inside operators; default: ONNX Runtime's
}

// Name returns "OrtOpenVINO".
func (OrtOpenVINO) Name() string { return "OrtOpenVINO" }

// Open loads the model.
func (p OrtOpenVINO) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtOpenVINO) plan() *plan {
	return ortOpenVINO(p.Name(), p.ProviderOptions, p.Model, p.InputExample, p.InterOpThreads, p.IntraOpThreads)
}

func ortOpenVINO(name string, options map[string]string, model Model, example backend.Inputs, inter, intra int) *plan {
	p := &plan{name: name, config: onward.ProviderConfig{Name: "ort:openvino", Options: options}, model: model,
		example: example, binds: true, demands: true}
	p.sessionOptions(nil, inter, intra)
	return p
}

// cpuOpenVINO returns the options of the OpenVINO presets for the CPU. num_of_threads is
// the length of the execution provider's queue of asynchronous requests
// (https://onnxruntime.ai/docs/execution-providers/OpenVINO-ExecutionProvider.html).
func cpuOpenVINO(precision string, queue int) map[string]string {
	o := map[string]string{"device_type": "CPU", "precision": precision}
	if queue != 0 {
		o["num_of_threads"] = strconv.Itoa(queue)
	}
	return o
}

// OrtOpenVINOFloat is [OrtOpenVINO] in float32 on the CPU (OrtOpenvinoFloatBackend). Older
// releases of ONNX Runtime call this device CPU_FP32.
type OrtOpenVINOFloat struct {
	Model          Model
	InputExample   backend.Inputs
	InterOpThreads int // threads between operators; default: ONNX Runtime's
	IntraOpThreads int // threads inside operators; default: ONNX Runtime's
	// OpenVINOThreads is the length of the queue of asynchronous requests. A longer one
	// can be faster or slower, so tune it last. Default: the execution provider's.
	OpenVINOThreads int
}

// Name returns "OrtOpenVINOFloat".
func (OrtOpenVINOFloat) Name() string { return "OrtOpenVINOFloat" }

// Open loads the model.
func (p OrtOpenVINOFloat) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtOpenVINOFloat) plan() *plan {
	return ortOpenVINO(p.Name(), cpuOpenVINO("FP32", p.OpenVINOThreads), p.Model, p.InputExample, p.InterOpThreads,
		p.IntraOpThreads)
}

// OrtOpenVINOInt8 is [OrtOpenVINO] in 8-bit integers on the CPU (OrtOpenvinoInt8Backend).
// OpenVINO takes the precision and the scales from the QuantizeLinear and
// DequantizeLinear nodes of the model; a model without them is an error.
type OrtOpenVINOInt8 struct {
	Model          Model
	InputExample   backend.Inputs
	InterOpThreads int // threads between operators; default: ONNX Runtime's
	IntraOpThreads int // threads inside operators; default: ONNX Runtime's
	// OpenVINOThreads is the length of the queue of asynchronous requests. A longer one
	// can be faster or slower, so tune it last. Default: the execution provider's.
	OpenVINOThreads int
}

// Name returns "OrtOpenVINOInt8".
func (OrtOpenVINOInt8) Name() string { return "OrtOpenVINOInt8" }

// Open loads the model.
func (p OrtOpenVINOInt8) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtOpenVINOInt8) plan() *plan {
	o := ortOpenVINO(p.Name(), cpuOpenVINO("ACCURACY", p.OpenVINOThreads), p.Model, p.InputExample, p.InterOpThreads,
		p.IntraOpThreads)
	o.finish = wantsQDQ
	return o
}

// wantsQDQ returns an error for a model without quantization nodes.
func wantsQDQ(_ *plan, m *onnx.Model, _ onward.Values) error {
	var has func(g *onnx.Graph, depth int) bool
	has = func(g *onnx.Graph, depth int) bool {
		if g == nil || depth > 100 {
			return false
		}
		for _, n := range g.Nodes {
			if n.OpType == "QuantizeLinear" || n.OpType == "DequantizeLinear" {
				return true
			}
			for _, sub := range n.Subgraphs() {
				if has(sub, depth+1) {
					return true
				}
			}
		}
		return false
	}
	if !has(m.Graph, 0) {
		return fmt.Errorf("the model has no QuantizeLinear or DequantizeLinear node with scales: quantize it first")
	}
	return nil
}
