package kit

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// Lists of element types of operators that move elements.
const (
	MoveTypes          = "@number @complex bool string"
	moveTypesNoBFloat  = "@int float16 float double @complex bool string"
	moveSeqTypes       = "seq(@all)"
	MoveAnyTensorOrSeq = "@all seq(@all)"
)

// Operators that only move elements do not depend on their meaning. They process the contents of a
// tensor as elements of a given width. Five widths and strings cover all element types; packed
// elements are unpacked to one byte each, and packed again at the end.

// MoveBuf holds the contents of a tensor as elements of a given width.
type MoveBuf struct {
	c     *ir.Call
	t     *tensor.Tensor
	Width int    // bytes per element; 0 for strings
	Raw   []byte // unpacked elements
	Strs  []string
}

// MoveElem lists one type per width.
type MoveElem interface {
	uint8 | uint16 | uint32 | uint64 | [2]uint64 | string
}

// MoveOf returns the elements of b as a slice of E.
func MoveOf[E MoveElem](b MoveBuf) []E {
	var z E
	if _, ok := any(z).(string); ok {
		return any(b.Strs).([]E)
	}
	return memory.FromRaw[E](b.Raw)
}

// Len returns the number of elements.
func (b MoveBuf) Len() int {
	if b.Width == 0 {
		return len(b.Strs)
	}
	return len(b.Raw) / b.Width
}

// Slice returns elements [lo, hi).
func (b MoveBuf) Slice(lo, hi int) MoveBuf {
	if b.Width == 0 {
		return MoveBuf{Strs: b.Strs[lo:hi]}
	}
	return MoveBuf{Width: b.Width, Raw: b.Raw[lo*b.Width : hi*b.Width]}
}

func MoveWidth(d tensor.DType) int {
	if d.Packed() {
		return 1
	}
	return d.Size()
}

// MoveIn returns the contents of an input. Packed elements are unpacked in scratch memory.
func MoveIn(c *ir.Call, t *tensor.Tensor) (MoveBuf, error) {
	d := t.DType()
	b := MoveBuf{c: c, t: t, Width: MoveWidth(d)}
	switch {
	case d == tensor.TypeString:
		b.Strs = tensor.Of[string](t)
	case d.Packed():
		raw, err := c.Scratch(t.Len())
		if err != nil {
			return b, err
		}
		packedParts(c, t, func(lo, hi int, packed []byte) { memory.UnpackUint(raw[lo:hi], packed, d.Bits()) })
		b.Raw = raw
	default:
		b.Raw = t.Bytes()
	}
	return b, nil
}

// MoveOut allocates output i of a call and returns its contents for writing. Call done after the
// last write.
func MoveOut(c *ir.Call, i int, d tensor.DType, shape ...int) (MoveBuf, error) {
	t, err := c.Output(i, d, shape...)
	if err != nil {
		return MoveBuf{}, err
	}
	return MoveInto(c, t)
}

// MoveInto is MoveOut for an existing tensor.
func MoveInto(c *ir.Call, t *tensor.Tensor) (MoveBuf, error) {
	d := t.DType()
	b := MoveBuf{c: c, t: t, Width: MoveWidth(d)}
	switch {
	case d == tensor.TypeString:
		b.Strs = tensor.Of[string](t)
	case d.Packed():
		raw, err := c.Scratch(t.Len())
		if err != nil {
			return b, err
		}
		b.Raw = raw
	default:
		b.Raw = t.Bytes()
	}
	return b, nil
}

// Done packs the elements of a packed type into the tensor.
func (b MoveBuf) Done() {
	if d := b.t.DType(); d.Packed() {
		packedParts(b.c, b.t, func(lo, hi int, packed []byte) { memory.PackUint(packed, b.Raw[lo:hi], d.Bits()) })
	}
}

// packedParts calls fn with ranges of the elements of a packed tensor and their bytes. Eight elements
// begin at a whole byte in all packed types.
func packedParts(c *ir.Call, t *tensor.Tensor, fn func(lo, hi int, packed []byte)) {
	const unit = 8
	n, bytes, bits := t.Len(), t.Bytes(), t.DType().Bits()
	c.Serial((n+unit-1)/unit, GrainCheap/unit, func(lo, hi int) {
		fn(lo*unit, min(hi*unit, n), bytes[lo*bits:min(hi*bits, len(bytes))])
	})
}

// MoveNew returns a tensor for a sequence or optional. Its memory is charged to the call before it
// is allocated.
func MoveNew(c *ir.Call, d tensor.DType, shape ...int) (*tensor.Tensor, error) {
	n, err := tensor.ByteLen(d, shape)
	if err != nil {
		return nil, err
	}
	if err := c.Reserve(int64(n)); err != nil {
		return nil, err
	}
	return tensor.Zeros(d, shape...)
}

// MoveClear clears the elements to zeros or empty strings. It does not return if the run must stop.
func MoveClear(c *ir.Call, b MoveBuf) {
	ir.Clear(c, b.Raw)
	ir.Clear(c, b.Strs)
}

// MoveCopy copies all elements.
func MoveCopy(c *ir.Call, dst, src MoveBuf) {
	if dst.Width == 0 {
		copy(dst.Strs, src.Strs)
		return
	}
	n := min(len(dst.Raw), len(src.Raw))
	c.Parallel(n, 1<<20, func(lo, hi int) { copyCached(dst.Raw[lo:hi], src.Raw[lo:hi]) })
}

// copyCached is the built-in copy, which from 1 MiB on bypasses the caches on amd64; up to 8 MiB it leaves dst in them, which
// the next operator reads.
//
//go:noinline
func copyCached(dst, src []byte) {
	const part = 1 << 19
	for len(src) > part && len(src) <= 8<<20 {
		dst, src = dst[copy(dst, src[:part]):], src[part:]
	}
	copy(dst, src)
}

// MoveValue sets output i to v. A tensor is copied, since it may be memory of an input.
func MoveValue(c *ir.Call, i int, v tensor.Value) error {
	t, ok := v.(*tensor.Tensor)
	if !ok {
		c.Set(i, v)
		return nil
	}
	out, err := c.Output(i, t.DType(), t.Shape()...)
	if err != nil {
		return err
	}
	if t.DType() == tensor.TypeString {
		copy(tensor.Of[string](out), tensor.Of[string](t))
	} else {
		copy(out.Bytes(), t.Bytes())
	}
	return nil
}

// MoveFill sets all elements of dst to element 0 of value.
func MoveFill(c *ir.Call, dst, value MoveBuf) {
	switch dst.Width {
	case 0:
		moveFillOf(c, dst.Strs, value.Strs[0])
	case 1:
		moveFillOf(c, dst.Raw, value.Raw[0])
	case 2:
		moveFillOf(c, MoveOf[uint16](dst), MoveOf[uint16](value)[0])
	case 4:
		moveFillOf(c, MoveOf[uint32](dst), MoveOf[uint32](value)[0])
	case 8:
		moveFillOf(c, MoveOf[uint64](dst), MoveOf[uint64](value)[0])
	case 16:
		moveFillOf(c, MoveOf[[2]uint64](dst), MoveOf[[2]uint64](value)[0])
	}
}

func moveFillOf[E MoveElem](c *ir.Call, dst []E, v E) {
	c.Parallel(len(dst), 1<<17, func(lo, hi int) {
		d := dst[lo:hi]
		for i := range d {
			d[i] = v
		}
	})
}

// MoveGather copies blocks: for every o < outer and every j,
//
//	dst[(o·len(idx)+j)·block : +block] = src[o·srcOuter + idx[j]·block : +block]
//
// in elements. The indices are the caller's to check.
func MoveGather(c *ir.Call, dst, src MoveBuf, outer, srcOuter int, idx []int, block int) {
	if outer == 0 || len(idx) == 0 || block == 0 {
		return
	}
	if w := dst.Width; w == 16 || w > 1 && block > 1 { // blocks are copied, of whatever type
		moveGatherOf(c, dst.Raw, src.Raw, outer, srcOuter*w, idx, block*w)
		return
	}
	switch dst.Width {
	case 0:
		moveGatherOf(c, dst.Strs, src.Strs, outer, srcOuter, idx, block)
	case 1:
		moveGatherOf(c, dst.Raw, src.Raw, outer, srcOuter, idx, block)
	case 2:
		moveGatherOf(c, MoveOf[uint16](dst), MoveOf[uint16](src), outer, srcOuter, idx, block)
	case 4:
		moveGatherOf(c, MoveOf[uint32](dst), MoveOf[uint32](src), outer, srcOuter, idx, block)
	case 8:
		moveGatherOf(c, MoveOf[uint64](dst), MoveOf[uint64](src), outer, srcOuter, idx, block)
	}
}

func moveGatherOf[E MoveElem](c *ir.Call, dst, src []E, outer, srcOuter int, idx []int, block int) {
	n := len(idx)
	c.Parallel(outer*n, 1+(1<<15)/block, func(lo, hi int) {
		for lo < hi {
			o, j := lo/n, lo%n
			run := min(hi-lo, n-j)
			from := src[o*srcOuter:]
			to := dst[lo*block : (lo+run)*block]
			if block == 1 {
				for i, x := range idx[j : j+run] {
					to[i] = from[x]
				}
			} else {
				for _, x := range idx[j : j+run] {
					copy(to[:block], from[x*block:x*block+block])
					to = to[block:]
				}
			}
			lo += run
		}
	})
}

// MoveScatter copies blocks in order, so that the last one is kept for equal indices: dst[at[i] :
// +block] = src[i·block : +block], in elements.
func MoveScatter(dst, src MoveBuf, at []int, block int) {
	switch dst.Width {
	case 0:
		moveScatterOf(dst.Strs, src.Strs, at, block)
	case 1:
		moveScatterOf(dst.Raw, src.Raw, at, block)
	case 2:
		moveScatterOf(MoveOf[uint16](dst), MoveOf[uint16](src), at, block)
	case 4:
		moveScatterOf(MoveOf[uint32](dst), MoveOf[uint32](src), at, block)
	case 8:
		moveScatterOf(MoveOf[uint64](dst), MoveOf[uint64](src), at, block)
	case 16:
		moveScatterOf(MoveOf[[2]uint64](dst), MoveOf[[2]uint64](src), at, block)
	}
}

func moveScatterOf[E MoveElem](dst, src []E, at []int, block int) {
	if block == 1 {
		for i, p := range at {
			dst[p] = src[i]
		}
		return
	}
	for i, p := range at {
		copy(dst[p:p+block], src[i*block:(i+1)*block])
	}
}

// MoveMapped copies with an index list per dimension: element (i0, i1, …) of dst, which is dense,
// is src[maps[0][i0] + maps[1][i1] + …]. The elements [from, to) of the last dimension are adjacent in src;
// of a list of [LongRun] or more of them, only the first index is read.
func MoveMapped(c *ir.Call, dst, src MoveBuf, maps [][]int, from, to int) {
	if to-from < LongRun && moveTwice(c, dst, src, maps) {
		return
	}
	switch dst.Width {
	case 0:
		moveMappedOf(c, dst.Strs, src.Strs, maps, from, to)
	case 1:
		moveMappedOf(c, dst.Raw, src.Raw, maps, from, to)
	case 2:
		moveMappedOf(c, MoveOf[uint16](dst), MoveOf[uint16](src), maps, from, to)
	case 4:
		moveMappedOf(c, MoveOf[uint32](dst), MoveOf[uint32](src), maps, from, to)
	case 8:
		moveMappedOf(c, MoveOf[uint64](dst), MoveOf[uint64](src), maps, from, to)
	case 16: // as pairs of elements
		pairs := make([][]int, len(maps)+1)
		for k, list := range maps {
			pairs[k] = make([]int, len(list))
			for i, at := range list {
				if k == len(maps)-1 && i > from && i < to {
					at = list[from] + i - from
				}
				pairs[k][i] = 2 * at
			}
		}
		pairs[len(maps)] = []int{0, 1}
		moveMappedOf(c, MoveOf[uint64](dst), MoveOf[uint64](src), pairs, 0, 2)
	}
}

// LongRun is the number of adjacent elements from which [MoveMapped] reads the first index only.
const LongRun = 16

// AdjacentRun returns the range of the longest series of successive numbers in the last of the lists.
func AdjacentRun(lists [][]int) (from, to int) {
	if len(lists) == 0 {
		return 0, 0
	}
	list := lists[len(lists)-1]
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j] == list[j-1]+1 {
			j++
		}
		if j-i > to-from {
			from, to = i, j
		}
		i = j
	}
	return from, to
}

// moveMappedOf is MoveMapped for elements of a type. The range [a, b) of the last dimension is copied at once.
func moveMappedOf[E MoveElem](c *ir.Call, dst, src []E, maps [][]int, a, b int) {
	if len(dst) == 0 {
		return
	}
	if len(maps) == 0 {
		dst[0] = src[0]
		return
	}
	last := maps[len(maps)-1]
	n := len(last)
	eachPlane(c, maps, 1, func(row, plane int, rows []int) {
		before := -1
		for _, step := range rows {
			base := plane + step
			to := dst[row*n:][:n]
			if base == before { // as when a row is enlarged
				copy(to, dst[(row-1)*n:])
			} else {
				for i := range a {
					to[i] = src[base+last[i]]
				}
				copy(to[a:b], src[base+last[a]:])
				for i := b; i < n; i++ {
					to[i] = src[base+last[i]]
				}
			}
			before = base
			row++
		}
	})
}

// moveTwice is MoveMapped if the last dimension has each element twice, which have at most four bytes. It reports whether it has.
func moveTwice(c *ir.Call, dst, src MoveBuf, maps [][]int) bool {
	if dst.Width == 0 || dst.Width > 4 || len(maps) == 0 || len(dst.Raw) == 0 {
		return false
	}
	last := maps[len(maps)-1]
	if len(last)%2 != 0 {
		return false
	}
	for i, at := range last {
		if at != i/2 {
			return false
		}
	}
	// The rows of a plane may be adjacent in src, each there once or, as unit, twice.
	l, unit, dense, n := cpu.Active(), 1, true, len(last)/2
	if len(maps) > 1 {
		rows := maps[len(maps)-2]
		if len(rows)%2 == 0 && rows[0] == rows[1] {
			unit = 2
		}
		for i, at := range rows {
			dense = dense && at == i/unit*n
		}
	}
	if !dense {
		unit = 1
	}
	size := dst.Width
	eachPlane(c, maps, unit, func(row, plane int, rows []int) {
		for len(rows) > 0 {
			k := unit
			if dense {
				k = len(rows)
			}
			vec.Twice(l, dst.Raw[row*2*n*size:][:k*2*n*size], src.Raw[(plane+rows[0])*size:][:k/unit*n*size], n, size)
			row += k
			rows = rows[k:]
		}
	})
	return true
}

// eachPlane calls fn in parallel with parts of planes, the last two dimensions of maps: the index of the first row in the
// destination, the offset of the plane, and the offsets of the rows, a multiple of unit.
func eachPlane(c *ir.Call, maps [][]int, unit int, fn func(row, plane int, rows []int)) {
	lead, n := maps[:len(maps)-1], len(maps[len(maps)-1])
	rows, all := []int{0}, 1
	for _, list := range lead {
		all *= len(list)
	}
	if len(lead) > 0 {
		rows, lead = lead[len(lead)-1], lead[:len(lead)-1]
	}
	c.Parallel(all/unit, 1+(1<<14)/n, func(lo, hi int) {
		lo, hi = lo*unit, hi*unit
		pos := make([]int, len(lead))
		for k, r := len(lead)-1, lo/len(rows); k >= 0; k-- {
			pos[k] = r % len(lead[k])
			r /= len(lead[k])
		}
		for row := lo; row < hi; nextCombination(pos, lead) {
			plane := 0
			for k, p := range pos {
				plane += lead[k][p]
			}
			at := row % len(rows)
			steps := rows[at:min(len(rows), at+hi-row)]
			fn(row, plane, steps)
			row += len(steps)
		}
	})
}

// nextCombination moves pos to the next combination of elements of lists.
func nextCombination(pos []int, lists [][]int) {
	for k := len(pos) - 1; k >= 0; k-- {
		if pos[k]++; pos[k] < len(lists[k]) {
			return
		}
		pos[k] = 0
	}
}

// AxisBlocks returns the number of elements of a shape before and after an axis.
func AxisBlocks(shape []int, axis int) (outer, inner int) {
	return Product(shape[:axis]), Product(shape[axis+1:])
}

// IndexList returns integer indices in [−n, n), for a dimension of n elements, as indices in [0,
// n).
func IndexList(c *ir.Call, t *tensor.Tensor, n int, what string) ([]int, error) {
	r, err := ir.ScratchOf[int](c, t.Len())
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.TypeInt64:
		err = indexListOf(r, tensor.Of[int64](t), n, what)
	case tensor.TypeInt32:
		err = indexListOf(r, tensor.Of[int32](t), n, what)
	default:
		err = fail.Errorf("%s are %s, want int32 or int64", what, t.DType())
	}
	return r, err
}

func indexListOf[T int32 | int64](dst []int, src []T, n int, what string) error {
	for i, v := range src {
		x := int(v)
		if x < 0 {
			x += n
		}
		if uint(x) >= uint(n) {
			return fail.Errorf("%s: element %d is %d, want %d to %d", what, i, v, -n, n-1)
		}
		dst[i] = x
	}
	return nil
}

// MoveSet writes element 0 of value at the given indices.
func MoveSet(dst, value MoveBuf, at []int) {
	switch dst.Width {
	case 0:
		moveSetOf(dst.Strs, value.Strs[0], at)
	case 1:
		moveSetOf(dst.Raw, value.Raw[0], at)
	case 2:
		moveSetOf(MoveOf[uint16](dst), MoveOf[uint16](value)[0], at)
	case 4:
		moveSetOf(MoveOf[uint32](dst), MoveOf[uint32](value)[0], at)
	case 8:
		moveSetOf(MoveOf[uint64](dst), MoveOf[uint64](value)[0], at)
	case 16:
		moveSetOf(MoveOf[[2]uint64](dst), MoveOf[[2]uint64](value)[0], at)
	}
}

func moveSetOf[E MoveElem](dst []E, v E, at []int) {
	for _, p := range at {
		dst[p] = v
	}
}

// MoveCentered copies the intersection of two boxes, where element i of src is at i+shift of dst.
// shift may be negative.
func MoveCentered(c *ir.Call, dst, src MoveBuf, dstShape, srcShape, shift []int) {
	box := make([]int, len(shift))
	to, from := Strides(dstShape), Strides(srcShape)
	d, s := 0, 0
	for i, b := range shift {
		lo, hi := max(b, 0), min(srcShape[i]+b, dstShape[i])
		if box[i] = hi - lo; box[i] <= 0 {
			return
		}
		d += lo * to[i]
		s += (lo - b) * from[i]
	}
	MoveStrided(c, dst, src, box, to, d, from, s)
}
