package window

import "testing"

// TestIm2colPanels checks that columns after the last one are 0 up to the end of its panel, and
// that nothing else is written.
func TestIm2colPanels(t *testing.T) {
	g := Geometry{In: []int{7, 7}, Out: []int{7, 7}, Kernel: []int{3, 3}, Stride: []int{1, 1}, Dilation: []int{1, 1},
		Before: []int{1, 1}}
	const channels, ld, subnormal = 2, 96, 1e-40
	x := make([]float32, channels*7*7)
	for i := range x {
		x[i] = 1
	}
	for _, used := range []int{1, 31, 32, 33, 49} {
		dst := make([]float32, channels*9*ld)
		for i := range dst {
			dst[i] = subnormal
		}
		im2col(&g, dst, ld, x, channels, 0, used)
		for i, v := range dst {
			if written := i%ld < (used+31)/32*32; written && v == subnormal {
				t.Fatalf("%d outputs: element %d of row %d is not written", used, i%ld, i/ld)
			} else if !written && v != subnormal {
				t.Fatalf("%d outputs: element %d of row %d is %g", used, i%ld, i/ld, v)
			}
		}
	}
}
