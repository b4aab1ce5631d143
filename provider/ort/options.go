package ort

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unsafe"

	"runtime"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
)

// commonOptions are the options that all providers of this package have.
var commonOptions = map[string]native.Kind{
	"library": text, "graph_optimization_level": oneOf("none", "disable", "basic", "extended", "layout", "all"),
	"execution_mode": oneOf("sequential", "parallel"), "intra_op_num_threads": count, "inter_op_num_threads": count,
	"enable_mem_pattern": boolean, "enable_cpu_mem_arena": boolean,
	"log_severity_level":       oneOf("0", "1", "2", "3", "4"),
	"optimized_model_filepath": text, "profile_file_prefix": text, "custom_op_libraries": text,
	selectionPolicy: oneOf(policies...),
	namedProvider:   text, pluginLibrary: text, pluginDevice: oneOf("cpu", "gpu", "npu"),
}

// levels are the values of GraphOptimizationLevel.
var levels = map[string]uintptr{"none": 0, "disable": 0, "basic": 1, "extended": 2, "layout": 3, "all": 99}

const selectionPolicy = "provider_selection_policy"

// policies are the values of OrtExecutionProviderDevicePolicy in their order.
var policies = []string{"default", "prefer_cpu", "prefer_npu", "prefer_gpu", "max_performance", "max_efficiency",
	"min_overall_power"}

const freeDimension = "free_dimension:"

// settings are the checked options of one session.
type settings struct {
	ep      *executionProvider
	common  map[string]string
	entries map[string]string // session configuration entries
	dims    map[string]int64  // free dimension overrides
	own     map[string]string // options of the execution provider

	session *driver.Options
	logID   string // the session's ID in ONNX Runtime's log
}

// parse sorts and checks the options.
func (p provider) parse(opts *driver.Options, config driver.Config) (*settings, error) {
	s := &settings{ep: p.ep, common: map[string]string{}, entries: map[string]string{}, dims: map[string]int64{},
		own: map[string]string{}, session: opts}
	s.takeFields(opts)
	for name, value := range config.Options {
		into, check := s.own, p.ep.options[name]
		switch dim, isDim := strings.CutPrefix(name, freeDimension); {
		case isDim:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return nil, native.Invalid(
					"option %s of provider %s: %q is not a dimension, want a non-negative integer", name, p.name, value)
			}
			s.dims[dim] = n
			continue
		case commonOptions[name] != nil:
			into, check = s.common, commonOptions[name]
		case strings.Contains(name, "."):
			into, check = s.entries, text
		case check == nil:
			var err error
			if name, check, err = p.ownOption(name, config.Options); err != nil {
				return nil, err
			}
		}
		v, err := native.Check(p.name, name, value, check)
		if err != nil {
			return nil, err
		}
		into[name] = v
	}
	if err := p.checkNamed(s); err != nil {
		return nil, err
	}
	return s, nil
}

// sessionOptions creates OrtSessionOptions from the settings. The caller releases them.
func (r *library) sessionOptions(s *settings) (handle uintptr, err error) {
	if err := r.do(fnCreateSessionOptions, uintptr(unsafe.Pointer(&handle))); err != nil {
		return 0, err
	}
	o := handle
	defer func() {
		if err != nil {
			r.release(fnReleaseSessionOptions, o)
			handle = 0
		}
	}()
	number := func(name string) uintptr {
		n, _ := strconv.Atoi(s.common[name]) // checked by parse
		return uintptr(n)
	}
	if err := r.do(fnSetSessionGraphOptimizationLevel, o, levels[s.common["graph_optimization_level"]]); err != nil {
		return 0, err
	}
	if err := r.do(fnSetIntraOpNumThreads, o, number("intra_op_num_threads")); err != nil {
		return 0, err
	}
	if s.common["inter_op_num_threads"] != "" {
		if err := r.do(fnSetInterOpNumThreads, o, number("inter_op_num_threads")); err != nil {
			return 0, err
		}
	}
	if s.common["execution_mode"] == "parallel" {
		if err := r.do(fnSetSessionExecutionMode, o, 1); err != nil {
			return 0, err
		}
	}
	pattern, arena := fnEnableMemPattern, fnEnableCPUMemArena
	if s.common["enable_mem_pattern"] == "False" {
		pattern = fnDisableMemPattern
	}
	if s.common["enable_cpu_mem_arena"] == "False" {
		arena = fnDisableCPUMemArena
	}
	if err := r.do(pattern, o); err != nil {
		return 0, err
	}
	if err := r.do(arena, o); err != nil {
		return 0, err
	}
	if err := r.do(fnSetSessionLogSeverityLevel, o, number("log_severity_level")); err != nil {
		return 0, err
	}
	if err := r.setFields(o, s); err != nil {
		return 0, err
	}
	if p := s.common["optimized_model_filepath"]; p != "" {
		if err := r.do(fnSetOptimizedModelFilePath, o, uintptr(pathArg(p))); err != nil {
			return 0, err
		}
	}
	if p := s.common["profile_file_prefix"]; p != "" {
		if err := r.do(fnEnableProfiling, o, uintptr(pathArg(p))); err != nil {
			return 0, err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.entries)) {
		if err := r.do(fnAddSessionConfigEntry, o, uintptr(unsafe.Pointer(dl.CString(k))),
			uintptr(unsafe.Pointer(dl.CString(s.entries[k])))); err != nil {
			return 0, err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.dims)) {
		if err := r.do(fnAddFreeDimensionOverrideByName, o, uintptr(unsafe.Pointer(dl.CString(k))),
			uintptr(s.dims[k])); err != nil {
			return 0, err
		}
	}
	// A library reads the session configuration entries, so it is registered after them.
	for _, p := range filepath.SplitList(s.common["custom_op_libraries"]) {
		if err := r.do(fnRegisterCustomOpsLibrary, o, uintptr(pathArg(p))); err != nil {
			return 0, fmt.Errorf("library %s of custom operators: %w", p, err)
		}
	}
	if policy := s.common[selectionPolicy]; policy != "" {
		if r.api < sinceDevices {
			return 0, native.Invalid("option %s needs ONNX Runtime 1.%d or later, %s has version %s", selectionPolicy,
				sinceDevices, r.Path, r.version)
		}
		return handle, r.do(fnSetEpSelectionPolicy, o, uintptr(slices.Index(policies, policy)))
	}
	attach := r.attach
	if s.common[namedProvider] != "" || s.ep.pkg != "" {
		attach = func(o uintptr, _ *executionProvider, own map[string]string) error { return r.attachNamed(o, s, own) }
	}
	if err := attach(o, s.ep, s.own); err != nil {
		return 0, err
	}
	if s.ep == tensorRT && cuda.in(r, "") == nil {
		// Nodes that TensorRT does not support run on the same device.
		own := map[string]string{}
		if id, ok := s.own["device_id"]; ok {
			own["device_id"] = id
		}
		if err := r.attach(o, cuda, own); err != nil {
			return 0, err
		}
	}
	return handle, nil
}

// attach adds an execution provider to session options. ONNX Runtime itself appends the
// CPU execution provider as the last one.
func (r *library) attach(o uintptr, ep *executionProvider, options map[string]string) error {
	if ep.attach == 0 {
		return nil
	}
	k, v := cOptions(options)
	n := uintptr(len(options))
	if ep.create == 0 {
		return r.do(ep.attach, o, uintptr(dl.Array(k)), uintptr(dl.Array(v)), n)
	}
	var own uintptr
	if err := r.do(ep.create, uintptr(unsafe.Pointer(&own))); err != nil {
		return err
	}
	defer r.release(ep.free, own)
	if n > 0 {
		if err := r.do(ep.update, own, uintptr(dl.Array(k)), uintptr(dl.Array(v)), n); err != nil {
			return err
		}
	}
	return r.do(ep.attach, o, own)
}

// cOptions returns the keys and values of options as C strings, sorted by key.
func cOptions(options map[string]string) (keys, values []*byte) {
	var k, v []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		k, v = append(k, name), append(v, options[name])
	}
	return dl.CStrings(k), dl.CStrings(v)
}

// pathArg returns a path in the encoding that ONNX Runtime expects: UTF-16 on Windows,
// UTF-8 elsewhere.
func pathArg(p string) unsafe.Pointer {
	if runtime.GOOS == "windows" {
		return unsafe.Pointer(&append(utf16.Encode([]rune(p)), 0)[0])
	}
	return unsafe.Pointer(dl.CString(p))
}
