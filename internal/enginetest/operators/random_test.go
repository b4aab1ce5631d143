package operators

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// TestRandomOperators compares cpu with reference on random cases of every operator. The
// flags -rapid.checks and -rapid.seed run more or other cases.
func TestRandomOperators(t *testing.T) {
	opfuzz.Reproducible(t, "30")
	data := ""
	if s, err := suite.Find(); err == nil {
		data = s.Dir
	}
	seeds, err := opfuzz.Load("../../..", data)
	if err != nil {
		t.Fatal(err)
	}
	var none []string
	for _, d := range kit.All() {
		name := kit.QualifiedName(d.Domain, d.Name)
		if d.Domain == "onward" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			compared := 0
			rapid.Check(t, func(t *rapid.T) {
				c := opfuzz.Draw(t, d, seeds)
				if c == nil {
					return
				}
				want, err := opfuzz.Run(c, onward.ProviderConfig{Name: "reference"}, 1)
				got, err2 := opfuzz.Run(c, onward.ProviderConfig{Name: "cpu"}, 2)
				for _, err := range []error{err, err2} {
					if err != nil && strings.Contains(err.Error(), "PANIC") {
						t.Fatalf("%v\n%s", err, c)
					}
				}
				if (err == nil) != (err2 == nil) {
					t.Fatalf("reference: %v\ncpu: %v\n%s", err, err2, c)
				}
				if err != nil {
					return
				}
				compared++
				if err := opfuzz.Compare(c, got, want); err != nil {
					t.Fatalf("cpu against reference: %v\n%s", err, c)
				}
			})
			if compared == 0 && !elsewhere[name] {
				none = append(none, name)
			}
		})
	}
	if len(none) > 0 && data != "" && !testing.Short() {
		t.Errorf("%d operators have no valid case: %s", len(none), strings.Join(none, ", "))
	}
}
