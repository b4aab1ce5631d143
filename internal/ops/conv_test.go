package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// half16 converts numbers to float16.
func half16(v ...float32) []tensor.Float16 {
	r := make([]tensor.Float16, len(v))
	for i, x := range v {
		r[i] = tensor.NewFloat16(x)
	}
	return r
}

func TestConv(t *testing.T) {
	x, w := iota32(1, 1, 3, 3), optest.Tensor([]float32{1, 1, 1, 1}, 1, 1, 2, 2)
	for _, opset := range []int{1, 11, 22} {
		optest.Want(t, "Conv", opset, nil, optest.Tensor([]float32{12, 16, 24, 28}, 1, 1, 2, 2), x, w)
	}
	optest.Want(t, "Conv", 11, map[string]any{"auto_pad": "SAME_UPPER"},
		optest.Tensor([]float32{12, 16, 9, 24, 28, 15, 15, 17, 9}, 1, 1, 3, 3), x, w)
	optest.Want(t, "Conv", 11, map[string]any{"auto_pad": "SAME_LOWER", "kernel_shape": []int{2, 2}},
		optest.Tensor([]float32{1, 3, 5, 5, 12, 16, 11, 24, 28}, 1, 1, 3, 3), x, w)
	optest.Want(t, "Conv", 11, map[string]any{"strides": []int{2}, "pads": []int{1, 0}},
		optest.Tensor([]float64{11, 17}, 1, 1, 2),
		optest.Tensor([]float64{1, 2, 3}, 1, 1, 3), optest.Tensor([]float64{2, 1}, 1, 1, 2),
		optest.Tensor([]float64{10}, 1))
	optest.Want(t, "Conv", 22, nil, optest.Tensor(half16(9), 1, 1, 1), optest.Tensor(half16(1, 2), 1, 2, 1),
		optest.Tensor(half16(3, 3), 1, 2, 1))
	optest.Want(t, "Conv", 22, map[string]any{"group": 2}, optest.Tensor([]float32{2, 4, 9, 12}, 1, 2, 2),
		iota32(1, 2, 2), optest.Tensor([]float32{2, 3}, 2, 1, 1))
	optest.Want(t, "Conv", 22, nil, optest.Tensor([]float32{}, 0, 1, 2, 2), optest.Tensor([]float32{}, 0, 1, 3, 3), w)
	optest.Want(t, "Conv", 22, nil, optest.Tensor([]float32{5, 5}, 1, 1, 2), optest.Tensor([]float32{}, 1, 0, 2),
		optest.Tensor([]float32{}, 1, 0, 1), optest.Tensor([]float32{5}, 1))
	optest.Fail(t, "Conv", 22, map[string]any{"group": 0}, "group is 0", x, w)
	optest.Fail(t, "Conv", 22, map[string]any{"group": math.MinInt64}, "group is", x, w)
	optest.Fail(t, "Conv", 22, map[string]any{"group": 2}, "divisible by group 2", x, w)
	optest.Fail(t, "Conv", 22, nil, "channels", iota32(1, 2, 3, 3), w)
	optest.Fail(t, "Conv", 22, nil, "bias has shape", x, w, iota32(2))
	optest.Fail(t, "Conv", 22, map[string]any{"kernel_shape": []int{3, 3}}, "kernel_shape is", x, w)
	optest.Fail(t, "Conv", 22, map[string]any{"dilations": []int{0, 1}}, "dilations has the element 0", x, w)
	optest.Fail(t, "Conv", 22, nil, "kernel size is 0", x, optest.Tensor([]float32{}, 1, 1, 0, 2))
	optest.Fail(t, "Conv", 22, nil, "rank", iota32(3, 3), iota32(3, 3))
}

// drawWindow draws attributes of a convolution over n axes.
func drawWindow(rt *rapid.T, n int) map[string]any {
	ints := func(name string, k, lo, hi int) []int {
		return rapid.SliceOfN(rapid.IntRange(lo, hi), k, k).Draw(rt, name)
	}
	attrs := map[string]any{"strides": ints("strides", n, 1, 3), "dilations": ints("dilations", n, 1, 2)}
	if mode := rapid.SampledFrom([]string{"NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}).Draw(rt,
		"auto_pad"); mode != "NOTSET" {
		attrs["auto_pad"] = mode
	} else {
		attrs["pads"] = ints("pads", 2*n, 0, 3)
	}
	return attrs
}

// drawTensor draws positive numbers, so that sums do not cancel.
func drawTensor(rt *rapid.T, name string, shape ...int) *tensor.Tensor {
	seed := rapid.Uint32().Draw(rt, name)
	d := make([]float32, kit.Product(shape))
	for i := range d {
		seed = seed*1664525 + 1013904223
		d[i] = float32(seed>>8) / (1 << 24)
	}
	return optest.Tensor(d, shape...)
}

// This test checks that convolutions of every form give the same on both engines and have the
// inferred shape.
func TestConvolutionsAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := optest.Drawn(t, rt)
		n := rapid.IntRange(1, 3).Draw(rt, "axes")
		attrs := drawWindow(rt, n)
		group := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(rt, "group")
		cg, mg := rapid.IntRange(1, 4).Draw(rt, "cg"), rapid.IntRange(1, 5).Draw(rt, "mg")
		attrs["group"] = group
		x, w := []int{2, group * cg}, []int{group * mg, cg}
		for range n {
			x = append(x, rapid.IntRange(7, 12-n).Draw(rt, "size"))
			w = append(w, rapid.IntRange(1, 3).Draw(rt, "kernel"))
		}
		bias := drawTensor(rt, "b", w[0])
		if _, err := optest.Run(t, "Conv", 22, attrs, drawTensor(rt, "x", x...), drawTensor(rt, "w", w...),
			bias); err != nil {
			rt.Fatalf("%v of %v by %v: %v", attrs, x, w, err)
		}
	})
}

// TestConvOfPaddedPlanes checks convolutions of short rows, and of few channels and long rows: of
// several tiles, with groups, dilation and padding on some sides.
func TestConvOfPaddedPlanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, s := range []struct{ n, c, h, w, m, kh, kw, group, dilation, pad int }{
		{2, 3, 40, 40, 12, 12, 12, 1, 1, 1}, {1, 40, 5, 5, 3, 3, 3, 1, 1, 1}, {1, 4, 9, 17, 6, 2, 5, 2, 1, 0}, {3, 2, 12, 11, 4, 3, 3, 1, 2, 2}, {1, 2, 1, 30, 2, 1, 4, 1, 1, 0}, {1, 6, 30, 64, 8, 5, 3, 1, 1, 1},
		{2, 3, 5, 600, 3, 3, 3, 1, 1, 1}, {1, 3, 7, 200, 3, 5, 3, 3, 2, 2}, {1, 1, 3, 140, 2, 3, 7, 1, 1, 1}, {2, 2, 1, 300, 4, 1, 9, 2, 1, 1},
	} {
		numbers := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.IntN(17) - 8)
			}
			return x
		}
		attrs := map[string]any{"group": s.group, "dilations": []int{s.dilation, s.dilation},
			"pads": []int{s.pad, 0, 0, s.pad}}
		if _, err := optest.Run(t, "Conv", 22, attrs, optest.Tensor(numbers(s.n*s.c*s.h*s.w), s.n, s.c, s.h, s.w),
			optest.Tensor(numbers(s.m*s.c/s.group*s.kh*s.kw), s.m, s.c/s.group, s.kh, s.kw),
			optest.Tensor(numbers(s.m), s.m)); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestConvOfManyTiles(t *testing.T) {
	x, w := iota32(1, 40, 40, 40), iota32(40, 40, 3, 3)
	for _, s := range [][]float32{tensor.MustData[float32](x), tensor.MustData[float32](w)} {
		for i := range s {
			s[i] = float32(i%31) / 31
		}
	}
	if _, err := optest.Run(t, "Conv", 22, map[string]any{"pads": []int{1, 1, 1, 1}}, x, w); err != nil {
		t.Error(err)
	}
}
