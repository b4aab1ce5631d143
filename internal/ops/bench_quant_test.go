package ops

import (
	"fmt"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func BenchmarkQLinearConv(b *testing.B) {
	scale, zero := optest.Tensor([]float32{0.01}), optest.Tensor([]uint8{128})
	for _, s := range []struct{ c, m, k, size, stride, group int }{
		{64, 64, 3, 56, 1, 1}, {256, 64, 1, 56, 1, 1}, {3, 64, 7, 224, 2, 1}, {96, 96, 3, 56, 1, 96}, {512, 512, 3, 7, 1, 1},
	} {
		b.Run(fmt.Sprintf("%dx%d,%d→%d,k%d,s%d,g%d", s.size, s.size, s.c, s.m, s.k, s.stride, s.group),
			func(b *testing.B) {
				p := s.k / 2
				attrs := map[string]any{"pads": []int{p, p, p, p}, "strides": []int{s.stride, s.stride},
					"group": s.group}
				out := (s.size+2*p-s.k)/s.stride + 1
				optest.BenchPrepared(b, "QLinearConv", attrs, []int{1, 2, 3, 4, 5, 6, 7},
					out*out*s.m*s.c/s.group*s.k*s.k,
					optest.BenchBytes(1, s.c, s.size, s.size), scale, zero,
					optest.BenchBytes(s.m, s.c/s.group, s.k, s.k),
					scale, zero, scale, zero)
			})
	}
}

func BenchmarkHalfWeights(b *testing.B) {
	const n, k = 4096, 4096
	w := make([]tensor.Float16, n*k)
	for i, v := range half16(0.5, -0.25, 1, 0.125) {
		for j := i; j < len(w); j += 4 {
			w[j] = v
		}
	}
	for _, m := range []int{1, 16} {
		x, _ := tensor.Zeros(tensor.TypeFloat16, m, k)
		b.Run(fmt.Sprintf("m%d", m), func(b *testing.B) {
			optest.BenchPrepared(b, "MatMul", nil, []int{1}, m*n*k, x, optest.Tensor(w, k, n))
		})
	}
}
