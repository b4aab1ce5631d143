//go:build (!amd64 && !arm64) || purego

package quant

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

const readsByteZeros = false

func dequantizeAsm(cpu.Level, *NBits, []float32, []uint8, []float32, []float32) bool { return false }

func (r *blockRows) prepare(gemm.Par) { r.form = nbitsPanels }

func (*blockRows) convertRows(int, int) {}

func (*blockRows) panelsAsm(*[]float32, int, int) {}

func quantizeBytes(_ cpu.Level, dst []int8, x []float32, factor float32) int32 {
	return quantizeBytesGeneric(dst, x, factor)
}
