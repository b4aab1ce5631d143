package ort

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
)

// TestExecutionProviderOptions checks options without a library.
func TestExecutionProviderOptions(t *testing.T) {
	for _, c := range []struct{ provider, name, value, got, err string }{
		{"ort:tensorrt", "trt_fp16_enable", "true", "True", ""},
		{"ort:tensorrt", "trt_fp16_enable", "True", "True", ""},
		{"ort:tensorrt", "trt_int8_enable", "false", "False", ""},
		{"ort:tensorrt", "trt_int8_enable", "0", "False", ""},
		{"ort:tensorrt", "trt_int8_enable", "yes", "", `option trt_int8_enable of provider ort:tensorrt: "yes" is not a boolean, want True or False`},
		{"ort:tensorrt", "trt_int8_enable", "TRUE", "", "not a boolean"},
		{"ort:tensorrt", "trt_int8_enable", "", "", "not a boolean"},
		{"ort:tensorrt", "trt_log_level", "1", "", "Invalid TensorRT EP option: trt_log_level\n"},
		{"ort:tensorrt", "unchecked:trt_log_level", "1", "1", ""},
		{"ort:tensorrt", "unchecked:", "1", "", "Invalid TensorRT EP option: unchecked:"},
		{"ort:tensorrt", "device_id", "-1", "", "not an integer from 0"},
		{"ort:tensorrt", "device_id", "3000000000", "", "not an integer from 0"},
		{"ort:tensorrt", "trt_max_workspace_size", "4294967296", "4294967296", ""},
		{"ort:tensorrt", "trt_max_workspace_size", "1GB", "", "not a number of bytes"},
		{"ort:tensorrt", "trt_min_subgraph_size", "0", "", "from 1 to"},
		{"ort:tensorrt", "trt_max_partition_iterations", "1000", "1000", ""},
		{"ort:tensorrt", "trt_builder_optimization_level", "6", "", "is not one of 0, 1"},
		{"ort:tensorrt", "trt_int8_calibration_table_name", "", "", "must not be empty"},
		{"ort:tensorrt", "trt_engine_cache_path", "a\x00b", "", "NUL"},
		{"ort:tensorrt", "trt_profile_min_shapes", "x:1x3,y:2", "x:1x3,y:2", ""},
		{"ort:tensorrt", "trt_profile_opt_shapes", "x:0:1x3", "", "more than one colon"},
		{"ort:tensorrt", "trt_profile_max_shapes", "x:1x", "", `"" in "x:1x" is not a dimension`},
		{"ort:tensorrt", "trt_profile_max_shapes", "x:1,", "", `"" is not a shape`},
		{"ort:tensorrt", "trt_profile_max_shapes", ":1", "", "is not a shape"},
		{"ort:cuda", "arena_extend_strategy", "ksameasrequested", "kSameAsRequested", ""},
		{"ort:cuda", "cudnn_conv_algo_search", "FAST", "", "is not one of EXHAUSTIVE, HEURISTIC, DEFAULT"},
		{"ort:cuda", "trt_fp16_enable", "True", "", "Invalid CUDA EP option: trt_fp16_enable"},
		{"ort:openvino", "device_type", "CPU", "CPU", ""},
		{"ort:openvino", "device_type", "CPU_FP32", "CPU_FP32", ""},
		{"ort:openvino", "device_type", "GPU.1", "GPU.1", ""},
		{"ort:openvino", "device_type", "AUTO:GPU,CPU", "AUTO:GPU,CPU", ""},
		{"ort:openvino", "device_type", "TPU", "", `"TPU" is not a device`},
		{"ort:openvino", "num_of_threads", "0", "", "from 1 to"},
		{"ort:openvino", "precision", "INT8", "", "is not one of FP32, FP16, ACCURACY"},
		{"ort:openvino", "cache_dir", "/tmp/x", "/tmp/x", ""},
		{"ort:openvino", "blob", "1", "", "Invalid OpenVINO EP option: blob"},
		{"ort:openvino", "execution_provider", "X", "", "is for the provider ort"},
		{"ort", "blob", "1", "", `provider ort has no option "blob"`},
		{"ort", "unchecked:blob", "1", "", "has no option"},
		{"ort", "execution_provider", "CUDAExecutionProvider", "", "CUDAExecutionProvider is the provider ort:cuda"},
		{"ort", "execution_provider_library", "x.so", "", "need the option execution_provider"},
		{"ort", "execution_provider_device", "tpu", "", "is not one of cpu, gpu, npu"},
	} {
		p := driver.Lookup(c.provider).(provider)
		config := onward.ProviderConfig{Name: c.provider, Options: map[string]string{c.name: c.value}}
		s, err := p.parse(&driver.Options{}, config)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s %s=%q: %v, want %s", c.provider, c.name, c.value, err, c.err)
			}
			if again := p.Available(config); again == nil || again.Error() != err.Error() {
				t.Errorf("%s %s=%q: Available: %v", c.provider, c.name, c.value, again)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s=%q: %v", c.provider, c.name, c.value, err)
			continue
		}
		if got := s.own[strings.TrimPrefix(c.name, unchecked)]; got != c.got {
			t.Errorf("%s %s=%q: passed on as %q, want %q", c.provider, c.name, c.value, got, c.got)
		}
	}
	p := driver.Lookup("ort").(provider)
	const rounding = "mlas.enable_gemm_fastmath_arm64_bfloat16"
	for precision, want := range map[driver.Precision]string{driver.PrecisionFloat32: "",
		driver.PrecisionBFloat16: "1"} {
		if s, err := p.parse(&driver.Options{Precision: precision}, onward.ProviderConfig{}); err != nil ||
			s.entries[rounding] != want {
			t.Errorf("precision %s: %s is %q, want %q (%v)", precision, rounding, s.entries[rounding], want, err)
		}
	}
	s, err := p.parse(&driver.Options{},
		onward.ProviderConfig{Options: map[string]string{"execution_provider": "XNNPACK", "intra_op_num_threads": "2",
			"anything": "x"}})
	if err != nil || s.own["anything"] != "x" || s.common["intra_op_num_threads"] != "2" ||
		s.common[namedProvider] != "XNNPACK" {
		t.Errorf("a named execution provider: %+v, %v", s, err)
	}
}
