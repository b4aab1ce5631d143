package ort_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/recorded"
)

// An upstreamDifference names tests of ONNX Runtime 1.21 that fail.
type upstreamDifference struct {
	tests string // patterns of [path.Match], separated by spaces; a test's further runs are included
	why   string
}

func (d upstreamDifference) covers(c *recorded.Case) bool {
	name, _, _ := strings.Cut(c.Note, "/")
	for _, p := range strings.Fields(d.tests) {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// runUpstream returns why a case fails on a provider, nil if it passes.
func runUpstream(ctx context.Context, c *recorded.Case, p onward.ProviderConfig) error {
	m, feed, err := c.Model()
	if err != nil {
		return fmt.Errorf("case: %w", err)
	}
	s, err := onward.OpenModel(ctx, m, &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{p}})
	var got onward.Values
	if err == nil {
		defer s.Close()
		got, err = s.Run(ctx, feed, nil)
	}
	switch {
	case c.Fails == "":
		if err != nil {
			return err
		}
		return c.Check(m, got)
	case err == nil:
		return fmt.Errorf("no error, want one as ONNX Runtime's %q", c.Fails)
	case strings.Contains(err.Error(), "panic"):
		return err
	}
	return nil
}

// TestUpstream runs the operator tests of ONNX Runtime 1.21, which are recorded, on reference,
// cpu and ONNX Runtime 1.30. A test that fails must be one that docs/differences.md or one of
// the lists in this file explains. ONWARD_TRACE=1 prints every case that fails.
func TestUpstream(t *testing.T) {
	cases, err := recorded.LoadUpstream(cmp.Or(os.Getenv("CASES"),
		"../../internal/ops/all/testdata/ort_tests/cases.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	trace := os.Getenv("ONWARD_TRACE") != ""
	for _, p := range []struct {
		config onward.ProviderConfig
		known  []upstreamDifference
	}{
		{onward.ProviderConfig{Name: "reference"}, upstreamOurs},
		{onward.ProviderConfig{Name: "cpu"}, upstreamOurs},
		{onward.ProviderConfig{Name: "ort"}, upstreamTheirs},
	} {
		t.Run(p.config.Name, func(t *testing.T) {
			t.Parallel()
			if p.config.Name == "ort" {
				p.config.Options = map[string]string{"library": ortlib.Path(t)}
			}
			var passed, explained, unsupported int
			used := make([]int, len(p.known))
			for _, c := range cases {
				err := runUpstream(t.Context(), c, p.config)
				if trace && err != nil {
					t.Logf("%s (%s-%d): %v", c.Note, c.Op, c.Opset, err)
				}
				known := -1
				for i, d := range p.known {
					if d.covers(c) {
						known = i
					}
				}
				switch {
				case err == nil:
					passed++
				case known >= 0:
					used[known]++
				case p.config.Name == "ort" &&
					(errors.Is(err, onward.ErrNotImplemented) ||
						strings.Contains(err.Error(), "Failed to construct locale")):
					unsupported++
				case c.Graph == "" && explainedByDocument(t, c):
					explained++
				default:
					t.Errorf("%s (%s-%d): %v", c.Note, c.Op, c.Opset, err)
				}
			}
			for i, d := range p.known {
				if used[i] == 0 {
					t.Errorf("all cases of %q pass; remove them from the list", d.tests)
				}
				explained += used[i]
			}
			t.Logf("%d cases: %d passed, %d explained, %d not implemented", len(cases), passed, explained, unsupported)
		})
	}
}

func explainedByDocument(t *testing.T, c *recorded.Case) bool {
	d, err := opfuzz.FromRecorded(c)
	if err != nil {
		t.Fatal(err)
	}
	return opfuzz.Explained(d)
}

const mixedTypes = "ONNX Runtime 1.30 refuses scale and bias of another type than X too: it expands the node to one " +
	"with a negative axis of Flatten"

const squares = "the specification reduces over the empty set of axes, that is, squares each element; " +
	"so does ONNX Runtime 1.30"

const laxNorm = "ONNX Runtime 1.30 accepts rows of one element, and a scale that is broadcast"

const declaredShape = "the test declares an output of another shape, and cases have no declared outputs"

// upstreamOurs are tests that fail on our engines.
var upstreamOurs = []upstreamDifference{
	{"LayerNormTest.LayerNorm_Scale_Float16Input LayerNormTest.LayerNorm_Scale_Float16ScaleOutput " +
		"LayerNormTest.LayerNorm_Scale_Bias_Float16Input LayerNormTest.LayerNorm_Scale_Bias_Float16ScaleBiasOutput", mixedTypes},
	{"LayerNormTest.LayerNorm_InvalidNormSize LayerNormTest.LayerNorm_InvalidScaleBias", laxNorm},
	{"ArrayFeatureExtractorTest.InvalidInputEmptyY", "without indices, ours select no columns"},
	{"GatherBlockQuantizedOpTest.InvalidIndices", "ours return zeros for indices out of range, as ONNX Runtime 1.30 does for uint8, and later versions do for all types"},
	{"GatherBlockQuantizedOpTest.UnsupportedTypes", "ours accept bfloat16, which the operator's schema has, and 8-bit data in the layout of other types"},
	{"ResizeOpTest.NhwcResizeOpLinear*_uint8 ResizeOpTest.NhwcResizeOpLinear*_int8", "ONNX Runtime truncates integers of channels-last images; ours round them, as those of others"},
	{"ReductionOpTest.ReduceSumSquare_noop_axes_input_initializer_opset_18", squares},
	{"TensorOpTest.ReshapeWithEmptyInputAndDynamicShape", "of an empty input, ours replace a -1 that may be any number by 1"},
	{"Random.MultinomialGoodCase Random.MultinomialDefaultDType Random.Random*", "the specification names no generator, so that draws with the same seed differ"},
	{"TfIdfVectorizerTest.Int32_TF_onlyBigrams_Skip*_Empty_Dim*", declaredShape},
}

// upstreamTheirs are tests that fail on ONNX Runtime 1.30.
var upstreamTheirs = []upstreamDifference{
	{"LayerNormTest.LayerNorm_Scale_Float16Input LayerNormTest.LayerNorm_Scale_Float16ScaleOutput " +
		"LayerNormTest.LayerNorm_Scale_Bias_Float16Input LayerNormTest.LayerNorm_Scale_Bias_Float16ScaleBiasOutput", mixedTypes},
	{"ConvTransposeTest.ConvTranspose_?D_OutputShape_1 ConvTransposeTest.ConvTranspose_?D_OutputShape_1_group_2_for_transpose_path " +
		"ConvTransposeTest.ConvTranspose_2D_OutputShape_2 ConvTransposeTest.ConvTranspose_2D_OutputShapeWithBatchSize",
		"ONNX Runtime 1.30 no longer accepts an output_shape with batch and channels"},
	{"LayerNormTest.LayerNorm_InvalidNormSize LayerNormTest.LayerNorm_InvalidScaleBias", laxNorm},
	{"GatherBlockQuantizedOpTest.UnsupportedTypes", "ONNX Runtime 1.30 supports uint8"},
	{"Loop.SubgraphTypeOverride", "ONNX Runtime 1.30 no longer overrides the types that the body declares"},
	{"ReductionOpTest.ReduceSumSquare_noop_axes_input_initializer_opset_18", squares},
	{"Random.MultinomialDefaultDType", "the second run of the session draws other numbers"},
	{"TfIdfVectorizerTest.Int32_TF_onlyBigrams_Skip*_Empty_Dim*", declaredShape},
}
