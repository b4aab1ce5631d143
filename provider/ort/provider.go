package ort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/provider/internal/native"
)

// executionProvider describes one of ONNX Runtime's execution providers.
type executionProvider struct {
	name    string // name that GetAvailableProviders returns
	library string // middle part of its library's file name; "" for the CPU
	title   string // name in messages; "" for the CPU
	needs   string // requirements, for messages
	get     string // how to install it, for messages
	device  string // device type; "" for the CPU, which is also OpenVINO's default
	options map[string]native.Kind

	create, update, attach, free fn // create is 0 if attach takes the options directly

	// devices counts the devices that the execution provider can use; nil if it is not
	// selected by a number.
	devices func(r *library) (int, error)

	pkg string // Python package with the plug-in, for builds without the execution provider
}

const (
	needsCPU = "ONNX Runtime's library, 1.17 or later,"
	getCPU   = "npm pack onnxruntime-node, pip install onnxruntime, Maven com.microsoft.onnxruntime:onnxruntime, or " +
		"a release from https://github.com/microsoft/onnxruntime/releases"
	getCUDA = "pip install \"onnxruntime-gpu[cuda,cudnn]\", or Maven com.microsoft.onnxruntime:onnxruntime_gpu or a " +
		"-gpu release from https://github.com/microsoft/onnxruntime/releases with the CUDA and cuDNN 9 libraries of " +
		"its build (CUDA 12 or 13)"
)

var (
	cpu  = &executionProvider{name: "CPUExecutionProvider", needs: needsCPU, get: getCPU}
	cuda = &executionProvider{name: "CUDAExecutionProvider", library: "cuda", title: "CUDA", device: "cuda",
		needs: needsCPU + " with its CUDA provider, CUDA 12 or 13 as that was built for, cuDNN 9 and an NVIDIA GPU",
		get:   getCUDA, options: cudaOptions,
		create: fnCreateCUDAProviderOptions, update: fnUpdateCUDAProviderOptions, attach: fnAppendCUDA,
		free: fnReleaseCUDAProviderOptions, devices: cudaDevices}
	tensorRT = &executionProvider{name: "TensorrtExecutionProvider", library: "tensorrt",
		title: "TensorRT", device: "cuda",
		needs: needsCPU +
			" with its TensorRT provider, TensorRT 10, CUDA 12 or 13 as that was built for, and an NVIDIA GPU",
		get: getCUDA + ", and TensorRT 10's", options: tensorRTOptions,
		create: fnCreateTensorRTProviderOptions, update: fnUpdateTensorRTProviderOptions, attach: fnAppendTensorRT,
		free: fnReleaseTensorRTProviderOptions, devices: cudaDevices}
	openVINO = &executionProvider{name: "OpenVINOExecutionProvider", library: "openvino", title: "OpenVINO",
		needs: needsCPU + " with its OpenVINO provider, and OpenVINO",
		get:   "pip install onnxruntime-openvino openvino", options: openVINOOptions,
		attach: fnAppendOpenVINO}
	webGPU = &executionProvider{name: "WebGpuExecutionProvider", title: "WebGPU", device: "webgpu", pkg: webGPUPackage,
		options: webGPUOptions,
		needs: needsCPU + " with its WebGPU provider built in or as a plug-in, and a GPU with a driver for Vulkan, " +
			"Direct3D 12 or Metal",
		get: "npm pack onnxruntime-node, or pip install onnxruntime onnxruntime-ep-webgpu"}
)

// provider is a registered name of an execution provider.
type provider struct {
	name string
	ep   *executionProvider
}

func init() {
	for _, p := range []provider{{"ort", cpu}, {"ort:cpu", cpu}, {"ort:cuda", cuda}, {"ort:tensorrt", tensorRT},
		{"ort:openvino", openVINO}, {"ort:webgpu", webGPU}} {
		driver.Register(p)
	}
}

func (p provider) Name() string { return p.name }

// Traits implements [driver.Describer]. ONNX Runtime takes the options itself.
func (p provider) Traits() driver.Traits {
	return driver.Traits{Device: p.ep.device, AppliesOptions: true, ReadsFiles: true}
}

// Available checks the options and returns nil if this machine has ONNX Runtime's library
// with the execution provider, and the device that the options select. Otherwise the error
// lists the paths that were tried, what each lacks, and how to install the library, or says
// how many devices there are.
func (p provider) Available(config driver.Config) error {
	s, err := p.parse(&driver.Options{}, config)
	if err != nil {
		return err
	}
	l, err := p.open(config)
	if err != nil {
		return err
	}
	if p.ep == webGPU {
		if err := l.findAdapter(s); err != nil {
			if status, ok := errors.AsType[*driver.StatusError](err); ok {
				return p.noDevice("%s", status.Message)
			}
			return p.noDevice("%v", err)
		}
	}
	if p.ep.devices == nil {
		return nil
	}
	id, _ := strconv.Atoi(s.own["device_id"]) // checked by parse
	n, err := p.ep.devices(l)
	switch {
	case err != nil:
		return p.noDevice("%v", err)
	case n == 0:
		return p.noDevice("%s finds no device on this machine", p.ep.name)
	case id >= n:
		return p.noDevice("option device_id is %d, %s finds %d devices, numbered from 0", id, p.ep.name, n)
	}
	return nil
}

func (p provider) noDevice(format string, args ...any) error {
	return &driver.StatusError{Code: driver.CodeExecutionProvider,
		Message: fmt.Sprintf("provider %s is not available: ", p.name) + fmt.Sprintf(format, args...)}
}

func (p provider) open(config driver.Config) (*library, error) {
	l, err := open(config.Options["library"], p.ep, config.Options[pluginLibrary])
	if err != nil {
		return nil, &driver.StatusError{Code: driver.CodeExecutionProvider, Err: err,
			Message: fmt.Sprintf(
				"provider %s is not available: %v\nGet it with %s; or name its path in %s or in the option library.",
				p.name, err, p.ep.get, Env)}
	}
	return l, nil
}

// Compile creates an ONNX Runtime session. ONNX Runtime loads the model from its file if
// there is one, so that the weights are in memory only once.
func (p provider) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	config driver.Config) (driver.Engine, error) {
	o, err := p.parse(opts, config)
	if err != nil {
		return nil, err
	}
	l, err := p.open(config)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := l.newSession(m.Path, m.Model, o)
	if err != nil {
		return nil, err
	}
	s.provider, s.config = p, config
	return s, nil
}

// Library implements [driver.LibraryUser].
func (p provider) Library(config driver.Config) (*driver.Library, error) {
	l, err := p.open(config)
	if err != nil {
		return nil, err
	}
	return &driver.Library{Name: "ONNX Runtime", Path: cmp.Or(l.file, l.Path), Source: l.Source, Version: l.version,
		APIVersion: l.api, Build: l.build, Providers: l.eps}, nil
}

// Needs implements [driver.LibraryUser].
func (p provider) Needs() string { return strings.TrimSuffix(p.ep.needs, ",") }
