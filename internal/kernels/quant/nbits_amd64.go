//go:build !purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

// nibbleTable maps a nibble to its value minus the standard zero point.
var nibbleTable = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}

const (
	nbitsRows  = 5 // rows of the largest tile
	vectorRows = 3 // rows of the vector kernel, at most; for more, a panel is converted to float32
)

func hasNBits(level cpu.Level) bool { return level == cpu.AVX512 }

func dequantizeAsm(level cpu.Level, p *NBits, dst []float32, data []uint8, scale, shift []float32) bool {
	if level != cpu.AVX512 {
		return false
	}
	if p.Bits == 4 {
		dequantize4AVX512(&dst[0], &data[0], &scale[0], &shift[0], &nibbleTable[0], p.Block/8)
		return true
	}
	dequantize8AVX512(&dst[0], &data[0], &scale[0], &shift[0], p.Block/4)
	return true
}

func quantizeBytes(level cpu.Level, dst []int8, x []float32, factor float32) int32 {
	if level == cpu.AVX512 && len(x) >= 16 && len(x)%16 == 0 {
		return quantizeBlockAVX512(&dst[0], &x[0], len(x), factor)
	}
	return quantizeBytesGeneric(dst, x, factor)
}

func digitBytes(level cpu.Level, dst []int8, stride int, x []float32, factor float32, sum *[digits]int32) {
	if cpu.VNNI(level) && len(x) >= 16 && len(x)%16 == 0 {
		digitBytesVNNI(&dst[0], &dst[stride], &dst[2*stride], &x[0], len(x), factor, &sum[0])
		return
	}
	digitBytesGeneric(dst, stride, x, factor, sum)
}

// runNBits computes a tile of int8 rows.
func runNBits(bits, rows int, t *nbitsArgs) {
	if bits == 4 {
		tile4Bits(rows, t)
	} else {
		tile8Bits(rows, t)
	}
}

// runNBitsVector computes one row of float32.
func runNBitsVector(bits int, t *nbitsArgs) {
	if bits == 4 {
		nbitsVector4AVX512(t, &nibbleTable[0])
	} else {
		nbitsVector8AVX512(t, &nibbleTable[0])
	}
}
