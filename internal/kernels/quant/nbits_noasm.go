//go:build (!amd64 && !arm64) || purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

func dequantizeAsm(cpu.Level, *NBits, []float32, []uint8, []float32, []float32) bool { return false }

func nbitsAsm(cpu.Level, *NBitsArgs, *nbitsBuffers, int, int) bool { return false }

func quantizeBytes(_ cpu.Level, dst []int8, x []float32, factor float32) int32 {
	return quantizeBytesGeneric(dst, x, factor)
}
