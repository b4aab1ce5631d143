package kit

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestPoolPlanes compares pooling by whole planes with the loops over windows.
func TestPoolPlanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		two := func(name string, lo, hi int) []int {
			return []int{rapid.IntRange(lo, hi).Draw(t, name), rapid.IntRange(lo, hi).Draw(t, name)}
		}
		in, kernel := two("in", 1, 19), two("kernel", 1, 5)
		pads := append(two("pad", 0, 4), two("pad", 0, 4)...)
		w := Window{Kernel: kernel, Strides: two("stride", 1, 3), Dilations: two("dilation", 1, 3), Pads: pads}
		g, err := w.Resolve(in, kernel)
		if err != nil {
			t.Skip(err)
		}
		p := newMaxPlane(&g)
		if p == nil {
			t.Skip("by windows")
		}
		x := make([]float32, in[0]*in[1])
		for i := range x {
			x[i] = float32(rapid.IntRange(-99, 99).Draw(t, "x"))
		}
		if rapid.Bool().Draw(t, "NaN") {
			x[len(x)/2] = float32(math.NaN())
		}
		n := g.Out[0] * g.Out[1]
		highest, sum := make([]float32, n), make([]float32, n)
		p.run(highest, x)
		newSumPlane(&g).run(sum, x)
		for o := range n {
			m, s := float32(math.Inf(-1)), float32(0)
			for i := range kernel[0] {
				for j := range kernel[1] {
					a := o/g.Out[1]*g.Stride[0] + i*g.Dilation[0] - g.Before[0]
					b := o%g.Out[1]*g.Stride[1] + j*g.Dilation[1] - g.Before[1]
					if a >= 0 && b >= 0 && a < in[0] && b < in[1] {
						m, s = max(m, x[a*in[1]+b]), s+x[a*in[1]+b]
					}
				}
			}
			same := func(a, b float32) bool { return a == b || a != a && b != b }
			if !same(highest[o], m) || !same(sum[o], s) {
				t.Fatalf("%v: output %d is %v and %v, want %v and %v", g, o, highest[o], sum[o], m, s)
			}
		}
	})
}
