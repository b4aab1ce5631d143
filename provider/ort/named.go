package ort

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
)

// The options for execution providers without a registered provider: those that ONNX
// Runtime adds by name, and plug-ins.
const (
	namedProvider = "execution_provider"
	pluginLibrary = "execution_provider_library"
	pluginDevice  = "execution_provider_device"
)

// hardware maps names to the values of OrtHardwareDeviceType.
var hardware = map[string]uintptr{"cpu": 0, "gpu": 1, "npu": 2}

// checkNamed checks that the options of named execution providers are consistent.
func (p provider) checkNamed(s *settings) error {
	name, library, on := s.common[namedProvider], s.common[pluginLibrary], s.common[pluginDevice]
	switch {
	case name == "" && p.ep.pkg != "":
		return nil
	case name == "" && (library != "" || on != ""):
		return native.Invalid("options %s and %s of provider %s need the option %s: the name of the execution provider",
			pluginLibrary, pluginDevice, p.name, namedProvider)
	case s.common[selectionPolicy] != "" && (p.ep != cpu || name != ""):
		return native.Invalid(
			"option %s is for the provider ort without the option %s: ONNX Runtime selects the execution provider",
			selectionPolicy, namedProvider)
	case name != "" && p.ep != cpu:
		return native.Invalid("provider %s has no option %q: it is for the provider ort", p.name, namedProvider)
	}
	if library == "" {
		for _, o := range []provider{{"ort:cuda", cuda}, {"ort:tensorrt", tensorRT}, {"ort:openvino", openVINO},
			{"ort:webgpu", webGPU}} {
			if name == o.ep.name {
				return native.Invalid("option %s of provider %s: %s is the provider %s", namedProvider,
					p.name, name, o.name)
			}
		}
	}
	return nil
}

// attachNamed adds an execution provider by name: for one of the devices that ONNX Runtime
// or a plug-in offers, otherwise by SessionOptionsAppendExecutionProvider.
func (r *library) attachNamed(o uintptr, s *settings, own map[string]string) error {
	name, plugin := s.common[namedProvider], s.common[pluginLibrary]
	if s.ep.pkg != "" {
		name, plugin = s.ep.name, s.ep.plugin(r, plugin)
	}
	if plugin != "" {
		if err := r.register(name, plugin); err != nil {
			return err
		}
	}
	k, v := cOptions(own)
	n := uintptr(len(own))
	if r.api >= sinceDevices {
		d, offered, err := r.deviceOf(name, s.common[pluginDevice])
		if err != nil {
			return err
		}
		if d != 0 {
			list := []uintptr{d}
			return r.do(fnAppendDevices, o, r.env, uintptr(unsafe.Pointer(&list[0])), 1, uintptr(dl.Array(k)),
				uintptr(dl.Array(v)), n)
		}
		if plugin != "" || s.common[pluginDevice] != "" {
			return native.Invalid("execution provider %s has no such device; available are %s", name,
				strings.Join(offered, ", "))
		}
	} else if s.common[pluginDevice] != "" {
		return native.Invalid("option %s needs ONNX Runtime 1.%d or later, %s has version %s", pluginDevice,
			sinceDevices, r.Path, r.version)
	}
	if name == webGPU.name {
		name = "WebGPU" // the only name that releases before 1.24 take
	}
	return r.do(fnAppendNamed, o, uintptr(unsafe.Pointer(dl.CString(name))), uintptr(dl.Array(k)),
		uintptr(dl.Array(v)), n)
}

// register loads the library of a plug-in execution provider unless it is loaded already.
func (r *library) register(name, path string) error {
	if r.api < sinceDevices {
		return native.Invalid("option %s needs ONNX Runtime 1.%d or later, %s has version %s", pluginLibrary,
			sinceDevices, r.Path, r.version)
	}
	r.plugins.Lock()
	defer r.plugins.Unlock()
	old := r.plugins.m[name]
	if slices.Contains(old, path) {
		return nil
	}
	file, err := r.pluginFile(path)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if old != nil && old[0] != file {
		return native.Invalid("execution provider %s is registered from %s already and cannot be registered from %s",
			name, old[0], file)
	}
	if old == nil {
		if err := r.do(fnRegisterExecutionProviderLibrary, r.env, uintptr(unsafe.Pointer(dl.CString(name))),
			uintptr(pathArg(file))); err != nil {
			return fmt.Errorf("library %s of execution provider %s: %w", path, name, err)
		}
		old = []string{file}
	}
	if r.plugins.m == nil {
		r.plugins.m = map[string][]string{}
	}
	r.plugins.m[name] = append(old, path)
	return nil
}

// deviceOf returns the first device of an execution provider with the given kind ("" for
// any), or 0 and the devices that are available.
func (r *library) deviceOf(name, kind string) (uintptr, []string, error) {
	var list, n uintptr
	if err := r.do(fnGetEpDevices, r.env, uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&n))); err != nil {
		return 0, nil, err
	}
	var offered []string
	for i := range n {
		d := *(*uintptr)(dl.Pointer(list + i*ptrSize))
		ep := dl.String(dl.Call(r.address(fnEpDeviceEpName), d))
		typ := uint32(dl.Call(r.address(fnHardwareDeviceType), dl.Call(r.address(fnEpDeviceDevice), d)))
		if ep == name && (kind == "" || uintptr(typ) == hardware[kind]) {
			return d, nil, nil
		}
		for k, t := range hardware {
			if t == uintptr(typ) {
				ep += " (" + k + ")"
			}
		}
		offered = append(offered, ep)
	}
	slices.Sort(offered)
	return 0, slices.Compact(offered), nil
}
