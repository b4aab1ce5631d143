package conv

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/memory"
)

const (
	windowMost, windowHalf = 64, 32 // channels of a window tile
	windowPixels           = 4096   // outputs of a tile, to limit a call to 30 µs
	windowRows             = 8      // rows of the output for which a tile's channels are computed before the next
)

// Interleaving three rows of 64 channels makes the operands of VPDPBUSD in 2 instructions per 16
// channels: the three bytes of a window's column for one channel; widening 16 channels takes 6.
// Packing the results undoes the interleaving, so only weights, bias and scales are permuted.

// windowTile holds the arguments of a tile function of an int8 depthwise 3×3 convolution with the
// channels innermost; the generator knows the field offsets. Distances are in bytes.
//
// A tile has a row of outputs, and up to 64 or 32 channels. Weights are [column][channel][4], those
// of a column in the first three elements. Channels of weights, bias and scale are in the order of
// [windowAt].
type windowTile struct {
	rows   [3]unsafe.Pointer // of the window, at the first column that is read
	b, c   unsafe.Pointer
	column int // distance between the columns of the input
	ldc    int // distance between the outputs of successive pixels
	n      int // pixels, at least 1
	// 1 if a column of padding is to the left of the first column that is read, or to the right of
	// the last
	left, right int
	bias        unsafe.Pointer // of int32
	scale       unsafe.Pointer // of float32, for which [Integer.narrows] holds
	mask        uint64         // of the channels
	pad         uint32         // a byte of padding, four times
	zero        int32
	lo, hi      float32 // bounds of the output minus the zero point
	quant.Unsigned
}

// windowTileGeneric computes a tile. Pixels have the given stride in columns, and x is a row of the
// input from its column of padding on.
//
//	for p := range n {
//		for j := range channels {
//			s := bias[j]
//			for k := range 3 {
//				for r := range 3 {
//					s += x[r][p*stride+k][j] * b[k][j][r]
//				}
//			}
//			c[p][j] = roundToEven(clip(float32(s)*scale[j], lo, hi)) + zero
//		}
//	}
func windowTileGeneric(channels, stride int, t *windowTile) {
	b := unsafe.Slice((*[4]int8)(t.b), 3*channels)
	bias, scale := unsafe.Slice((*int32)(t.bias), channels), unsafe.Slice((*float32)(t.scale), channels)
	for p := range t.n {
		for j := range channels {
			if t.mask>>j&1 == 0 {
				continue
			}
			at := windowAt(channels, j)
			s := bias[at]
			for k := range 3 {
				column := p*stride + k
				padded := column < t.left || t.right != 0 && p == t.n-1 && k == 2
				for r, row := range t.rows {
					v := uint8(t.pad)
					if !padded {
						v = *(*uint8)(unsafe.Add(row, (column-t.left)*t.column+j))
					}
					s += int32(v) * int32(b[k*channels+at][r])
				}
			}
			v := float32(s) * scale[at]
			if !(v > t.lo) {
				v = t.lo
			}
			*(*uint8)(unsafe.Add(t.c, p*t.ldc+j)) = uint8(int32(math.RoundToEven(float64(min(v, t.hi)))) + t.zero)
		}
	}
}

// windowAt returns the position of channel j of a tile in its weights: interleaving distributes
// each 16 channels over four vectors.
func windowAt(channels, j int) int { return j%16/4*(channels/4) + j/16*4 + j%4 }

// windowChannels returns the channels of the tile for the last rest channels.
func windowChannels(rest int) int {
	if rest <= windowHalf {
		return windowHalf
	}
	return windowMost
}

// windowPosition returns the position of channel c of all in bias and scale: that of the first
// channel of its tile plus [windowAt].
func windowPosition(channels, c int) int {
	first := c / windowMost * windowMost
	return first + windowAt(windowChannels(channels-first), c-first)
}

// packWindows returns the weights of a depthwise 3×3 convolution for window tiles. It returns nil
// if a weight does not fit a byte.
func packWindows(single []int32) []int8 {
	const taps = 9
	channels := len(single) / taps
	r := memory.Slice[int8](tiles(channels, windowHalf) * windowHalf * 3 * 4)
	for i, v := range single {
		c, row, column := i/taps, i%taps/3, i%3
		if v != int32(int8(v)) {
			return nil
		}
		first := c / windowMost * windowMost
		n := windowChannels(channels - first)
		r[(3*first+column*n+windowAt(n, c-first))*4+row] = int8(v)
	}
	return r
}

// hasWindows reports whether window tiles support the shape of a depthwise convolution.
func (d *Integer) hasWindows() bool {
	e := &d.d
	return hasWindowTiles(d.level) && e[0].kernel == 1 && e[1].kernel == 3 && e[2].kernel == 3 &&
		e[2].dilation == 1 && e[2].stride <= 2
}

// runWindows computes image n of a depthwise 3×3 convolution with the channels innermost. It copies
// the input src only if its elements must be converted, or if more than a column of padding is on a
// side.
func (d *Integer) runWindows(par gemm.Par, b *integerBuffers, y *byteOutput, ep *byteEpilogue, n int, src []byte) {
	q, e, channels := d.geometry, &d.d, d.s.Cout
	rows, width := e[0].out*e[1].out, e[2].out
	left, right := e[2].pad, (width-1)*e[2].stride+3-e[2].pad-e[2].in
	pad := byte(ep.zero)
	direct := ep.flip == 0 && left <= 1 && right <= 1
	row := e[2].in * channels
	var outside []byte
	if direct {
		outside = resize(&b.image, row)
		fill(outside, pad)
	} else {
		src, row, left, right = d.padLast(par, b, src, pad, ep.flip), q.row, 0, 0
	}
	// at returns row k of the windows of row r of the output.
	at := func(r, k int) unsafe.Pointer {
		i := r/e[1].out*e[0].stride*q.size[1] + r%e[1].out*e[1].stride + k*e[1].dilation
		if direct {
			if i = d.inputRow(i); i < 0 {
				return unsafe.Pointer(&outside[0])
			}
		}
		return unsafe.Pointer(&src[i*row])
	}
	par(rows, func(lo, hi int) {
		t := windowTile{column: channels, ldc: channels, pad: uint32(pad) * 0x01010101, zero: y.zero, lo: y.lo,
			hi: y.hi, Unsigned: quant.AsUnsigned(y.zero, y.lo)}
		for ; lo < hi; lo += windowRows {
			for c := 0; c < channels; c += windowMost {
				count := windowChannels(channels - c)
				t.mask = math.MaxUint64 >> max(0, windowMost-(channels-c))
				t.b, t.bias, t.scale = unsafe.Pointer(&ep.windows[c*3*4]), unsafe.Pointer(&ep.bias[c]),
					unsafe.Pointer(&ep.scale[c])
				for r := lo; r < min(hi, lo+windowRows); r++ {
					for p := 0; p < width; p += windowPixels {
						t.n, t.left, t.right = min(windowPixels, width-p), left, 0
						first := c
						if p > 0 {
							t.left = 0
							first += (p*e[2].stride - left) * channels
						}
						if p+t.n == width {
							t.right = max(right, 0)
						}
						for k := range t.rows {
							t.rows[k] = unsafe.Add(at(r, k), first)
						}
						t.c = unsafe.Pointer(&y.bytes[(n*d.pixels[1]+r*width+p)*channels+c])
						runWindowTile(d.level, count, e[2].stride, &t)
					}
				}
			}
		}
	})
}
