package conv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
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

// TestPixelSums compares sums of one pixel over many channels, which are divided, with exact ones,
// and requires the same bits for any division of the work.
func TestPixelSums(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, c := range []struct{ cin, cout, parts int }{{1152, 48, 8}, {672, 28, 5}, {300, 10, 2}, {257, 64, 2},
			{255, 64, 2}, {200, 16, 1}, {1152, 65, 1}} {
			r := rand.New(rand.NewPCG(16, uint64(c.cin)))
			in, out := NewLayout(c.cin, 1, 1, 0, 0, 0, 0), NewLayout(c.cout, 1, 1, 1, 0, 0, 2)
			planar, weights, bias := random(r, c.cin), random(r, c.cin*c.cout), random(r, c.cout)
			x := make([]float32, in.Len())
			in.FromNCHW(l, x, planar, 0, in.Blocks())
			d := &Direct{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
				Weights: PackWeights(l, weights, bias, c.cin, c.cout, 1, 1, 1)}
			ep := &BlockedEpilogue{Act: gemm.Clip, Lo: -20, Hi: 25, Map: func(dst, src []float32, block int) {
				for i, v := range src {
					dst[i] = 2*v + float32(block)
				}
			}}
			if got := d.parts(ep); got != c.parts {
				t.Errorf("sums of %d channels are divided into %d parts, want %d", c.cin, got, c.parts)
			}
			var got [2][]float32
			for i, par := range []gemm.Par{nil, twoWays} {
				y := make([]float32, out.Len())
				d.Run(l, par, y, x, ep)
				got[i] = make([]float32, c.cout)
				out.ToNCHW(l, got[i], y, 0, out.Blocks())
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("%d channels: sums depend on how the work is divided", c.cin)
			}
			want := make([]float64, c.cout)
			for o := range want {
				sum := float64(bias[o])
				for i, v := range planar {
					sum += float64(v) * float64(weights[o*c.cin+i])
				}
				want[o] = 2*min(max(sum, -20), 25) + float64(o/Lanes)
			}
			near32(t, l.String(), got[0], want, 1e-3)
		}
	})
}
