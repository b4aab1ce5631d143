package ops

import (
	"maps"
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestMatMul(t *testing.T) {
	optest.Want(t, "MatMul", 1, nil, optest.Tensor([]float32{22, 28, 49, 64}, 2, 2), iota32(2, 3), iota32(3, 2))
	optest.Want(t, "MatMul", 9, nil, optest.Tensor([]int32{22, 28}, 2), optest.Tensor([]int32{1, 2, 3}, 3),
		optest.Tensor([]int32{1, 2, 3, 4, 5, 6}, 3, 2))
	optest.Want(t, "MatMul", 9, nil, optest.Tensor([]uint64{14}), optest.Tensor([]uint64{1, 2, 3}, 3),
		optest.Tensor([]uint64{1, 2, 3}, 3))
	optest.Want(t, "MatMul", 13, nil, optest.Tensor([]int64{14, 32}, 2), optest.Tensor([]int64{1, 2, 3, 4, 5, 6}, 2, 3),
		optest.Tensor([]int64{1, 2, 3}, 3))
	optest.Want(t, "MatMul", 13, nil, optest.Tensor(half16(14, 32), 2), optest.Tensor(half16(1, 2, 3, 4, 5, 6), 2, 3),
		optest.Tensor(half16(1, 2, 3), 3))
	optest.Want(t, "MatMul", 13, nil, optest.Tensor([]float64{1, 2, 2, 4}, 2, 2, 1, 1),
		optest.Tensor([]float64{1, 2}, 2, 1, 1, 1), optest.Tensor([]float64{1, 2}, 2, 1, 1))
	optest.Want(t, "MatMul", 13, nil, optest.Tensor([]float32{0, 0}, 1, 2), optest.Tensor([]float32{}, 1, 0),
		optest.Tensor([]float32{}, 0, 2))
	optest.Want(t, "MatMul", 13, nil, optest.Tensor([]float32{}, 0, 2, 2), optest.Tensor([]float32{}, 0, 2, 3),
		iota32(3, 2))
	for _, s := range [][2][]int{{{5, 3, 4}, {4, 6}}, {{5, 3, 4}, {1, 4, 6}}, {{4}, {5, 4, 6}},
		{{5, 1, 70, 80}, {2, 80, 66}}, {{3, 4, 5}, {5}}} {
		if _, err := optest.Run(t, "MatMul", 13, nil, iota32(s[0]...), iota32(s[1]...)); err != nil {
			t.Error(s, err)
		}
	}
	optest.Fail(t, "MatMul", 13, nil, "inner dimensions are 3 and 2", iota32(2, 3), iota32(2, 3))
	optest.Fail(t, "MatMul", 13, nil, "cannot be broadcast", iota32(2, 2, 3), iota32(3, 3, 2))
	optest.Fail(t, "MatMul", 13, nil, "rank at least 1", optest.Tensor([]float32{1}), iota32(3, 2))
}

func TestGemm(t *testing.T) {
	a, b := iota32(2, 3), iota32(3, 2)
	optest.Want(t, "Gemm", 1, map[string]any{"broadcast": 1}, optest.Tensor([]float32{23, 30, 50, 66}, 2, 2), a, b,
		optest.Tensor([]float32{1, 2}, 2))
	optest.Want(t, "Gemm", 6, map[string]any{"beta": 2.0}, optest.Tensor([]float32{24, 32, 55, 72}, 2, 2),
		a, b, iota32(2, 2))
	optest.Want(t, "Gemm", 7, nil, optest.Tensor([]float32{23, 29, 51, 66}, 2, 2), a, b,
		optest.Tensor([]float32{1, 2}, 2, 1))
	optest.Want(t, "Gemm", 9, map[string]any{"alpha": 2.0}, optest.Tensor([]int32{47, 59, 101, 131}, 2, 2),
		optest.Tensor([]int32{1, 2, 3, 4, 5, 6}, 2, 3), optest.Tensor([]int32{1, 2, 3, 4, 5, 6}, 3, 2),
		optest.Tensor([]int32{3}))
	optest.Want(t, "Gemm", 11, map[string]any{"alpha": 0.5}, optest.Tensor([]float64{11, 14, 24.5, 32}, 2, 2),
		optest.Tensor([]float64{1, 2, 3, 4, 5, 6}, 2, 3), optest.Tensor([]float64{1, 2, 3, 4, 5, 6}, 3, 2))
	optest.Want(t, "Gemm", 13, map[string]any{"alpha": 0.0}, iota32(2, 2), a, b, iota32(2, 2))
	optest.Want(t, "Gemm", 13, nil, iota32(2, 2), optest.Tensor([]float32{}, 2, 0), optest.Tensor([]float32{}, 0, 2),
		iota32(2, 2))
	// Rows that are a power of two apart are copied before they are multiplied.
	for _, name := range []string{"Gemm", "MatMul"} {
		if _, err := optest.Run(t, name, 13, nil, iota32(61, 1024), iota32(1024, 100)); err != nil {
			t.Error(name, err)
		}
	}
	for _, trans := range []map[string]any{nil, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}} {
		for _, n := range []int{50, 9} { // transposed matrices with few columns have their own path
			sa, sb := []int{70, 40}, []int{40, n}
			if trans["transA"] != nil {
				sa = []int{40, 70}
			}
			if trans["transB"] != nil {
				sb = []int{n, 40}
			}
			for _, sc := range [][]int{{}, {n}, {70, 1}, {70, n}, {1, 1}} {
				for _, beta := range []float64{1, 0.5, 0} {
					attrs := map[string]any{"beta": beta, "alpha": 0.25}
					maps.Copy(attrs, trans)
					if _, err := optest.Run(t, "Gemm", 13, attrs, iota32(sa...), iota32(sb...),
						iota32(sc...)); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	optest.Fail(t, "Gemm", 13, nil, "cannot be broadcast", a, b, iota32(3))
	optest.Fail(t, "Gemm", 13, nil, "rank", a, iota32(3))
	optest.Fail(t, "Gemm", 13, nil, "at most 2", a, b, iota32(1, 2, 2))
	optest.Fail(t, "Gemm", 13, map[string]any{"transA": 1}, "inner dimensions are 2 and 3", a, b)
	optest.Fail(t, "Gemm", 13, map[string]any{"broadcast": 1}, "unknown attribute broadcast", a, b)
}

// prepared runs an operator whose inputs listed in constant are known when the
// model is loaded.
func prepared(t *testing.T, name string, attrs map[string]any, constant []int, inputs ...tensor.Value) *tensor.Tensor {
	t.Helper()
	return optest.PreparedAt(t, name, 22, attrs, constant, inputs...)
}

// This test checks that operators prepared for constant weights compute the same as others.
func TestPreparedOperators(t *testing.T) {
	halves := func(x *tensor.Tensor) *tensor.Tensor {
		return optest.Tensor(half16(tensor.MustData[float32](x)...), x.Shape()...)
	}
	bytes := func(shape ...int) *tensor.Tensor {
		d := make([]uint8, kit.Product(shape))
		for i := range d {
			d[i] = uint8(i * 37)
		}
		return optest.Tensor(d, shape...)
	}
	bias := iota32(5)
	for _, c := range []struct {
		name     string
		attrs    map[string]any
		constant []int
		inputs   []tensor.Value
	}{
		{"MatMul", nil, []int{1}, []tensor.Value{iota32(2, 3, 4), iota32(4, 5)}},
		{"MatMul", nil, []int{1}, []tensor.Value{iota32(4), iota32(4, 5)}},
		{"MatMul", nil, []int{1}, []tensor.Value{halves(iota32(3, 4)), halves(iota32(4, 5))}},
		{"Gemm", nil, []int{1, 2}, []tensor.Value{iota32(3, 4), iota32(4, 5), bias}},
		{"Gemm", map[string]any{"transA": 1, "transB": 1, "alpha": 0.5, "beta": 0.5}, []int{1}, []tensor.Value{iota32(4, 3), iota32(5, 4), bias}},
		{"Gemm", map[string]any{"alpha": 0.0}, []int{1}, []tensor.Value{iota32(3, 4), iota32(4, 5), bias}},
		{"MatMulInteger", nil, []int{1}, []tensor.Value{bytes(2, 3, 4), bytes(4, 5), optest.Tensor([]uint8{7}), optest.Tensor([]uint8{1, 2, 3, 4, 5}, 5)}},
		{"QLinearMatMul", nil, []int{3}, []tensor.Value{bytes(3, 4), optest.Tensor([]float32{.5}), optest.Tensor([]uint8{7}), bytes(4, 5), optest.Tensor([]float32{.1, .2, .3, .4, .5}, 5), optest.Tensor([]uint8{9}), optest.Tensor([]float32{30}), optest.Tensor([]uint8{3})}},
		{"QLinearMatMul", nil, []int{3}, []tensor.Value{bytes(3, 4), optest.Tensor([]float32{.5, 1, 2}, 3), optest.Tensor([]uint8{7, 8, 9}, 3), bytes(4, 5), optest.Tensor([]float32{.1}), optest.Tensor([]uint8{9}), optest.Tensor([]float32{30}), optest.Tensor([]uint8{3})}},
		{"ConvInteger", map[string]any{"pads": []int{1, 1}, "group": 2}, []int{1, 3}, []tensor.Value{bytes(2, 4, 9), bytes(6, 2, 3), optest.Tensor([]uint8{7}), optest.Tensor([]uint8{9})}},
		{"QLinearConv", map[string]any{"pads": []int{1, 1, 0, 2}, "strides": []int{1, 2}}, []int{3, 5}, []tensor.Value{bytes(2, 3, 8, 9), optest.Tensor([]float32{.5}), optest.Tensor([]uint8{7}),
			bytes(3, 3, 2, 3), optest.Tensor([]float32{.1, .2, .3}, 3), optest.Tensor([]uint8{1, 2, 3}, 3), optest.Tensor([]float32{300}), optest.Tensor([]uint8{3}), optest.Tensor([]int32{1, 2, 3}, 3)}},
	} {
		want, err := optest.Run(t, c.name, 22, c.attrs, c.inputs...)
		if err != nil {
			t.Fatal(err)
		}
		if got := prepared(t, c.name, c.attrs, c.constant, c.inputs...); !optest.Same(got, want[0], 1e-4) {
			t.Errorf("%s %v: prepared %s, want %s", c.name, c.attrs, optest.Show(got), optest.Show(want[0]))
		}
	}
}

// Only matrices that binary16 represents exactly are stored as binary16.
func TestPackMatrixHalves(t *testing.T) {
	for _, c := range []struct {
		last float32
		half bool
	}{{2, true}, {0.1, false}, {1e6, false}, {float32(math.NaN()), false}} {
		w := make([]float32, 70*40)
		w[len(w)-1] = c.last
		p, err := matmul.PackMatrix(optest.Tensor(w, 70, 40), false, false)
		if err != nil || (p.Half != nil) != c.half || (p.Data != nil) == c.half {
			t.Errorf("a matrix with %v: binary16 %v, float %v, %v", c.last, p.Half != nil, p.Data != nil, err)
		}
	}
}
