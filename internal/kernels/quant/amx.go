package quant

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

const (
	// TileRows is the maximum number of rows of one half of a tile of [Tiles].
	TileRows = 16
	// SumsLen is the number of sums of a tile: [32 rows][32 columns], the second half from row 16 on.
	SumsLen = 2 * TileRows * PanelWidth
	// MaxTiles is the maximum number of tiles in one call.
	MaxTiles = 8
	// maxChunks limits one call to about 30 µs: chunks of all tiles.
	maxChunks = 512
	tileSteps = 16 // most steps of four bytes of K in a chunk
)

// Tiles holds the arguments of a product of bytes with AMX; the generator knows the field offsets. Distances are in bytes.
//
//	for i := range count {
//		for half := range 2 {
//			for r := range rows[half] {
//				for j := range 32 {
//					for t := range taps {
//						for k := range 4*steps*chunks {
//							sums[i][half*16+r][j] += a[at[i][half]+r*pixel+offsets[t]+k] * b[t][k/4][j][k%4]
//						}
//					}
//				}
//			}
//		}
//	}
//
// Elements of A are unsigned, those of B signed, in rows of 128 bytes.
type Tiles struct {
	config  [64]byte
	A, B    unsafe.Pointer
	sums    unsafe.Pointer
	at      unsafe.Pointer
	count   int
	Offsets unsafe.Pointer // one int for each tap
	Taps    int            // at least 1
	chunks  int
	stepA   int // bytes of A in a chunk
	stepB   int
	Pixel   int // distance between rows of A

	At   [MaxTiles][2]int // offsets of the first row of each half
	Sums [MaxTiles * SumsLen]int32
}

// Most returns the maximum number of tiles in one call.
func (t *Tiles) Most() int { return min(max(1, maxChunks/(t.Taps*t.chunks)), MaxTiles) }

// Chunks returns how AMX divides steps of four bytes of K: the number of chunks and their steps. Their product may exceed steps.
func Chunks(steps int) (chunks, each int) {
	chunks = (steps + tileSteps - 1) / tileSteps
	return chunks, (steps + chunks - 1) / chunks
}

// Configure sets the rows of the halves, 1 to 16 and 0 to 16, and the number of chunks and their steps, 1 to 16.
func (t *Tiles) Configure(first, second, chunks, steps int) {
	// Intel SDM, volume 1, table 18-4: palette, and from bytes 16 and 48 on the bytes in a row and the rows of each tile.
	t.config = [64]byte{0: 1}
	for i, tile := range [8][2]int{{first, 64}, {first, 64}, {second, 64}, {second, 64}, {first, 4 * steps}, {second, 4 * steps}, {steps, 64}, {steps, 64}} {
		if tile[0] > 0 {
			t.config[48+i], t.config[16+2*i] = byte(tile[0]), byte(tile[1])
		}
	}
	t.chunks, t.stepA, t.stepB = chunks, 4*steps, steps*PanelWidth*4
}

func (t *Tiles) rows(half int) int { return int(t.config[48+2*half]) }

// Sum computes count tiles.
func (t *Tiles) Sum(l cpu.Level, count int) {
	t.at, t.sums, t.count = unsafe.Pointer(&t.At), unsafe.Pointer(&t.Sums), count
	if cpu.AMX(l) {
		tilesAMX(t)
	} else {
		tilesGeneric(t)
	}
}

// tilesGeneric computes the sums in plain Go.
func tilesGeneric(t *Tiles) {
	offsets := unsafe.Slice((*int)(t.Offsets), t.Taps)
	steps := t.chunks * t.stepA / 4
	for i := range t.count {
		for half := range 2 {
			for r := range t.rows(half) {
				var sum [PanelWidth]int32
				b := unsafe.Slice((*[PanelWidth][4]int8)(t.B), t.Taps*steps)
				for _, off := range offsets {
					a := unsafe.Slice((*[4]uint8)(unsafe.Add(t.A, t.At[i][half]+r*t.Pixel+off)), steps)
					for k, x := range a {
						for j, w := range &b[k] {
							sum[j] += int32(x[0])*int32(w[0]) + int32(x[1])*int32(w[1]) + int32(x[2])*int32(w[2]) + int32(x[3])*int32(w[3])
						}
					}
					b = b[steps:]
				}
				copy(t.Sums[((i*2+half)*TileRows+r)*PanelWidth:], sum[:])
			}
		}
	}
}

// amxRows is the number of rows from which AMX is faster than VNNI.
const amxRows = 4

// amxPanel computes the rows of one panel with AMX, in chunks of each steps.
func (b *buffers) amxPanel(l cpu.Level, t *tileI32, rows, cols, each int) {
	if b.tiles == nil {
		b.tiles = new(Tiles)
	}
	s, c, rowBias := b.tiles, t.c, t.rowBias
	s.A, s.B, s.Pixel, s.Offsets, s.Taps = t.a, t.b, int(t.lda), unsafe.Pointer(&zeroOffset), 1
	for r := 0; r < rows; {
		height := min(rows-r, 2*TileRows)
		first := min(height, TileRows)
		s.Configure(first, height-first, t.k/each, each)
		count := min((rows-r)/height, s.Most())
		for i := range count {
			at := (r + i*height) * s.Pixel
			s.At[i] = [2]int{at, at + first*s.Pixel}
		}
		s.Sum(l, count)
		t.c = unsafe.Add(c, r*int(t.ldc))
		if rowBias != nil {
			t.rowBias = unsafe.Add(rowBias, 4*r)
		}
		storeSums(l, t, s.Sums[:count*height*PanelWidth], cols) // without a gap, since tiles of less than 32 rows come alone
		r += count * height
	}
	s.A, s.B = nil, nil // the pool must not keep them
}

var zeroOffset int // of the only tap of a matrix product

// storeSumsGeneric adds biases and, if acc is set, the previous sums to rows of sums, and stores them.
func storeSumsGeneric(t *tileI32, sums []int32, cols int) {
	for r := range len(sums) / PanelWidth {
		c := unsafe.Slice((*int32)(unsafe.Add(t.c, r*int(t.ldc))), cols)
		for j := range c {
			s := sums[r*PanelWidth+j]
			if t.bias != nil {
				s += unsafe.Slice((*int32)(t.bias), cols)[j]
			}
			if t.rowBias != nil {
				s += *(*int32)(unsafe.Add(t.rowBias, r*4))
			}
			if t.acc != 0 {
				s += c[j]
			}
			c[j] = s
		}
	}
}
