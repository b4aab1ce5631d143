package preset

import (
	"context"
	"fmt"
	"strings"

	"github.com/onward-ml/onward/backend"
)

// Type selects a preset, as ENOT Lite's BackendType does.
type Type int

// The types.
const (
	TypeCPU                Type = iota // Onward
	TypeReference                      // OnwardReference
	TypeOrtCPU                         // OrtCPU
	TypeOrtOpenVINO                    // OrtOpenVINOFloat
	TypeOrtOpenVINOInt8                // OrtOpenVINOInt8
	TypeOpenVINO                       // OpenVINO
	TypeOrtCUDA                        // OrtCUDA
	TypeOrtTensorRT                    // OrtTensorRTFloat
	TypeOrtTensorRTFP16                // OrtTensorRTFloatOptim
	TypeOrtTensorRTInt8                // OrtTensorRTInt8; requires a table
	TypeOrtTensorRTInt8QDQ             // OrtTensorRTInt8QDQ
	TypeOrtWebGPU                      // OrtWebGPU
	TypeAutoCPU                        // the fastest on the CPU, see Auto
	TypeAutoGPU                        // the fastest on a GPU
	TypeAuto                           // the fastest
)

// types describes the types in the order of the constants.
var types = []struct {
	name   string
	preset func(o *CreateOptions) Preset // nil for the automatic types
	gpu    bool
	auto   func(o *CreateOptions) bool // whether the automatic types measure it
}{
	{"CPU", func(o *CreateOptions) Preset { return Onward{Threads: o.IntraOpThreads} }, false, always},
	{"REFERENCE", func(o *CreateOptions) Preset { return OnwardReference{Threads: o.IntraOpThreads} }, false, never},
	{"ORT_CPU", func(o *CreateOptions) Preset {
		return OrtCPU{InterOpThreads: o.InterOpThreads, IntraOpThreads: o.IntraOpThreads}
	}, false, always},
	{"ORT_OPENVINO", func(o *CreateOptions) Preset {
		return OrtOpenVINOFloat{InterOpThreads: o.InterOpThreads, IntraOpThreads: o.IntraOpThreads,
			OpenVINOThreads: o.OpenVINOThreads}
	}, false, always},
	{"ORT_OPENVINO_INT8", func(o *CreateOptions) Preset {
		return OrtOpenVINOInt8{InterOpThreads: o.InterOpThreads, IntraOpThreads: o.IntraOpThreads,
			OpenVINOThreads: o.OpenVINOThreads}
	}, false, always},
	{"OPENVINO", func(o *CreateOptions) Preset { return OpenVINO{Threads: o.IntraOpThreads} }, false, always},
	{"ORT_CUDA", func(o *CreateOptions) Preset { return OrtCUDA{ProviderOptions: onDevice(o.DeviceID)} }, true, always},
	{"ORT_TENSORRT", func(o *CreateOptions) Preset {
		return OrtTensorRTFloat{CacheDir: o.CacheDir, DeviceID: o.DeviceID}
	}, true, always},
	{"ORT_TENSORRT_FP16", func(o *CreateOptions) Preset {
		return OrtTensorRTFloatOptim{CacheDir: o.CacheDir, DeviceID: o.DeviceID}
	}, true, always},
	{"ORT_TENSORRT_INT8", func(o *CreateOptions) Preset {
		return OrtTensorRTInt8{CacheDir: o.CacheDir, DeviceID: o.DeviceID, Table: o.Table}
	}, true, func(o *CreateOptions) bool { return o.Table != nil }},
	{"ORT_TENSORRT_INT8_QDQ", func(o *CreateOptions) Preset {
		return OrtTensorRTInt8QDQ{CacheDir: o.CacheDir, DeviceID: o.DeviceID}
	}, true, always},
	{"ORT_WEBGPU", func(*CreateOptions) Preset { return OrtWebGPU{} }, true, never},
	{"AUTO_CPU", nil, false, never},
	{"AUTO_GPU", nil, true, never},
	{"AUTO", nil, false, never},
}

func always(*CreateOptions) bool { return true }
func never(*CreateOptions) bool  { return false }

// onDevice returns the options that select a GPU.
func onDevice(id int) map[string]string {
	if id == 0 {
		return nil
	}
	return map[string]string{"device_id": fmt.Sprint(id)}
}

// String returns the type's name, such as "ORT_TENSORRT_FP16".
func (t Type) String() string {
	if t < 0 || int(t) >= len(types) {
		return fmt.Sprintf("Type(%d)", int(t))
	}
	return types[t].name
}

// Types returns all types.
func Types() []Type {
	r := make([]Type, len(types))
	for i := range r {
		r[i] = Type(i)
	}
	return r
}

// ParseType returns the type of a name such as "ORT_CPU", in upper or lower case.
func ParseType(name string) (Type, error) {
	names := make([]string, len(types))
	for i, t := range types {
		if strings.EqualFold(name, t.name) {
			return Type(i), nil
		}
		names[i] = t.name
	}
	return 0, fmt.Errorf("preset: unknown type %q, want one of %s", name, strings.Join(names, ", "))
}

// CreateOptions configure [Create]. A type ignores the options that it does not use.
type CreateOptions struct {
	// InputExample is required for models with dynamic axes and for the automatic types.
	InputExample backend.Inputs
	// Table is the calibration table of TypeOrtTensorRTInt8.
	Table           CalibrationTable
	InterOpThreads  int
	IntraOpThreads  int
	OpenVINOThreads int    // length of OpenVINO's queue of asynchronous requests
	DeviceID        int    // of the GPU
	CacheDir        string // of TensorRT's engine cache
	// Auto holds the options of the automatic types. Create sets its Model and
	// InputExample, and its Candidates if they are not set.
	Auto Auto
}

// Preset returns the preset of a type without a model. It is nil for automatic types.
func (t Type) Preset(o *CreateOptions) Preset {
	if o == nil {
		o = &CreateOptions{}
	}
	if t < 0 || int(t) >= len(types) || types[t].preset == nil {
		return nil
	}
	return types[t].preset(o)
}

// Candidates returns the presets that an automatic type measures, in this order. For
// another type it returns the one preset.
func (t Type) Candidates(o *CreateOptions) []Preset {
	if o == nil {
		o = &CreateOptions{}
	}
	if p := t.Preset(o); p != nil {
		return []Preset{p}
	}
	var r []Preset
	for _, c := range types {
		if c.auto(o) && (t == TypeAuto || t == TypeAutoGPU && c.gpu || t == TypeAutoCPU && !c.gpu) {
			r = append(r, c.preset(o))
		}
	}
	return r
}

// Create opens a model with the preset of a type (BackendFactory.create).
func Create[S backend.Source](ctx context.Context, model S, t Type, o *CreateOptions) (*backend.Rep, error) {
	if o == nil {
		o = &CreateOptions{}
	}
	if t < 0 || int(t) >= len(types) {
		return nil, fmt.Errorf("preset: unknown type %d", int(t))
	}
	if p := t.Preset(o); p != nil {
		return p.plan().on(From(model), o.InputExample).open(ctx)
	}
	a := o.Auto
	a.Model, a.InputExample = From(model), o.InputExample
	if a.Candidates == nil {
		a.Candidates = t.Candidates(o)
	}
	rep, _, err := a.Open(ctx)
	return rep, err
}
