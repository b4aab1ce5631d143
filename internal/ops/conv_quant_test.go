package ops

import (
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

func TestConvTranspose(t *testing.T) {
	x, w := iota32(1, 1, 2, 2), optest.Tensor([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
	full := optest.Tensor([]float32{1, 4, 4, 6, 20, 16, 9, 24, 16}, 1, 1, 3, 3)
	for _, opset := range []int{1, 11, 22} {
		optest.Want(t, "ConvTranspose", opset, nil, full, x, w)
	}
	one, k := iota32(1, 1, 2), optest.Tensor([]float32{1, 1, 1}, 1, 1, 3)
	optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}},
		optest.Tensor([]float32{1, 1, 3, 2, 2}, 1, 1, 5), one, k)
	optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}, "output_padding": []int{1}},
		optest.Tensor([]float32{1, 1, 3, 2, 2, 0}, 1, 1, 6), one, k)
	optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}, "pads": []int{1, 1}},
		optest.Tensor([]float32{1, 3, 2}, 1, 1, 3), one, k)
	optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}, "auto_pad": "SAME_UPPER"},
		optest.Tensor([]float32{1, 1, 3, 2}, 1, 1, 4), one, k)
	optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}, "auto_pad": "SAME_LOWER"},
		optest.Tensor([]float32{1, 3, 2, 2}, 1, 1, 4), one, k)
	optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}, "auto_pad": "VALID"},
		optest.Tensor([]float32{1, 1, 3, 2, 2}, 1, 1, 5), one, k)
	for _, shape := range [][]int{{7}, {1, 1, 7}} {
		optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}, "output_shape": shape},
			optest.Tensor([]float32{1, 1, 3, 2, 2, 0, 0}, 1, 1, 7), one, k)
	}
	optest.Want(t, "ConvTranspose", 11, map[string]any{"strides": []int{2}, "output_shape": []int{4}},
		optest.Tensor([]float64{2, 4, 3, 3}, 1, 1, 4),
		optest.Tensor([]float64{1, 2}, 1, 1, 2), optest.Tensor([]float64{1, 1, 1}, 1, 1, 3),
		optest.Tensor([]float64{1}, 1))
	optest.Want(t, "ConvTranspose", 22, map[string]any{"group": 2}, optest.Tensor([]float32{3, 8, 5, 12}, 1, 4, 1),
		optest.Tensor([]float32{1, 2}, 1, 2, 1), optest.Tensor([]float32{3, 8, 2.5, 6}, 2, 2, 1))
	optest.Want(t, "ConvTranspose", 22, nil, optest.Tensor([]float32{}, 0, 1, 3, 3),
		optest.Tensor([]float32{}, 0, 1, 2, 2), w)
	optest.Fail(t, "ConvTranspose", 22, map[string]any{"pads": []int{3, 3, 3, 3}}, "exceed", x, w)
	optest.Fail(t, "ConvTranspose", 22, nil, "channels", iota32(1, 2, 2, 2), w)
	optest.Fail(t, "ConvTranspose", 22, map[string]any{"output_shape": []int{2}}, "output_shape has 1", x, w)
	optest.Fail(t, "ConvTranspose", 22, map[string]any{"output_padding": []int{-1, 0}},
		"output_padding has the element -1", x, w)
}

func TestConvTransposesAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := optest.Drawn(t, rt)
		n := rapid.IntRange(1, 3).Draw(rt, "axes")
		attrs := drawWindow(rt, n)
		delete(attrs, "pads")
		group := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(rt, "group")
		cg, mg := rapid.IntRange(1, 4).Draw(rt, "cg"), rapid.IntRange(1, 5).Draw(rt, "mg")
		attrs["group"] = group
		if rapid.Bool().Draw(rt, "padding") {
			attrs["output_padding"] = rapid.SliceOfN(rapid.IntRange(0, 2), n, n).Draw(rt, "output_padding")
		}
		x, w := []int{2, group * cg}, []int{group * cg, mg}
		for range n {
			x = append(x, rapid.IntRange(1, 9-n).Draw(rt, "size"))
			w = append(w, rapid.IntRange(1, 3).Draw(rt, "kernel"))
		}
		if _, err := optest.Run(t, "ConvTranspose", 22, attrs, drawTensor(rt, "x", x...), drawTensor(rt, "w", w...),
			drawTensor(rt, "b", group*mg)); err != nil {
			rt.Fatalf("%v of %v by %v: %v", attrs, x, w, err)
		}
	})
}

func TestIntegerProducts(t *testing.T) {
	optest.Want(t, "ConvInteger", 10, map[string]any{"pads": []int{1, 0}}, optest.Tensor([]int32{1, 3}, 1, 1, 2),
		optest.Tensor([]uint8{2, 3}, 1, 1, 2), optest.Tensor([]uint8{1, 1}, 1, 1, 2), optest.Tensor([]uint8{1}))
	optest.Want(t, "ConvInteger", 10, nil, optest.Tensor([]int32{-6, 0}, 1, 2, 1),
		optest.Tensor([]int8{3, -1}, 1, 2, 1), optest.Tensor([]int8{-1, 1, 2, 2}, 2, 2, 1), nil,
		optest.Tensor([]int8{1, 2}, 2))
	optest.Fail(t, "ConvInteger", 10, nil, "zero point of the weights", optest.Tensor([]int8{3, -1}, 1, 2, 1),
		optest.Tensor([]int8{-1, 1, 2, 2}, 2, 2, 1), nil, optest.Tensor([]int8{1, 2, 3}, 3))
	scale := func(v ...float32) *tensor.Tensor { return optest.Tensor(v, len(v)) }
	optest.Want(t, "QLinearConv", 10, nil, optest.Tensor([]uint8{131, 255}, 1, 2, 1),
		optest.Tensor([]uint8{130, 140}, 1, 2, 1), scale(0.5), optest.Tensor([]uint8{128}),
		optest.Tensor([]int8{1, 2, 127, 127}, 2, 2, 1), scale(0.5, 1), optest.Tensor([]int8{0}), scale(2),
		optest.Tensor([]uint8{127}), optest.Tensor([]int32{4, 0}, 2))
	optest.Want(t, "QLinearConv", 10, nil, optest.Tensor([]int8{2, -50}, 1, 1, 2),
		optest.Tensor([]int8{5, -100}, 1, 1, 2), optest.Tensor([]float32{0.5}), optest.Tensor([]int8{0}),
		optest.Tensor([]int8{100}, 1, 1, 1), optest.Tensor([]float32{1}), optest.Tensor([]int8{99}),
		optest.Tensor([]float32{1}), optest.Tensor([]int8{0}), optest.Tensor([]int32{-1}, 1))

	a, b := optest.Tensor([]uint8{11, 7, 3, 10}, 2, 2), optest.Tensor([]uint8{1, 4, 2, 5}, 2, 2)
	optest.Want(t, "MatMulInteger", 10, nil, optest.Tensor([]int32{25, 79, 23, 62}, 2, 2), a, b)
	optest.Want(t, "MatMulInteger", 10, nil, optest.Tensor([]int32{-11, -23, -1, -7}, 2, 2), a, b,
		optest.Tensor([]uint8{12, 8}, 2), optest.Tensor([]uint8{0, 1}, 2))
	optest.Want(t, "MatMulInteger", 10, nil, optest.Tensor([]int32{-14, 14}, 2), optest.Tensor([]int8{-1, 2}, 2),
		optest.Tensor([]int8{0, 4, -7, 9}, 2, 2))
	optest.Want(t, "MatMulInteger", 10, nil, optest.Tensor([]int32{0, 4}, 2, 1, 1),
		optest.Tensor([]uint8{1, 4}, 2, 1, 1), optest.Tensor([]uint8{2}, 1, 1), optest.Tensor([]uint8{1, 2}, 2, 1, 1))
	optest.Fail(t, "MatMulInteger", 10, nil, "zero point of A has shape", a, b, optest.Tensor([]uint8{12, 8, 3}, 3))

	optest.Want(t, "QLinearMatMul", 10, nil, optest.Tensor([]uint8{127, 255}, 1, 2), optest.Tensor([]uint8{1, 2}, 1, 2),
		scale(0.5), optest.Tensor([]uint8{1}), optest.Tensor([]uint8{0, 255, 0, 255}, 2, 2), scale(1),
		optest.Tensor([]uint8{0}), scale(0.25), optest.Tensor([]uint8{127}))
	h := func(v float32) *tensor.Tensor { return optest.Tensor(half16(v), 1) }
	optest.Want(t, "QLinearMatMul", 21, nil, optest.Tensor([]int8{2, 0, 0, 1}, 2, 2),
		optest.Tensor([]int8{1, 0, 0, 1}, 2, 2), optest.Tensor(half16(2, 1), 2), optest.Tensor([]int8{0, 0}, 2),
		optest.Tensor([]int8{1, 0, 0, 2}, 2, 2), optest.Tensor(half16(1, 0.5), 2), optest.Tensor([]int8{0, 0}, 2), h(1),
		optest.Tensor([]int8{0}))
	f8 := func(v ...float32) []tensor.Float8E4M3FN {
		r := make([]tensor.Float8E4M3FN, len(v))
		for i, x := range v {
			r[i] = tensor.NewFloat8E4M3FN(x, true)
		}
		return r
	}
	optest.Want(t, "QLinearMatMul", 21, nil, optest.Tensor(f8(-5.5, 448), 1, 2), optest.Tensor(f8(1.5, 2), 1, 2),
		scale(1), optest.Tensor(f8(0), 1), optest.Tensor(f8(-1, 256, -2, 256), 2, 2), scale(1), optest.Tensor(f8(0), 1),
		scale(1), optest.Tensor(f8(0), 1))
}

// This test checks that 8-bit convolutions of every form give the same on both engines.
func TestByteConvolutionsAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := optest.Drawn(t, rt)
		n := rapid.IntRange(1, 3).Draw(rt, "axes")
		attrs := drawWindow(rt, n)
		group := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(rt, "group")
		cg, mg := rapid.IntRange(1, 5).Draw(rt, "cg"), rapid.IntRange(1, 40).Draw(rt, "mg")
		attrs["group"] = group
		x, w := []int{2, group * cg}, []int{group * mg, cg}
		for range n {
			x = append(x, rapid.IntRange(7, 12-n).Draw(rt, "size"))
			w = append(w, rapid.IntRange(1, 3).Draw(rt, "kernel"))
		}
		draw := func(name string, shape ...int) []uint8 {
			d := make([]uint8, kit.Product(shape))
			for i, v := range tensor.MustData[float32](drawTensor(rt, name, shape...)) {
				d[i] = uint8(256 * v)
			}
			return d
		}
		signed := func(b []uint8) []int8 {
			r := make([]int8, len(b))
			for i, v := range b {
				r[i] = int8(v)
			}
			return r
		}
		xs, ws, zero := draw("x", x...), draw("w", w...), draw("zero", w[0])
		var in []tensor.Value
		if rapid.Bool().Draw(rt, "signed x") {
			in = append(in, optest.Tensor(signed(xs), x...), nil, optest.Tensor(signed(zero[:1])))
		} else {
			in = append(in, optest.Tensor(xs, x...), nil, optest.Tensor(zero[:1]))
		}
		if rapid.Bool().Draw(rt, "signed w") {
			in[1] = optest.Tensor(signed(ws), w...)
			in = append(in, optest.Tensor(signed(zero), w[0]))
		} else {
			in[1] = optest.Tensor(ws, w...)
			in = append(in, optest.Tensor(zero, w[0]))
		}
		if _, err := optest.Run(t, "ConvInteger", 10, attrs, in...); err != nil {
			rt.Fatal(err)
		}
		scale := optest.Tensor([]float32{0.01})
		bias := make([]int32, w[0])
		for i := range bias {
			bias[i] = int32(zero[i]) - 100
		}
		q := []tensor.Value{in[0], scale, in[2], in[1], drawTensor(rt, "scale", w[0]), in[3], scale, in[2],
			optest.Tensor(bias, w[0])}
		if _, err := optest.Run(t, "QLinearConv", 10, attrs, q...); err != nil {
			rt.Fatal(err)
		}
		if cg > 1 || mg == 1 || mg > 4 {
			optest.PreparedExactly(t, "ConvInteger", attrs, []int{1, 3}, in...)
			optest.PreparedExactly(t, "QLinearConv", attrs, []int{3, 5}, q...)
		}
	})
}

// This test runs the packed kernels with windows that leave the input and with inputs without
// pixels.
func TestByteConvolutionEdges(t *testing.T) {
	zero := optest.Tensor([]uint8{7})
	for _, c := range []struct {
		attrs map[string]any
		x, w  []int
	}{
		{map[string]any{"pads": []int{5, 9, 5, 9}, "group": 2}, []int{1, 2, 3, 4}, []int{2, 1, 3, 3}},
		{map[string]any{"pads": []int{5, 9, 5, 9}, "strides": []int{7, 4}}, []int{1, 2, 3, 4}, []int{6, 2, 3, 3}},
		{map[string]any{"pads": []int{2, 2, 2, 2}, "group": 3}, []int{1, 3, 0, 2}, []int{3, 1, 3, 3}},
		{map[string]any{"pads": []int{2, 2, 2, 2}}, []int{1, 3, 2, 0}, []int{9, 3, 3, 3}},
		{map[string]any{"dilations": []int{400}, "pads": []int{400, 400}, "group": 2}, []int{1, 2, 3}, []int{2, 1, 2}},
	} {
		byteTensor := func(shape []int) *tensor.Tensor {
			d := make([]uint8, kit.Product(shape))
			for i := range d {
				d[i] = uint8(i*89 + 3)
			}
			return optest.Tensor(d, shape...)
		}
		x, w := byteTensor(c.x), byteTensor(c.w)
		if _, err := optest.Run(t, "ConvInteger", 10, c.attrs, x, w, zero, zero); err != nil {
			t.Errorf("%v of %v by %v: %v", c.attrs, c.x, c.w, err)
		}
		optest.PreparedExactly(t, "ConvInteger", c.attrs, []int{1, 3}, x, w, zero, zero)
	}
}

// TestByteConvolutionStridesOverOneColumn has a stride that is never taken: each row has one
// pixel, and rows are adjacent.
func TestByteConvolutionStridesOverOneColumn(t *testing.T) {
	x, w := make([]uint8, 4*5), make([]int8, 20*4)
	for i := range x {
		x[i] = uint8(i*89 + 3)
	}
	for i := range w {
		w[i] = int8(i*7 - 30)
	}
	attrs := map[string]any{"strides": []int{1, 3}}
	in := []tensor.Value{optest.Tensor(x, 1, 4, 5, 1), optest.Tensor(w, 20, 4, 1, 1), optest.Tensor([]uint8{7})}
	if _, err := optest.Run(t, "ConvInteger", 10, attrs, in...); err != nil {
		t.Fatal(err)
	}
	optest.PreparedExactly(t, "ConvInteger", attrs, []int{1}, in...)
}
