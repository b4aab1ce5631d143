package conv

import (
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestEqualFilters requires the same bits of all channels whose filters are the same, also of those
// in a panel whose last eight channels are padding.
func TestEqualFilters(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		const cin, cout, h, w = 300, 40, 3, 13
		r := rand.New(rand.NewPCG(14, 14))
		filter := random(r, cin)
		var filters []float32
		for range cout {
			filters = append(filters, filter...)
		}
		in, out := NewLayout(cin, h, w, 0, 0, 0, 0), NewLayout(cout, h, w, 0, 0, 0, 0)
		x, y := make([]float32, in.Len()), make([]float32, out.Len())
		in.FromNCHW(l, x, random(r, cin*h*w), 0, in.Blocks())
		d := &Direct{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
			Weights: PackWeights(l, filters, nil, cin, cout, 1, 1, 1)}
		d.Run(l, nil, y, x, &BlockedEpilogue{})
		got := make([]float32, cout*h*w)
		out.ToNCHW(l, got, y, 0, out.Blocks())
		for i, v := range got {
			if want := got[i%(h*w)]; v != want {
				t.Fatalf("channel %d, pixel %d: %g, channel 0 has %g", i/(h*w), i%(h*w), v, want)
			}
		}
	})
}
