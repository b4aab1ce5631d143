package all

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
)

// This test checks that a deprecated operator works up to the last opset that has it. Later,
// the error names its successor.
func TestDeprecatedOperators(t *testing.T) {
	for _, c := range []struct {
		name, successor string
		last            int
	}{{"Scatter", "ScatterElements", 10}, {"Upsample", "Resize", 9}} {
		if _, err := kit.Lookup("", c.name, c.last); err != nil {
			t.Errorf("%s in opset %d: %v", c.name, c.last, err)
		}
		for _, opset := range []int{c.last + 1, kit.MaxOpset[""]} {
			_, err := kit.Lookup("", c.name, opset)
			if err == nil || !strings.Contains(err.Error(), "is deprecated since opset") ||
				!strings.Contains(err.Error(), "use "+c.successor+" instead") {
				t.Errorf("%s in opset %d: error %v, want one that names %s", c.name, opset, err, c.successor)
			}
		}
		if d, err := kit.Lookup("", c.successor, c.last+1); err != nil || d == nil {
			t.Errorf("%s in opset %d: %v", c.successor, c.last+1, err)
		}
	}
}
