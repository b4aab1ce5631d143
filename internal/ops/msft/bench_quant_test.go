package msft

import (
	"fmt"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

func BenchmarkMatMulNBits(b *testing.B) {
	const n, k, block = 4096, 4096, 32
	x := make([]float32, 128*k)
	for i := range x {
		x[i] = float32(i%31-15) / 16
	}
	scales := make([]float32, n*k/block)
	for i := range scales {
		scales[i] = 0.01
	}
	for _, rows := range []int{1, 128} {
		for _, level := range []int{0, 4} {
			b.Run(fmt.Sprintf("m%d,level%d", rows, level), func(b *testing.B) {
				optest.BenchPrepared(b, msDomain+"MatMulNBits",
					map[string]any{"N": n, "K": k, "block_size": block, "accuracy_level": level}, []int{1, 2}, rows*n*k,
					optest.Tensor(x[:rows*k], rows, k), optest.BenchBytes(n, k/block, block/2),
					optest.Tensor(scales, len(scales)))
			})
		}
	}
}

func BenchmarkQuantizedMatMul(b *testing.B) {
	const m, n, k = 128, 768, 768
	x := make([]float32, m*k)
	for i := range x {
		x[i] = float32(i%31-15) / 16
	}
	scale, zero := optest.Tensor([]float32{0.01}), optest.Tensor([]uint8{128})
	b.Run("DynamicQuantizeMatMul", func(b *testing.B) {
		optest.BenchPrepared(b, msDomain+"DynamicQuantizeMatMul", nil, []int{1}, m*n*k, optest.Tensor(x, m, k),
			optest.BenchBytes(k, n), scale, zero)
	})
	b.Run("MatMulIntegerToFloat", func(b *testing.B) {
		optest.BenchPrepared(b, msDomain+"MatMulIntegerToFloat", nil, []int{1}, m*n*k, optest.BenchBytes(m, k),
			optest.BenchBytes(k, n), scale, scale, zero, zero)
	})
	b.Run("QGemm", func(b *testing.B) {
		optest.BenchPrepared(b, msDomain+"QGemm", nil, []int{3}, m*n*k, optest.BenchBytes(m, k), scale, zero,
			optest.BenchBytes(k, n), scale, zero, nil, scale, zero)
	})
}

func BenchmarkDynamicQuantizeLSTM(b *testing.B) {
	for _, s := range []struct{ steps, batch, hidden int }{{100, 1, 64}, {40, 1, 256}, {40, 4, 256}, {30, 16, 256},
		{30, 8, 512}, {100, 1, 512}} {
		b.Run(fmt.Sprint(s.steps, s.batch, s.hidden), func(b *testing.B) {
			h := s.hidden
			scale, zero := optest.Tensor([]float32{0.0005}, 1), optest.Tensor([]uint8{128}, 1)
			x := make([]float32, s.steps*s.batch*h)
			for i := range x {
				x[i] = float32(i%31-15) / 16
			}
			w, bias := optest.BenchBytes(1, h, 4*h), optest.Tensor(make([]float32, 8*h), 1, 8*h)
			optest.BenchPrepared(b, msDomain+"DynamicQuantizeLSTM", map[string]any{"hidden_size": h}, quantizedInputs,
				8*s.steps*s.batch*h*h, optest.Tensor(x, s.steps, s.batch, h), w, w, bias, nil, nil, nil, nil, scale,
				zero, scale, zero)
		})
	}
}
