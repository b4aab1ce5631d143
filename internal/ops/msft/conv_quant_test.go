package msft

import (
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestQuantizedProductsPrepared checks that int8 GEMM with prepared constants equals that of the
// reference engine.
func TestQuantizedProductsPrepared(t *testing.T) {
	const k, n = 37, 41
	bytes := func(shape ...int) *tensor.Tensor {
		d := make([]uint8, kit.Product(shape))
		for i := range d {
			d[i] = uint8(i * 151 >> 1)
		}
		return optest.Tensor(d, shape...)
	}
	reals := func(shape ...int) *tensor.Tensor {
		d := make([]float32, kit.Product(shape))
		for i := range d {
			d[i] = float32(i*29%64-20) / 32
		}
		return optest.Tensor(d, shape...)
	}
	signed := func(x *tensor.Tensor) *tensor.Tensor {
		d := make([]int8, x.Len())
		for i, v := range tensor.MustData[uint8](x) {
			d[i] = int8(v)
		}
		return optest.Tensor(d, x.Shape()...)
	}
	scale, zero := optest.Tensor([]float32{0.01}), optest.Tensor([]uint8{131})
	bias := make([]int32, n)
	for i := range bias {
		bias[i] = int32(i*1001 - 9)
	}
	for _, cols := range []int{1, 3, 16, 200} { // several short lines at a time, the last ones fewer
		for _, s := range []*tensor.Tensor{scale, reals(cols)} {
			for _, b := range []tensor.Value{nil, reals(cols)} {
				optest.PreparedExactly(t, msDomain+"MatMulIntegerToFloat", nil, []int{1}, bytes(2, 600, k),
					signed(bytes(k, cols)), scale, s, zero, nil, b)
			}
		}
	}
	for _, rows := range []int{0, 1, 19} {
		optest.PreparedExactly(t, msDomain+"DynamicQuantizeMatMul", nil, []int{1}, reals(2, rows, k), bytes(k, n),
			reals(n), bytes(n), reals(n))
		optest.PreparedExactly(t, msDomain+"MatMulIntegerToFloat", nil, []int{1}, bytes(rows, k), signed(bytes(k, n)),
			scale, reals(n), zero, signed(bytes(n)), reals(n))
		for _, trans := range []int{0, 1} {
			b := bytes(k, n)
			if trans == 1 {
				b = bytes(n, k)
			}
			optest.PreparedExactly(t, msDomain+"QGemm", map[string]any{"transB": trans, "alpha": 0.5}, []int{3},
				bytes(rows, k), scale, zero, b, reals(n), bytes(n), optest.Tensor(bias, n), scale, zero)
			optest.PreparedExactly(t, msDomain+"QGemm", map[string]any{"transB": trans}, []int{3},
				signed(bytes(rows, k)), scale, signed(zero), b, scale, zero)
			optest.PreparedExactly(t, msDomain+"QGemm", map[string]any{"transA": 1, "transB": trans}, []int{3},
				bytes(k, rows), scale, zero, b, reals(n), bytes(n))
		}
	}
}
