package quant

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

const (
	// TileRows is the maximum number of rows of one half of a tile of [Tiles].
	TileRows = 16
	// MaxTiles is the maximum number of tiles in one call.
	MaxTiles = 16
	// maxChunks limits one call to about 30 µs: chunks of all tiles.
	maxChunks = 512
	tileSteps = 16 // most steps of four bytes of K in a chunk
)

// Scheduling of a tile:
//
//   - Tile registers are configured and released in each call, so that the operating system
//     saves none of them at a thread switch. That takes 140 ns, so a call computes up to
//     [MaxTiles] tiles.
//   - The sums of a tile are requantized after the multiplications of the next tile have
//     started, two rows at a time, so that packing instructions saturate. Sums pass through a
//     buffer.
//   - One of the eight tile registers stays unused. With all eight, loads do not overlap
//     multiplications, and the loop takes three to four times as long.
//   - If the second half of a tile has one pixel less, it starts with the last pixel of the
//     first half, so that both remain one call.

// Tiles holds the arguments of an int8 GEMM with AMX; the generator knows the field offsets.
// Distances are in bytes. Elements of A are uint8, those of B int8, in rows of 128 bytes.
//
//	for i := range count {
//		for half := range halves {
//			for r := range rows {
//				for j := range 32 {
//					s := bias[j] + rowBias[row]
//					for t := range taps {
//						for k := range 4*steps*chunks {
//							s += a[at[i].A[half]+r*pixel+offsets[t]+k] * b[t][k/4][j][k%4]
//						}
//					}
//					// or += s, or roundToEven(clip(float32(s)*scale[j], lo, hi)) + zero
//					c[at[i].C[half]+r*ldc][j] = s
//				}
//				row++
//			}
//		}
//	}
type Tiles struct {
	config      [64]byte
	A, B, C     unsafe.Pointer
	at          unsafe.Pointer
	count       int
	Offsets     unsafe.Pointer // one int for each tap
	Taps        int            // at least 1
	chunks      int
	stepA       int // bytes of A in a chunk
	stepB       int
	Pixel, LdC  int            // distances between rows of A and C
	Bias, Scale unsafe.Pointer // 32 of int32, 32 of float32
	RowBias     unsafe.Pointer // one int32 for each row, or nil; only for sums
	sums        unsafe.Pointer // of a tile
	Zero        int32
	Lo, Hi      float32 // bounds of the type of the bytes minus Zero
	Mask        uint32  // of the columns
	Store       Store
	unsigned    Unsigned
	// A hint; need not keep its target alive. Each chunk prefetches PrefetchStep bytes, a multiple
	// of 128, and adds them to it.
	Prefetch     uintptr
	PrefetchStep int

	At     [MaxTiles]TileAt
	halves int
	buffer [tileSums + 16]int32 // the sums of a tile, aligned to 64 bytes
}

const tileSums = 2 * TileRows * PanelWidth

// Unsigned says how kernels that pack with unsigned saturation produce int8 or uint8; the generator
// knows the field offsets.
type Unsigned struct {
	zero int16  // the zero point plus 128 if the bytes are signed
	flip uint32 // of each of four bytes, to convert them to the type
}

// AsUnsigned returns the conversion for bytes with a zero point whose type has the lower bound lo +
// zero.
func AsUnsigned(zero int32, lo float32) Unsigned {
	if lo+float32(zero) < 0 {
		return Unsigned{int16(zero) + 128, 0x80808080}
	}
	return Unsigned{int16(zero), 0}
}

// TileAt has the offsets of the first row of each half of a tile in A and C.
type TileAt struct{ A, C [2]int }

// Store selects the epilogue of [Tiles].
type Store uint64

// Values of Store.
const (
	StoreBytes Store = iota // requantize them
	StoreSums               // as int32
	AddSums                 // to int32
)

// Chunks returns how AMX divides steps of four bytes of K: the number of chunks and their steps.
// Their product may exceed steps.
func Chunks(steps int) (chunks, each int) {
	chunks = (steps + tileSteps - 1) / tileSteps
	return chunks, (steps + chunks - 1) / max(chunks, 1)
}

// Configure sets the number of halves, 1 or 2, the rows of each, 1 to 16, and the number of chunks
// and their steps, 1 to 16.
func (t *Tiles) Configure(halves, rows, chunks, steps int) {
	t.config = gemm.TileConfig(halves, rows, 4*steps, steps)
	t.halves, t.chunks, t.stepA, t.stepB = halves, chunks, 4*steps, steps*PanelWidth*4
}

func (t *Tiles) rows() int { return int(t.config[48]) }

// Most returns the maximum number of tiles in one call.
func (t *Tiles) Most() int { return min(max(1, maxChunks/(t.Taps*t.chunks)), MaxTiles) }

// none is a bias of zeros, and the scale of sums that are not requantized.
var none [PanelWidth]int32

// Run computes count tiles.
func (t *Tiles) Run(l cpu.Level, count int) {
	t.at, t.count = unsafe.Pointer(&t.At), count
	t.sums = t.sumsOf()
	t.unsigned = AsUnsigned(t.Zero, t.Lo)
	if t.Scale == nil {
		t.Scale = unsafe.Pointer(&none)
	}
	if cpu.AMXTiles(l) {
		tilesAMX(t)
	} else {
		tilesGeneric(t)
	}
}

// sumsOf returns the aligned buffer.
func (t *Tiles) sumsOf() unsafe.Pointer {
	return unsafe.Pointer(&t.buffer[-uintptr(unsafe.Pointer(&t.buffer))%64/4])
}

// Release drops the pointers, which a pool must not keep.
func (t *Tiles) Release() {
	t.A, t.B, t.C, t.Offsets, t.Bias, t.Scale, t.RowBias = nil, nil, nil, nil, nil, nil, nil
}

// tilesGeneric computes the tiles in plain Go.
func tilesGeneric(t *Tiles) {
	row := 0
	for i := range t.count {
		for half := range t.halves {
			for r := range t.rows() {
				sum := *(*[PanelWidth]int32)(t.Bias)
				t.addProducts(&sum, unsafe.Add(t.A, t.At[i].A[half]+r*t.Pixel))
				if t.Store != StoreBytes && t.RowBias != nil {
					v := *(*int32)(unsafe.Add(t.RowBias, 4*row))
					for j := range sum {
						sum[j] += v
					}
				}
				t.store(unsafe.Add(t.C, t.At[i].C[half]+r*t.LdC), &sum)
				row++
			}
		}
	}
}

func (t *Tiles) addProducts(sum *[PanelWidth]int32, a unsafe.Pointer) {
	steps := t.chunks * t.stepA / 4
	b := unsafe.Slice((*[PanelWidth][4]int8)(t.B), t.Taps*steps)
	for _, off := range unsafe.Slice((*int)(t.Offsets), t.Taps) {
		for k, x := range unsafe.Slice((*[4]uint8)(unsafe.Add(a, off)), steps) {
			for j, w := range &b[k] {
				sum[j] += int32(x[0])*int32(w[0]) + int32(x[1])*int32(w[1]) + int32(x[2])*int32(w[2]) +
					int32(x[3])*int32(w[3])
			}
		}
		b = b[steps:]
	}
}

func (t *Tiles) store(c unsafe.Pointer, sum *[PanelWidth]int32) {
	scale := (*[PanelWidth]float32)(t.Scale)
	for j, s := range sum {
		switch {
		case t.Mask>>j&1 == 0:
		case t.Store == AddSums:
			*(*int32)(unsafe.Add(c, 4*j)) += s
		case t.Store == StoreSums:
			*(*int32)(unsafe.Add(c, 4*j)) = s
		default:
			v := float32(s) * scale[j]
			if !(v > t.Lo) {
				v = t.Lo
			}
			*(*uint8)(unsafe.Add(c, j)) = uint8(int32(math.RoundToEven(float64(min(v, t.Hi)))) + t.Zero)
		}
	}
}

// amxRows is the number of rows from which AMX is faster than VNNI.
const amxRows = 4

// amx reports whether GEMMs with rows rows of A use AMX.
func (p *Packed) amx(l cpu.Level, rows int) bool { return p.each > 0 && rows >= amxRows && cpu.AMX(l) }

// amxPanel computes the rows of one panel with AMX, in chunks of each steps. If out is set, the
// sums become bytes from element at on, in rows of ldy.
func (b *buffers) amxPanel(l cpu.Level, t *tileI32, rows, each int, out *Requantized, at, ldy int) {
	if b.tiles == nil {
		b.tiles = new(Tiles)
	}
	s := b.tiles
	s.A, s.B, s.C, s.Pixel, s.LdC, s.Mask = t.a, t.b, t.c, int(t.lda), int(t.ldc), t.mask
	s.Offsets, s.Taps, s.Store = unsafe.Pointer(&zeroOffset), 1, StoreSums+Store(t.acc)
	if out != nil {
		lo, hi := out.bounds()
		s.Store, s.C, s.LdC, s.Zero, s.Lo, s.Hi = StoreBytes, unsafe.Pointer(&out.Y[at]), ldy, out.Zero,
			lo-float32(out.Zero), hi-float32(out.Zero)
		column := at % ldy
		for j := range b.scale {
			b.scale[j] = out.Scale[min(column+j, len(out.Scale)-1)]
		}
		s.Scale = unsafe.Pointer(&b.scale)
	}
	if s.Bias = t.bias; s.Bias == nil {
		s.Bias = unsafe.Pointer(&none)
	}
	for r := 0; r < rows; {
		height, halves := min(rows-r, TileRows), 1
		if rows-r >= 2*TileRows {
			halves = 2
		}
		s.Configure(halves, height, t.k/each, each)
		height *= halves
		count := min((rows-r)/height, s.Most())
		for i := range count {
			row := r + i*height
			s.At[i] = TileAt{A: [2]int{row * s.Pixel, (row + TileRows) * s.Pixel},
				C: [2]int{row * s.LdC, (row + TileRows) * s.LdC}}
		}
		if s.RowBias = nil; t.rowBias != nil {
			s.RowBias = unsafe.Add(t.rowBias, 4*r)
		}
		s.Run(l, count)
		r += count * height
	}
	s.Release()
}

var zeroOffset int // of the only tap of a matrix product
