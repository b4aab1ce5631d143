package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// scanBuffer collects tensors of one shape, the scan outputs of Loop and Scan. Its memory is
// charged to the call as it grows. Packed elements are stored one per byte.
type scanBuffer struct {
	DType tensor.DType
	Shape []int // of one item; nil before the first
	Most  int   // items at most, if known
	N     int
	// Direct says that output Out is the items in order, if there are Most.
	Direct bool
	Out    int
	placed bool // raw is the memory of output Out, also where a shorter output of the same memory follows
	room   int  // items that fit in the memory
	raw    []byte
	strs   []string
}

// itemSize returns the elements and bytes of one item.
func (b *scanBuffer) itemSize() (elems, bytes int) {
	elems = kit.Product(b.Shape)
	if b.DType == tensor.TypeString {
		return elems, elems * 16
	}
	return elems, elems * move.Width(b.DType)
}

// Add appends a copy of an item.
func (b *scanBuffer) Add(c *ir.Call, v tensor.Value) error {
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return fail.Errorf("scan output is a %s, want a tensor", v.Type())
	}
	if b.Shape == nil {
		b.DType = t.DType()
		b.Shape = append([]int{}, t.Shape()...)
	}
	if t.DType() != b.DType || !slices.Equal(t.Shape(), b.Shape) {
		return fail.Errorf("scan output is %s in iteration %d, was %s%v before", t, b.N, b.DType, b.Shape)
	}
	elems, size := b.itemSize()
	const likely = 1 << 20 // bytes: loops that end early waste no more
	if b.N == 0 && b.Direct && size > 0 && b.Most <= likely/size && b.DType != tensor.TypeString && !b.DType.Packed() {
		out, err := c.Output(b.Out, b.DType, append([]int{b.Most}, b.Shape...)...)
		if err != nil {
			return err
		}
		b.placed, b.room, b.raw = true, b.Most, out.Bytes()[:0]
	}
	if b.N == b.room && size > 0 {
		grow := max(b.room, 1, min(b.Most, likely/size)-b.room)
		if err := c.Reserve(int64(grow) * int64(size)); err != nil {
			return err
		}
		b.room += grow
		if b.DType == tensor.TypeString {
			b.strs = append(make([]string, 0, b.room*elems), b.strs...)
		} else {
			b.raw = append(memory.Recycled(b.room * size)[:0], b.raw...)
		}
	}
	b.N++
	switch {
	case b.DType == tensor.TypeString:
		b.strs = append(b.strs, tensor.MustData[string](t)...)
		held := int64(0)
		for _, s := range tensor.MustData[string](t) {
			held += int64(len(s))
		}
		return c.Reserve(held)
	case b.DType.Packed():
		b.raw = b.raw[:b.N*elems]
		memory.UnpackUint(b.raw[(b.N-1)*elems:], t.Bytes(), b.DType.Bits())
	default:
		b.raw = append(b.raw, t.Bytes()...)
	}
	return nil
}

// Stack stores the collected items in output i, stacked along a new axis in [0, rank], optionally
// in reverse order. If there are fewer than length items, zeros follow. Without any item, the
// caller supplies dtype and shape.
func (b *scanBuffer) Stack(c *ir.Call, i, axis, length int, reverse bool) error {
	axis, err := kit.NormalAxis(axis, len(b.Shape)+1)
	if err != nil {
		return fail.Errorf("scan output: %w", err)
	}
	if b.placed && b.N == b.Most {
		return nil
	}
	shape := slices.Insert(slices.Clone(b.Shape), axis, length)
	dst, err := move.Out(c, i, b.DType, shape...)
	if err != nil {
		return err
	}
	if b.N < length {
		move.Clear(c, dst)
	}
	elems, _ := b.itemSize()
	src := move.Buf{Width: move.Width(b.DType), Raw: b.raw, Strs: b.strs}
	// An item is a box of the dimensions before and after the axis.
	inner := kit.Product(shape[axis+1:])
	box := []int{b.N, kit.Product(shape[:axis]), inner}
	from, step := 0, elems
	if reverse {
		from, step = (b.N-1)*elems, -elems
	}
	if b.N > 0 {
		move.Strided(c, dst, src, box, []int{inner, inner * length, 1}, 0, []int{step, inner, 1}, from)
	}
	dst.Done()
	return nil
}

// Pad appends zero items until there are n.
func (b *scanBuffer) Pad(c *ir.Call, n int) error {
	elems, size := b.itemSize()
	if b.N >= n {
		return nil
	}
	if err := c.Reserve(int64(n-b.N) * int64(size)); err != nil {
		return err
	}
	if b.DType == tensor.TypeString {
		b.strs = append(b.strs, make([]string, (n-b.N)*elems)...)
	} else {
		b.raw = append(b.raw, make([]byte, (n-b.N)*size)...)
	}
	b.N, b.room = n, n
	return nil
}

// Declare sets the element type and shape of a buffer without items from the declaration of output
// i of a subgraph. Unknown dimensions become zeros.
func (b *scanBuffer) Declare(c *ir.Call, graph, i int) error {
	g := c.Node.Graphs[graph]
	if i >= len(g.Outputs) {
		return fail.Errorf("body has %d outputs, want at least %d", len(g.Outputs), i+1)
	}
	t := g.Value(g.Outputs[i]).Type
	if t.Kind != tensor.KindTensor || !t.Elem.Valid() {
		return fail.Errorf("output %d of the body has type %s, want a tensor, since no iteration ran", i, t)
	}
	b.DType, b.Shape = t.Elem, []int{}
	shape := t.Shape
	if shape == nil && i < len(g.Declared) && g.Declared[i].Elem == t.Elem {
		shape = g.Declared[i].Shape // the declared shape holds for all iterations
	}
	for _, d := range shape {
		v, _ := d.Value()
		b.Shape = append(b.Shape, max(v, 0))
	}
	return nil
}
