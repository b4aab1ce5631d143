//go:build !(amd64 || arm64) || purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

func sumU8(_ cpu.Level, x []uint8) uint32 { return sumU8Generic(x) }

func quantizeF32(_ cpu.Level, dst []uint8, x []float32, scale, zero, lo, hi float32) {
	quantizeF32Generic(dst, x, scale, zero, lo, hi)
}

func requantizeI32(_ cpu.Level, dst []uint8, x []int32, scale []float32, zero, lo, hi float32) {
	requantizeI32Generic(dst, x, scale, min(len(scale)-1, 1), zero, lo, hi)
}

func packRowsAsm([]int8, []uint8, []int32, int, int, uint8) int { return 0 }

func transposeBytesAsm(cpu.Level, []byte, int, []byte, int, int) bool { return false }

func interleaveBytesAsm(cpu.Level, []byte, []byte, int, int) bool { return false }

func addBytesAsm(_ cpu.Level, _, _, _ []uint8, _ int32, _, _, _, _, _, _ float32) int { return 0 }

func mulBytesAsm(_ cpu.Level, _, _, _ []uint8, _, _, _ int32, _, _, _, _ float32) int { return 0 }

func maxWindowAsm(cpu.Level, []uint8, []uint8, int, int, int, int, uint32) bool { return false }

func maxRangesAsm(cpu.Level, []uint8, []uint8, int, int, int, int, uint32) bool { return false }
