package backendtest_test

import (
	"os"
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/internal/testing/bindingtest"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// TestSuiteWithBinding runs the ONNX suite with bound inputs and outputs, on reference only if
// ONWARD_LONG is set. Results in memory of the caller equal those of Run, also in later runs.
// Random operators without a seed compute the same in every run with the same options.
func TestSuiteWithBinding(t *testing.T) {
	dir := suite.Dir(t)
	found, err := suite.Find()
	if err != nil {
		t.Fatal(err)
	}
	cases := os.Getenv("ONWARD_CASES")
	whole := cases == "" && suite.Verify(found.Dir) == nil
	providers := []string{"cpu"}
	if os.Getenv("ONWARD_LONG") != "" {
		providers = append(providers, "reference")
	}
	for _, p := range providers {
		t.Run(p, func(t *testing.T) {
			r, err := backendtest.New(backend.Provider(bindingtest.Register(p)),
				&backendtest.Options{Dir: dir, Devices: []string{"CPU"}, Runs: 1})
			if err != nil {
				t.Fatal(err)
			}
			if cases != "" {
				r.Include(cases)
			} else if p == "reference" {
				r.Exclude(light) // ten runs of each take minutes
			}
			for category, c := range r.Run(t) {
				if n := wanted[category]; whole && (category != "OnnxBackendRealModelTest" || p == "cpu") &&
					c.Passed < n {
					t.Errorf("%s: %s, want at least %d passed", category, c, n)
				}
			}
		})
	}
}
