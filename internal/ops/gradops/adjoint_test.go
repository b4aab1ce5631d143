package gradops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// dot returns the sum of the products of the elements.
func dot(a, b *tensor.Tensor) (sum float64) {
	x, y := tensor.MustData[float64](a), tensor.MustData[float64](b)
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// checkAdjoint compares <forward, g> with <x, backward>: the gradient of a linear operator is its
// transpose.
func checkAdjoint(t *testing.T, what string, forward, g, x, backward *tensor.Tensor) {
	t.Helper()
	if forward.Len() != g.Len() || x.Len() != backward.Len() {
		t.Fatalf("%s: shapes %v and %v, %v and %v", what, forward.Shape(), g.Shape(), x.Shape(), backward.Shape())
	}
	if a, b := dot(forward, g), dot(x, backward); math.Abs(a-b) > 1e-9*(1+math.Abs(a)) {
		t.Errorf("%s: <f(x), g> is %v, <x, f'(g)> is %v", what, a, b)
	}
}

func TestConvGradients(t *testing.T) {
	for i, c := range []struct {
		x, w  []int
		attrs optest.Attrs
	}{
		{[]int{2, 3, 7}, []int{4, 3, 3}, nil},
		{[]int{2, 3, 5, 6}, []int{4, 3, 2, 3}, optest.Attrs{"strides": []int{2, 1}, "pads": []int{1, 0, 1, 2}}},
		{[]int{1, 6, 7, 7}, []int{4, 3, 3, 3}, optest.Attrs{"group": 2, "dilations": []int{2, 1}}},
		{[]int{2, 5, 6, 6}, []int{10, 1, 3, 3}, optest.Attrs{"group": 5, "auto_pad": "SAME_UPPER",
			"strides": []int{2, 2}}},
		{[]int{1, 2, 3, 4, 3}, []int{2, 2, 2, 2, 2}, optest.Attrs{"pads": []int{1, 0, 1, 0, 1, 0}}},
		{[]int{1, 17, 4, 4}, []int{33, 17, 1, 1}, nil},
	} {
		x, w := normal(uint64(i), c.x...), normal(uint64(i)+50, c.w...)
		forward := plain(t, "Conv", 11, c.attrs, x, w)
		g := normal(uint64(i)+90, forward.Shape()...)
		what := fmt.Sprint(c)
		checkAdjoint(t, what, forward, g, x, plain(t, "onward.ConvInputGradient", 1, c.attrs, g, w, like(c.x...)))
		checkAdjoint(t, what, forward, g, w, plain(t, "onward.ConvWeightGradient", 1, c.attrs, g, x, like(c.w...)))
	}
	// Without padding, the gradient of the input is ConvTranspose.
	g, w := normal(1, 2, 4, 3, 3), normal(2, 4, 3, 3, 2)
	attrs := optest.Attrs{"strides": []int{2, 2}}
	want := plain(t, "ConvTranspose", 11, attrs, g, w)
	optest.Want(t, "onward.ConvInputGradient", 1, attrs, want, g, w, like(want.Shape()...))
	optest.Want(t, "onward.ConvInputGradient", 1, nil, like(0, 3, 5, 4), like(0, 4, 3, 3), w, like(0, 3, 5, 4))
	optest.Want(t, "onward.ConvWeightGradient", 1, nil, like(4, 3, 3, 2), like(0, 4, 3, 3), like(0, 3, 5, 4), w)
	bad := "the gradient has shape [2 4 3 3], want [2 4 4 5], the shape of the output"
	optest.Fail(t, "onward.ConvInputGradient", 1, nil, bad, g, w, like(2, 3, 6, 6))
	optest.Fail(t, "onward.ConvWeightGradient", 1, nil, bad, g, like(2, 3, 6, 6), w)
	optest.Fail(t, "onward.ConvWeightGradient", 1, optest.Attrs{"group": 3}, "group", g, like(2, 3, 5, 4), w)
}

func TestAveragePoolGradient(t *testing.T) {
	for i, c := range []struct {
		x     []int
		attrs optest.Attrs
	}{
		{[]int{2, 3, 7}, optest.Attrs{"kernel_shape": []int{3}}},
		{[]int{1, 17, 5, 6}, optest.Attrs{"kernel_shape": []int{2, 3}, "strides": []int{2, 1},
			"pads": []int{1, 0, 0, 2}}},
		{[]int{2, 2, 5, 5}, optest.Attrs{"kernel_shape": []int{3, 3}, "pads": []int{1, 1, 1, 1},
			"count_include_pad": 1}},
		{[]int{1, 2, 5, 5}, optest.Attrs{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}, "ceil_mode": 1}},
		{[]int{1, 1, 3, 4, 3}, optest.Attrs{"kernel_shape": []int{2, 2, 2}, "dilations": []int{1, 2, 1}}},
	} {
		x := normal(uint64(i), c.x...)
		forward := plain(t, "AveragePool", 19, c.attrs, x)
		g := normal(uint64(i)+90, forward.Shape()...)
		checkAdjoint(t, fmt.Sprint(c), forward, g, x, plain(t, "onward.AveragePoolGradient", 1, c.attrs, g,
			like(c.x...)))
	}
	attrs := optest.Attrs{"kernel_shape": []int{2}}
	optest.Want(t, "onward.AveragePoolGradient", 1, attrs, floats([]int{1, 1, 3}, 1, 3, 2),
		floats([]int{1, 1, 2}, 2, 4), like(1, 1, 3))
	optest.Want(t, "onward.AveragePoolGradient", 1, attrs, like(0, 1, 3), like(0, 1, 2), like(0, 1, 3))
	optest.Fail(t, "onward.AveragePoolGradient", 1, attrs, "want [1 1 3], the shape of the output", like(1, 1, 2),
		like(1, 1, 4))
	optest.Fail(t, "onward.AveragePoolGradient", 1, nil, "kernel_shape", like(1, 1, 2), like(1, 1, 3))
}

// TestGridSampleGrad compares derivatives with finite differences of GridSample, and the sums that
// go back with their transposes.
func TestGridSampleGrad(t *testing.T) {
	for i, c := range []struct {
		mode, padding string
		align         int
		x, grid       []int
	}{
		{"linear", "zeros", 0, []int{2, 3, 4, 5}, []int{2, 3, 2, 2}}, {"linear", "border", 1, []int{1, 1, 4, 5},
			[]int{1, 2, 2, 2}},
		{"linear", "reflection", 0, []int{1, 2, 3, 3}, []int{1, 4, 1, 2}}, {"cubic", "zeros", 1, []int{1, 2, 4, 4},
			[]int{1, 3, 1, 2}},
		{"cubic", "reflection", 0, []int{1, 1, 5, 4}, []int{1, 3, 2, 2}}, {"linear", "zeros", 1, []int{1, 2, 3, 3, 3},
			[]int{1, 2, 1, 1, 3}},
	} {
		what := fmt.Sprint(c)
		attrs := optest.Attrs{"mode": c.mode, "padding_mode": c.padding, "align_corners": c.align}
		x, grid := normal(uint64(i), c.x...), normal(uint64(i)+20, c.grid...)
		sample := func() *tensor.Tensor { return plain(t, "GridSample", 20, attrs, x, grid) }
		ordered := func(order int) optest.Attrs {
			return optest.Attrs{"mode": c.mode, "padding_mode": c.padding, "align_corners": c.align, "order": order}
		}
		if got := plain(t, "onward.GridSampleGrad", 1, ordered(0), x, grid); tensor.AllClose(got, sample(), 1e-9,
			1e-9) != nil {
			t.Errorf("%s: the derivative of order 0 is not GridSample", what)
		}
		r := len(c.x) - 2
		points := grid.Len() / c.grid[0] / r
		first := tensor.MustData[float64](plain(t, "onward.GridSampleGrad", 1, ordered(1), x, grid))
		for p := range grid.Len() {
			const h = 1e-6
			at := &tensor.MustData[float64](grid)[p]
			old := *at
			*at = old + h
			up := tensor.MustData[float64](sample())
			*at = old - h
			down := tensor.MustData[float64](sample())
			*at = old
			image, point, coordinate := p/r/points, p/r%points, p%r
			for ch := range c.x[1] {
				k := (image*c.x[1]+ch)*points + point
				want := (up[k] - down[k]) / (2 * h)
				if got := first[k*r+coordinate]; math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("%s: channel %d, coordinate %d: derivative %v, want %v", what, ch, p, got, want)
				}
			}
		}
		for order := range 3 {
			forward := plain(t, "onward.GridSampleGrad", 1, ordered(order), x, grid)
			g := normal(uint64(i)+60, forward.Shape()...)
			back := plain(t, "onward.GridSampleGradBack", 1, ordered(order), g, grid, like(c.x...))
			checkAdjoint(t, fmt.Sprint(what, order), forward, g, x, back)
		}
	}
	optest.Fail(t, "onward.GridSampleGrad", 1, optest.Attrs{"order": 7}, "attribute order is 7, want 0 to 6",
		like(1, 1, 2, 2), like(1, 1, 1, 2))
	optest.Fail(t, "onward.GridSampleGrad", 1, nil, "want one grid of 2 coordinates per image", like(1, 1, 2, 2),
		like(1, 1, 1, 3))
	optest.Fail(t, "onward.GridSampleGrad", 1, optest.Attrs{"padding_mode": "border"},
		"want at least one element per plane", like(1, 1, 0, 2), like(1, 1, 1, 2))
	optest.Fail(t, "onward.GridSampleGradBack", 1, nil, "X has shape [1 1 1 1], want [1 1 1 1 2]", like(1, 1, 1, 1),
		like(1, 1, 1, 2), like(1, 1, 2, 2))
}
