package conv

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
)

// byteEpilogue holds the bias and the scales of an int8 convolution, and the conversion of its
// input. It depends on the signedness of the input and on the scales, and is kept for runs with the
// same ones.
type byteEpilogue struct {
	signed  bool
	given   []float32 // scales
	zero    int32     // zero point of the input for the kernel
	flip    byte      // mask that converts elements of the input for the kernel
	bias    []int32   // in the order of the kernel, as scale
	scale   []float32
	wide    bool   // byte tiles store sums, because their conversion might overflow
	windows []int8 // weights of window tiles, nil to use others
}

// epilogue returns the epilogue for an input and scales, one or one per output channel; without
// scales, for sums.
func (d *Integer) epilogue(scale []float32, signed bool) *byteEpilogue {
	if e := d.kept.Load(); e != nil && e.signed == signed && slices.Equal(e.given, scale) {
		return e
	}
	e := &byteEpilogue{signed: signed, given: slices.Clone(scale)}
	channels, sums := d.s.Cout, d.sums
	size, at := tiles(channels, windowHalf)*windowHalf, func(c int) int { return c }
	switch w := d.bytes; {
	case d.single == nil:
		e.wide = cpu.VNNI(d.level) && d.geometry.chunks == 0 && !d.narrows(scale)
		og := channels / d.s.Group
		size, sums, at = len(w.sums), w.sums, func(c int) int { return c/og*w.panels*byteCols + c%og }
	case d.hasWindows() && d.narrows(scale):
		if e.windows = d.windows(); e.windows != nil {
			at = func(c int) int { return windowPosition(channels, c) }
		}
	}
	e.zero, e.flip = d.converted(signed, d.single == nil && signedTiles(d.level))
	e.bias, e.scale = memory.Slice[int32](size), memory.Slice[float32](size)
	for c := range channels {
		i, sum := at(c), c
		if d.single == nil {
			sum = i
		}
		e.bias[i] = -e.zero * sums[sum]
		if d.bias != nil {
			e.bias[i] += d.bias[c]
		}
		if len(scale) > 0 {
			e.scale[i] = scale[min(c, len(scale)-1)]
		}
	}
	d.kept.Store(e)
	return e
}

// narrows reports whether no sum overflows when it is multiplied by its scale and converted to
// int32.
func (d *Integer) narrows(scale []float32) bool {
	bias := 0.0
	for _, b := range d.bias {
		bias = max(bias, math.Abs(float64(b)))
	}
	most := min(float64(d.s.Cin/d.s.Group*product(d.s.Kernel))*255*255+bias, 1<<31) // longer sums wrap around
	for _, s := range scale {
		if r := float64(s) * most; !(math.Abs(r) < 1<<31-1<<10) && !(s < 1 && s > -1) {
			return false
		}
	}
	return true
}

// converted returns the zero point of x for a kernel that takes elements of the given signedness,
// and the mask that converts elements to it.
func (d *Integer) converted(signed, want bool) (zero int32, flip byte) {
	switch {
	case signed == want:
		return d.xZero, 0
	case signed:
		return d.xZero + 128, 0x80
	}
	return d.xZero - 128, 0x80
}
