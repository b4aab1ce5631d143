package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Operators that only move elements do not care what the elements mean: they
// work on the contents of a tensor as elements of one width. Five widths and
// strings cover every element type; packed elements are unpacked to one byte
// each and packed again at the end.

// moveBuf is the contents of a tensor as elements of one width.
type moveBuf struct {
	t     *tensor.Tensor
	width int    // bytes of an element; 0 for strings
	raw   []byte // unpacked elements
	strs  []string
}

// moveElem lists the types that stand for the widths.
type moveElem interface {
	uint8 | uint16 | uint32 | uint64 | [2]uint64 | string
}

func moveOf[E moveElem](b moveBuf) []E {
	var z E
	if _, ok := any(z).(string); ok {
		return any(b.strs).([]E)
	}
	return tensor.FromRaw[E](b.raw)
}

func (b moveBuf) len() int {
	if b.width == 0 {
		return len(b.strs)
	}
	return len(b.raw) / b.width
}

// slice returns elements [lo, hi).
func (b moveBuf) slice(lo, hi int) moveBuf {
	if b.width == 0 {
		return moveBuf{strs: b.strs[lo:hi]}
	}
	return moveBuf{width: b.width, raw: b.raw[lo*b.width : hi*b.width]}
}

func moveWidth(d tensor.DType) int {
	if d.Packed() {
		return 1
	}
	return d.Size()
}

// moveIn returns the contents of an input. Packed ones are unpacked into
// scratch memory.
func moveIn(c *ir.Call, t *tensor.Tensor) (moveBuf, error) {
	d := t.DType()
	b := moveBuf{t: t, width: moveWidth(d)}
	switch {
	case d == tensor.TypeString:
		b.strs = tensor.Of[string](t)
	case d.Packed():
		raw, err := c.Scratch(t.Len())
		if err != nil {
			return b, err
		}
		tensor.UnpackUint(raw, t.Bytes(), d.Bits())
		b.raw = raw
	default:
		b.raw = t.Bytes()
	}
	return b, nil
}

// moveOut allocates output i of a call and returns its contents for writing;
// call done after the last write.
func moveOut(c *ir.Call, i int, d tensor.DType, shape ...int) (moveBuf, error) {
	t, err := c.Output(i, d, shape...)
	if err != nil {
		return moveBuf{}, err
	}
	return moveInto(c, t)
}

// moveInto is moveOut for a tensor that exists.
func moveInto(c *ir.Call, t *tensor.Tensor) (moveBuf, error) {
	d := t.DType()
	b := moveBuf{t: t, width: moveWidth(d)}
	switch {
	case d == tensor.TypeString:
		b.strs = tensor.Of[string](t)
	case d.Packed():
		raw, err := c.Scratch(t.Len())
		if err != nil {
			return b, err
		}
		b.raw = raw
	default:
		b.raw = t.Bytes()
	}
	return b, nil
}

// done packs the elements of a packed type into the tensor.
func (b moveBuf) done() {
	if d := b.t.DType(); d.Packed() {
		tensor.PackUint(b.t.Bytes(), b.raw, d.Bits())
	}
}

// moveNew makes a tensor that is part of a sequence or optional, its memory
// charged to the call before it is allocated.
func moveNew(c *ir.Call, d tensor.DType, shape ...int) (*tensor.Tensor, error) {
	n, err := tensor.ByteLen(d, shape)
	if err != nil {
		return nil, err
	}
	if err := c.Reserve(int64(n)); err != nil {
		return nil, err
	}
	return tensor.Zeros(d, shape...)
}

// moveClear writes zeros, or empty strings.
func moveClear(b moveBuf) {
	clear(b.raw)
	clear(b.strs)
}

// moveCopy copies all elements.
func moveCopy(c *ir.Call, dst, src moveBuf) {
	if dst.width == 0 {
		copy(dst.strs, src.strs)
		return
	}
	n := min(len(dst.raw), len(src.raw))
	c.Parallel(n, 1<<20, func(lo, hi int) { copy(dst.raw[lo:hi], src.raw[lo:hi]) })
}

// moveValue makes v output i; a tensor is copied, since it may be memory of an
// input.
func moveValue(c *ir.Call, i int, v tensor.Value) error {
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

// moveFill sets every element of dst to element 0 of value.
func moveFill(c *ir.Call, dst, value moveBuf) {
	switch dst.width {
	case 0:
		moveFillOf(c, dst.strs, value.strs[0])
	case 1:
		moveFillOf(c, dst.raw, value.raw[0])
	case 2:
		moveFillOf(c, moveOf[uint16](dst), moveOf[uint16](value)[0])
	case 4:
		moveFillOf(c, moveOf[uint32](dst), moveOf[uint32](value)[0])
	case 8:
		moveFillOf(c, moveOf[uint64](dst), moveOf[uint64](value)[0])
	case 16:
		moveFillOf(c, moveOf[[2]uint64](dst), moveOf[[2]uint64](value)[0])
	}
}

func moveFillOf[E moveElem](c *ir.Call, dst []E, v E) {
	c.Parallel(len(dst), 1<<17, func(lo, hi int) {
		d := dst[lo:hi]
		for i := range d {
			d[i] = v
		}
	})
}

// moveGather copies blocks: for every o < outer and every j,
//
//	dst[(o·len(idx)+j)·block : +block] = src[o·srcOuter + idx[j]·block : +block]
//
// in elements. The indices are the caller's to check.
func moveGather(c *ir.Call, dst, src moveBuf, outer, srcOuter int, idx []int, block int) {
	if outer == 0 || len(idx) == 0 || block == 0 {
		return
	}
	switch dst.width {
	case 0:
		moveGatherOf(c, dst.strs, src.strs, outer, srcOuter, idx, block)
	case 1:
		moveGatherOf(c, dst.raw, src.raw, outer, srcOuter, idx, block)
	case 2:
		moveGatherOf(c, moveOf[uint16](dst), moveOf[uint16](src), outer, srcOuter, idx, block)
	case 4:
		moveGatherOf(c, moveOf[uint32](dst), moveOf[uint32](src), outer, srcOuter, idx, block)
	case 8:
		moveGatherOf(c, moveOf[uint64](dst), moveOf[uint64](src), outer, srcOuter, idx, block)
	case 16:
		moveGatherOf(c, moveOf[[2]uint64](dst), moveOf[[2]uint64](src), outer, srcOuter, idx, block)
	}
}

func moveGatherOf[E moveElem](c *ir.Call, dst, src []E, outer, srcOuter int, idx []int, block int) {
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

// moveScatter copies blocks in order, so that of equal places the last one
// wins: dst[at[i] : +block] = src[i·block : +block], in elements.
func moveScatter(dst, src moveBuf, at []int, block int) {
	switch dst.width {
	case 0:
		moveScatterOf(dst.strs, src.strs, at, block)
	case 1:
		moveScatterOf(dst.raw, src.raw, at, block)
	case 2:
		moveScatterOf(moveOf[uint16](dst), moveOf[uint16](src), at, block)
	case 4:
		moveScatterOf(moveOf[uint32](dst), moveOf[uint32](src), at, block)
	case 8:
		moveScatterOf(moveOf[uint64](dst), moveOf[uint64](src), at, block)
	case 16:
		moveScatterOf(moveOf[[2]uint64](dst), moveOf[[2]uint64](src), at, block)
	}
}

func moveScatterOf[E moveElem](dst, src []E, at []int, block int) {
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

// moveMapped copies with an index list for every dimension: element (i0, i1, …)
// of dst, which is dense, is src[maps[0][i0] + maps[1][i1] + …].
func moveMapped(c *ir.Call, dst, src moveBuf, maps [][]int) {
	switch dst.width {
	case 0:
		moveMappedOf(c, dst.strs, src.strs, maps)
	case 1:
		moveMappedOf(c, dst.raw, src.raw, maps)
	case 2:
		moveMappedOf(c, moveOf[uint16](dst), moveOf[uint16](src), maps)
	case 4:
		moveMappedOf(c, moveOf[uint32](dst), moveOf[uint32](src), maps)
	case 8:
		moveMappedOf(c, moveOf[uint64](dst), moveOf[uint64](src), maps)
	case 16:
		moveMappedOf(c, moveOf[[2]uint64](dst), moveOf[[2]uint64](src), maps)
	}
}

func moveMappedOf[E moveElem](c *ir.Call, dst, src []E, maps [][]int) {
	if len(dst) == 0 {
		return
	}
	if len(maps) == 0 {
		dst[0] = src[0]
		return
	}
	last := maps[len(maps)-1]
	lead := maps[:len(maps)-1]
	n := len(last)
	// [a, b) is a long run of neighbours of the innermost dimension, which is
	// copied at once.
	a, b := 0, 0
	for i := 0; i < n; {
		j := i + 1
		for j < n && last[j] == last[j-1]+1 {
			j++
		}
		if j-i > b-a {
			a, b = i, j
		}
		i = j
	}
	c.Parallel(len(dst)/n, 1+(1<<14)/n, func(lo, hi int) {
		pos := make([]int, len(lead))
		for k, r := len(lead)-1, lo; k >= 0; k-- {
			pos[k] = r % len(lead[k])
			r /= len(lead[k])
		}
		for row := lo; row < hi; row++ {
			base := 0
			for k, p := range pos {
				base += lead[k][p]
			}
			to := dst[row*n : (row+1)*n]
			for i := range a {
				to[i] = src[base+last[i]]
			}
			copy(to[a:b], src[base+last[a]:])
			for i := b; i < n; i++ {
				to[i] = src[base+last[i]]
			}
			for k := len(pos) - 1; k >= 0; k-- {
				if pos[k]++; pos[k] < len(lead[k]) {
					break
				}
				pos[k] = 0
			}
		}
	})
}

// axisBlocks splits a shape at an axis: the number of elements before it and
// behind it.
func axisBlocks(shape []int, axis int) (outer, inner int) {
	return product(shape[:axis]), product(shape[axis+1:])
}

// indexList reads integer indices into [−n, n) of a dimension of n elements as
// ones in [0, n).
func indexList(c *ir.Call, t *tensor.Tensor, n int, what string) ([]int, error) {
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
		err = fmt.Errorf("%s are %s, want int32 or int64", what, t.DType())
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
			return fmt.Errorf("%s: element %d is %d, outside of [%d, %d]", what, i, v, -n, n-1)
		}
		dst[i] = x
	}
	return nil
}

// moveSet writes element 0 of value to the given places.
func moveSet(dst, value moveBuf, at []int) {
	switch dst.width {
	case 0:
		moveSetOf(dst.strs, value.strs[0], at)
	case 1:
		moveSetOf(dst.raw, value.raw[0], at)
	case 2:
		moveSetOf(moveOf[uint16](dst), moveOf[uint16](value)[0], at)
	case 4:
		moveSetOf(moveOf[uint32](dst), moveOf[uint32](value)[0], at)
	case 8:
		moveSetOf(moveOf[uint64](dst), moveOf[uint64](value)[0], at)
	case 16:
		moveSetOf(moveOf[[2]uint64](dst), moveOf[[2]uint64](value)[0], at)
	}
}

func moveSetOf[E moveElem](dst []E, v E, at []int) {
	for _, p := range at {
		dst[p] = v
	}
}
