package move

import (
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Strided copies every element of a box of the given shape from src to dst:
//
//	dst[dstOff + Σ i[k]·dstStride[k]] = src[srcOff + Σ i[k]·srcStride[k]]
//
// in elements. Source strides may be 0 or negative; different indices i must have different offsets
// in dst. The caller has checked that the box is within both.
func Strided(c *ir.Call, dst, src Buf, shape, dstStride []int, dstOff int, srcStride []int, srcOff int) {
	if dst.Width == 16 { // as pairs of elements
		double := func(x []int, last int) []int {
			r := make([]int, len(x)+1)
			for k, v := range x {
				r[k] = 2 * v
			}
			r[len(x)] = last
			return r
		}
		dst.Width, src.Width = 8, 8
		shape, dstStride, srcStride = append(slices.Clone(shape), 2), double(dstStride, 1), double(srcStride, 1)
		dstOff, srcOff = 2*dstOff, 2*srcOff
	}
	p := newStridedPlan(shape, dstStride, srcStride)
	if p == nil {
		return
	}
	p.dstOff, p.srcOff = dstOff, srcOff
	if last := len(p.shape) - 1; last > 0 && p.dst[last] == 1 && p.src[last] == 1 {
		n := p.shape[last]
		size := n * dst.Width
		if at := int(uintptr(unsafe.Pointer(unsafe.SliceData(dst.Raw))) |
			uintptr(unsafe.Pointer(unsafe.SliceData(src.Raw)))); size == 2 || size == 4 || size == 8 {
			rest := (dstOff|srcOff)*dst.Width | at
			for k := range last {
				rest |= (p.dst[k] | p.src[k]) * dst.Width
			}
			if rest%size == 0 { // rows of n elements are elements
				for k := range last {
					p.dst[k], p.src[k] = p.dst[k]/n, p.src[k]/n
				}
				dst.Width, src.Width = size, size
				Strided(c, dst, src, p.shape[:last], p.dst[:last], dstOff/n, p.src[:last], srcOff/n)
				return
			}
		}
		if k := last - 2; k >= 0 && size < NarrowRow && p.shape[k] > p.shape[k+1] { // the longest loop over short rows
			p.shape[k], p.shape[k+1] = p.shape[k+1], p.shape[k]
			p.dst[k], p.dst[k+1] = p.dst[k+1], p.dst[k]
			p.src[k], p.src[k+1] = p.src[k+1], p.src[k]
		}
	}
	if n := p.repeats(); n > 0 && dst.Width > 0 {
		block, raw := p.dst[0]*dst.Width, dst.Raw[dstOff*dst.Width:]
		Strided(c, dst, src, p.shape[1:], p.dst[1:], dstOff, p.src[1:], srcOff)
		c.Parallel(n, 1+(1<<15)/p.dst[0], func(lo, hi int) {
			part := raw[lo*block : hi*block]
			if lo > 0 {
				copy(part, raw[:block])
			}
			RepeatBytes(part, block)
		})
		return
	}
	switch dst.Width {
	case 0:
		stridedRun(c, p, dst.Strs, src.Strs)
	case 1:
		stridedRun(c, p, dst.Raw, src.Raw)
	case 2:
		stridedRun(c, p, Of[uint16](dst), Of[uint16](src))
	case 4:
		stridedRun(c, p, Of[uint32](dst), Of[uint32](src))
	case 8:
		stridedRun(c, p, Of[uint64](dst), Of[uint64](src))
	}
}

// stridedPlan is a box without dimensions of size 1, with dimensions merged that are contiguous on
// both sides.
type stridedPlan struct {
	shape, dst, src []int
	dstOff, srcOff  int
	// tile is set for a transposition of the last two dimensions: the inner one is contiguous in
	// dst, the outer one in src.
	tile bool
}

// repeats returns how often the first dimension repeats a block that is dense in dst, 0 if it does
// not.
func (p *stridedPlan) repeats() int {
	if len(p.shape) == 1 || p.src[0] != 0 || p.tile {
		return 0
	}
	count, extent := 1, 1 // of the block: its elements have different offsets
	for i, n := range p.shape[1:] {
		count *= n
		extent += (n - 1) * p.dst[1+i]
	}
	if extent != count || p.dst[0] != count {
		return 0
	}
	return p.shape[0]
}

// newStridedPlan returns nil for an empty box.
func newStridedPlan(shape, dst, src []int) *stridedPlan {
	p := &stridedPlan{}
	for i, n := range shape {
		switch {
		case n == 0:
			return nil
		case n == 1:
			continue
		}
		if k := len(p.shape) - 1; k >= 0 && p.dst[k] == dst[i]*n && p.src[k] == src[i]*n {
			p.shape[k] *= n
			p.dst[k], p.src[k] = dst[i], src[i]
			continue
		}
		p.shape = append(p.shape, n)
		p.dst = append(p.dst, dst[i])
		p.src = append(p.src, src[i])
	}
	if len(p.shape) == 0 {
		p.shape, p.dst, p.src = []int{1}, []int{1}, []int{1}
	}
	last := len(p.shape) - 1
	if p.dst[last] == 1 && p.src[last] != 1 && p.src[last] != 0 && p.shape[last] > 1 {
		if k := slices.Index(p.src[:last], 1); k >= 0 {
			// Move the dimension that is contiguous in src next to the innermost one.
			move := func(s []int) {
				v := s[k]
				copy(s[k:last-1], s[k+1:last])
				s[last-1] = v
			}
			move(p.shape)
			move(p.dst)
			move(p.src)
			p.tile = true
		}
	}
	return p
}

// stridedTile is the side of the squares of a transposition: one of rows and one of columns fit in
// the first-level cache.
const stridedTile = 32

// stridedStrip is the minimum number of elements of a strip, if the matrix has more.
const stridedStrip = 8192

func stridedRun[E Elem](c *ir.Call, p *stridedPlan, dst, src []E) {
	last := len(p.shape) - 1
	n := p.shape[last]
	if last == 0 {
		c.Parallel(n, 1<<16, func(lo, hi int) {
			stridedRow(dst, src, p.dstOff+lo*p.dst[0], p.srcOff+lo*p.src[0], hi-lo, p.dst[0], p.src[0])
		})
		return
	}
	outer := last
	perUnit := n
	strips := 0 // strips of rows per matrix
	side := stridedTile
	if p.tile {
		outer = last - 1
		for side*n < stridedStrip {
			side *= 2
		}
		strips = (p.shape[outer] + side - 1) / side
		perUnit = n * min(side, p.shape[outer])
	}
	units := max(strips, 1)
	for _, d := range p.shape[:outer] {
		units *= d
	}
	c.Parallel(units, 1+(1<<15)/perUnit, func(lo, hi int) {
		var small [8]int
		pos := small[:]
		if outer > len(small) {
			pos = make([]int, outer)
		}
		pos = pos[:outer]
		strip, r := 0, lo
		if strips > 0 {
			strip, r = lo%strips, lo/strips
		}
		d, s := p.dstOff, p.srcOff
		for k := outer - 1; k >= 0; k-- {
			pos[k] = r % p.shape[k]
			r /= p.shape[k]
			d += pos[k] * p.dst[k]
			s += pos[k] * p.src[k]
		}
		for u := lo; u < hi; u++ {
			if strips > 0 {
				row := strip * side
				rows := min(side, p.shape[outer]-row)
				if at := d + row*p.dst[outer]; c.Generic ||
					!stridedKernel(dst, src, at, s+row, rows, n, p.dst[outer], p.src[last]) {
					stridedSquare(dst, src, at, s+row, rows, n, p.dst[outer], p.src[last])
				}
				if strip++; strip < strips {
					continue
				}
				strip = 0
			}
			rows := 1
			if strips == 0 {
				rows = min(hi-u, p.shape[outer-1]-pos[outer-1])
				stridedRows(dst, src, d, s, rows, p.dst[outer-1], p.src[outer-1], n, p.dst[last], p.src[last])
				u += rows - 1
			}
			for k := outer - 1; k >= 0; k-- {
				d += rows * p.dst[k]
				s += rows * p.src[k]
				if pos[k] += rows; pos[k] < p.shape[k] {
					break
				}
				rows = 1
				d -= p.shape[k] * p.dst[k]
				s -= p.shape[k] * p.src[k]
				pos[k] = 0
			}
		}
	})
}

// stridedRows copies rows of n elements. Steps are those between rows, strides those between
// elements.
func stridedRows[E Elem](dst, src []E, d, s, rows, dstStep, srcStep, n, dstStride, srcStride int) {
	var z E
	size := int(unsafe.Sizeof(z))
	repeated := srcStride == 0 && n*size <= fewBytes && size <= 8
	if _, text := any(z).(string); !text && dstStride == 1 && (repeated || srcStride == 1 && n*size <= NarrowRow) {
		w := 1 // elements of src that a row reads
		if !repeated {
			w = n
		}
		_, _, _, _ = dst[d:d+n], src[s:s+w], dst[d+(rows-1)*dstStep:][:n], src[s+(rows-1)*srcStep:][:w]
		if to, from := unsafe.Pointer(&dst[d]), unsafe.Pointer(&src[s]); repeated {
			fillRows(to, from, rows, dstStep*size, srcStep*size, n*size, size)
		} else {
			narrowRows(to, from, rows, dstStep*size, srcStep*size, n*size)
		}
		return
	}
	for range rows {
		stridedRow(dst, src, d, s, n, dstStride, srcStride)
		d, s = d+dstStep, s+srcStep
	}
}

// fillRows fills rows of n bytes with copies of one element each.
func fillRows(dst, src unsafe.Pointer, rows, dstStep, srcStep, n, size int) {
	for r := range rows {
		elem := unsafe.Slice((*byte)(unsafe.Add(src, r*srcStep)), size)
		fillWords(unsafe.Slice((*byte)(unsafe.Add(dst, r*dstStep)), n), elementWord(elem, size))
	}
}

// NarrowRow is the most bytes of a row that narrowRows copies.
const NarrowRow = 64

// narrowRows copies rows of n bytes, 1 to NarrowRow. It takes half of the time of copy, which is a
// call for each row: two or four moves, which overlap, copy a row of any size.
func narrowRows(dst, src unsafe.Pointer, rows, dstStep, srcStep, n int) {
	switch {
	case n > 32:
		overlapped[[4]uint64](dst, src, rows, dstStep, srcStep, n)
	case n > 16:
		overlapped[[2]uint64](dst, src, rows, dstStep, srcStep, n)
	case n >= 8:
		overlapped[uint64](dst, src, rows, dstStep, srcStep, n)
	case n >= 4:
		overlapped[uint32](dst, src, rows, dstStep, srcStep, n)
	case n >= 2:
		overlapped[uint16](dst, src, rows, dstStep, srcStep, n)
	default:
		overlapped[byte](dst, src, rows, dstStep, srcStep, n)
	}
}

// overlapped copies the first and the last of n bytes of each row. It computes no pointer beyond
// the last row, which would not point into the memory.
func overlapped[T any](dst, src unsafe.Pointer, rows, dstStep, srcStep, n int) {
	var z T
	n -= int(unsafe.Sizeof(z))
	for r := range rows {
		d, s := unsafe.Add(dst, r*dstStep), unsafe.Add(src, r*srcStep)
		first, last := *(*T)(s), *(*T)(unsafe.Add(s, n))
		*(*T)(d), *(*T)(unsafe.Add(d, n)) = first, last
	}
}

// stridedRow copies n elements with one stride on each side.
func stridedRow[E Elem](dst, src []E, d, s, n, dstStride, srcStride int) {
	switch {
	case dstStride == 1 && srcStride == 1:
		to, from := dst[d:d+n], src[s:s+n]
		if _, ok := any(to).([]string); ok {
			copy(to, from)
		} else {
			copyCached(memory.AsBytes(to), memory.AsBytes(from))
		}
	case dstStride == 1 && srcStride == 0:
		const most = 1 << 10 // elements that are copied at a time
		to := dst[d : d+n]
		n = min(n, 16)
		kit.RepeatOf(to[:n], src[s])
		for n < len(to) {
			n += copy(to[n:], to[:min(n, most)])
		}
	case dstStride == 1:
		to := dst[d : d+n]
		for i := range to {
			to[i] = src[s]
			s += srcStride
		}
	default:
		for range n {
			dst[d] = src[s]
			d += dstStride
			s += srcStride
		}
	}
}

// stridedKernel is stridedSquare with a vector kernel, if there is one.
func stridedKernel[E Elem](dst, src []E, d, s, rows, cols, dstStride, srcStride int) bool {
	if dstStride < 0 || srcStride < 0 {
		return false
	}
	l := cpu.Active()
	switch dst := any(dst).(type) {
	case []uint8:
		return vec.Transpose(l, dst[d:], dstStride, any(src).([]uint8)[s:], srcStride, cols, rows)
	case []uint16:
		return vec.Transpose(l, dst[d:], dstStride, any(src).([]uint16)[s:], srcStride, cols, rows)
	case []uint32:
		return vec.Transpose(l, dst[d:], dstStride, any(src).([]uint32)[s:], srcStride, cols, rows)
	case []uint64:
		return vec.Transpose(l, dst[d:], dstStride, any(src).([]uint64)[s:], srcStride, cols, rows)
	}
	return false
}

// stridedSquare transposes rows×cols elements: dst has rows of cols contiguous elements, src has
// columns of rows contiguous elements.
func stridedSquare[E Elem](dst, src []E, d, s, rows, cols, dstStride, srcStride int) {
	for ; rows > stridedTile; rows -= stridedTile {
		stridedSquare(dst, src, d, s, stridedTile, cols, dstStride, srcStride)
		d, s = d+stridedTile*dstStride, s+stridedTile
	}
	var z E
	if srcStride*int(unsafe.Sizeof(z))%2048 == 0 {
		stridedDetour(dst, src, d, s, rows, cols, dstStride, srcStride)
		return
	}
	for col := 0; col < cols; col += stridedTile {
		w := min(stridedTile, cols-col)
		for r := range rows {
			from := s + r + col*srcStride
			at := d + r*dstStride + col
			to := dst[at : at+w]
			for i := range to {
				to[i] = src[from]
				from += srcStride
			}
		}
	}
}

// stridedDetour is stridedSquare through a small square on the stack. Columns whose distance is a
// large power of two map to few cache sets, so each is read once only.
func stridedDetour[E Elem](dst, src []E, d, s, rows, cols, dstStride, srcStride int) {
	const side = stridedTile + 1
	var square [stridedTile * side]E
	for col := 0; col < cols; col += stridedTile {
		w := min(stridedTile, cols-col)
		for i := range w {
			from := s + (col+i)*srcStride
			copy(square[i*side:i*side+rows], src[from:from+rows])
		}
		for r := range rows {
			at := d + r*dstStride + col
			to := dst[at : at+w]
			k := r
			for ; len(to) >= 4; to = to[4:] {
				q := square[k : k+3*side+1]
				to[0], to[1], to[2], to[3] = q[0], q[side], q[2*side], q[3*side]
				k += 4 * side
			}
			for i := range to {
				to[i] = square[k]
				k += side
			}
		}
	}
}
