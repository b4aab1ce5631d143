package backendtest_test

import (
	"os"
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// wanted is the number of cases of each kind that must pass on each engine: all of the suite of
// ONNX 1.22.0.
var wanted = map[string]int{"OnnxBackendNodeModelTest": 1765, "OnnxBackendRealModelTest": 9,
	"OnnxBackendSimpleModelTest":           23,
	"OnnxBackendPyTorchConvertedModelTest": 82, "OnnxBackendPyTorchOperatorModelTest": 35}

// light matches the nine light models, which take a minute of processor time
// on the reference engine.
const light = `^test_(bvlc_alexnet|densenet121|inception_v[12]|resnet50|shufflenet|squeezenet|vgg19|zfnet512)`

// TestSuite runs the ONNX suite on both engines; on reference the light models only if ONWARD_LONG
// is set. On cpu every data set runs twice, because the memory of the second run is planned.
// ONWARD_CASES is a regular expression that selects cases by their name, such as test_conv, and
// ONWARD_PROVIDER selects an engine.
//
//	ONWARD_CASES='^test_(arg_)?max' go test ./backendtest -run TestSuite -v
func TestSuite(t *testing.T) {
	dir := suite.Dir(t)
	cases, provider := os.Getenv("ONWARD_CASES"), os.Getenv("ONWARD_PROVIDER")
	found, err := suite.Find()
	if err != nil {
		t.Fatal(err)
	}
	// An older suite, such as that of Debian's package, has fewer cases.
	whole := cases == "" && suite.Verify(found.Dir) == nil
	for _, b := range []backend.Provider{backend.Reference, backend.CPU} {
		if provider != "" && provider != b.Name() {
			continue
		}
		t.Run(b.Name(), func(t *testing.T) {
			o := backendtest.Options{Dir: dir, Devices: []string{"CPU"}, Runs: 1}
			if b == backend.CPU {
				o.Runs = 2
			}
			r, err := backendtest.New(b, &o)
			if err != nil {
				t.Fatal(err)
			}
			all := b == backend.CPU || os.Getenv("ONWARD_LONG") != ""
			if cases != "" {
				r.Include(cases)
			} else if !all {
				r.Exclude(light)
			}
			for category, c := range r.Run(t) {
				if n := wanted[category]; whole && (category != "OnnxBackendRealModelTest" || all) && c.Passed < n {
					t.Errorf("%s: %s, want at least %d passed", category, c, n)
				}
			}
		})
	}
}
