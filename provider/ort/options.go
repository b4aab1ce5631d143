package ort

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unsafe"

	"runtime"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
)

// The types of options. OpenVINO's execution provider takes no digits for booleans.
var (
	text, integer, count, size native.Kind = native.Text, native.Integer, native.Count, native.Size
	boolean                                = native.Boolean("True", "False")
	oneOf                                  = native.OneOf
)

// The options of the execution providers, with their types. One that is missing
// here is handed on, and ONNX Runtime refuses it or, when newer, knows it.
var (
	// https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html
	cudaOptions = map[string]native.Kind{
		"device_id": count, "gpu_mem_limit": size, "arena_extend_strategy": oneOf("kNextPowerOfTwo", "kSameAsRequested"),
		"cudnn_conv_algo_search": oneOf("EXHAUSTIVE", "HEURISTIC", "DEFAULT"), "cudnn_conv_use_max_workspace": boolean,
		"cudnn_conv1d_pad_to_nc1d": boolean, "do_copy_in_default_stream": boolean, "enable_cuda_graph": boolean,
		"enable_skip_layer_norm_strict_mode": boolean, "tunable_op_enable": boolean, "tunable_op_tuning_enable": boolean,
		"tunable_op_max_tuning_duration_ms": count, "prefer_nhwc": boolean, "use_ep_level_unified_stream": boolean,
		"use_tf32": boolean, "fuse_conv_bias": boolean, "sdpa_kernel": count, "user_compute_stream": size, "has_user_compute_stream": boolean,
	}
	// https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html
	tensorRTOptions = map[string]native.Kind{
		"device_id": count, "user_compute_stream": size, "has_user_compute_stream": boolean,
		"trt_max_partition_iterations": count, "trt_min_subgraph_size": count, "trt_max_workspace_size": size,
		"trt_fp16_enable": boolean, "trt_bf16_enable": boolean, "trt_int8_enable": boolean, "trt_int8_calibration_table_name": text,
		"trt_int8_use_native_calibration_table": boolean, "trt_dla_enable": boolean, "trt_dla_core": count,
		"trt_dump_subgraphs": boolean, "trt_engine_cache_enable": boolean, "trt_engine_cache_path": text, "trt_engine_cache_prefix": text,
		"trt_engine_decryption_enable": boolean, "trt_engine_decryption_lib_path": text, "trt_force_sequential_engine_build": boolean,
		"trt_context_memory_sharing_enable": boolean, "trt_layer_norm_fp32_fallback": boolean, "trt_timing_cache_enable": boolean,
		"trt_timing_cache_path": text, "trt_force_timing_cache": boolean, "trt_detailed_build_log": boolean, "trt_build_heuristics_enable": boolean,
		"trt_sparsity_enable": boolean, "trt_builder_optimization_level": oneOf("0", "1", "2", "3", "4", "5"), "trt_auxiliary_streams": integer,
		"trt_tactic_sources": text, "trt_extra_plugin_lib_paths": text, "trt_profile_min_shapes": text, "trt_profile_max_shapes": text,
		"trt_profile_opt_shapes": text, "trt_cuda_graph_enable": boolean, "trt_dump_ep_context_model": boolean, "trt_ep_context_file_path": text,
		"trt_ep_context_embed_mode": oneOf("0", "1"), "trt_weight_stripped_engine_enable": boolean, "trt_onnx_model_folder_path": text,
		"trt_engine_hw_compatible": boolean, "trt_op_types_to_exclude": text,
	}
	// https://onnxruntime.ai/docs/execution-providers/OpenVINO-ExecutionProvider.html
	openVINOOptions = map[string]native.Kind{
		"device_type": text, "precision": oneOf("FP32", "FP16", "ACCURACY"), "num_of_threads": count, "num_streams": count, "cache_dir": text,
		"load_config": text, "context": text, "enable_opencl_throttling": boolean, "disable_dynamic_shapes": boolean, "enable_qdq_optimizer": boolean,
		"model_priority": oneOf("LOW", "MEDIUM", "HIGH", "DEFAULT"), "layout": text, "reshape_input": text, "enable_causallm": boolean,
	}
)

// commonOptions are those of all providers of this package.
var commonOptions = map[string]native.Kind{
	"library": text, "graph_optimization_level": oneOf("none", "disable", "basic", "extended", "layout", "all"),
	"execution_mode": oneOf("sequential", "parallel"), "intra_op_num_threads": count, "inter_op_num_threads": count,
	"enable_mem_pattern": boolean, "enable_cpu_mem_arena": boolean, "log_severity_level": oneOf("0", "1", "2", "3", "4"),
	"optimized_model_filepath": text, "profile_file_prefix": text,
}

// levels are the values of GraphOptimizationLevel.
var levels = map[string]uintptr{"none": 0, "disable": 0, "basic": 1, "extended": 2, "layout": 3, "all": 99}

const freeDimension = "free_dimension:"

// settings are the options of one session, checked.
type settings struct {
	ep      *executionProvider
	common  map[string]string
	entries map[string]string // session configuration entries
	dims    map[string]int64  // free dimension overrides
	own     map[string]string // of the execution provider
	threads int
}

// parse sorts and checks the options.
func (p provider) parse(opts *onward.SessionOptions, config onward.ProviderConfig) (*settings, error) {
	s := &settings{ep: p.ep, common: map[string]string{}, entries: map[string]string{}, dims: map[string]int64{}, own: map[string]string{}, threads: opts.Threads}
	for name, value := range config.Options {
		into, check := s.own, p.ep.options[name]
		switch dim, isDim := strings.CutPrefix(name, freeDimension); {
		case isDim:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return nil, native.Invalid("option %s of provider %s: %q is no size of a dimension", name, p.name, value)
			}
			s.dims[dim] = n
			continue
		case commonOptions[name] != nil:
			into, check = s.common, commonOptions[name]
		case strings.Contains(name, "."):
			into, check = s.entries, text
		case check == nil && p.ep.options == nil:
			return nil, native.Invalid("provider %s has no option %q; it has %s", p.name, name, strings.Join(slices.Sorted(maps.Keys(commonOptions)), ", "))
		case check == nil:
			check = text
		}
		v, err := native.Check(p.name, name, value, check)
		if err != nil {
			return nil, err
		}
		into[name] = v
	}
	if s.common["graph_optimization_level"] == "" {
		s.common["graph_optimization_level"] = opts.OptimizationLevel.String()
	}
	return s, nil
}

// sessionOptions makes ONNX Runtime's form of the settings; the caller releases
// it.
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
	threads := uintptr(s.threads)
	if s.common["intra_op_num_threads"] != "" {
		threads = number("intra_op_num_threads")
	}
	if err := r.do(fnSetIntraOpNumThreads, o, threads); err != nil {
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
	pattern, arena, level := fnEnableMemPattern, fnEnableCPUMemArena, uintptr(4)
	if s.common["enable_mem_pattern"] == "False" {
		pattern = fnDisableMemPattern
	}
	if s.common["enable_cpu_mem_arena"] == "False" {
		arena = fnDisableCPUMemArena
	}
	if s.common["log_severity_level"] != "" {
		level = number("log_severity_level")
	}
	if err := r.do(pattern, o); err != nil {
		return 0, err
	}
	if err := r.do(arena, o); err != nil {
		return 0, err
	}
	if err := r.do(fnSetSessionLogSeverityLevel, o, level); err != nil {
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
		if err := r.do(fnAddSessionConfigEntry, o, uintptr(unsafe.Pointer(dl.CString(k))), uintptr(unsafe.Pointer(dl.CString(s.entries[k])))); err != nil {
			return 0, err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.dims)) {
		if err := r.do(fnAddFreeDimensionOverrideByName, o, uintptr(unsafe.Pointer(dl.CString(k))), uintptr(s.dims[k])); err != nil {
			return 0, err
		}
	}
	if err := r.attach(o, s.ep, s.own); err != nil {
		return 0, err
	}
	if s.ep == tensorRT && cuda.in(r) == nil {
		// What TensorRT does not take runs on the same device.
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

// attach adds an execution provider to session options. ONNX Runtime itself adds
// the CPU's behind all others.
func (r *library) attach(o uintptr, ep *executionProvider, options map[string]string) error {
	if ep.attach == 0 {
		return nil
	}
	var names, values []string
	for _, k := range slices.Sorted(maps.Keys(options)) {
		names, values = append(names, k), append(values, options[k])
	}
	k, v := dl.CStrings(names), dl.CStrings(values)
	n := uintptr(len(names))
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

// pathArg is a path as ONNX Runtime takes it: UTF-16 on Windows.
func pathArg(p string) unsafe.Pointer {
	if runtime.GOOS == "windows" {
		return unsafe.Pointer(&append(utf16.Encode([]rune(p)), 0)[0])
	}
	return unsafe.Pointer(dl.CString(p))
}
