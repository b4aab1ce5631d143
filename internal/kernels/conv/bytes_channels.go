package conv

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/memory"
)

const (
	channelPixels = 8 // pixels of the largest tile
	// channelSteps limits one tile call to about 20 µs: taps of 16 channels.
	channelSteps = 4096
)

// channelTile holds the arguments of a tile function of an int8 depthwise convolution with the
// channels innermost; the generator knows the field offsets. Distances are in bytes.
//
// A tile has up to 8 evenly spaced pixels and blocks of 16 channels. Weights are int32,
// [block][tap][16], of which the kernels read the low half: differences of int8 or uint8 fit in 16
// bits.
type channelTile struct {
	a, b, c unsafe.Pointer
	offsets unsafe.Pointer // of the taps relative to a pixel, one int each
	taps    int            // trip counts, at least 1
	blocks  int
	pixel   int            // distance between the inputs of successive pixels
	ldc     int            // distance between the outputs of successive pixels
	bias    unsafe.Pointer // of int32
	scale   unsafe.Pointer // of float32
	zero    int32
	lo, hi  float32 // bounds of the output minus the zero point
	mask    uint32  // of the channels of the last block
	//lint:ignore U1000 dispatch_arm64.go sets it and the kernels for NEON read it
	index *[Lanes]uint8 // of the byte of each channel in a vector
}

// channelTileGeneric computes a tile.
//
//	for p := range pixels {
//		for j := range 16*blocks {
//			s := bias[j]
//			for t := range taps {
//				s += a[p*pixel+offsets[t]+j] * b[j/16][t][j%16]
//			}
//			c[p][j] = roundToEven(clip(float32(s)*scale[j], lo, hi)) + zero
//		}
//	}
func channelTileGeneric(pixels int, t *channelTile) {
	offsets := unsafe.Slice((*int)(t.offsets), t.taps)
	b := unsafe.Slice((*[Lanes]int32)(t.b), t.blocks*t.taps)
	bias, scale := unsafe.Slice((*[Lanes]int32)(t.bias), t.blocks), unsafe.Slice((*[Lanes]float32)(t.scale), t.blocks)
	for k := range t.blocks {
		mask := uint32(1<<Lanes - 1)
		if k == t.blocks-1 {
			mask = t.mask
		}
		for p := range pixels {
			for j := range Lanes {
				if mask>>j&1 == 0 {
					continue
				}
				s := bias[k][j]
				for i, off := range offsets {
					s += int32(*(*uint8)(unsafe.Add(t.a, p*t.pixel+off+k*Lanes+j))) * b[k*t.taps+i][j]
				}
				v := float32(s) * scale[k][j]
				if !(v > t.lo) {
					v = t.lo
				}
				*(*uint8)(unsafe.Add(t.c, p*t.ldc+k*Lanes+j)) =
					uint8(int32(math.RoundToEven(float64(min(v, t.hi)))) + t.zero)
			}
		}
	}
}

// packChannels returns the weights of a depthwise convolution for [channelTile].
func packChannels(single []int32, taps int) []int32 {
	channels := len(single) / taps
	r := memory.Slice[int32](tiles(channels, Lanes) * taps * Lanes)
	for c := range channels {
		for t := range taps {
			r[(c/Lanes*taps+t)*Lanes+c%Lanes] = single[c*taps+t]
		}
	}
	return r
}

// Last reports whether the convolution can read and write images with the channels innermost,
// N×D1×…×Dk×C.
func (d *Integer) Last() bool { return d.geometry != nil && hasByteTiles(d.level) }

// RunRequantizedLast is [RunRequantized] for images with the channels innermost. The convolution
// must support them; see [Integer.Last]. If after is not nil, it is called for ranges of y as soon
// as they are complete. Together they cover y.
func RunRequantizedLast[X, Y quant.Byte](d *Integer, par gemm.Par, y []Y, x []X, scale []float32, zero Y,
	after func(lo, hi int)) {
	out := outputOf(y, scale, zero)
	out.last, out.after = true, after
	if d.single != nil {
		d.runChannels(orSerial(par), out, bytesOf(x), signed[X]())
	} else {
		d.runBytes(orSerial(par), out, bytesOf(x), signed[X]())
	}
}

// runChannels computes a depthwise convolution of images with the channels innermost, row by row.
func (d *Integer) runChannels(par gemm.Par, y *byteOutput, x []byte, signed bool) {
	s, q, e := d.s, d.geometry, &d.d
	taps, blocks := len(q.offsets), tiles(s.Cout, Lanes)
	w := d.channels()
	shared := integerPool.Get().(*integerBuffers)
	defer integerPool.Put(shared)
	ep := d.epilogue(y.scale, signed)
	rows, width := e[0].out*e[1].out, e[2].out
	across, most := tiles(width, channelPixels), max(1, channelSteps/taps)
	for n := range s.N {
		src := x[n*s.Cin*d.pixels[0]:][:s.Cin*d.pixels[0]]
		if ep.windows != nil {
			d.runWindows(par, shared, y, ep, n, src)
			continue
		}
		image := d.padLast(par, shared, src, byte(ep.zero), ep.flip)
		par(rows, func(lo, hi int) {
			t := channelTile{offsets: unsafe.Pointer(unsafe.SliceData(q.offsets)), taps: taps,
				pixel: e[2].stride * s.Cin, ldc: s.Cout,
				zero: y.zero, lo: y.lo, hi: y.hi}
			for r := lo; r < hi; r++ {
				for i := range across {
					p0, p1 := split(width, channelPixels, i)
					a, c := unsafe.Pointer(&image[d.byteAt(r*width+p0)]),
						unsafe.Pointer(&y.bytes[(n*d.pixels[1]+r*width+p0)*s.Cout])
					for k := 0; k < blocks; k += most {
						t.a, t.c, t.b = unsafe.Add(a, k*Lanes), unsafe.Add(c, k*Lanes), unsafe.Pointer(&w[k*taps*Lanes])
						t.bias, t.scale = unsafe.Pointer(&ep.bias[k*Lanes]), unsafe.Pointer(&ep.scale[k*Lanes])
						t.blocks, t.mask = min(most, blocks-k), 1<<Lanes-1
						if rest := s.Cout % Lanes; rest != 0 && k+t.blocks == blocks {
							t.mask = 1<<rest - 1
						}
						runChannelTile(d.level, p1-p0, &t)
					}
				}
			}
		})
	}
	y.ends(par)
}

// padLast returns the padded form of an image with the channels innermost: the image itself if it
// needs no padding and is read as it is.
func (d *Integer) padLast(par gemm.Par, b *integerBuffers, src []byte, pad, flip byte) []byte {
	q, e, row := d.geometry, &d.d, d.d[2].in*d.s.Cin
	same := q.row == row && q.size[1] == e[1].in && q.size[0] == e[0].in
	if same && flip == 0 && q.beyond == 0 {
		return src
	}
	image := resize(&b.image, q.length())
	par(tiles(q.size[0]*q.size[1], byteRows), func(lo, hi int) {
		for r := lo * byteRows; r < min(hi*byteRows, q.size[0]*q.size[1]); r++ {
			dst, i := image[r*q.row:][:q.row], d.inputRow(r)
			if i < 0 {
				fill(dst, pad)
				continue
			}
			left := e[2].pad * d.s.Cin
			fill(dst[:left], pad)
			fill(dst[left+row:], pad)
			copy(dst[left:], src[i*row:][:row])
			if flip != 0 {
				flipBytes(dst[left:left+row], flip)
			}
		}
	})
	return image
}

// inputRow returns the row of the input at row r of the padded image, or −1 in the padding.
func (d *Integer) inputRow(r int) int {
	q, e := d.geometry, &d.d
	z, y := r/q.size[1]-e[0].pad, r%q.size[1]-e[1].pad
	if z < 0 || z >= e[0].in || y < 0 || y >= e[1].in {
		return -1
	}
	return z*e[1].in + y
}
