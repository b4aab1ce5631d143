// Package move copies elements without regard to their meaning: transpositions, slices, gathers
// and scatters by the width of an element. Operators that move elements import it, and packages
// that change a layout before they compute.
package move

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Lists of element types of operators that move elements.
const (
	Types             = "@number @complex bool string"
	moveTypesNoBFloat = "@int float16 float double @complex bool string"
	moveSeqTypes      = "seq(@all)"
	AnyTensorOrSeq    = "@all seq(@all)"
)

// Operators that only move elements do not depend on their meaning. They process the contents of a
// tensor as elements of a given width. Five widths and strings cover all element types; packed
// elements are unpacked to one byte each, and packed again at the end.

// Buf holds the contents of a tensor as elements of a given width.
type Buf struct {
	c     *ir.Call
	t     *tensor.Tensor
	Width int    // bytes per element; 0 for strings
	Raw   []byte // unpacked elements
	Strs  []string
}

// Elem lists one type per width.
type Elem interface {
	uint8 | uint16 | uint32 | uint64 | [2]uint64 | string
}

// Of returns the elements of b as a slice of E.
func Of[E Elem](b Buf) []E {
	var z E
	if _, ok := any(z).(string); ok {
		return any(b.Strs).([]E)
	}
	return memory.FromRaw[E](b.Raw)
}

// Len returns the number of elements.
func (b Buf) Len() int {
	if b.Width == 0 {
		return len(b.Strs)
	}
	return len(b.Raw) / b.Width
}

// Slice returns elements [lo, hi).
func (b Buf) Slice(lo, hi int) Buf {
	if b.Width == 0 {
		return Buf{Strs: b.Strs[lo:hi]}
	}
	return Buf{Width: b.Width, Raw: b.Raw[lo*b.Width : hi*b.Width]}
}

func Width(d tensor.DType) int {
	if d.Packed() {
		return 1
	}
	return d.Size()
}

// In returns the contents of an input. Packed elements are unpacked in scratch memory.
func In(c *ir.Call, t *tensor.Tensor) (Buf, error) {
	d := t.DType()
	b := Buf{c: c, t: t, Width: Width(d)}
	switch {
	case d == tensor.TypeString:
		b.Strs = tensor.MustData[string](t)
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

// Out allocates output i of a call and returns its contents for writing. Call done after the
// last write.
func Out(c *ir.Call, i int, d tensor.DType, shape ...int) (Buf, error) {
	t, err := c.Output(i, d, shape...)
	if err != nil {
		return Buf{}, err
	}
	return Into(c, t)
}

// Into is Out for an existing tensor.
func Into(c *ir.Call, t *tensor.Tensor) (Buf, error) {
	d := t.DType()
	b := Buf{c: c, t: t, Width: Width(d)}
	switch {
	case d == tensor.TypeString:
		b.Strs = tensor.MustData[string](t)
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
func (b Buf) Done() {
	if d := b.t.DType(); d.Packed() {
		packedParts(b.c, b.t, func(lo, hi int, packed []byte) { memory.PackUint(packed, b.Raw[lo:hi], d.Bits()) })
	}
}

// packedParts calls fn with ranges of the elements of a packed tensor and their bytes. Eight
// elements begin at a whole byte in all packed types.
func packedParts(c *ir.Call, t *tensor.Tensor, fn func(lo, hi int, packed []byte)) {
	const unit = 8
	n, bytes, bits := t.Len(), t.Bytes(), t.DType().Bits()
	c.Serial((n+unit-1)/unit, kit.GrainCheap/unit, func(lo, hi int) {
		fn(lo*unit, min(hi*unit, n), bytes[lo*bits:min(hi*bits, len(bytes))])
	})
}

// New returns a tensor for a sequence or optional. Its memory is charged to the call before it
// is allocated.
func New(c *ir.Call, d tensor.DType, shape ...int) (*tensor.Tensor, error) {
	n, err := tensor.ByteLen(d, shape)
	if err != nil {
		return nil, err
	}
	if err := c.Reserve(int64(n)); err != nil {
		return nil, err
	}
	return tensor.Zeros(d, shape...)
}

// Clear clears the elements to zeros or empty strings. It does not return if the run must stop.
func Clear(c *ir.Call, b Buf) {
	ir.Clear(c, b.Raw)
	ir.Clear(c, b.Strs)
}

// Copy copies all elements.
func Copy(c *ir.Call, dst, src Buf) {
	if dst.Width == 0 {
		copy(dst.Strs, src.Strs)
		return
	}
	n := min(len(dst.Raw), len(src.Raw))
	c.Parallel(n, 1<<17, ir.Do(c, copySection{dst.Raw, src.Raw}))
}

// copySection copies bytes.
type copySection struct{ dst, src []byte }

// Do copies the bytes [lo, hi).
func (s *copySection) Do(lo, hi int) { copyCached(s.dst[lo:hi], s.src[lo:hi]) }

// copyCached is the built-in copy, which from 1 MiB on bypasses the caches on amd64; up to 8 MiB it
// leaves dst in them, which the next operator reads.
//
//go:noinline
func copyCached(dst, src []byte) {
	const part = 1 << 19
	for len(src) > part && len(src) <= 8<<20 {
		dst, src = dst[copy(dst, src[:part]):], src[part:]
	}
	copy(dst, src)
}

// Value sets output i to v. A tensor is copied, since it may be memory of an input.
func Value(c *ir.Call, i int, v tensor.Value) error {
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
		copy(tensor.MustData[string](out), tensor.MustData[string](t))
	} else {
		copy(out.Bytes(), t.Bytes())
	}
	return nil
}

// Fill sets all elements of dst to element 0 of value.
func Fill(c *ir.Call, dst, value Buf) {
	switch dst.Width {
	case 0:
		moveFillOf(c, dst.Strs, value.Strs[0])
	case 1:
		moveFillOf(c, dst.Raw, value.Raw[0])
	case 2:
		moveFillOf(c, Of[uint16](dst), Of[uint16](value)[0])
	case 4:
		moveFillOf(c, Of[uint32](dst), Of[uint32](value)[0])
	case 8:
		moveFillOf(c, Of[uint64](dst), Of[uint64](value)[0])
	case 16:
		moveFillOf(c, Of[[2]uint64](dst), Of[[2]uint64](value)[0])
	}
}

func moveFillOf[E Elem](c *ir.Call, dst []E, v E) {
	c.Parallel(len(dst), 1<<17, func(lo, hi int) {
		d := dst[lo:hi]
		for i := range d {
			d[i] = v
		}
	})
}

// Gather copies blocks: for every o < outer and every j,
//
//	dst[(o·len(idx)+j)·block : +block] = src[o·srcOuter + idx[j]·block : +block]
//
// in elements. The indices are the caller's to check.
func Gather(c *ir.Call, dst, src Buf, outer, srcOuter int, idx []int, block int) {
	if outer == 0 || len(idx) == 0 || block == 0 {
		return
	}
	run := consecutive(idx)
	if run == len(idx) && srcOuter == run*block {
		Copy(c, dst, src)
		return
	}
	if w := dst.Width; w == 16 || w > 1 && block*run > 1 { // blocks of any type are copied
		moveGatherOf(c, dst.Raw, src.Raw, outer, srcOuter*w, idx, run, block*w)
		return
	}
	switch dst.Width {
	case 0:
		moveGatherOf(c, dst.Strs, src.Strs, outer, srcOuter, idx, run, block)
	case 1:
		moveGatherOf(c, dst.Raw, src.Raw, outer, srcOuter, idx, run, block)
	case 2:
		moveGatherOf(c, Of[uint16](dst), Of[uint16](src), outer, srcOuter, idx, run, block)
	case 4:
		moveGatherOf(c, Of[uint32](dst), Of[uint32](src), outer, srcOuter, idx, run, block)
	case 8:
		moveGatherOf(c, Of[uint64](dst), Of[uint64](src), outer, srcOuter, idx, run, block)
	}
}

// consecutive returns the largest divisor r of len(idx) for which every r indices, from the first
// on, are consecutive numbers.
func consecutive(idx []int) int {
	run := len(idx)
	for i := 1; i < len(idx) && run > 1; i++ {
		if idx[i] != idx[i-1]+1 {
			for a := i; a != 0; { // the greatest common divisor
				run, a = a, run%a
			}
		}
	}
	return run
}

// Scatter copies blocks in order, so that the last one is kept for equal indices: dst[at[i] :
// +block] = src[i·block : +block], in elements.
func Scatter(dst, src Buf, at []int, block int) {
	switch dst.Width {
	case 0:
		moveScatterOf(dst.Strs, src.Strs, at, block)
	case 1:
		moveScatterOf(dst.Raw, src.Raw, at, block)
	case 2:
		moveScatterOf(Of[uint16](dst), Of[uint16](src), at, block)
	case 4:
		moveScatterOf(Of[uint32](dst), Of[uint32](src), at, block)
	case 8:
		moveScatterOf(Of[uint64](dst), Of[uint64](src), at, block)
	case 16:
		moveScatterOf(Of[[2]uint64](dst), Of[[2]uint64](src), at, block)
	}
}

func moveScatterOf[E Elem](dst, src []E, at []int, block int) {
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

// Mapped copies with an index list per dimension: element (i0, i1, …) of dst, which is dense,
// is src[maps[0][i0] + maps[1][i1] + …]. The elements [from, to) of the last dimension are adjacent
// in src; of a list of [LongRun] or more of them, only the first index is read.
func Mapped(c *ir.Call, dst, src Buf, maps [][]int, from, to int) {
	if to-from < LongRun && moveTwice(c, dst, src, maps) {
		return
	}
	switch dst.Width {
	case 0:
		moveMappedOf(c, dst.Strs, src.Strs, maps, from, to)
	case 1:
		moveMappedOf(c, dst.Raw, src.Raw, maps, from, to)
	case 2:
		moveMappedOf(c, Of[uint16](dst), Of[uint16](src), maps, from, to)
	case 4:
		moveMappedOf(c, Of[uint32](dst), Of[uint32](src), maps, from, to)
	case 8:
		moveMappedOf(c, Of[uint64](dst), Of[uint64](src), maps, from, to)
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
		moveMappedOf(c, Of[uint64](dst), Of[uint64](src), pairs, 0, 2)
	}
}

// LongRun is the number of adjacent elements from which [Mapped] reads the first index only.
const LongRun = 16

// AdjacentRun returns the range of the longest series of successive numbers in the last of the
// lists.
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

// moveMappedOf is Mapped for elements of a type. The range [a, b) of the last dimension is copied
// at once.
func moveMappedOf[E Elem](c *ir.Call, dst, src []E, maps [][]int, a, b int) {
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

// moveTwice is Mapped if the last dimension has each element twice, which have at most four bytes.
// It reports whether it has.
func moveTwice(c *ir.Call, dst, src Buf, maps [][]int) bool {
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

// eachPlane calls fn in parallel with parts of planes, the last two dimensions of maps: the index
// of the first row in the destination, the offset of the plane, and the offsets of the rows, a
// multiple of unit.
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
	return kit.Product(shape[:axis]), kit.Product(shape[axis+1:])
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
		err = indexListOf(r, tensor.MustData[int64](t), n, what)
	case tensor.TypeInt32:
		err = indexListOf(r, tensor.MustData[int32](t), n, what)
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

// Set writes element 0 of value at the given indices.
func Set(dst, value Buf, at []int) {
	switch dst.Width {
	case 0:
		moveSetOf(dst.Strs, value.Strs[0], at)
	case 1:
		moveSetOf(dst.Raw, value.Raw[0], at)
	case 2:
		moveSetOf(Of[uint16](dst), Of[uint16](value)[0], at)
	case 4:
		moveSetOf(Of[uint32](dst), Of[uint32](value)[0], at)
	case 8:
		moveSetOf(Of[uint64](dst), Of[uint64](value)[0], at)
	case 16:
		moveSetOf(Of[[2]uint64](dst), Of[[2]uint64](value)[0], at)
	}
}

func moveSetOf[E Elem](dst []E, v E, at []int) {
	for _, p := range at {
		dst[p] = v
	}
}

// Centered copies the intersection of two boxes, where element i of src is at i+shift of dst.
// shift may be negative.
func Centered(c *ir.Call, dst, src Buf, dstShape, srcShape, shift []int) {
	box := make([]int, len(shift))
	to, from := kit.Strides(dstShape), kit.Strides(srcShape)
	d, s := 0, 0
	for i, b := range shift {
		lo, hi := max(b, 0), min(srcShape[i]+b, dstShape[i])
		if box[i] = hi - lo; box[i] <= 0 {
			return
		}
		d += lo * to[i]
		s += (lo - b) * from[i]
	}
	Strided(c, dst, src, box, to, d, from, s)
}
