package conv

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// Integer is a convolution of 8-bit integers to int32, exact at every level, in ONNX's layout:
//
//	acc[n, o, p] = bias[o] + Σ (x[n, c, p·stride-pad+t·dilation]-xzero) · (w[o, c, t]-wzero[o])
//
// The padding stands for the zero point. It is immutable once made.
type Integer struct {
	s        *Shape
	xZero    int32
	bias     []int32
	k        int // of one group, padded to a multiple of four
	groups   func() []integerGroup
	single   []int32           // of a depthwise convolution: weights minus zero points, (channel, tap)
	sums     []int32           // of single over the taps, by channel
	floats   *DepthwiseWeights // the same, if float32 sums are exact
	small    bool              // all of single fit in 16 bits
	planes   bool              // use plane tiles
	bytes    *byteWeights      // for byte tiles, or nil if not supported
	geometry *byteGeometry     // for byte tiles and channel tiles, or nil if they do not support the shape
	channels func() []int32    // of a depthwise convolution: weights for channel tiles
	// of a depthwise convolution: weights for window tiles, nil if they do not fit
	windows func() []int8
	kept    *atomic.Pointer[byteEpilogue] // of the last run
	d       [3]dim                        // the spatial dimensions, padded in front to three
	strides [3]int                        // of the input, in pixels
	pixels  [2]int                        // pixels of an image of input and output
	level   cpu.Level
}

// integerGroup holds the weights of a group, [tap][channel] by output channel, and their zero
// points.
type integerGroup struct {
	*quant.Packed
	zero []int32
}

type dim struct{ in, out, kernel, stride, dilation, pad int }

// NewInteger packs w of shape (Cout, Cin/Group, Kernel…) for a checked shape with at most three
// spatial dimensions. wZero is empty or has one or Cout zero points; bias is empty or has Cout
// values.
func NewInteger[W quant.Byte](level cpu.Level, s *Shape, w []W, xZero int32, wZero, bias []int32) (*Integer, error) {
	n := len(s.In)
	if n > 3 {
		return nil, fail.Errorf("integer convolution over %d spatial dimensions, want at most 3", n)
	}
	if len(wZero) > 1 && len(wZero) != s.Cout || bias != nil && len(bias) != s.Cout {
		return nil, fail.Errorf("%d zero points and %d biases for %d output channels", len(wZero), len(bias), s.Cout)
	}
	d := &Integer{xZero: xZero, bias: bias, kept: new(atomic.Pointer[byteEpilogue]), level: level}
	d.setShape(s)
	cg, og, taps := s.Cin/s.Group, s.Cout/s.Group, product(s.Kernel)
	zero := func(o int) int32 {
		switch len(wZero) {
		case 0:
			return 0
		case 1:
			return wZero[0]
		}
		return wZero[o]
	}
	if cg == 1 && og == 1 {
		d.single = make([]int32, s.Cout*taps)
		d.sums = make([]int32, s.Cout)
		for i := range d.single {
			d.single[i] = int32(w[i]) - zero(i/taps)
			d.sums[i/taps] += d.single[i]
		}
		d.packFloats(taps)
		d.small = true
		for _, v := range d.single {
			d.small = d.small && v == int32(int16(v))
		}
		d.planes = d.fitsPlane()
		if d.small {
			d.geometry = d.byteGeometryOf()
		}
		d.channels = sync.OnceValue(func() []int32 { return packChannels(d.single, taps) })
		d.windows = sync.OnceValue(func() []int8 { return packWindows(d.single) })
		return d, nil
	}
	d.k = (cg*taps + 3) &^ 3
	if hasByteTiles(level) {
		if d.bytes = packBytes(s, w, zero, cpu.AMX(level)); d.bytes != nil {
			d.geometry = d.byteGeometryOf()
			// Pack the weights in the other form on demand, since few shapes need it.
			d.groups = sync.OnceValue(func() []integerGroup {
				return packGroups(level, s, d.k, nil, func(o, c, t int) int8 { return d.bytes.at(s, o, c, t) })
			})
			return d, nil
		}
	}
	groups := packGroups(level, s, d.k, wZero, func(o, c, t int) W { return w[(o*cg+c)*taps+t] })
	d.groups = func() []integerGroup { return groups }
	return d, nil
}

// packGroups packs the weights. at returns the weight of an output for a channel of its group and a
// tap.
func packGroups[W quant.Byte](level cpu.Level, s *Shape, k int, zero []int32, at func(o, c, t int) W) []integerGroup {
	cg, og, taps := s.Cin/s.Group, s.Cout/s.Group, product(s.Kernel)
	var groups []integerGroup
	b := make([]W, og*k)
	for g := range s.Group {
		for o := range og {
			for c := range cg {
				for t := range taps {
					b[o*k+t*cg+c] = at(g*og+o, c, t)
				}
			}
		}
		z := zero
		if len(z) > 1 {
			z = z[g*og:][:og]
		}
		groups = append(groups, integerGroup{quant.Pack(nil, level, b, k, true, k, og), z})
	}
	return groups
}

// setShape sets the shape and the fields that are derived from it.
func (d *Integer) setShape(s *Shape) {
	n := len(s.In)
	d.s = s
	for i := range d.d {
		d.d[i] = dim{1, 1, 1, 1, 1, 0}
		if j := i - (3 - n); j >= 0 {
			d.d[i] = dim{s.In[j], s.Out[j], s.Kernel[j], s.Stride[j], s.Dilation[j], s.PadBegin[j]}
		}
	}
	d.strides = [3]int{d.d[1].in * d.d[2].in, d.d[2].in, 1}
	d.pixels = [2]int{product(s.In), product(s.Out)}
}

// At returns the convolution with the same weights for another checked shape, zero point of the
// input and bias. The shape may differ in N, In, Stride, Dilation and padding.
func (d *Integer) At(s *Shape, xZero int32, bias []int32) *Integer {
	c := *d
	c.xZero, c.bias, c.kept = xZero, bias, new(atomic.Pointer[byteEpilogue])
	c.setShape(s)
	if !c.fitsFloats() {
		c.floats = nil
	}
	if c.bytes != nil || c.single != nil && c.small {
		c.geometry = c.byteGeometryOf()
	}
	c.planes = c.fitsPlane()
	return &c
}

// fitsFloats reports whether the NCHW16c kernel supports the convolution: two dimensions, and no
// window in the padding alone.
func (d *Integer) fitsFloats() bool {
	for i, e := range d.d {
		if e.in == 0 || i == 0 && (e.kernel*e.in*e.out != 1 || e.pad != 0) || e.pad > (e.kernel-1)*e.dilation ||
			e.dilation*(e.kernel-1) > 64+2*e.in {
			return false
		}
	}
	return true
}

// Scratch returns the pooled memory of a run in bytes: shared, and per concurrent call of par. last
// is set for images with the channels innermost.
func (d *Integer) Scratch(last bool) (shared, each int) {
	in, out := d.pixels[0], d.pixels[1]
	switch {
	case last && d.single != nil:
		return d.geometry.length() + 4*len(d.single), 0
	case d.planes:
		rows, row := d.planeSize()
		return 0, rows*row + planeSlack
	case d.floats != nil:
		li, lo := d.layouts(Lanes)
		return 0, 4 * (li.Len() + lo.Len() + Lanes*max(in, out) + out)
	case d.single != nil:
		return 0, 4 * out
	}
	if d.geometry != nil {
		return d.geometry.length() + 8*len(d.bytes.sums),
			4*byteCols*min(out, 2*byteGroup) + byteRows*16*d.s.Cin + d.geometry.buffers()
	}
	return in * d.s.Cin, min(d.block(), out) * (d.k + 8*d.s.Cout/d.s.Group)
}

// block returns the number of pixels computed at a time, so that the im2col rows stay in the
// second-level cache.
func (d *Integer) block() int { return min(max(1<<18/max(d.k, 1)/14*14, 14), 224) }

// layouts returns the layouts of count channels of the input, with padding, and of the output.
func (d *Integer) layouts(count int) (in, out Layout) {
	e := &d.d
	below := max(0, (e[1].out-1)*e[1].stride-e[1].pad+(e[1].kernel-1)*e[1].dilation-(e[1].in-1))
	right := max(0, (e[2].out-1)*e[2].stride-e[2].pad+(e[2].kernel-1)*e[2].dilation-(e[2].in-1))
	return NewLayout(count, e[1].in, e[2].in, e[1].pad, e[2].pad, below, right),
		NewLayout(count, e[1].out, e[2].out, 0, 0, 0, 0)
}

// integerBuffers holds the image with channels innermost, and per thread the im2col rows and sums.
type integerBuffers struct {
	image, rows []byte
	sums, out   []int32
	planes      []float32
	in, pixels  []float32
	tiles       *quant.Tiles
}

var integerPool = sync.Pool{New: func() any { return new(integerBuffers) }}

func resize[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = memory.Slice[T](n)
	}
	return (*s)[:n]
}

// RunInteger writes the sums to y of shape (N, Cout, Out…). par distributes the pixels; if it is
// nil, one call computes everything.
func RunInteger[X quant.Byte](d *Integer, par gemm.Par, y []int32, x []X) {
	if d.geometry != nil && d.single == nil {
		d.runBytes(orSerial(par), &byteOutput{sums: y}, bytesOf(x), signed[X]())
		return
	}
	if d.planes && fitsByte(d.xZero, signed[X]()) {
		d.runPlanes(orSerial(par), &byteOutput{sums: y}, bytesOf(x), signed[X]())
		return
	}
	d.run(orSerial(par), bytesOf(x), signed[X](), func(n, o, p int, sums []int32) {
		copy(y[(n*d.s.Cout+o)*d.pixels[1]+p:], sums)
	})
}

// RunRequantized writes saturate(roundToEven(float32(acc)·scale[o]) + zero) to y of shape (N, Cout,
// Out…). scale has one value or Cout values.
func RunRequantized[X, Y quant.Byte](d *Integer, par gemm.Par, y []Y, x []X, scale []float32, zero Y) {
	if d.geometry != nil && d.single == nil || d.planes && fitsByte(d.xZero, signed[X]()) {
		out := outputOf(y, scale, zero)
		if d.planes {
			d.runPlanes(orSerial(par), out, bytesOf(x), signed[X]())
		} else {
			d.runBytes(orSerial(par), out, bytesOf(x), signed[X]())
		}
		return
	}
	d.run(orSerial(par), bytesOf(x), signed[X](), func(n, o, p int, sums []int32) {
		s := scale
		if len(s) > 1 {
			s = s[o : o+1]
		}
		quant.Requantize(d.level, y[(n*d.s.Cout+o)*d.pixels[1]+p:][:len(sums)], sums, s, zero)
	})
}

// outputOf returns the destination of requantized sums.
func outputOf[Y quant.Byte](y []Y, scale []float32, zero Y) *byteOutput {
	z, lo := int32(zero), float32(0)
	if signed[Y]() {
		lo = -128
	}
	return &byteOutput{bytes: bytesOf(y), scale: scale, zero: z, lo: lo - float32(z), hi: lo + 255 - float32(z)}
}

// orSerial returns par, or if that is nil a function that makes one call.
func orSerial(par gemm.Par) gemm.Par {
	if par == nil {
		return func(n int, fn func(lo, hi int)) { fn(0, n) }
	}
	return par
}

func bytesOf[T quant.Byte](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

func signed[T quant.Byte]() bool {
	var z T
	z--
	return z < 0
}

// run calls emit with slices of the sums: those of image n and channel o from linear index p
// on.
func (d *Integer) run(par gemm.Par, x []byte, signed bool, emit func(n, o, p int, sums []int32)) {
	s, in, out := d.s, d.pixels[0], d.pixels[1]
	if d.floats != nil && fitsByte(d.xZero, signed) {
		blocks := tiles(s.Cout, Lanes)
		par(s.N*blocks, func(lo, hi int) {
			b := integerPool.Get().(*integerBuffers)
			for u := lo; u < hi; u++ {
				d.depthwiseFloats(b, x, signed, u/blocks, u%blocks, emit)
			}
			integerPool.Put(b)
		})
		return
	}
	if d.single != nil {
		par(s.N*s.Cout, func(lo, hi int) {
			b := integerPool.Get().(*integerBuffers)
			for u := lo; u < hi; u++ {
				sums := resize(&b.sums, out)
				d.depthwise(sums, x[u*in:][:in], signed, u%s.Cout)
				emit(u/s.Cout, u%s.Cout, 0, sums)
			}
			integerPool.Put(b)
		})
		return
	}
	blocks := tiles(out, d.block())
	shared := integerPool.Get().(*integerBuffers)
	image := resize(&shared.image, in*s.Cin)
	for n := range s.N {
		planes := x[n*s.Cin*in:][:s.Cin*in]
		par(tiles(in, 64), func(lo, hi int) {
			quant.TransposeBytes(d.level, image[lo*64*s.Cin:], s.Cin, planes[lo*64:], in, s.Cin, min(in, hi*64)-lo*64)
		})
		par(blocks, func(lo, hi int) {
			b := integerPool.Get().(*integerBuffers)
			for i := lo; i < hi; i++ {
				d.pixelBlock(b, image, signed, n, out*i/blocks, out*(i+1)/blocks, emit)
			}
			integerPool.Put(b)
		})
	}
	integerPool.Put(shared)
}

// pixelBlock computes the pixels [p0, p1) of image n.
func (d *Integer) pixelBlock(b *integerBuffers, image []byte, signed bool, n, p0, p1 int,
	emit func(n, o, p int, sums []int32)) {
	s, count := d.s, p1-p0
	cg, og, taps := s.Cin/s.Group, s.Cout/s.Group, product(s.Kernel)
	direct := taps == 1 && d.pixels[0] == d.pixels[1] && d.k == cg && allEqual(s.Stride, 1) &&
		allEqual(s.PadBegin, 0) && allEqual(s.PadEnd, 0)
	sums, out := resize(&b.sums, count*og), resize(&b.out, count*og)
	for g, w := range d.groups() {
		var a []byte
		lda := s.Cin
		if direct {
			a = image[p0*s.Cin+g*cg:]
		} else {
			lda = d.k
			a = resize(&b.rows, count*lda)
			for p := range count {
				d.im2col(a[p*lda:][:lda], image, p0+p, g*cg, cg)
			}
		}
		q := quant.Args{M: count, A: a, LdA: lda, Signed: signed, AZero: []int32{d.xZero}, B: w.Packed,
			BZero: w.zero, C: sums, LdC: og}
		if d.bias != nil {
			q.Bias = d.bias[g*og:][:og]
		}
		quant.Compute(d.level, &q, gemm.Block{Row1: count, Panel1: gemm.Panels(og)})
		// Transposing only moves the bits, so int32 can use the float32 kernel.
		vec.TransposeF32(d.level, asFloats(out), count, asFloats(sums), og, count, og)
		for o := range og {
			emit(n, g*og+o, p0, out[o*count:][:count])
		}
	}
}

func asFloats(s []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// im2col writes the row of output pixel p, [tap][channel], for cg channels from c0 on.
func (d *Integer) im2col(dst, image []byte, p, c0, cg int) {
	e, cin, pad := &d.d, d.s.Cin, byte(d.xZero)
	z, y, x := p/(e[1].out*e[2].out), p/e[2].out%e[1].out, p%e[2].out
	x0 := x*e[2].stride - e[2].pad
	a, b := clip(x0, e[2].kernel, e[2].dilation, e[2].in)
	row := e[2].kernel * cg
	for kz := range e[0].kernel {
		iz := z*e[0].stride - e[0].pad + kz*e[0].dilation
		for ky := range e[1].kernel {
			iy := y*e[1].stride - e[1].pad + ky*e[1].dilation
			r := dst[:row]
			dst = dst[row:]
			if iz < 0 || iz >= e[0].in || iy < 0 || iy >= e[1].in || a == b {
				fill(r, pad)
				continue
			}
			fill(r[:a*cg], pad)
			fill(r[b*cg:], pad)
			from := (iz*d.strides[0]+iy*d.strides[1]+x0+a*e[2].dilation)*cin + c0
			if cg == cin && e[2].dilation == 1 {
				copy(r[a*cg:b*cg], image[from:])
				continue
			}
			for t := a; t < b; t++ {
				copy(r[t*cg:][:cg], image[from:])
				from += e[2].dilation * cin
			}
		}
	}
	fill(dst, pad)
}

func fill(s []byte, v byte) {
	if len(s) == 0 {
		return
	}
	s[0] = v
	for i := 1; i < len(s); i *= 2 {
		copy(s[i:], s[:i])
	}
}

// exactTaps is the number of terms, products of differences of int8 or uint8, whose sum is exact in
// float32: 255²·exactTaps is below 2²⁴.
const exactTaps = 258

// packFloats packs the weights for the vectorized float32 depthwise convolution.
func (d *Integer) packFloats(taps int) {
	if taps > exactTaps || !d.fitsFloats() {
		return
	}
	w := make([]float32, len(d.single))
	for i, v := range d.single {
		if v < -255 || v > 255 {
			return
		}
		w[i] = float32(v)
	}
	d.floats = PackDepthwise(w, nil, d.s.Cout, d.d[1].kernel, d.d[2].kernel)
}

// fitsByte reports whether z is a value of int8 or uint8, so that differences to it are within
// ±255.
func fitsByte(z int32, signed bool) bool {
	if signed {
		return int32(int8(z)) == z
	}
	return int32(uint8(z)) == z
}

// depthwiseFloats computes one block of 16 channels of image n in NCHW16c.
func (d *Integer) depthwiseFloats(b *integerBuffers, x []byte, signed bool, n, block int,
	emit func(n, o, p int, sums []int32)) {
	e, in, out := &d.d, d.pixels[0], d.pixels[1]
	c0 := block * Lanes
	count := min(Lanes, d.s.Cout-c0)
	li, lo := d.layouts(count)
	planes := resize(&b.planes, Lanes*max(in, out))
	for c := range count {
		p := planes[c*in:][:in]
		src := x[(n*d.s.Cin+c0+c)*in:][:in]
		if signed {
			vec.I8ToF32(d.level, p, unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(src))), len(src)))
		} else {
			vec.U8ToF32(d.level, p, src)
		}
		if d.xZero != 0 {
			vec.SubScalarF32(d.level, p, p, float32(d.xZero))
		}
	}
	bi, bo := resize(&b.in, li.Len()), resize(&b.pixels, lo.Len())
	li.FromNCHW(d.level, bi, planes, 0, 1)
	w := d.floats
	taps := w.KH * w.KW
	k := Depthwise{In: li, Out: lo, StrideH: e[1].stride, StrideW: e[2].stride, DilationH: e[1].dilation,
		DilationW: e[2].dilation, Top: e[1].pad, Left: e[2].pad,
		Weights: &DepthwiseWeights{C: count, KH: w.KH, KW: w.KW, Data: w.Data[block*taps*Lanes:][:taps*Lanes],
			Bias: w.Bias[c0:][:Lanes]}}
	k.Run(d.level, nil, bo, bi, &BlockedEpilogue{})
	lo.ToNCHW(d.level, planes, bo, 0, 1)
	sums := resize(&b.sums, out)
	for c := range count {
		vec.F32ToI32(d.level, sums, planes[c*out:][:out])
		if d.bias != nil {
			f := d.bias[c0+c]
			for i := range sums {
				sums[i] += f
			}
		}
		emit(n, c0+c, 0, sums)
	}
}

// depthwise computes channel c of a depthwise convolution.
func (d *Integer) depthwise(sums []int32, x []byte, signed bool, c int) {
	e, flip, zero := &d.d, byte(0), d.xZero
	if signed {
		flip, zero = 0x80, zero+128
	}
	taps := e[0].kernel * e[1].kernel * e[2].kernel
	w := d.single[c*taps:][:taps]
	start := int32(0)
	if d.bias != nil {
		start = d.bias[c]
	}
	for z := range e[0].out {
		for y := range e[1].out {
			row := sums[(z*e[1].out+y)*e[2].out:][:e[2].out]
			for i := range row {
				row[i] = start
			}
			for kz := range e[0].kernel {
				iz := z*e[0].stride - e[0].pad + kz*e[0].dilation
				for ky := range e[1].kernel {
					iy := y*e[1].stride - e[1].pad + ky*e[1].dilation
					if iz < 0 || iz >= e[0].in || iy < 0 || iy >= e[1].in {
						continue
					}
					src := x[iz*d.strides[0]+iy*d.strides[1]:][:e[2].in]
					for kx := range e[2].kernel {
						f := w[(kz*e[1].kernel+ky)*e[2].kernel+kx]
						// Outputs for which the tap is inside the image.
						off := kx*e[2].dilation - e[2].pad
						lo := 0
						if off < 0 {
							lo = tiles(-off, e[2].stride)
						}
						hi := 0
						if last := e[2].in - 1 - off; last >= 0 {
							hi = min(e[2].out, last/e[2].stride+1)
						}
						if lo >= hi {
							continue
						}
						if e[2].stride == 1 {
							in := src[lo+off:][:hi-lo]
							for i, v := range in {
								row[lo+i] += f * (int32(v^flip) - zero)
							}
							continue
						}
						for i := lo; i < hi; i++ {
							row[i] += f * (int32(src[i*e[2].stride+off]^flip) - zero)
						}
					}
				}
			}
		}
	}
}
