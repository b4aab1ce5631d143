package conv

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// tileArgs is what a tile function reads; the generator knows the offsets. Distances are in bytes.
//
// A tile is a row of output pixels by one or two blocks of 16 output channels. Its input is
// [cb][kh][kw][16 channels], broadcast; the weights are contiguous, one vector of outputs for each
// input channel; the output is [block][pixel][16].
type tileArgs struct {
	a, b, c       unsafe.Pointer
	bias, add     unsafe.Pointer // add may be nil
	cb, kh, kw    int            // trip counts, at least 1
	dkw, dkh, dcb int            // added to a after a tap, a kernel row, a block
	pixel         int            // from one pixel's input to the next
	ldc, ldadd    int            // between the blocks of c and of add
	acc           uint64         // start from c instead of bias
	act           uint64         // a gemm.Activation
	lo, hi        float32        // lo is the factor of a sum tile
	prefetch      uintptr        // a hint, which no collector needs to follow
	prefetchStep  int
	bStep         int            // between the weights of two input channels
	moves         unsafe.Pointer // of a gather tile: cb int64 distances, from each input channel to the next
	depthwiseTiles
}

// depthwiseTiles are the tiles that one call of a depthwise tile computes: distances from the operands of one to
// those of the next. A tile function may use them up.
type depthwiseTiles struct {
	times          int // at least 1
	aStep, cStep   int
	addStep, addAt int // addAt is the distance so far
}

// depthwiseRun computes times tiles of pixels pixels as far apart as t says, some microseconds' worth in one call.
func depthwiseRun(l cpu.Level, pixels, times int, t *tileArgs) {
	most := max(1, 2048/(t.kh*t.kw))
	for first := 0; first < times; first += most {
		u := *t
		if first > 0 {
			u = t.nth(first)
		}
		u.times, u.addAt = min(most, times-first), 0
		runDepthwise(l, pixels, &u)
	}
}

// nth returns tile i of those of t.
func (t *tileArgs) nth(i int) tileArgs {
	u := *t
	u.a, u.c = unsafe.Add(t.a, i*t.aStep), unsafe.Add(t.c, i*t.cStep)
	if t.add != nil {
		u.add = unsafe.Add(t.add, i*t.addStep)
	}
	return u
}

// depthwiseRow computes a row of width pixels, with the fewest tiles. No pointer may lead beyond the row: what lies behind it
// may be no memory of Go's, and a collector that saw such a pointer would throw.
func depthwiseRow(l cpu.Level, width int, t *tileArgs) {
	n := tiles(width, tilePixels(l))
	pixels, rest := width/n, width%n
	u := *t
	u.between(pixels)
	depthwiseRun(l, pixels, n-rest, &u)
	if rest > 0 {
		v := u.nth(n - rest)
		v.between(pixels + 1)
		depthwiseRun(l, pixels+1, rest, &v)
	}
}

// between makes tiles follow each other in a row.
func (t *tileArgs) between(pixels int) {
	t.aStep, t.cStep, t.addStep = pixels*t.pixel, pixels*Lanes*4, pixels*Lanes*4
}

// tilePixels is the height of the tallest tile.
func tilePixels(l cpu.Level) int {
	if l == cpu.AVX2 || l == cpu.NEON {
		return 6
	}
	return 14
}

func at(p unsafe.Pointer, elements int) unsafe.Pointer { return unsafe.Add(p, elements*4) }

// address is for prefetches only: what it points to may move or go away.
func address(s []float32, elements int) uintptr { return uintptr(ptr(s)) + uintptr(elements)*4 }

func ptr(s []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func f32at(p unsafe.Pointer, bytes int) float32 { return *(*float32)(unsafe.Add(p, bytes)) }

func lanes(p unsafe.Pointer) *[Lanes]float32 { return (*[Lanes]float32)(p) }

// tileGeneric computes a tile of 14 pixels at most. inner is the number of channels per tap: 16, 1 for the stem,
// or 0 to go from channel to channel by moves.
//
//	for p := range pixels {
//		for j := range 16*blocks {
//			s := bias[j] // or c
//			for cb, kh, kw, k {
//				s += a[p][cb][kh][kw][k] * b[cb][kh][kw][k][j]
//			}
//			c[j/16][p][j%16] = act(s + add[j/16][p][j%16])
//		}
//	}
func tileGeneric(pixels, blocks, inner int, t *tileArgs) {
	var sums [14][2 * Lanes]float32
	for p := range pixels {
		for b := range blocks {
			s := (*[Lanes]float32)(sums[p][b*Lanes:])
			if t.acc != 0 {
				*s = *lanes(unsafe.Add(t.c, b*t.ldc+p*Lanes*4))
			} else if t.bias != nil {
				*s = *lanes(at(t.bias, b*Lanes))
			}
		}
	}
	// offsets rather than pointers: the last steps lead out of the slices
	a, b := 0, 0
	step := func(a int) {
		w := unsafe.Slice((*float32)(unsafe.Add(t.b, b)), blocks*Lanes)
		for p := range pixels {
			x := f32at(t.a, a+p*t.pixel)
			s := sums[p][:len(w)]
			for j, v := range w {
				s[j] += x * v
			}
		}
		b += t.bStep
	}
	if inner == 0 {
		for _, move := range unsafe.Slice((*int64)(t.moves), t.cb) {
			step(a)
			a += int(move)
		}
	}
	for range tern(inner > 0, t.cb, 0) {
		for range t.kh {
			for range t.kw {
				for k := range inner {
					step(a + k*4)
				}
				a += inner*4 + t.dkw
			}
			a += t.dkh
		}
		a += t.dcb
	}
	for p := range pixels {
		for b := range blocks {
			s := (*[Lanes]float32)(sums[p][b*Lanes:])
			if t.add != nil {
				for j, v := range lanes(unsafe.Add(t.add, b*t.ldadd+p*Lanes*4)) {
					s[j] += v
				}
			}
			activate(s, gemm.Activation(t.act), t.lo, t.hi)
			*lanes(unsafe.Add(t.c, b*t.ldc+p*Lanes*4)) = *s
		}
	}
}

func activate(s *[Lanes]float32, act gemm.Activation, lo, hi float32) {
	switch act {
	case gemm.Relu:
		for j, v := range s {
			s[j] = max(v, lo)
		}
	case gemm.Clip:
		for j, v := range s {
			s[j] = min(max(v, lo), hi)
		}
	}
}

// depthwiseGeneric computes a tile of a depthwise convolution.
//
//	for p := range pixels {
//		for j := range 16 {
//			s := bias[j]
//			for kh, kw {
//				s += a[p][kh][kw][j] * b[kh][kw][j]
//			}
//			c[p][j] = min(max(s+add[p][j], lo), hi)
//		}
//	}
func depthwiseGeneric(pixels int, t *tileArgs) {
	for p := range pixels {
		s := *lanes(t.bias)
		a, b := p*t.pixel, 0
		for range t.kh {
			for range t.kw {
				x, w := lanes(unsafe.Add(t.a, a)), lanes(unsafe.Add(t.b, b))
				for j := range s {
					s[j] += x[j] * w[j]
				}
				a, b = a+t.dkw, b+Lanes*4
			}
			a += t.dkh
		}
		if t.add != nil {
			for j, v := range lanes(at(t.add, p*Lanes)) {
				s[j] += v
			}
		}
		activate(&s, gemm.Clip, t.lo, t.hi)
		*lanes(at(t.c, p*Lanes)) = s
	}
}

// maximumGeneric computes c[p][j] = max over kh, kw of a[p][kh][kw][j]; NaN wins.
func maximumGeneric(pixels int, t *tileArgs) {
	for p := range pixels {
		var s [Lanes]float32
		for j := range s {
			s[j] = float32(math.Inf(-1))
		}
		a := p * t.pixel
		for range t.kh {
			for range t.kw {
				for j, v := range lanes(unsafe.Add(t.a, a)) {
					s[j] = max(s[j], v)
				}
				a += t.dkw
			}
			a += t.dkh
		}
		*lanes(at(t.c, p*Lanes)) = s
	}
}

// sumGeneric computes c[p][j] = lo · sum over kh, kw of a[p][kh][kw][j].
func sumGeneric(pixels int, t *tileArgs) {
	for p := range pixels {
		var s [Lanes]float32
		a := p * t.pixel
		for range t.kh {
			for range t.kw {
				for j, v := range lanes(unsafe.Add(t.a, a)) {
					s[j] += v
				}
				a += t.dkw
			}
			a += t.dkh
		}
		for j := range s {
			s[j] *= t.lo
		}
		*lanes(at(t.c, p*Lanes)) = s
	}
}

// split cuts n pixels into the fewest tiles of at most most and returns the bounds of tile i of them.
func split(n, most, i int) (lo, hi int) {
	k := (n + most - 1) / most
	return n * i / k, n * (i + 1) / k
}

func tiles(n, most int) int { return (n + most - 1) / most }
