package openvino_test

import (
	"context"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/provider/openvino"
)

// class is a set of cases that do not pass, with their number.
type class struct {
	why  string
	cond *regexp.Regexp
	n    int
}

// deviates are the cases, by name, in which OpenVINO 2026.4 differs from the suite. Its
// Python package gives the same results.
var deviates = []class{
	{"float64 is computed in float32, and infinities are its largest number",
		regexp.MustCompile(`^test_cast(like)?_(DOUBLE_to_FLOAT|FLOAT16_to_DOUBLE|FLOAT_to_DOUBLE)(_expanded)?$|^test_operator_add|^test_reduce_max_empty_set$`), 14},
	{"casts to 8 and 4 bits do not saturate, and round otherwise",
		regexp.MustCompile(`^test_cast(like)?_(FLOAT|FLOAT16)_to_FLOAT(8E4M3FN|8E5M2|4E2M1)(_expanded)?$|^test_cast_e8m0_FLOAT(16)?_to_`), 20},
	{"transforms: rounding noise, a shape that is not squeezed, the axis",
		regexp.MustCompile(`^test_dft`), 10},
	{"recurrent layers with the batch first, and peepholes",
		regexp.MustCompile(`^test_(gru|lstm|simple_rnn)_batchwise$|^test_lstm_with_peepholes$`), 4},
	{"resizing: antialiasing, exclude_outside, aligned corners, keep_aspect_ratio_policy",
		regexp.MustCompile(`^test_resize_`), 12},
	{"the order of equal values", regexp.MustCompile(`^test_top_k_same_values`), 3},
	{"the finite number that attention is masked with", regexp.MustCompile(`^test_attention_4d_with_past_and_present_qk_matmul_bias_[34]d_mask_causal$`), 2},
	{"the rounding of halves", regexp.MustCompile(`^test_dynamicquantizelinear`), 2},
	{"repeats that are an input", regexp.MustCompile(`^test_tile$`), 1},
	{"Bernoulli without a seed, which the check of the case runs", regexp.MustCompile(`^test_bernoulli_seed$`), 1},
	{"a shape rounded up beyond the input", regexp.MustCompile(`^test_maxpool_2d_ceil_output_size_reduce_by_one$`), 1},
	{"an overlap that equals the threshold", regexp.MustCompile(`^test_nonmaxsuppression_iou_threshold_boundary$`), 1},
	{"the maximum of interpolated points", regexp.MustCompile(`^test_roialign_mode_max$`), 1},
	{"sums of numbers near float32's largest", regexp.MustCompile(`^test_squeezenet$`), 1},
}

// refused are the cases that give an error of status NOT_IMPLEMENTED, by its text.
var refused = []class{
	{"sequences, maps and optionals", regexp.MustCompile(`OpenVINO supports tensors only`), 29},
	{"outputs of strings", regexp.MustCompile(`which OpenVINO cannot return safely`), 23},
	{"types of 2 bits, and float8 without negative zero", regexp.MustCompile(`Unsupported data type (U?INT2|FLOAT8E[0-9]M[0-9]FNUZ)`), 70},
	{"operators and attributes that OpenVINO lacks", regexp.MustCompile(`Model wasn't fully converted`), 152},
	{"values whose rank the model does not say", regexp.MustCompile(`operation with dynamic rank`), 11},
	{"the plug-in lacks it", regexp.MustCompile(`unsupported src_prc: string|Unsupported operation of type: Convert`), 3},
}

// TestSuite runs the ONNX suite. Every case that does not pass belongs to a class, and no class is
// larger than it is known to be. Without ONWARD_LONG, it leaves out the cases of expanded
// functions, whose graphs take OpenVINO long to compile, so that fewer cases are refused.
// ONWARD_CASES selects cases by a regular expression.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the suite runs one model after the other")
	}
	dir := suite.Dir(t)
	t.Setenv(openvino.Env, openvinolib.Path(t))
	r, err := backendtest.New(backend.Provider("openvino"),
		&backendtest.Options{Dir: dir, Devices: []string{"CPU"}, Runs: 2,
			Prepare: &backend.Options{SkipCheck: true, Session: &onward.SessionOptions{Threads: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	cases, whole := os.Getenv("ONWARD_CASES"), os.Getenv("ONWARD_LONG") != ""
	least := 1553
	if cases != "" {
		r.Include(cases)
	} else if !whole {
		r.Exclude(`_expanded`)
		least = 1172
	}
	results, err := r.Results(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	differ, lack := make([]int, len(deviates)), make([]int, len(refused))
	find := func(classes []class, counts []int, s string) bool {
		for i, c := range classes {
			if c.cond.MatchString(s) {
				counts[i]++
				return true
			}
		}
		return false
	}
	for _, res := range results {
		switch res.Status {
		case backendtest.Failed:
			if !find(deviates, differ, res.Case) || cases != "" {
				t.Errorf("%s: %v", res.Name, res.Err)
			}
		case backendtest.Skipped:
			if left := !whole && strings.Contains(res.Case, "_expanded"); cases == "" && !left &&
				!find(refused, lack, res.Reason) {
				t.Errorf("%s is refused: %s", res.Name, res.Reason)
			}
		}
	}
	n := backendtest.Count(results)
	t.Log(n)
	if cases != "" {
		return
	}
	for what, of := range map[string]struct {
		classes []class
		counts  []int
		exact   bool
	}{
		// Another processor has other kernels, whose roundings can agree with the recorded results.
		"computed differently": {deviates, differ, false},
		"refused":              {refused, lack, whole},
	} {
		for i, c := range of.classes {
			t.Logf("%s: %d cases: %s", what, of.counts[i], c.why)
			if (of.counts[i] > c.n || of.exact && of.counts[i] < c.n) && runtime.GOARCH == "amd64" {
				t.Errorf("%s: %d cases, want %d: %s", what, of.counts[i], c.n, c.why)
			}
		}
	}
	if n.Passed < least && runtime.GOARCH == "amd64" {
		t.Errorf("%d cases passed, want at least %d", n.Passed, least)
	}
}
