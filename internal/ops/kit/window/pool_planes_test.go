package window

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestPoolPlanes compares pooling by whole planes with the loops over windows.
func TestPoolPlanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rank := rapid.IntRange(1, 3).Draw(t, "rank")
		draw := func(name string, lo, hi int) []int {
			return rapid.SliceOfN(rapid.IntRange(lo, hi), rank, rank).Draw(t, name)
		}
		in, kernel := draw("in", 1, 60>>rank), draw("kernel", 1, 5)
		pads := append(draw("pad", 0, 4), draw("pad", 0, 4)...)
		w := Window{Kernel: kernel, Strides: draw("stride", 1, 3), Dilations: draw("dilation", 1, 3), Pads: pads}
		w.AutoPad = rapid.SampledFrom([]string{"NOTSET", "SAME_UPPER"}).Draw(t, "auto_pad")
		if rapid.Bool().Draw(t, "apart") { // windows side by side, without padding
			w.Strides, w.Dilations, w.Pads = kernel, nil, nil
			for i, k := range kernel {
				in[i] = k * (1 + in[i]/k)
			}
			if rapid.Bool().Draw(t, "wide") { // a plane is pooled in several parts
				in[rank-1] *= 150
			}
		}
		g, err := w.Resolve(in, kernel)
		if err != nil {
			t.Skip(err)
		}
		p := newMaxPlane(&g)
		if p == nil {
			t.Skip("by windows")
		}
		x := make([]float32, kit.Product(in))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for i := range x {
			x[i] = float32(rng.IntN(199) - 99)
		}
		if rapid.Bool().Draw(t, "NaN") {
			x[len(x)/2] = float32(math.NaN())
		}
		n := kit.Product(g.Out)
		highest, sum := make([]float32, n), make([]float32, n)
		meter := &ir.Meter{C: optest.NewCall()}
		p.Run(meter, highest, x)
		newSumPlane(&g, false).Run(meter, sum, x)
		// Several planes give the same as one after another.
		const planes = 7
		many, got, want := make([]float32, planes*len(x)), make([]float32, planes*n), make([]float32, planes*n)
		for i := range many {
			many[i] = x[(i+i/len(x))%len(x)]
		}
		c := optest.NewCall()
		if err := p.Planes(c, &g, got, many, planes); err != nil {
			t.Fatal(err)
		}
		for k := range planes {
			p.Run(meter, want[k*n:][:n], many[k*len(x):][:len(x)])
		}
		for i, v := range want {
			if math.Float32bits(got[i]) != math.Float32bits(v) && !(v != v && got[i] != got[i]) {
				t.Fatalf("%v: output %d of several planes is %v, want %v", g, i, got[i], v)
			}
		}
		values := make([]float32, 0, g.Taps())
		PoolPlain(&g, meter, x, values, func(o int, values []float32) bool {
			m, s := float32(math.Inf(-1)), float32(0)
			for _, v := range values {
				m, s = max(m, v), s+v
			}
			same := func(a, b float32) bool { return a == b || a != a && b != b }
			if !same(highest[o], m) || !same(sum[o], s) {
				t.Fatalf("%v: output %d is %v and %v, want %v and %v", g, o, highest[o], sum[o], m, s)
			}
			return true
		})
	})
}
