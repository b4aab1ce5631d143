package conv

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

const (
	bytePixels = 14 // pixels of the largest tile
	// AMX is faster from so many evenly spaced pixels, steps of four channels in a chunk and such
	// steps of all taps. Tiles of fewer pixels need more steps.
	amxWidth, amxSteps, amxTotal = 10, 5, 12
	amxNarrow, amxNarrowTotal    = 4, 100
	byteCols                     = 32 // output channels of a tile
	// byteSteps limits one tile call to about 30 µs: steps of four channels.
	byteSteps = 8192
	// prefetchMost is the size of panels of weights up to which prefetching pays. The processor
	// recognizes longer streams by itself.
	prefetchMost = 1 << 15
	// amxPrefetch is the size of all weights above which prefetching pays with AMX. Smaller ones
	// stay in the second-level cache from one unit to the next.
	amxPrefetch = 1 << 17
	// byteGroup is the number of output pixels in a unit of work.
	byteGroup = 32 * bytePixels
)

// byteTile holds the arguments of a tile function for bytes; the generator knows the field offsets.
// Distances are in bytes.
//
// A tile has up to 14 output pixels, on arm64 up to 6, and 32 output channels. Its pixels form two
// halves, each evenly spaced, so that one tile can cover two narrow rows. Weights are signed,
// [tap][k][32 outputs][4 channels].
type byteTile struct {
	a, b, c unsafe.Pointer
	offsets unsafe.Pointer // of the taps relative to a pixel, one int each
	taps, k int            // trip counts, at least 1
	pixel   int            // distance between the inputs of successive pixels
	second  int            // distance from the input of the first pixel to that of the second half
	ldc     int            // distance between the outputs of successive pixels
	secondC int            // distance from the first output to that of the second half
	bias    unsafe.Pointer // 32 of int32
	scale   unsafe.Pointer // 32 of float32, for which [Integer.narrows] holds on amd64
	zero    int32
	lo, hi  float32 // bounds of the output minus the zero point
	mask    uint32  // of the output channels
	sums    uint64  // 1 to store int32
	signed  bool    // bytes of a
	quant.Unsigned
	// a hint that does not keep its target alive; advances by prefetchStep per four steps
	prefetch     uintptr
	prefetchStep int
}

// hasByteTiles reports whether level l has int8 tiles.
func hasByteTiles(l cpu.Level) bool { return cpu.VNNI(l) || cpu.DotProduct(l) }

// signedTiles reports whether the tiles of level l take int8 elements of a, as SDOT does.
func signedTiles(l cpu.Level) bool { return cpu.DotProduct(l) && !cpu.Int8Matrix(l) }

// pixelsOf returns the number of pixels of the largest tile of level l.
func pixelsOf(l cpu.Level) int {
	if l == cpu.NEON {
		return 6
	}
	return bytePixels
}

// byteTileGeneric computes a tile. Elements of a are uint8, or int8 if t.signed is set.
//
//	for p := range pixels {
//		for j := range 32 {
//			s := bias[j]
//			for t := range taps {
//				for i := range 4*k {
//					s += a[p][offsets[t]+i] * b[t][i/4][j][i%4]
//				}
//			}
//			c[p][j] = s // or roundToEven(clip(float32(s)*scale[j], lo, hi)) + zero
//		}
//	}
func byteTileGeneric(pixels int, t *byteTile) {
	half := (pixels + 1) / 2
	offsets := unsafe.Slice((*int)(t.offsets), t.taps)
	for p := range pixels {
		a, c := unsafe.Add(t.a, p*t.pixel), unsafe.Add(t.c, p*t.ldc)
		if p >= half {
			a, c = unsafe.Add(t.a, t.second+(p-half)*t.pixel), unsafe.Add(t.c, t.secondC+(p-half)*t.ldc)
		}
		sum := *(*[byteCols]int32)(t.bias)
		b := unsafe.Slice((*[byteCols][4]int8)(t.b), t.taps*t.k)
		for _, off := range offsets {
			x := unsafe.Slice((*[4]uint8)(unsafe.Add(a, off)), t.k)
			for k, v := range x {
				x0, x1, x2, x3 := int32(v[0]), int32(v[1]), int32(v[2]), int32(v[3])
				if t.signed {
					x0, x1, x2, x3 = int32(int8(x0)), int32(int8(x1)), int32(int8(x2)), int32(int8(x3))
				}
				for j, w := range &b[k] {
					sum[j] += x0*int32(w[0]) + x1*int32(w[1]) + x2*int32(w[2]) + x3*int32(w[3])
				}
			}
			b = b[t.k:]
		}
		scale := (*[byteCols]float32)(t.scale)
		for j, s := range sum {
			switch {
			case t.mask>>j&1 == 0:
			case t.sums != 0:
				*(*int32)(unsafe.Add(c, 4*j)) = s
			default:
				v := float32(s) * scale[j]
				if !(v > t.lo) {
					v = t.lo
				}
				*(*uint8)(unsafe.Add(c, j)) = uint8(int32(math.RoundToEven(float64(min(v, t.hi)))) + t.zero)
			}
		}
	}
}

// byteWeights holds weights minus their zero points for [byteTile]: [group][panel][tap][k][32][4].
// Without groups, a row of taps is stored as one tap, so that padding the channels to multiples of
// four costs little.
type byteWeights struct {
	data   []int8
	sums   []int32 // of the weights of each output, by panel
	panels int     // of one group
	taps   int
	k      int
	size   int // of a panel
	merged bool
}

// packBytes returns nil if a difference does not fit a byte, or if a call would take too long. For
// AMX it pads the steps of a tap to equal chunks.
func packBytes[W quant.Byte](s *Shape, w []W, zero func(o int) int32, amx bool) *byteWeights {
	cg, og, taps := s.Cin/s.Group, s.Cout/s.Group, product(s.Kernel)
	kw := 1
	if n := len(s.Kernel); n > 0 {
		kw = s.Kernel[n-1]
	}
	p := &byteWeights{panels: tiles(og, byteCols), taps: taps, k: tiles(cg, 4), merged: s.Group == 1 && kw > 0}
	if p.merged {
		p.taps, p.k = taps/kw, tiles(kw*cg, 4)
	}
	if amx && p.k > 0 {
		chunks, each := quant.Chunks(p.k)
		p.k = chunks * each
	}
	if p.taps*p.k > byteSteps || p.taps*p.k == 0 {
		return nil
	}
	p.size = p.taps * p.k * byteCols * 4
	p.data = memory.Slice[int8](s.Group * p.panels * p.size)
	p.sums = make([]int32, s.Group*p.panels*byteCols)
	for o := range s.Cout {
		g, j := o/og, o%og
		at := g*p.panels + j/byteCols
		d, from, z := p.data[at*p.size:][:p.size], w[o*cg*taps:][:cg*taps], zero(o)
		var sum int32
		for t := range taps {
			row, first := p.tapRow(t, cg, kw)
			q := row*p.k*byteCols*4 + j%byteCols*4
			for c := range cg {
				v := int32(from[c*taps+t]) - z
				if v != int32(int8(v)) {
					return nil
				}
				sum += v
				i := uint(first + c)
				d[q+int(i/4*byteCols*4+i%4)] = int8(v)
			}
		}
		p.sums[at*byteCols+j%byteCols] = sum
	}
	return p
}

// tapRow returns the row of taps that contains a tap, and the offset of the tap's channels in it.
func (p *byteWeights) tapRow(tap, channels, kw int) (row, first int) {
	if p.merged {
		return tap / kw, tap % kw * channels
	}
	return tap, 0
}

// at returns the weight of output o for a channel of its group and a tap.
func (p *byteWeights) at(s *Shape, o, c, tap int) int8 {
	cg, og, kw := s.Cin/s.Group, s.Cout/s.Group, 1
	if n := len(s.Kernel); n > 0 {
		kw = s.Kernel[n-1]
	}
	row, first := p.tapRow(tap, cg, kw)
	panel, j, i := o/og*p.panels+o%og/byteCols, o%og%byteCols, first+c
	return p.data[(((panel*p.taps+row)*p.k+i/4)*byteCols+j)*4+i%4]
}

// byteGeometry describes the padded input image [z][y][x][channel] of an int8 or uint8 convolution,
// and its division into tiles.
type byteGeometry struct {
	size    [3]int // of the padded image
	row     int    // bytes of a padded row
	offsets []int
	across  int // tiles per row of output; 0 if a tile covers two rows
	rows    int // rows of output, or pairs of rows
	width   int
	step    int  // distance in pixels of the image between the inputs of successive outputs
	pixels  bool // every run of output pixels is evenly spaced, across rows too
	beyond  int  // bytes that tiles read beyond the channels
	most    int  // pixels of the largest tile
	chunks  int  // of each tap for AMX; 0 to use byte tiles
}

// byteGeometryOf returns the geometry of the convolution, or nil if the byte tiles do not support
// it.
func (d *Integer) byteGeometryOf() *byteGeometry {
	e, merged := &d.d, d.bytes != nil && d.bytes.merged
	for _, i := range e {
		// Not supported: a window within the padding, or more padding than image.
		if i.in == 0 || i.out == 0 || i.pad > (i.kernel-1)*i.dilation || i.dilation*(i.kernel-1) > 64+2*i.in {
			return nil
		}
	}
	cg := d.s.Cin / d.s.Group
	one := merged && e[2].dilation == 1
	k := 0 // steps of a tap
	q := &byteGeometry{width: e[2].out, step: e[2].stride, most: pixelsOf(d.level)}
	if w := d.bytes; w != nil {
		row := cg // bytes of a tap
		k = w.k
		switch {
		case one:
			row = cg * e[2].kernel
		case merged && e[2].kernel > 1:
			k = cg / 4
			if 4*k*e[2].kernel != 4*w.k || cg%4 != 0 {
				return nil // the padding of a row is not that of a tap
			}
		}
		q.beyond = 4*k - row
	}
	for i := range 3 {
		q.size[i] = max(e[i].pad+e[i].in, (e[i].out-1)*e[i].stride+(e[i].kernel-1)*e[i].dilation+1)
	}
	q.row = q.size[2] * d.s.Cin
	for kz := range e[0].kernel {
		for ky := range e[1].kernel {
			at := (kz*e[0].dilation*q.size[1] + ky*e[1].dilation) * q.row
			if one {
				q.offsets = append(q.offsets, at)
				continue
			}
			for kx := range e[2].kernel {
				q.offsets = append(q.offsets, at+kx*e[2].dilation*d.s.Cin)
			}
		}
	}
	q.rows = e[0].out * e[1].out
	if product(d.s.Kernel) == 1 && q.size == [3]int{e[0].out, e[1].out, e[2].out} {
		// The stride is irrelevant in a dimension of one pixel.
		q.pixels, q.width, q.rows, q.step = true, d.pixels[1], 1, 1
	}
	total := len(q.offsets) * k
	pays := q.width >= amxWidth && total >= amxTotal || q.width >= amxNarrow && total >= amxNarrowTotal
	if chunks, each := quant.Chunks(k); cpu.AMX(d.level) && chunks*each == k && each >= amxSteps && pays {
		q.chunks, q.most = chunks, 2*quant.TileRows
	}
	q.across = tiles(q.width, q.most)
	if 2*q.width <= q.most && q.rows > 1 {
		q.across, q.rows = 0, tiles(q.rows, 2)
	}
	return q
}

// tiles returns the number of tiles per panel.
func (q *byteGeometry) tiles() int { return q.rows * max(q.across, 1) }

// tile returns the first pixel of tile i and the number of pixels of its two halves.
func (q *byteGeometry) tile(i, pixels int) (p, first, second int) {
	if q.across == 0 {
		p = 2 * i * q.width
		if p+2*q.width > pixels {
			return p, (q.width + 1) / 2, q.width / 2
		}
		return p, q.width, q.width
	}
	row := 0
	if q.rows > 1 {
		row = i / q.across
		i -= row * q.across
	}
	a, b := q.width*i/q.across, q.width*(i+1)/q.across
	return row*q.width + a, (b - a + 1) / 2, (b - a) / 2
}

// length returns the size of the padded image in bytes.
func (q *byteGeometry) length() int { return q.size[0]*q.size[1]*q.row + q.beyond }

// buffers returns the bytes of the sums of a call with AMX.
func (q *byteGeometry) buffers() int {
	if q.chunks == 0 {
		return 0
	}
	return int(unsafe.Sizeof(quant.Tiles{}))
}

// byteOutput is the destination of the sums: int32 in y, or requantized bytes.
type byteOutput struct {
	sums   []int32
	bytes  []byte
	scale  []float32
	zero   int32
	lo, hi float32
	last   bool // input and output have the channels innermost
	// optional; called for complete ranges of bytes, which cover the output, if last is set
	after func(lo, hi int)
}

// ends calls after for the ranges of bytes, after all of them have been computed.
func (y *byteOutput) ends(par gemm.Par) {
	if y.after != nil {
		par(tiles(len(y.bytes), byteRange), func(lo, hi int) { y.after(lo*byteRange, min(hi*byteRange, len(y.bytes))) })
	}
}

// byteRange is the number of bytes at a time for which after is called at the end.
const byteRange = 1 << 14

// minUnits is the number of units of pixels from which panels are not divided among threads. The
// number of units is then a multiple of it, so that few threads get equal parts.
const minUnits = 4

// runBytes convolves the images of x.
func (d *Integer) runBytes(par gemm.Par, y *byteOutput, x []byte, signed bool) {
	s, q, w := d.s, d.geometry, d.bytes
	in, out := d.pixels[0], d.pixels[1]
	shared := integerPool.Get().(*integerBuffers)
	defer integerPool.Put(shared)
	e := d.epilogue(y.scale, signed)
	units := min(q.tiles(), max(tiles(out, byteGroup), tiles(8, len(w.sums)/byteCols)))
	if y.after != nil && units >= minUnits {
		units = min(q.tiles(), tiles(units, minUnits)*minUnits)
	}
	panels, whole := s.Group*w.panels, false
	for n := range s.N {
		src := x[n*s.Cin*in:][:s.Cin*in]
		var image []byte
		if y.last {
			image = d.padLast(par, shared, src, byte(e.zero), e.flip)
		} else {
			image = resize(&shared.image, q.length())
			par(tiles(q.size[0]*q.size[1], byteRows), func(lo, hi int) {
				b := integerPool.Get().(*integerBuffers)
				d.padRows(b, image, src, byte(e.zero), e.flip, lo*byteRows, min(hi*byteRows, q.size[0]*q.size[1]))
				integerPool.Put(b)
			})
		}
		if y.after != nil && units >= minUnits {
			par(units, func(lo, hi int) {
				b := integerPool.Get().(*integerBuffers)
				for u := lo; u < hi; u++ {
					t0, t1 := q.tiles()*u/units, q.tiles()*(u+1)/units
					for panel := range panels {
						d.byteUnit(b, y, e, image, n, panel, panel+1, t0, t1)
					}
					first, _, _ := q.tile(t0, out)
					last, f, h := q.tile(t1-1, out)
					y.after((n*out+first)*s.Cout, (n*out+last+f+h)*s.Cout)
				}
				integerPool.Put(b)
			})
			continue
		}
		par(units*panels, func(lo, hi int) {
			b := integerPool.Get().(*integerBuffers)
			for u := lo; u < hi; u++ {
				next := panels
				if u+1 < hi {
					next = (u + 1) % panels
				}
				d.byteUnit(b, y, e, image, n, u%panels, next, q.tiles()*(u/panels)/units, q.tiles()*(u/panels+1)/units)
			}
			integerPool.Put(b)
		})
		whole = true
	}
	if whole {
		y.ends(par)
	}
}

// byteRows is the number of rows of the padded image that are written at a time.
const byteRows = 8

// padRows writes the rows [lo, hi) of the padded image.
func (d *Integer) padRows(b *integerBuffers, image, src []byte, pad, flip byte, lo, hi int) {
	q, e, cin := d.geometry, &d.d, d.s.Cin
	plane := d.pixels[0]
	var staged []byte
	if q.row == e[2].in*cin && q.size[1] == e[1].in && q.size[0] == e[0].in { // no padding: treat the image as one row
		p0, p1 := lo*e[2].in, hi*e[2].in
		quant.TransposeBytes(d.level, image[p0*cin:], cin, src[p0:], plane, cin, p1-p0)
		if flip != 0 {
			flipBytes(image[p0*cin:p1*cin], flip)
		}
		return
	}
	first := 0
	if e[2].in < 16 { // narrow rows do not fill a vector, so transpose several at a time
		last := -1
		for r := lo; r < hi; r++ {
			if i := d.inputRow(r); i >= 0 {
				if last < 0 {
					first = i
				}
				last = i
			}
		}
		n := (last + 1 - first) * e[2].in
		staged = resize(&b.rows, max(n, 0)*cin)
		quant.TransposeBytes(d.level, staged, cin, src[min(first*e[2].in, len(src)):], plane, cin, n)
	}
	left, right := e[2].pad*cin, (e[2].pad+e[2].in)*cin
	for r := lo; r < hi; r++ {
		row := image[r*q.row:][:q.row]
		i := d.inputRow(r)
		if i < 0 {
			fill(row, pad)
			continue
		}
		fill(row[:left], pad)
		fill(row[right:], pad)
		if e[2].in < 16 {
			copy(row[left:right], staged[(i-first)*e[2].in*cin:])
		} else {
			quant.TransposeBytes(d.level, row[left:right], cin, src[i*e[2].in:], plane, cin, e[2].in)
		}
		if flip != 0 {
			flipBytes(row[left:right], flip)
		}
	}
}

func flipBytes(s []byte, v byte) {
	wide := 0x0101010101010101 * uint64(v)
	for ; len(s) >= 8; s = s[8:] {
		binary.LittleEndian.PutUint64(s, binary.LittleEndian.Uint64(s)^wide)
	}
	for i := range s {
		s[i] ^= v
	}
}

// byteUnit computes the tiles [t0, t1) of one panel of image n, and prefetches the weights of the
// next panel if there is one.
func (d *Integer) byteUnit(b *integerBuffers, y *byteOutput, ep *byteEpilogue, image []byte,
	n, panel, next, t0, t1 int) {
	s, q, w := d.s, d.geometry, d.bytes
	og, out := s.Cout/s.Group, d.pixels[1]
	g, j := panel/w.panels, panel%w.panels*byteCols
	cols := min(byteCols, og-j)
	p0, _, _ := q.tile(t0, out)
	last, f, h := q.tile(t1-1, out)
	count := last + f + h - p0
	t := byteTile{offsets: unsafe.Pointer(unsafe.SliceData(q.offsets)), taps: len(q.offsets),
		k: w.taps * w.k / len(q.offsets), pixel: q.step * s.Cin,
		b: unsafe.Pointer(&w.data[panel*w.size]), bias: unsafe.Pointer(&ep.bias[panel*byteCols]),
		scale: unsafe.Pointer(&ep.scale[panel*byteCols]),
		mask:  uint32(1<<cols - 1), zero: y.zero, lo: y.lo, hi: y.hi, ldc: byteCols, signed: signedTiles(d.level),
		Unsigned: quant.AsUnsigned(y.zero, y.lo)}
	var c unsafe.Pointer
	var sums []int32
	var rows []byte
	o := g*og + j
	if y.last {
		t.ldc = s.Cout
		c = unsafe.Pointer(&y.bytes[(n*out+p0)*s.Cout+o])
	} else if y.sums == nil {
		rows = resize(&b.rows, count*byteCols)
		c = unsafe.Pointer(unsafe.SliceData(rows))
	}
	dst, ldc := c, t.ldc
	if y.sums != nil || ep.wide {
		t.sums, t.ldc = 1, byteCols*4
		sums = resize(&b.sums, count*byteCols)
		c = unsafe.Pointer(unsafe.SliceData(sums))
	}
	if at := next * w.size; at < len(w.data) {
		t.prefetch = uintptr(unsafe.Pointer(&w.data[at]))
	}
	first := image[g*(s.Cin/s.Group):]
	if q.chunks > 0 {
		d.amxTiles(b, &t, unsafe.Pointer(&first[0]), c, p0, t0, t1)
	} else {
		d.dotTiles(&t, first, c, p0, t0, t1)
	}
	for p := 0; ep.wide && p < count; p++ {
		to, from := unsafe.Add(dst, p*ldc), sums[p*byteCols:][:cols]
		if y.lo+float32(y.zero) < 0 {
			quant.Requantize(d.level, unsafe.Slice((*int8)(to), cols), from, ep.scale[panel*byteCols:][:cols],
				int8(y.zero))
		} else {
			quant.Requantize(d.level, unsafe.Slice((*uint8)(to), cols), from, ep.scale[panel*byteCols:][:cols],
				uint8(y.zero))
		}
	}
	if y.last {
		return
	}
	at := (n*s.Cout+o)*out + p0
	if y.sums != nil {
		// Transposing only moves the bits, so int32 can use the float32 kernel.
		vec.TransposeF32(d.level, asFloats(y.sums[at:]), out, asFloats(sums), byteCols, count, cols)
		return
	}
	quant.TransposeBytes(d.level, y.bytes[at:], out, rows, byteCols, count, cols)
}

// dotTiles computes the tiles [t0, t1) of a panel with dot products, and prefetches the weights of
// the next panel at t.prefetch. image starts at the first channel of the group, c at the output of
// pixel p0.
func (d *Integer) dotTiles(t *byteTile, image []byte, c unsafe.Pointer, p0, t0, t1 int) {
	q := d.geometry
	// The prefetches are spread over the tiles: a tile has 512 bytes of weights in four steps.
	next, size, ahead := t.prefetch, d.bytes.size, 0
	lines := min(2, tiles(8, t1-t0))
	if size > prefetchMost || next == 0 {
		ahead = size
	}
	for i := t0; i < t1; i++ {
		t.prefetch, t.prefetchStep = uintptr(t.b), 0
		if ahead < size {
			t.prefetch, t.prefetchStep = next+uintptr(ahead), lines*64
			ahead += t.taps * (t.k / 4) * lines * 64
		}
		p, first, second := q.tile(i, d.pixels[1])
		t.a = unsafe.Pointer(&image[d.byteAt(p)])
		t.c = unsafe.Add(c, (p-p0)*t.ldc)
		t.second, t.secondC = first*t.pixel, first*t.ldc
		if q.across == 0 && first == q.width {
			t.second = d.byteAt(p+first) - d.byteAt(p)
		}
		runByteTile(d.level, first+second, t)
	}
}

// amxTiles computes the tiles [t0, t1) of a panel with AMX, and prefetches the weights of the next
// panel at t.prefetch. image is the first channel of the group, c the output of pixel p0.
func (d *Integer) amxTiles(b *integerBuffers, t *byteTile, image, c unsafe.Pointer, p0, t0, t1 int) {
	q, out := d.geometry, d.pixels[1]
	if b.tiles == nil {
		b.tiles = new(quant.Tiles)
	}
	s := b.tiles
	s.A, s.B, s.C, s.Offsets, s.Taps, s.Pixel, s.LdC = image, t.b, c, t.offsets, t.taps, t.pixel, t.ldc
	s.Bias, s.Scale, s.Zero, s.Lo, s.Hi, s.Mask, s.Store = t.bias, t.scale, t.zero, t.lo, t.hi,
		t.mask, quant.Store(t.sums)
	s.Prefetch, s.PrefetchStep = t.prefetch, 0
	if t.prefetch != 0 && len(d.bytes.data) > amxPrefetch {
		s.PrefetchStep = 128 * tiles(d.bytes.size, 128*t.taps*q.chunks*(t1-t0))
	}
	for i := t0; i < t1; {
		_, first, second := q.tile(i, out)
		s.Configure(min(1+second, 2), first, q.chunks, t.k/q.chunks)
		count := 0
		for ; count < min(s.Most(), t1-i); count++ {
			p, f, h := q.tile(i+count, out)
			if f != first || h != second {
				break
			}
			// If the second half is shorter, it starts with the last pixel of the first.
			at := &s.At[count]
			at.A[0], at.C = d.byteAt(p), [2]int{(p - p0) * t.ldc, (p + second - p0) * t.ldc}
			at.A[1] = at.A[0] + second*t.pixel
			if q.across == 0 && first == q.width && second > 0 {
				at.A[1] = d.byteAt(p + first)
			}
		}
		s.Run(d.level, count)
		i += count
	}
	s.Release()
}

// byteAt returns the offset of output pixel p's window in the padded image.
func (d *Integer) byteAt(p int) int {
	q, e := d.geometry, &d.d
	if q.pixels {
		return p * d.s.Cin
	}
	z, y, x := p/(e[1].out*e[2].out), p/e[2].out%e[1].out, p%e[2].out
	return (z*e[0].stride*q.size[1]+y*e[1].stride)*q.row + x*e[2].stride*d.s.Cin
}
