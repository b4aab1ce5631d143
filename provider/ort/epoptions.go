package ort

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/provider/internal/native"
)

// The types of options.
var (
	text, integer, count, size native.Kind = native.Text, native.Integer, native.Count, native.Size
	oneOf                                  = native.OneOf
)

// boolean accepts the spellings that ONNX Runtime's parsers accept. It returns True or
// False, which all of them accept: OpenVINO's parser rejects digits.
func boolean(s string) (string, error) {
	switch s {
	case "True", "true", "1":
		return "True", nil
	case "False", "false", "0":
		return "False", nil
	}
	return "", fmt.Errorf("%q is not a boolean, want True or False", s)
}

// positive accepts an integer from 1 to 2147483647.
func positive(s string) (string, error) {
	if n, err := strconv.ParseUint(s, 10, 31); err != nil || n == 0 {
		return "", fmt.Errorf("%q is not an integer from 1 to 2147483647", s)
	}
	return s, nil
}

// nonEmpty accepts text that is not empty.
func nonEmpty(s string) (string, error) {
	if s == "" {
		return "", errors.New("the value must not be empty")
	}
	return s, nil
}

// shapes accepts the shapes of a TensorRT profile: "input:1x3x224x224,mask:1x8". It
// rejects names with a colon: ONNX Runtime reads "input:0:1x3" as the shape 0 of "input"
// (MakeInputNameShapePair in tensorrt_execution_provider_utils.h).
func shapes(s string) (string, error) {
	for part := range strings.SplitSeq(s, ",") {
		name, shape, ok := strings.Cut(part, ":")
		if !ok || name == "" {
			return "", fmt.Errorf("%q is not a shape, want input:1x3x224x224, separated by commas", part)
		}
		if strings.Contains(shape, ":") {
			return "", fmt.Errorf("%q has more than one colon: ONNX Runtime's TensorRT provider does not support "+
				"profiles for inputs with a colon in their name; rename the input", part)
		}
		for d := range strings.SplitSeq(shape, "x") {
			if _, err := strconv.ParseUint(d, 10, 31); err != nil {
				return "", fmt.Errorf("%q in %q is not a dimension, want an integer from 0 to 2147483647", d, part)
			}
		}
	}
	return s, nil
}

var openVINODevice = regexp.MustCompile(`^(CPU|GPU|NPU)(\.[0-9]+)?(_FP16|_FP32)?$|^(AUTO|HETERO|MULTI|BATCH)(:[A-Z0-9.,()-]+)?$`)

// device accepts a device of OpenVINO. Releases before 1.19 expect the precision as a
// suffix of the name.
func device(s string) (string, error) {
	if !openVINODevice.MatchString(s) {
		return "", fmt.Errorf(
			"%q is not a device, want CPU, GPU, NPU, GPU.1 or AUTO:GPU,CPU (also HETERO, MULTI, BATCH)", s)
	}
	return s, nil
}

// unchecked is the prefix of options that are passed on without a check.
const unchecked = "unchecked:"

// The options of the execution providers with their types, as of ONNX Runtime 1.31
// (OpenVINO: 1.24).
var (
	// https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html
	cudaOptions = map[string]native.Kind{
		"device_id": count, "gpu_mem_limit": size,
		"arena_extend_strategy":  oneOf("kNextPowerOfTwo", "kSameAsRequested"),
		"cudnn_conv_algo_search": oneOf("EXHAUSTIVE", "HEURISTIC", "DEFAULT"), "cudnn_conv_use_max_workspace": boolean,
		"cudnn_conv1d_pad_to_nc1d": boolean, "do_copy_in_default_stream": boolean, "enable_cuda_graph": boolean,
		"enable_skip_layer_norm_strict_mode": boolean, "tunable_op_enable": boolean,
		"tunable_op_tuning_enable":          boolean,
		"tunable_op_max_tuning_duration_ms": count, "prefer_nhwc": boolean, "use_ep_level_unified_stream": boolean,
		"use_tf32": boolean, "fuse_conv_bias": boolean, "sdpa_kernel": count, "user_compute_stream": size,
		"has_user_compute_stream": boolean,
		"gpu_external_alloc":      size, "gpu_external_free": size, "gpu_external_empty_cache": size,
		"enable_cudnn": boolean,
	}
	// https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html
	tensorRTOptions = map[string]native.Kind{
		"device_id": count, "user_compute_stream": size, "has_user_compute_stream": boolean,
		"trt_max_partition_iterations": positive, "trt_min_subgraph_size": positive, "trt_max_workspace_size": size,
		"trt_fp16_enable": boolean, "trt_bf16_enable": boolean, "trt_int8_enable": boolean,
		"trt_int8_calibration_table_name":       nonEmpty,
		"trt_int8_use_native_calibration_table": boolean, "trt_dla_enable": boolean, "trt_dla_core": count,
		"trt_dump_subgraphs": boolean, "trt_engine_cache_enable": boolean, "trt_engine_cache_path": nonEmpty,
		"trt_engine_cache_prefix":      text,
		"trt_engine_decryption_enable": boolean, "trt_engine_decryption_lib_path": nonEmpty,
		"trt_force_sequential_engine_build": boolean,
		"trt_context_memory_sharing_enable": boolean, "trt_layer_norm_fp32_fallback": boolean,
		"trt_timing_cache_enable": boolean,
		"trt_timing_cache_path":   nonEmpty, "trt_force_timing_cache": boolean, "trt_detailed_build_log": boolean,
		"trt_build_heuristics_enable": boolean,
		"trt_sparsity_enable":         boolean, "trt_builder_optimization_level": oneOf("0", "1", "2", "3", "4", "5"),
		"trt_auxiliary_streams": integer,
		"trt_tactic_sources":    text, "trt_extra_plugin_lib_paths": text, "trt_profile_min_shapes": shapes,
		"trt_profile_max_shapes": shapes,
		"trt_profile_opt_shapes": shapes, "trt_cuda_graph_enable": boolean, "trt_dump_ep_context_model": boolean,
		"trt_ep_context_file_path":  text,
		"trt_ep_context_embed_mode": oneOf("0", "1"), "trt_weight_stripped_engine_enable": boolean,
		"trt_onnx_model_folder_path": text,
		"trt_engine_hw_compatible":   boolean, "trt_op_types_to_exclude": text, "trt_preview_features": text,
		"trt_load_user_initializer": boolean,
		"trt_onnx_bytestream":       size, "trt_onnx_bytestream_size": size, "trt_external_data_bytestream": size,
		"trt_external_data_bytestream_size": size,
	}
	// https://onnxruntime.ai/docs/execution-providers/OpenVINO-ExecutionProvider.html
	openVINOOptions = map[string]native.Kind{
		"device_type": device, "device_id": text, "device_luid": text, "precision": oneOf("FP32", "FP16", "ACCURACY"),
		"num_of_threads": positive,
		"num_streams":    positive, "cache_dir": text, "load_config": text, "context": text,
		"enable_opencl_throttling": boolean,
		"disable_dynamic_shapes":   boolean, "enable_qdq_optimizer": boolean,
		"model_priority": oneOf("LOW", "MEDIUM", "HIGH", "DEFAULT"),
		"layout":         text, "reshape_input": text, "enable_causallm": boolean,
	}
)

// ownOption returns the name and type under which an option that no table lists is passed
// to the execution provider. It fails if the option is unknown and must be checked.
func (p provider) ownOption(option string, all map[string]string) (string, native.Kind, error) {
	if own, ok := strings.CutPrefix(option, unchecked); ok && own != "" &&
		(p.ep.title != "" || all[namedProvider] != "") {
		return own, text, nil
	}
	if all[namedProvider] != "" {
		return option, text, nil
	}
	if p.ep.title != "" {
		return "", nil, native.Invalid(
			"Invalid %s EP option: %s\n%s has %s; %s%s passes on an option of a newer release.",
			p.ep.title, option, p.name,
			strings.Join(slices.Sorted(maps.Keys(p.ep.options)), ", "), unchecked, option)
	}
	return "", nil, native.Invalid("provider %s has no option %q; it has %s", p.name, option,
		strings.Join(slices.Sorted(maps.Keys(commonOptions)), ", "))
}
