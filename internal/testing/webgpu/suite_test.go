package webgpu_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/scores"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// differ are the cases in which ONNX Runtime 1.30 with its WebGPU provider differs from the
// suite. What the provider does not support runs on the CPU provider.
var differ = []scores.Class{
	{Why: "rounding noise of transforms", Match: regexp.MustCompile(`^test_(dft|stft)(_|$)`)},
	{Why: "the precision of exponentials in shaders", Match: regexp.MustCompile(`^test_mish(_expanded)?$`)},
	{Why: "the borders of two resizes", Match: regexp.MustCompile(`^test_resize_downsample_scales_(cubic|linear)_align_corners$`)},
	{Why: "the indices of unpooled values", Match: regexp.MustCompile(`^test_maxunpool_export_with_output_shape$`)},
	{Why: "Dropout without a seed", Match: regexp.MustCompile(`^test_training_dropout`)},
	{Why: "the finite number that attention is masked with", Match: regexp.MustCompile(`^test_attention_4d_with_past_and_present_qk_matmul_bias_[34]d_mask_causal$`)},
}

// refused are the cases that give an error.
var refused = []scores.Class{
	{Why: "no kernel for the type or the old version", Match: regexp.MustCompile(`(?s)Provider type for \w+ node|Failed to find kernel`)},
	{Why: "opset 27", Match: regexp.MustCompile(`Opset \d+ is under development`)},
	{Why: "operators that ONNX Runtime lacks", Match: regexp.MustCompile(`is not a registered function/op`)},
	{Why: "locales that are not installed", Match: regexp.MustCompile(`string_normalizer`)},
	{Why: "reductions of empty tensors", Match: regexp.MustCompile(`test_reduce_(min|max)_empty_set: .*Input tensor cannot be null or empty`)},
	{Why: "attributes of Resize", Match: regexp.MustCompile(`test_resize_.*NOT_IMPLEMENTED`)},
	{Why: "zero points per channel", Match: regexp.MustCompile(`test_convinteger_with_padding: .*Non per-tensor quantization`)},
	{Why: "layout of recurrent operators", Match: regexp.MustCompile(`test_(gru|lstm|simple_rnn)_batchwise: `)},
	{Why: "cases that are left out: they end the process", Match: regexp.MustCompile(`matched exclude pattern`)},
	{Why: "training mode", Match: regexp.MustCompile(`^test_batchnorm_`)},
	{Why: "a mask for more keys than there are", Match: regexp.MustCompile(`^test_attention_4d_diff_heads_mask4d_padded_kv: `)},
}

// crashes are the cases that end the process by a segmentation fault on lavapipe: functions of
// attention in float16.
const crashes = `^test_attention_4d_(fp16|gqa_with_past_and_present_fp16)_expanded_`

// TestSuite runs the ONNX suite. Each case that does not pass is of a class.
func TestSuite(t *testing.T) {
	if os.Getenv("ONWARD_LONG") == "" {
		t.Skip("the suite takes minutes; `make test-devices` runs it")
	}
	builds["built in"](t)
	dir := suite.Dir(t)
	t.Setenv(ortlib.Env, ortlib.Path(t))
	r, err := scores.Run(t.Context(), dir, name, nil, []string{crashes})
	must(t, err)
	r.Check(t, 1715, differ, refused)
}
