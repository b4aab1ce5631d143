//go:build !purego

package quant

import (
	"math/bits"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

const (
	nbitsRows  = 5 // rows of the largest tile
	vectorRows = 3 // rows of the vector kernel, at most; for more, a panel is converted to float32
)

const readsByteZeros = false

func hasNBits(level cpu.Level) bool { return level == cpu.NEON }

func dequantizeAsm(level cpu.Level, p *NBits, dst []float32, data []uint8, scale, shift []float32) bool {
	if level != cpu.NEON {
		return false
	}
	if p.Bits == 4 {
		dequantize4NEON(&dst[0], &data[0], &scale[0], &shift[0], p.Block/8)
	} else {
		dequantize8NEON(&dst[0], &data[0], &scale[0], &shift[0], p.Block/4)
	}
	return true
}

func quantizeBytes(level cpu.Level, dst []int8, x []float32, factor float32) int32 {
	if level == cpu.NEON && len(x) >= 16 && len(x)%16 == 0 {
		return quantizeBlockNEON(&dst[0], &x[0], len(x), factor)
	}
	return quantizeBytesGeneric(dst, x, factor)
}

func digitBytes(level cpu.Level, dst []int8, stride int, x []float32, factor float32, sum *[digits]int32) {
	if level == cpu.NEON && len(x) >= 16 && len(x)%16 == 0 {
		digitBytesNEON(&dst[0], &dst[stride], &dst[2*stride], &x[0], len(x), factor, &sum[0])
		return
	}
	digitBytesGeneric(dst, stride, x, factor, sum)
}

// runNBits computes a tile of int8 rows.
func runNBits(width, rows int, t *nbitsArgs) { nbitsHalves(width, rows, t) }

// runNBitsVector computes one row of float32.
func runNBitsVector(_ cpu.Level, width int, t *nbitsArgs) { nbitsHalves(width, 0, t) }

// nbitsHalves computes the two halves of a panel, of one float32 row if rows is 0. The kernels add
// to C, so C is cleared first. A half with fewer than 16 columns is computed in a buffer.
func nbitsHalves(width, rows int, t *nbitsArgs) {
	const half = PanelWidth / 2
	cols := bits.Len32(t.mask)
	for j := 0; j < cols; j += half {
		h := *t
		h.b, h.scale, h.c = unsafe.Add(t.b, j*4), unsafe.Add(t.scale, j*4), unsafe.Add(t.c, j*4)
		if t.shift != nil {
			h.shift = unsafe.Add(t.shift, j*4)
		}
		n := min(half, cols-j)
		row := func(r int) []float32 { return unsafe.Slice((*float32)(unsafe.Add(t.c, j*4+r*int(t.ldc))), n) }
		var buf [nbitsRows * half]float32
		if n < half {
			h.c, h.ldc = unsafe.Pointer(&buf), half*4
		}
		for r := range max(rows, 1) {
			switch {
			case t.acc == 0:
				clear(row(r))
			case n < half:
				copy(buf[r*half:], row(r))
			}
		}
		switch {
		case rows == 0 && width == 4:
			nbitsVector4NEON(&h)
		case rows == 0:
			nbitsVector8NEON(&h)
		case width == 4:
			tile4Bits(rows, &h)
		default:
			tile8Bits(rows, &h)
		}
		if n < half {
			for r := range max(rows, 1) {
				copy(row(r), buf[r*half:])
			}
		}
	}
}
