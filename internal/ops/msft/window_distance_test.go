package msft

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestPixelRowsAgree compares pools of rows of channels with the loops over windows.
func TestPixelRowsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, attrs := range []map[string]any{
		{"kernel_shape": []int{3, 2}},
		{"kernel_shape": []int{3, 3}, "pads": []int{1, 1, 1, 1}},
		{"kernel_shape": []int{3, 3}, "pads": []int{1, 1, 1, 1}, "strides": []int{2, 2}},
		{"kernel_shape": []int{2, 3}, "dilations": []int{3, 2}, "pads": []int{4, 4, 4, 4}},
		{"kernel_shape": []int{3, 3}, "strides": []int{2, 3}, "ceil_mode": 1},
		{"kernel_shape": []int{2, 1}, "strides": []int{2, 3}, "auto_pad": "SAME_UPPER"}, // crops columns
		{"kernel_shape": []int{3}, "pads": []int{2, 2}},
		{"kernel_shape": []int{2, 2, 2}},
	} {
		shape := []int{2, 9, 7, 20}
		switch len(attrs["kernel_shape"].([]int)) {
		case 1:
			shape = []int{2, 9, 20}
		case 3:
			shape = []int{2, 4, 5, 6, 3}
		}
		n := 1
		for _, d := range shape {
			n *= d
		}
		u, v := make([]uint8, n), make([]int8, n)
		for i := range u {
			u[i], v[i] = uint8(rng.IntN(256)), int8(rng.IntN(100)-128)
		}
		for _, x := range []*tensor.Tensor{optest.Tensor(u, shape...), optest.Tensor(v, shape...)} {
			if _, err := optest.Run(t, "com.microsoft.NhwcMaxPool", 1, attrs, x); err != nil {
				t.Errorf("%v: %v", attrs, err)
			}
			zero := optest.Tensor([]uint8{7})
			if x.DType() == tensor.TypeInt8 {
				zero = optest.Tensor([]int8{-7})
			}
			for pad := range 2 {
				average := maps.Clone(attrs)
				average["channels_last"], average["count_include_pad"] = 1, pad
				delete(average, "dilations") // the operator has none
				if _, err := optest.Run(t, "com.microsoft.QLinearAveragePool", 1, average, x,
					tensor.Scalar(float32(0.5)), zero, tensor.Scalar(float32(0.25)), zero); err != nil {
					t.Errorf("average, %v: %v", average, err)
				}
			}
		}
	}
}

// TestMaxpoolWithMaskAgrees checks masks with and without zeros: the first ones stop windows, the
// others leave the kernel of MaxPool to work.
func TestMaxpoolWithMaskAgrees(t *testing.T) {
	nan, low := float32(math.NaN()), float32(math.Inf(-1))
	x := optest.Tensor([]float32{5, 9, 3, nan, 1, 2, low, low, low, 7, 8, 6}, 1, 1, 3, 4)
	attrs := map[string]any{"kernel_shape": []int{2, 2}}
	for _, c := range []struct {
		mask []int32
		want []float32
	}{
		{[]int32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []float32{9, 9, nan, 7, 8, 8}},
		{[]int32{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []float32{9, 9, nan, 7, 8, 8}}, // the first element stops none
		{[]int32{1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1}, []float32{5, 2, nan, 2, 2, 8}},
		{[]int32{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []float32{5, -math.MaxFloat32, -math.MaxFloat32, -math.MaxFloat32, -math.MaxFloat32, -math.MaxFloat32}},
	} {
		optest.Want(t, "com.microsoft.MaxpoolWithMask", 1, attrs, optest.Tensor(c.want, 1, 1, 2, 3), x,
			optest.Tensor(c.mask, 1, 1, 3, 4))
	}
	// Two masks for four planes, with padding and strides; and a window of missing elements only.
	data, mask := make([]float32, 4*5*6), make([]int32, 2*5*6)
	for i := range data {
		data[i] = float32(i*37%101) - 50
	}
	for i := range mask {
		mask[i] = int32(i * 29 % 7)
	}
	attrs = map[string]any{"kernel_shape": []int{3, 3}, "pads": []int{1, 2, 1, 2}, "strides": []int{2, 1}}
	for _, m := range [][]int32{mask, mask[:30]} {
		if _, err := optest.Run(t, "com.microsoft.MaxpoolWithMask", 1, attrs, optest.Tensor(data, 2, 2, 5, 6),
			optest.Tensor(m, 1, len(m)/30, 5, 6)); err != nil {
			t.Error(err)
		}
	}
	// Planes that are large enough for vectors.
	for _, shape := range [][]int{{2, 3, 70}, {2, 3, 9, 13}, {1, 2, 4, 5, 6}, {1, 2, 30, 50}} {
		data := make([]float32, kit.Product(shape))
		for i := range data {
			data[i] = float32(i*37%101) - 50
		}
		data[1], data[5] = nan, low
		mask := make([]int32, len(data))
		for i := range mask {
			mask[i] = int32(i * 29 % 5)
		}
		n := len(shape) - 2
		for _, attrs := range []map[string]any{
			{"kernel_shape": slices.Repeat([]int{3}, n)},
			{"kernel_shape": slices.Repeat([]int{2}, n), "strides": slices.Repeat([]int{2}, n)},
			{"kernel_shape": slices.Repeat([]int{3}, n), "pads": slices.Repeat([]int{1}, 2*n), "strides": slices.Repeat([]int{2}, n)},
			{"kernel_shape": slices.Repeat([]int{2}, n), "auto_pad": "SAME_UPPER"},
			{"kernel_shape": slices.Repeat([]int{1}, n), "strides": slices.Repeat([]int{3}, n)},
		} {
			if _, err := optest.Run(t, "com.microsoft.MaxpoolWithMask", 1, attrs, optest.Tensor(data, shape...),
				optest.Tensor(mask, shape...)); err != nil {
				t.Errorf("%v: %v", attrs, err)
			}
		}
	}
	line := []float32{1, 2, 3, 4}
	optest.Want(t, "com.microsoft.MaxpoolWithMask", 1, map[string]any{"kernel_shape": []int{2}},
		optest.Tensor([]float32{-math.MaxFloat32, 2, -math.MaxFloat32}, 1, 1, 3),
		optest.Tensor(line, 1, 1, 4), optest.Tensor([]int32{0, 1, 0, 1}, 1, 1, 4))
}

// TestCDistOfNearRows checks distances whose terms cancel in the GEMM form, and those of rows with
// infinite, huge and no elements.
func TestCDistOfNearRows(t *testing.T) {
	const n = 70
	a := make([]float32, 6*n)
	for i := range a {
		a[i] = 100 + float32(i*31%17)/16
	}
	b := append([]float32(nil), a[:5*n]...)
	for i := range b {
		b[i] += float32(i%3) / 512
	}
	b[4*n], a[5*n] = float32(math.Inf(1)), 3e38
	wide := func(x []float32) []float64 {
		r := make([]float64, len(x))
		for i, v := range x {
			r[i] = float64(v)
		}
		return r
	}
	for _, metric := range []string{"sqeuclidean", "euclidean"} {
		attrs := map[string]any{"metric": metric}
		for _, in := range [][2]tensor.Value{
			{optest.Tensor(a, 6, n), optest.Tensor(b, 5, n)},
			{optest.Tensor(wide(a), 6, n), optest.Tensor(wide(b), 5, n)},
			{optest.Tensor([]float32{}, 2, 0), optest.Tensor([]float32{}, 3, 0)},
			{optest.Tensor([]float32{1, 2, -3, 4}, 2, 2), optest.Tensor([]float32{-1, -2, 30, 4, 0, 0}, 3, 2)},
		} {
			if _, err := optest.Run(t, "com.microsoft.CDist", 1, attrs, in[0], in[1]); err != nil {
				t.Errorf("%s: %v", metric, err)
			}
		}
	}
}

// TestCDistOfHugeRows: a distance that float32 holds is finite if its square is not.
func TestCDistOfHugeRows(t *testing.T) {
	attrs := map[string]any{"metric": "euclidean"}
	a, b := optest.Tensor([]float32{3e30, 0, 1, 2}, 2, 2), optest.Tensor([]float32{0, 4e30, 1, 5}, 2, 2)
	optest.Want(t, "com.microsoft.CDist", 1, attrs, optest.Tensor([]float32{5e30, 3e30, 4e30, 3}, 2, 2), a, b)
}

// TestQGemmOfVariables multiplies matrices that are not packed when the model is loaded.
func TestQGemmOfVariables(t *testing.T) {
	const m, n, k = 5, 40, 33
	a, u, v := make([]uint8, m*k), make([]uint8, k*n), make([]int8, k*n)
	for i := range a {
		a[i] = uint8(i * 37)
	}
	for i := range u {
		u[i], v[i] = uint8(i*73), int8(i*51)
	}
	scales, bias := make([]float32, n), make([]int32, n)
	for i := range scales {
		scales[i], bias[i] = float32(i+1)/1024, int32(i*1000-9000)
	}
	scale, zero := optest.Tensor([]float32{0.25}), optest.Tensor([]uint8{100})
	none := (*tensor.Tensor)(nil)
	for _, trans := range []int{0, 1} {
		shape := []int{k, n}
		if trans == 1 {
			shape = []int{n, k}
		}
		for _, b := range [][2]tensor.Value{{optest.Tensor(u, shape...), optest.Tensor([]uint8{7})},
			{optest.Tensor(v, shape...), optest.Tensor([]int8{-7})}} {
			for _, add := range []*tensor.Tensor{none, optest.Tensor(bias, n), optest.Tensor(bias[:m], m, 1)} {
				for _, out := range [][2]tensor.Value{{none, none}, {scale, optest.Tensor([]uint8{120})},
					{scale, optest.Tensor([]int8{-20})}} {
					if _, err := optest.Run(t, "com.microsoft.QGemm", 1, map[string]any{"alpha": 0.5, "transB": trans},
						optest.Tensor(a, m, k), scale, zero, b[0], optest.Tensor(scales, n), b[1], add,
						out[0], out[1]); err != nil {
						t.Errorf("transB=%d: %v", trans, err)
					}
				}
			}
		}
	}
}

// TestQLinearSoftmaxOfLongLines checks lines in which bytes repeat, which are mapped by a table.
func TestQLinearSoftmaxOfLongLines(t *testing.T) {
	u, v := make([]uint8, 3*300), make([]int8, 3*300)
	for i := range u {
		u[i], v[i] = uint8(i*i%200), int8(i*i%200-100)
	}
	attrs := map[string]any{"opset": 13}
	scale, small := optest.Tensor([]float32{0.0625}), optest.Tensor([]float32{0.001})
	for _, shape := range [][]int{{3, 300}, {300, 3}} {
		attrs["axis"] = 0
		if shape[1] == 300 {
			attrs["axis"] = 1
		}
		if _, err := optest.Run(t, "com.microsoft.QLinearSoftmax", 1, attrs, optest.Tensor(u, shape...), scale,
			optest.Tensor([]uint8{3}), small, optest.Tensor([]uint8{0})); err != nil {
			t.Error(err)
		}
		if _, err := optest.Run(t, "com.microsoft.QLinearSoftmax", 1, attrs, optest.Tensor(v, shape...), scale,
			optest.Tensor([]int8{3}), small, optest.Tensor([]int8{-128})); err != nil {
			t.Error(err)
		}
	}
}
