//go:build !purego

package conv

import (
	mathbits "math/bits"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

func runTile(l cpu.Level, pixels, blocks int, t *tileArgs) {
	if l != cpu.NEON {
		tileGeneric(pixels, blocks, Lanes, t)
		return
	}
	tile1NEON(pixels, t)
	if blocks == 2 {
		second := t.secondBlock()
		tile1NEON(pixels, &second)
	}
}

func runNCHW(l cpu.Level, pixels, blocks int, t *tileArgs) {
	if l != cpu.NEON {
		tileGeneric(pixels, blocks, 1, t)
		return
	}
	nchw1NEON(pixels, t)
	if blocks == 2 {
		second := t.secondBlock()
		nchw1NEON(pixels, &second)
	}
}

func runPermuted(l cpu.Level, pixels, blocks int, t *tileArgs) {
	if l != cpu.NEON {
		tileGeneric(pixels, blocks, 0, t)
		return
	}
	permuted1NEON(pixels, t)
	if blocks == 2 {
		second := t.secondBlock()
		permuted1NEON(pixels, &second)
	}
}

func runDepthwise(l cpu.Level, pixels int, t *tileArgs) {
	if l == cpu.NEON {
		for i := range t.times {
			u := t.nth(i)
			depthwiseNEON(pixels, &u)
		}
	} else {
		for i := range t.times {
			u := t.nth(i)
			depthwiseGeneric(pixels, &u)
		}
	}
}

func runMaximum(l cpu.Level, pixels int, t *tileArgs) {
	if l == cpu.NEON {
		maximumNEON(pixels, t)
	} else {
		maximumGeneric(pixels, t)
	}
}

func runSum(l cpu.Level, pixels int, t *tileArgs) {
	if l == cpu.NEON {
		sumNEON(pixels, t)
	} else {
		sumGeneric(pixels, t)
	}
}

func runAffine(l cpu.Level, dst, x []float32, scale, shift *[Lanes]float32, lo, hi float32) {
	const most = 1 << 10 // pixels per call
	if l != cpu.NEON {
		affineGeneric(dst, x, scale, shift, lo, hi)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst)/Lanes, most)
		affineNEON(&dst[0], &x[0], &scale[0], &shift[0], n, lo, hi)
		dst, x = dst[n*Lanes:], x[n*Lanes:]
	}
}

func runByteTile(l cpu.Level, pixels int, t *byteTile) {
	if t.signed && !cpu.DotProduct(l) || !t.signed && !cpu.Int8Matrix(l) {
		byteTileGeneric(pixels, t)
	} else {
		byteHalves(pixels, t)
	}
}

// byteHalves computes the two halves of a tile's channels. A half without some of its channels is
// computed in a buffer.
func byteHalves(pixels int, t *byteTile) {
	const half = byteCols / 2
	size := 1 // bytes of an output
	if t.sums != 0 {
		size = 4
	}
	for j := 0; j < byteCols; j += half {
		mask := uint16(t.mask >> j)
		if mask == 0 {
			continue
		}
		h := *t
		h.b, h.bias, h.scale, h.c = unsafe.Add(t.b, 4*j), unsafe.Add(t.bias, 4*j), unsafe.Add(t.scale, 4*j),
			unsafe.Add(t.c, size*j)
		if mask == 1<<half-1 {
			byteHalf(pixels, &h)
			continue
		}
		var buf [6 * half * 4]byte
		first := (pixels + 1) / 2
		h.c, h.ldc, h.secondC = unsafe.Pointer(&buf), half*size, first*half*size
		byteHalf(pixels, &h)
		for p := range pixels {
			c := unsafe.Add(t.c, size*j+p*t.ldc)
			if p >= first {
				c = unsafe.Add(t.c, size*j+t.secondC+(p-first)*t.ldc)
			}
			for i := range half {
				if mask>>i&1 != 0 {
					copy(unsafe.Slice((*byte)(unsafe.Add(c, i*size)), size), buf[(p*half+i)*size:])
				}
			}
		}
	}
}

func byteHalf(pixels int, t *byteTile) {
	switch {
	case t.signed:
		byteTileSDOT(pixels, t)
	case pixels == 1:
		byteTileSUDOT(pixels, t)
	default:
		byteTileMatrix(pixels, t)
	}
}

// channelIndex is a table of byte indices: from element n on, those of bytes n to 15, then indices
// out of range.
var channelIndex = [2 * Lanes]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}

// runChannelTile computes a last block with fewer channels in a buffer. It loads the channels
// before them, too, because a vector from their first one on might end beyond the image.
func runChannelTile(l cpu.Level, pixels int, t *channelTile) {
	rest := mathbits.Len32(t.mask)
	if l != cpu.NEON || t.blocks == 1 && rest < Lanes {
		channelTileGeneric(pixels, t)
		return
	}
	const most = 4
	for p := 0; p < pixels; p += most {
		n := min(most, pixels-p)
		u := *t
		u.a, u.c = unsafe.Add(t.a, p*t.pixel), unsafe.Add(t.c, p*t.ldc)
		u.index = (*[Lanes]uint8)(channelIndex[:])
		if rest == Lanes {
			channelTileNEON(n, &u)
			continue
		}
		u.blocks--
		channelTileNEON(n, &u)
		k := u.blocks * Lanes
		var buf [most * Lanes]byte
		c := unsafe.Add(u.c, k)
		u.a, u.b = unsafe.Add(u.a, k-(Lanes-rest)), unsafe.Add(u.b, 4*k*t.taps)
		u.bias, u.scale = unsafe.Add(u.bias, 4*k), unsafe.Add(u.scale, 4*k)
		u.index = (*[Lanes]uint8)(channelIndex[Lanes-rest:])
		u.blocks, u.c, u.ldc = 1, unsafe.Pointer(&buf), Lanes
		channelTileNEON(n, &u)
		for i := range n {
			copy(unsafe.Slice((*byte)(unsafe.Add(c, i*t.ldc)), rest), buf[i*Lanes:])
		}
	}
}

func hasWindowTiles(cpu.Level) bool { return false }

func runWindowTile(_ cpu.Level, channels, stride int, t *windowTile) {
	windowTileGeneric(channels, stride, t)
}

func winogradInput(l cpu.Level, m int, src, dst *float32, row, xi, n int) {
	if l != cpu.NEON {
		winogradInputGeneric(m, src, dst, row, xi, n)
		return
	}
	for i := 0; i < Lanes; i += 4 {
		s, d := part(src, i), part(dst, i)
		if m == 4 {
			winogradInput4NEON(s, d, row, xi, n)
		} else {
			winogradInput2NEON(s, d, row, xi, n)
		}
	}
}

func winogradOutput(l cpu.Level, m int, src, dst, bias, add *float32, row, addRow, xi, n int, lo, hi float32) {
	if l != cpu.NEON {
		winogradOutputGeneric(m, src, dst, bias, add, row, addRow, xi, n, lo, hi)
		return
	}
	for i := 0; i < Lanes; i += 4 {
		s, d, b, a := part(src, i), part(dst, i), part(bias, i), add
		if add != nil {
			a = part(add, i)
		}
		if m == 4 {
			winogradOutput4NEON(s, d, b, a, row, addRow, xi, n, lo, hi)
		} else {
			winogradOutput2NEON(s, d, b, a, row, addRow, xi, n, lo, hi)
		}
	}
}

// part returns the address of element i of a block of channels.
func part(block *float32, i int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(block), 4*i)) }
