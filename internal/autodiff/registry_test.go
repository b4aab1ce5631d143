package autodiff

import (
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Each gradient of the registry is stated in one way.
func TestGradientsOfTheRegistry(t *testing.T) {
	count := 0
	for _, d := range kit.All() {
		g := d.Gradient
		if g == nil {
			continue
		}
		count++
		ways := 0
		for _, set := range []bool{g.Rule != nil, g.Decompose != nil, g.Subgraphs} {
			if set {
				ways++
			}
		}
		if ways > 1 || ways == 0 && g != gradient.None || g.Outputs != 0 && g.Rule == nil {
			t.Errorf("%s states its gradient in %d ways", kit.QualifiedName(d.Domain, d.Name), ways)
		}
		if g.Subgraphs && controlFlow[d.Name] == nil {
			t.Errorf("%s has no rule for its subgraphs", d.Name)
		}
	}
	if count < 150 {
		t.Errorf("%d operators have a gradient, want 150 at least: is package all linked?", count)
	}
}
