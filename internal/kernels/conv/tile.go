package conv

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// tileArgs holds the arguments of a tile function; the generator knows the field offsets. Distances
// are in bytes.
//
// A tile has some output pixels of a row and one or two blocks of 16 output channels. Its input is
// [cb][kh][kw][16 channels], broadcast. The weights are contiguous, one vector of outputs per input
// channel. The output is [block][pixel][16].
type tileArgs struct {
	a, b, c       unsafe.Pointer
	bias, add     unsafe.Pointer // add may be nil
	cb, kh, kw    int            // trip counts, at least 1
	dkw, dkh, dcb int            // increments of a after a tap, a kernel row, a block
	pixel         int            // distance between the inputs of successive pixels
	ldc, ldadd    int            // distances between the blocks of c and of add
	acc           uint64         // accumulate: start from c instead of bias
	act           uint64         // a gemm.Activation
	lo, hi        float32        // lo is the factor in a sum tile
	prefetch      uintptr        // a hint; need not keep its target alive
	prefetchStep  int
	bStep         int            // distance between the weights of successive input channels
	deltas        unsafe.Pointer // of a permuted tile: cb int64 distances, from each input channel to the next
	depthwiseTiles
	idleChannels
	half uint64 // 1 if the last eight output channels have no weights, which some tiles skip
}

// idleChannels are channels at the end of the last input block that a tile skips: groups of four,
// and the distances to skip in a and b after each tap.
type idleChannels struct{ groups, aSkip, bSkip int }

// leaveOut makes the tile skip groups of four channels, at most three. bStep must be set.
func (t *tileArgs) leaveOut(groups int) {
	t.idleChannels = idleChannels{groups, groups * 4 * 4, groups * 4 * t.bStep}
}

// depthwiseTiles describes the tiles of one call of a depthwise tile function: distances between
// the operands of successive tiles. The function may modify it.
type depthwiseTiles struct {
	times          int // at least 1
	aStep, cStep   int
	addStep, addAt int // addAt is the accumulated distance
}

// depthwiseRun computes times tiles of pixels pixels with the distances in t, some microseconds of
// work per call.
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

// nth returns the arguments of tile i.
func (t *tileArgs) nth(i int) tileArgs {
	u := *t
	u.advance(i)
	return u
}

// advance skips n tiles.
func (t *tileArgs) advance(n int) {
	t.a, t.c = unsafe.Add(t.a, n*t.aStep), unsafe.Add(t.c, n*t.cStep)
	if t.add != nil {
		t.add = unsafe.Add(t.add, n*t.addStep)
	}
}

// depthwiseRow computes a row of width pixels with the fewest tiles. Pointers must stay within the
// row: the memory after it may not be Go's, and the garbage collector throws if it finds a bad
// pointer.
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

// between sets the distances for adjacent tiles of a row.
func (t *tileArgs) between(pixels int) {
	t.aStep, t.cStep, t.addStep = pixels*t.pixel, pixels*Lanes*4, pixels*Lanes*4
}

// tilePixels returns the number of pixels of the largest tile.
func tilePixels(l cpu.Level) int {
	if l == cpu.AVX2 || l == cpu.NEON {
		return 6
	}
	return 14
}

func at(p unsafe.Pointer, elements int) unsafe.Pointer { return unsafe.Add(p, elements*4) }

// address returns an address for prefetching only. It does not keep its target alive.
func address(s []float32, elements int) uintptr { return uintptr(ptr(s)) + uintptr(elements)*4 }

func ptr(s []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func f32at(p unsafe.Pointer, bytes int) float32 { return *(*float32)(unsafe.Add(p, bytes)) }

func lanes(p unsafe.Pointer) *[Lanes]float32 { return (*[Lanes]float32)(p) }

// tileGeneric computes a tile of 14 pixels at most. inner is the number of channels per tap: 16, 1
// for [NCHWInput], or 0 to go from channel to channel by deltas.
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
	// Use offsets instead of pointers, since the last increments lead out of the slices.
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
		for _, move := range unsafe.Slice((*int64)(t.deltas), t.cb) {
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
		t.finish(sums[p][:blocks*Lanes], p)
	}
}

// finish adds the residual to the sums of a pixel in one or two blocks, applies the activation and
// stores them.
func (t *tileArgs) finish(sums []float32, pixel int) {
	for b := range len(sums) / Lanes {
		s := (*[Lanes]float32)(sums[b*Lanes:])
		if t.add != nil {
			for j, v := range lanes(unsafe.Add(t.add, b*t.ldadd+pixel*Lanes*4)) {
				s[j] += v
			}
		}
		activate(s, gemm.Activation(t.act), t.lo, t.hi)
		*lanes(unsafe.Add(t.c, b*t.ldc+pixel*Lanes*4)) = *s
	}
}

// mend recomputes the elements of a tile that are NaN, if the outputs of the tile belong to several
// groups: the tile multiplies the inputs of other groups by zeros, which gives NaN for infinity and
// NaN. sum returns the sum of the output channel o, of cout, for a pixel; block is the first block
// of the tile.
func (t *tileArgs) mend(level cpu.Level, pixels, block, blocks, cout int, sum func(pixel, o int) float32) {
	for b := range blocks {
		y := unsafe.Slice((*float32)(unsafe.Add(t.c, b*t.ldc)), pixels*Lanes)
		if s := vec.SumF32(level, y); !math.IsNaN(float64(s)) {
			continue
		}
		for i, v := range y {
			if v == v {
				continue
			}
			y[i] = 0
			o := (block+b)*Lanes + i%Lanes
			if o >= cout {
				continue
			}
			v = sum(i/Lanes, o)
			if t.add != nil {
				v += f32at(t.add, b*t.ldadd+i*4)
			}
			s := [Lanes]float32{v}
			activate(&s, gemm.Activation(t.act), t.lo, t.hi)
			y[i] = s[0]
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

// maximumGeneric computes c[p][j] = max over kh, kw of a[p][kh][kw][j]; NaN propagates.
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

// split divides n pixels into the fewest tiles of at most most pixels, and returns the bounds of
// tile i.
func split(n, most, i int) (lo, hi int) {
	k := (n + most - 1) / most
	return n * i / k, n * (i + 1) / k
}

func tiles(n, most int) int { return (n + most - 1) / most }
