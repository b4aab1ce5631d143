package ort_test

import (
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// TestDifferencesOccur runs cases under the conditions of docs/differences.md. For each
// operator of an entry some result must differ from that of ONNX Runtime. The test logs
// how many results agree although the condition holds.
func TestDifferencesOccur(t *testing.T) {
	ort := config(t, "graph_optimization_level", "disable")
	seeds, err := opfuzz.Load("../..", suite.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range opfuzz.Differences {
		if d.Here != nil && !d.Here() {
			t.Logf("does not occur on this processor: %s", d.What)
			continue
		}
		for _, name := range d.Ops {
			var differ, agree, refused int
			for c := range d.Witnesses(name, seeds) {
				want, err := opfuzz.Run(c, onward.ProviderConfig{Name: "reference"}, 1)
				if err != nil {
					t.Fatal(err)
				}
				c.DeclareOutputs(want)
				theirs, err := opfuzz.Run(c, ort, 1)
				switch {
				case err != nil:
					refused++
				case opfuzz.Compare(c, want, theirs) != nil:
					differ++
				default:
					agree++
				}
				if differ > 0 && differ+agree >= 10 {
					break
				}
			}
			t.Logf("%4d differ, %4d agree, %4d refused by ONNX Runtime: %s: %s", differ, agree, refused, name, d.What)
			if differ == 0 {
				t.Errorf("%s: no result differs under %q", name, d.What)
			}
		}
	}
}
