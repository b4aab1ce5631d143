package ops

import (
	"math"
	"runtime"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// iota32 makes a tensor of 1, 2, 3, …
func iota32(shape ...int) *tensor.Tensor {
	d := make([]float32, kit.Product(shape))
	for i := range d {
		d[i] = float32(i + 1)
	}
	return optest.Tensor(d, shape...)
}

func TestPoolings(t *testing.T) {
	x := iota32(1, 1, 4, 4)
	k2 := map[string]any{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}}
	for _, opset := range []int{1, 8, 10, 11, 12, 22} {
		optest.Want(t, "MaxPool", opset, k2, optest.Tensor([]float32{6, 8, 14, 16}, 1, 1, 2, 2), x)
	}
	optest.WantAll(t, "MaxPool", 8, k2, []tensor.Value{optest.Tensor([]float32{6, 8, 14, 16}, 1, 1, 2, 2),
		optest.Tensor([]int64{5, 7, 13, 15}, 1, 1, 2, 2)}, x)
	optest.WantAll(t, "MaxPool", 12,
		map[string]any{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}, "storage_order": 1},
		[]tensor.Value{optest.Tensor([]float32{6, 8, 14, 16}, 1, 1, 2, 2),
			optest.Tensor([]int64{5, 13, 7, 15}, 1, 1, 2, 2)}, x)
	optest.Want(t, "MaxPool", 12, map[string]any{"kernel_shape": []int{2}, "dilations": []int{2}},
		optest.Tensor([]int8{3, -1, 3}, 1, 1, 3), optest.Tensor([]int8{3, -8, -7, -1, 3}, 1, 1, 5))
	optest.Want(t, "MaxPool", 12, map[string]any{"kernel_shape": []int{2}, "ceil_mode": 1, "strides": []int{2}},
		optest.Tensor([]uint8{2, 3}, 1, 1, 2), optest.Tensor([]uint8{1, 2, 3}, 1, 1, 3))
	nan := float32(math.NaN())
	optest.Want(t, "MaxPool", 12, map[string]any{"kernel_shape": []int{2}},
		optest.Tensor([]float32{nan, nan, 4, 4}, 1, 1, 4), optest.Tensor([]float32{1, nan, 3, 4, 2}, 1, 1, 5))
	optest.Want(t, "MaxPool", 12, map[string]any{"kernel_shape": []int{1}},
		optest.Tensor([]float32{float32(math.Inf(-1))}, 1, 1, 1),
		optest.Tensor([]float32{float32(math.Inf(-1))}, 1, 1, 1))

	optest.Want(t, "AveragePool", 1, k2, optest.Tensor([]float32{3.5, 5.5, 11.5, 13.5}, 1, 1, 2, 2), x)
	pad := map[string]any{"kernel_shape": []int{2}, "pads": []int{1, 1}}
	optest.Want(t, "AveragePool", 7, pad, optest.Tensor([]float32{1, 1.5, 2.5, 3}, 1, 1, 4), iota32(1, 1, 3))
	pad["count_include_pad"] = 1
	optest.Want(t, "AveragePool", 7, pad, optest.Tensor([]float64{.5, 1.5, 2.5, 1.5}, 1, 1, 4),
		optest.Tensor([]float64{1, 2, 3}, 1, 1, 3))
	// The part of the last window beyond the padding does not count.
	optest.Want(t, "AveragePool", 19, map[string]any{"kernel_shape": []int{3}, "strides": []int{2}, "ceil_mode": 1,
		"pads": []int{1, 0}, "count_include_pad": 1},
		optest.Tensor([]float32{1, 3, 4.5}, 1, 1, 3), iota32(1, 1, 5))
	optest.Want(t, "AveragePool", 11, map[string]any{"kernel_shape": []int{2}, "auto_pad": "SAME_LOWER"},
		optest.Tensor([]float32{1, 1.5, 2.5}, 1, 1, 3), iota32(1, 1, 3))
	optest.Want(t, "AveragePool", 11, map[string]any{"kernel_shape": []int{2}, "auto_pad": "VALID"},
		optest.Tensor([]tensor.Float16{tensor.NewFloat16(1.5), tensor.NewFloat16(2.5)}, 1, 1, 2),
		optest.Tensor([]tensor.Float16{tensor.NewFloat16(1), tensor.NewFloat16(2), tensor.NewFloat16(3)}, 1, 1, 3))

	optest.Want(t, "LpPool", 1, map[string]any{"kernel_shape": []int{2}, "p": 3.0},
		optest.Tensor([]float32{2.0800838, 3.2710664}, 1, 1, 2), iota32(1, 1, 3))
	optest.Want(t, "LpPool", 18, map[string]any{"kernel_shape": []int{2}, "p": 1},
		optest.Tensor([]float32{3, 5}, 1, 1, 2), iota32(1, 1, 3))
	optest.Want(t, "GlobalLpPool", 1, map[string]any{"p": 2.0}, optest.Tensor([]float32{5}, 1, 1, 1),
		optest.Tensor([]float32{3, -4}, 1, 1, 2))
	optest.Want(t, "GlobalLpPool", 22, nil, optest.Tensor([]float64{5}, 1, 1, 1),
		optest.Tensor([]float64{3, -4}, 1, 1, 2))
	optest.Want(t, "GlobalAveragePool", 1, nil, optest.Tensor([]float32{2, 5}, 1, 2, 1), iota32(1, 2, 3))
	optest.Want(t, "GlobalMaxPool", 1, nil, optest.Tensor([]float32{3, 6}, 1, 2, 1, 1), iota32(1, 2, 3, 1))
	// With strides over the kernel a window may begin after the first element.
	optest.Want(t, "MaxPool", 8, map[string]any{"kernel_shape": []int{1}, "strides": []int{3},
		"auto_pad": "SAME_UPPER"}, optest.Tensor([]float32{2, 5}, 1, 1, 2), iota32(1, 1, 6))
	optest.Want(t, "Conv", 11, map[string]any{"strides": []int{3}, "auto_pad": "SAME_UPPER"},
		optest.Tensor([]float32{1, 4}, 1, 1, 2), iota32(1, 1, 6), optest.Tensor([]float32{1}, 1, 1, 1))
	for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
		optest.Want(t, op, 22, map[string]any{"kernel_shape": []int{2}}, optest.Tensor([]float32{}, 0, 3, 4),
			optest.Tensor([]float32{}, 0, 3, 5))
		optest.Want(t, op, 22, map[string]any{"kernel_shape": []int{2}}, optest.Tensor([]float32{}, 2, 3, 0),
			optest.Tensor([]float32{}, 2, 3, 0))
		optest.Fail(t, op, 22, nil, "kernel_shape is missing", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{2, 0}}, "has the element 0", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{2, 2}, "strides": []int{0, 1}},
			"has the element 0", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{2, 2}, "strides": []int{math.MaxInt64, 1}},
			"strides has the element", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{2, 2}, "pads": []int{-1, 0, 0, 0}},
			"pads has the element -1", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{2, 2}, "pads": []int{1, 0}}, "pads has 2", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{5, 5}}, "covers 5", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{2}}, "kernel has 1 axes", x)
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{2, 2}}, "rank", iota32(2, 2))
		optest.Fail(t, op, 22, map[string]any{"kernel_shape": []int{1 << 30, 1 << 30},
			"pads": []int{1 << 30, 1 << 30, 1 << 30, 1 << 30}}, "", x)
	}
	optest.Fail(t, "LpPool", 2, map[string]any{"kernel_shape": []int{2, 2}, "p": 0}, "p is 0", x)
}

// If kernels are smaller than strides, SAME_UPPER crops the input: windows start at column 1.
func TestPoolingsOfCroppedRows(t *testing.T) {
	attrs := map[string]any{"kernel_shape": []int{2, 1}, "strides": []int{2, 3}, "auto_pad": "SAME_UPPER"}
	x := optest.Tensor([]float32{9, 1, 9, 9, 2, 9, 9, 0, 9, 9, 4, 9}, 1, 1, 2, 6)
	optest.Want(t, "MaxPool", 22, attrs, optest.Tensor([]float32{1, 4}, 1, 1, 1, 2), x)
	optest.Want(t, "AveragePool", 22, attrs, optest.Tensor([]float32{0.5, 3}, 1, 1, 1, 2), x)

	attrs = map[string]any{"kernel_shape": []int{1, 1, 1}, "strides": []int{2, 3, 3}, "auto_pad": "SAME_UPPER"}
	x = optest.Tensor(make([]float32, 2*3*6), 1, 1, 2, 3, 6)
	copy(tensor.MustData[float32](x)[6:], []float32{9, 1, 9, 9, 2, 9})
	for _, op := range []string{"MaxPool", "AveragePool"} {
		optest.Want(t, op, 22, attrs, optest.Tensor([]float32{1, 2}, 1, 1, 1, 1, 2), x)
	}
}

// This test checks that windows of every form give the same on both engines and have the
// inferred shape.
func TestPoolingsAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := optest.Drawn(t, rt)
		n := rapid.IntRange(1, 3).Draw(rt, "axes")
		ints := func(name string, k, lo, hi int) []int {
			return rapid.SliceOfN(rapid.IntRange(lo, hi), k, k).Draw(rt, name)
		}
		attrs := map[string]any{"kernel_shape": ints("kernel", n, 1, 4), "strides": ints("strides", n, 1, 3),
			"dilations": ints("dilations", n, 1, 3),
			"ceil_mode": rapid.IntRange(0, 1).Draw(rt, "ceil")}
		if mode := rapid.SampledFrom([]string{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}).Draw(rt,
			"auto_pad"); mode != "NOTSET" {
			attrs["auto_pad"] = mode
		} else {
			attrs["pads"] = ints("pads", 2*n, 0, 5)
		}
		shape := append([]int{2, 3}, ints("shape", n, 10, 14)...)
		x := optest.Tensor(rapid.SliceOfN(rapid.Float32Range(0, 100), kit.Product(shape), kit.Product(shape)).Draw(rt,
			"x"), shape...)
		for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
			if op == "AveragePool" {
				attrs["count_include_pad"] = rapid.IntRange(0, 1).Draw(rt, "count")
			} else {
				delete(attrs, "count_include_pad")
			}
			if _, err := optest.RunN(t, 1, op, 22, attrs, x); err != nil {
				rt.Fatalf("%s %v of %v: %v", op, attrs, shape, err)
			}
		}
		delete(attrs, "count_include_pad")
		for _, d := range [][]int{{1, 1, 1}, attrs["dilations"].([]int)} { // bytes without dilation have a kernel
			attrs["dilations"] = d[:n]
			u, v := make([]uint8, x.Len()), make([]int8, x.Len())
			for i, f := range tensor.MustData[float32](x) {
				u[i], v[i] = uint8(math.Float32bits(f)>>13), int8(math.Float32bits(f)>>13)
			}
			for _, b := range []*tensor.Tensor{optest.Tensor(u, shape...), optest.Tensor(v, shape...)} {
				if _, err := optest.RunN(t, 1, "MaxPool", 22, attrs, b); err != nil {
					rt.Fatalf("MaxPool %v of %v: %v", attrs, shape, err)
				}
			}
		}
	})
}

// TestMaxPoolIndices compares maxima and indices with those of a search through each window: the
// first of the largest elements, with 0 and -0 equal, or the first NaN.
func TestMaxPoolIndices(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 2, 3, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-149, -100}
	rapid.Check(t, func(rt *rapid.T) {
		rank := rapid.IntRange(1, 3).Draw(rt, "rank")
		draw := func(name string, lo, hi int) []int {
			return rapid.SliceOfN(rapid.IntRange(lo, hi), rank, rank).Draw(rt, name)
		}
		in, kernel, stride, dilation := draw("in", 3, 7), draw("kernel", 1, 3), draw("stride", 1, 3),
			draw("dilation", 1, 2)
		pads := append(draw("begin", 0, 2), draw("end", 0, 2)...)
		out := make([]int, rank)
		for d := range out {
			if room := in[d] + pads[d] + pads[rank+d] - (kernel[d]-1)*dilation[d] - 1; room < 0 {
				rt.Skip("the window does not fit")
			} else {
				out[d] = room/stride[d] + 1
			}
		}
		columnMajor := rapid.Bool().Draw(rt, "column-major")
		dtype := rapid.SampledFrom([]tensor.DType{tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeInt8,
			tensor.TypeUint8}).Draw(rt, "type")
		bytes := dtype == tensor.TypeInt8 || dtype == tensor.TypeUint8
		x := rapid.SliceOfN(rapid.SampledFrom(special), 2*kit.Product(in), 2*kit.Product(in)).Draw(rt, "x")
		least := map[tensor.DType]float64{tensor.TypeInt8: -128, tensor.TypeUint8: 0}[dtype]
		for i, v := range x {
			if bytes {
				if x[i] = 5; v == v && v >= least && v < 100 { // integers only
					x[i] = math.Trunc(v) + 0
				}
			}
		}
		if !bytes {
			least = math.Inf(-1)
		}
		plane, steps, numbers := kit.Product(in), kit.Strides(in), kit.Strides(in)
		if columnMajor {
			for d := range numbers {
				numbers[d] = kit.Product(in[:d])
			}
		}
		var wantY []float64
		var wantI []int64
		for p := range 2 {
			pos := make([]int, rank)
			for range kit.Product(out) {
				best, at := least, int64(-1)
				tap := make([]int, rank)
				for range kit.Product(kernel) {
					from, number, inside := p*plane, p*plane, true
					for d := range tap {
						i := pos[d]*stride[d] - pads[d] + tap[d]*dilation[d]
						inside = inside && i >= 0 && i < in[d]
						from += i * steps[d]
						number += i * numbers[d]
					}
					if inside && (at < 0 || x[from] > best || x[from] != x[from] && best == best) {
						best, at = x[from], int64(number)
					}
					kit.NextIndex(tap, kernel)
				}
				wantY, wantI = append(wantY, best), append(wantI, at)
				kit.NextIndex(pos, out)
			}
		}
		shape := func(sizes []int) []int { return append([]int{1, 2}, sizes...) }
		of := func(v []float64, sizes []int) *tensor.Tensor {
			to := optest.Tensor(make([]float64, len(v)), shape(sizes)...)
			copy(tensor.MustData[float64](to), v)
			c, err := tensor.Convert(to, dtype, nil)
			if err != nil {
				rt.Fatal(err)
			}
			return c
		}
		order := 0
		if columnMajor {
			order = 1
		}
		attrs := map[string]any{"kernel_shape": kernel, "strides": stride, "dilations": dilation, "pads": pads,
			"storage_order": order}
		optest.WantAll(optest.Drawn(t, rt), "MaxPool", 12, attrs,
			[]tensor.Value{of(wantY, out), optest.Tensor(wantI, shape(out)...)}, of(x, in))
	})
}

// TestPoolBuffersDoNotGrowWithTheStride pools one row with a stride of 2²⁰ rows. Buffers for the
// rows between windows would take gigabytes.
func TestPoolBuffersDoNotGrowWithTheStride(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	optest.Want(t, "MaxPool", 12, optest.Attrs{"kernel_shape": []int{2, 3}, "strides": []int{1 << 20, 2},
		"pads": []int{1, 0, 0, 1}}, optest.Tensor([]float32{2, 3}, 1, 1, 1, 2), moveIota(1, 1, 3, 4))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("allocated %d bytes, want at most %d", n, 16<<20)
	}
}
