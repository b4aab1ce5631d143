package conv

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

const (
	planeRows = 4       // rows of output per tile
	planeWork = 1 << 18 // limit of taps times outputs of a row per tile: about 20 µs
)

// planeTile holds the arguments of a tile function for one plane; the generator knows the field
// offsets. Distances are in bytes.
//
// A tile has up to four rows of an int8 depthwise convolution, in a plane with its padding. Weights
// are int32, of which the kernels read the low half: differences of int8 or uint8 fit in 16 bits.
type planeTile struct {
	a, b, c unsafe.Pointer
	kh, kw  int // trip counts, at least 1
	dx, dy  int // distances between taps
	row     int // distance between the inputs of successive rows of output
	ldc     int // distance between rows of output
	n       int // outputs of a row
	bias    int32
	scale   float32
	lo, hi  float32 // bounds of the output minus the zero point
	zero    int32
	_       int32
	sums    uint64 // 1 to store int32
}

// planeTileGeneric computes a tile.
//
//	for r := range rows {
//		for i := range n {
//			s := bias
//			for y := range kh {
//				for x := range kw {
//					s += a[r*row+y*dy+x*dx+i*stride] * b[y*kw+x]
//				}
//			}
//			c[r][i] = s // or roundToEven(clip(float32(s)*scale, lo, hi)) + zero
//		}
//	}
func planeTileGeneric(rows, stride int, t *planeTile) {
	w := unsafe.Slice((*int32)(t.b), t.kh*t.kw)
	for r := range rows {
		c := unsafe.Add(t.c, r*t.ldc)
		for i := range t.n {
			s := t.bias
			for y := range t.kh {
				for x := range t.kw {
					s += int32(*(*uint8)(unsafe.Add(t.a, r*t.row+y*t.dy+x*t.dx+i*stride))) * w[y*t.kw+x]
				}
			}
			if t.sums != 0 {
				*(*int32)(unsafe.Add(c, 4*i)) = s
				continue
			}
			v := float32(s) * t.scale
			if !(v > t.lo) {
				v = t.lo
			}
			*(*uint8)(unsafe.Add(c, i)) = uint8(int32(math.RoundToEven(float64(min(v, t.hi)))) + t.zero)
		}
	}
}

// planeSlack is the number of bytes that vector loads read beyond the last row of a plane.
const planeSlack = 64

// fitsPlane reports whether the plane tiles support the convolution: two dimensions, and no window
// in the padding alone.
func (d *Integer) fitsPlane() bool {
	e := &d.d
	return cpu.VNNI(d.level) && d.single != nil && d.small && d.fitsFloats() && e[2].stride <= 2 &&
		e[1].kernel*e[2].kernel*(e[2].out+16) <= planeWork
}

// planeSize returns the number of rows of the padded plane, and the bytes of one row.
func (d *Integer) planeSize() (rows, row int) {
	e := &d.d
	rows = max(e[1].pad+e[1].in, (e[1].out-1)*e[1].stride+(e[1].kernel-1)*e[1].dilation+1)
	row = max(e[2].pad+e[2].in, (e[2].out-1)*e[2].stride+(e[2].kernel-1)*e[2].dilation+1)
	return rows, row
}

// runPlanes computes the convolution plane by plane.
func (d *Integer) runPlanes(par gemm.Par, y *byteOutput, x []byte, signed bool) {
	par(d.s.N*d.s.Cout, func(lo, hi int) {
		b := integerPool.Get().(*integerBuffers)
		rows, row := d.planeSize()
		plane := resize(&b.image, rows*row+planeSlack)
		zero, flip := d.converted(signed, false)
		fill(plane, byte(zero))
		for u := lo; u < hi; u++ {
			d.plane(y, plane, x[u*d.pixels[0]:][:d.pixels[0]], u, row, zero, flip)
		}
		integerPool.Put(b)
	})
}

func (d *Integer) plane(y *byteOutput, plane, x []byte, u, row int, zero int32, flip byte) {
	e, o := &d.d, u%d.s.Cout
	for r := range e[1].in {
		dst := plane[(e[1].pad+r)*row+e[2].pad:][:e[2].in]
		copy(dst, x[r*e[2].in:])
		if flip != 0 {
			flipBytes(dst, flip)
		}
	}
	taps := e[1].kernel * e[2].kernel
	w := d.single[o*taps:][:taps]
	t := planeTile{b: unsafe.Pointer(unsafe.SliceData(w)), kh: e[1].kernel, kw: e[2].kernel, dx: e[2].dilation,
		dy: e[1].dilation * row, row: e[1].stride * row,
		ldc: e[2].out, n: e[2].out, zero: y.zero, lo: y.lo, hi: y.hi}
	for _, v := range w {
		t.bias -= zero * v
	}
	if d.bias != nil {
		t.bias += d.bias[o]
	}
	c := unsafe.Pointer(nil)
	if y.sums != nil {
		t.sums, t.ldc = 1, 4*e[2].out
		c = unsafe.Pointer(&y.sums[u*d.pixels[1]])
	} else {
		t.scale = y.scale[min(o, len(y.scale)-1)]
		c = unsafe.Pointer(&y.bytes[u*d.pixels[1]])
	}
	for r := 0; r < e[1].out; r += planeRows {
		t.a, t.c = unsafe.Pointer(&plane[r*t.row]), unsafe.Add(c, r*t.ldc)
		runPlaneTile(d.level, min(planeRows, e[1].out-r), e[2].stride, &t)
	}
}
