package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// scanBuffer collects tensors of one shape, the scan outputs of Loop and Scan.
// Its memory is charged to the call as it grows. Packed elements are held one a
// byte.
type scanBuffer struct {
	dtype tensor.DType
	shape []int // of one item; nil before the first
	n     int
	room  int // items that fit the memory
	raw   []byte
	strs  []string
}

// itemSize returns the elements and bytes of one item.
func (b *scanBuffer) itemSize() (elems, bytes int) {
	elems = product(b.shape)
	if b.dtype == tensor.TypeString {
		return elems, elems * 16
	}
	return elems, elems * moveWidth(b.dtype)
}

// add appends a copy of an item.
func (b *scanBuffer) add(c *ir.Call, v tensor.Value) error {
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("scan output is a %s, want a tensor", v.Type())
	}
	if b.shape == nil {
		b.dtype = t.DType()
		b.shape = append([]int{}, t.Shape()...)
	}
	if t.DType() != b.dtype || !slices.Equal(t.Shape(), b.shape) {
		return fmt.Errorf("scan output is %s in iteration %d, was %s%v before", t, b.n, b.dtype, b.shape)
	}
	elems, size := b.itemSize()
	if b.n == b.room && size > 0 {
		grow := max(b.room, 1)
		if err := c.Reserve(int64(grow) * int64(size)); err != nil {
			return err
		}
		b.room += grow
		if b.dtype == tensor.TypeString {
			b.strs = append(make([]string, 0, b.room*elems), b.strs...)
		} else {
			b.raw = append(make([]byte, 0, b.room*size), b.raw...)
		}
	}
	b.n++
	switch {
	case b.dtype == tensor.TypeString:
		b.strs = append(b.strs, tensor.Of[string](t)...)
		held := int64(0)
		for _, s := range tensor.Of[string](t) {
			held += int64(len(s))
		}
		return c.Reserve(held)
	case b.dtype.Packed():
		b.raw = b.raw[:b.n*elems]
		tensor.UnpackUint(b.raw[(b.n-1)*elems:], t.Bytes(), b.dtype.Bits())
	default:
		b.raw = append(b.raw, t.Bytes()...)
	}
	return nil
}

// stack makes the collected items output i, one behind the other along a new
// axis in [0, rank], in reverse order if asked. There may be fewer items than
// length; zeros follow then. Without any item the dtype and shape of one come
// from the caller.
func (b *scanBuffer) stack(c *ir.Call, i, axis, length int, reverse bool) error {
	axis, err := normalAxis(axis, len(b.shape)+1)
	if err != nil {
		return fmt.Errorf("scan output: %w", err)
	}
	shape := slices.Insert(slices.Clone(b.shape), axis, length)
	dst, err := moveOut(c, i, b.dtype, shape...)
	if err != nil {
		return err
	}
	if b.n < length {
		moveClear(dst)
	}
	elems, _ := b.itemSize()
	src := moveBuf{width: moveWidth(b.dtype), raw: b.raw, strs: b.strs}
	// The item is a box of the dimensions before and behind the axis.
	inner := product(shape[axis+1:])
	box := []int{b.n, product(shape[:axis]), inner}
	from, step := 0, elems
	if reverse {
		from, step = (b.n-1)*elems, -elems
	}
	if b.n > 0 {
		moveStrided(c, dst, src, box, []int{inner, inner * length, 1}, 0, []int{step, inner, 1}, from)
	}
	dst.done()
	return nil
}

// pad appends zero items until there are n.
func (b *scanBuffer) pad(c *ir.Call, n int) error {
	elems, size := b.itemSize()
	if b.n >= n {
		return nil
	}
	if err := c.Reserve(int64(n-b.n) * int64(size)); err != nil {
		return err
	}
	if b.dtype == tensor.TypeString {
		b.strs = append(b.strs, make([]string, (n-b.n)*elems)...)
	} else {
		b.raw = append(b.raw, make([]byte, (n-b.n)*size)...)
	}
	b.n, b.room = n, n
	return nil
}

// declare gives a buffer without items the element type and, with zeros for what
// is not known, the shape that output i of a subgraph declares.
func (b *scanBuffer) declare(c *ir.Call, graph, i int) error {
	g := c.Node.Graphs[graph]
	if i >= len(g.Outputs) {
		return fmt.Errorf("body has %d outputs, want at least %d", len(g.Outputs), i+1)
	}
	t := g.Value(g.Outputs[i]).Type
	if t.Kind != tensor.KindTensor || !t.Elem.Valid() {
		return fmt.Errorf("output %d of the body is %s, want a tensor: no iteration ran to tell its type", i, t)
	}
	b.dtype, b.shape = t.Elem, []int{}
	shape := t.Shape
	if shape == nil && i < len(g.Declared) && g.Declared[i].Elem == t.Elem {
		shape = g.Declared[i].Shape // the body keeps to it whatever shapes it could take
	}
	for _, d := range shape {
		v, _ := d.Value()
		b.shape = append(b.shape, max(v, 0))
	}
	return nil
}
