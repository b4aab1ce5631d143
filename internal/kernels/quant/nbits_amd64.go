//go:build !purego

package quant

import (
	"math/bits"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// nibbleTable maps a nibble to its value minus the standard zero point.
var nibbleTable = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}

const (
	nbitsRows  = 5 // rows of the largest tile
	vectorRows = 3 // rows of the vector kernel, at most; for more, a panel is converted to float32
)

const readsByteZeros = true

func hasNBits(level cpu.Level) bool { return level >= cpu.AVX2 }

func dequantizeAsm(level cpu.Level, p *NBits, dst []float32, data []uint8, scale, shift []float32) bool {
	switch {
	case level == cpu.AVX512 && p.Bits == 4:
		dequantize4AVX512(&dst[0], &data[0], &scale[0], &shift[0], &nibbleTable[0], p.Block/8)
	case level == cpu.AVX512:
		dequantize8AVX512(&dst[0], &data[0], &scale[0], &shift[0], p.Block/4)
	case level == cpu.AVX2 && p.Bits == 4:
		dequantize4AVX2(&dst[0], &data[0], &scale[0], &shift[0], p.Block/8)
	case level == cpu.AVX2:
		dequantize8AVX2(&dst[0], &data[0], &scale[0], &shift[0], p.Block/4)
	default:
		return false
	}
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
func runNBits(width, rows int, t *nbitsArgs) {
	if width == 4 {
		tile4Bits(rows, t)
	} else {
		tile8Bits(rows, t)
	}
}

// runNBitsVector computes one row of float32.
func runNBitsVector(level cpu.Level, width int, t *nbitsArgs) {
	switch {
	case level == cpu.AVX512 && width == 4:
		nbitsVector4AVX512(t, &nibbleTable[0])
		return
	case level == cpu.AVX512:
		nbitsVector8AVX512(t, &nibbleTable[0])
		return
	}
	h, n := *t, bits.Len32(t.mask)
	var buf [PanelWidth]float32
	if n < PanelWidth {
		h.c = unsafe.Pointer(&buf)
		copy(buf[:], unsafe.Slice((*float32)(t.c), n))
	}
	if width == 4 {
		nbitsVector4AVX2(&h)
	} else {
		nbitsVector8AVX2(&h)
	}
	if n < PanelWidth {
		copy(unsafe.Slice((*float32)(t.c), n), buf[:])
	}
}
