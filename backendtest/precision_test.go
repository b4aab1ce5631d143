package backendtest_test

import (
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// TestLightModelsWithBFloat16 runs the light models with rounded operands, within a tolerance of a
// few units in the last place of bfloat16.
func TestLightModelsWithBFloat16(t *testing.T) {
	rtol, atol := 0.03, 0.003
	o := backendtest.Options{Dir: suite.Dir(t), Kinds: []string{"real"}, Devices: []string{"CPU"}, Runs: 2,
		Cases:   map[string]backendtest.CaseOptions{},
		Prepare: &backend.Options{Session: &onward.SessionOptions{Precision: onward.PrecisionBFloat16}}}
	for _, name := range []string{"bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50",
		"shufflenet", "squeezenet", "vgg19", "zfnet512"} {
		o.Cases["test_"+name] = backendtest.CaseOptions{Rtol: &rtol, Atol: &atol}
	}
	r, err := backendtest.New(backend.CPU, &o)
	if err != nil {
		t.Fatal(err)
	}
	r.Include(light)
	if c := r.Run(t)["OnnxBackendRealModelTest"]; c.Passed < len(o.Cases) {
		t.Errorf("%s, want %d passed", c, len(o.Cases))
	}
}
