package opset

import (
	"maps"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	_ "github.com/onward-ml/onward/internal/ops/all" // registers the operators
	"github.com/onward-ml/onward/internal/ops/kit"
)

// TestRegistryAgreesWithSchemas compares the optional and variadic inputs and outputs of each
// registered operator with ONNX's schema. Passes drop unused outputs that are optional.
func TestRegistryAgreesWithSchemas(t *testing.T) {
	for _, op := range slices.Sorted(maps.Keys(schemas())) {
		s, d := schemaOf(op, Last), kit.Registered("", op)
		if d == nil || s.deprecated {
			continue
		}
		same := func(kind string, got []ir.Param, want []param) {
			for i, w := range want {
				if i < len(got) && (got[i].Optional != w.optional || got[i].Variadic != w.variadic) {
					t.Errorf("%s %s of %s: optional %t and variadic %t, in ONNX %t and %t",
						kind, got[i].Name, op, got[i].Optional, got[i].Variadic, w.optional, w.variadic)
				}
			}
		}
		same("input", d.Signature().In, s.in)
		same("output", d.Signature().Out, s.out)
	}
}
