package exec

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// cell is the memory of a state: an output of a [Bound] that is an input of its next run. An
// operator extends it in place, or reads one of two memories and writes the other, which change
// places after the run.
type cell struct {
	in, out int // input and output of the graph
	dtype   tensor.DType
	shape   []int
	mem     [2][]byte // the current value is in mem[0]; mem[1] is nil if the cell is extended in place

	appends  bool // an operator extends the cell in place
	axis     int  // axis of growth if appends is set
	cache    ir.Cache
	extended bool  // in this run
	next     []int // shape after the run if extended is set

	headers [2]tensor.Tensor // the current value, and what a run writes to mem[1]
}

// firstRoom is the least number of elements along the axis of growth of a state that has grown.
const firstRoom = 16

// load sets the value of the cell to a copy of v.
func (c *cell) load(v *tensor.Tensor) {
	c.dtype, c.shape = v.DType(), append(c.shape[:0], v.Shape()...)
	if len(c.mem[0]) < len(v.Bytes()) || c.mem[0] == nil {
		c.mem[0] = memory.Lasting(memory.Aligned(len(v.Bytes())))
	}
	copy(c.mem[0], v.Bytes())
	c.cache = ir.Cache{Data: c.mem[0], Axis: c.axis}
	if c.appends {
		c.cache.Room = c.shape[c.axis]
	}
	c.describe()
}

// describe sets the tensor that operators get for the current value.
func (c *cell) describe() {
	n, _ := tensor.ByteLen(c.dtype, c.shape) // it has been allocated
	c.headers[0].Reset(c.dtype, c.mem[0][:n:n], c.shape)
}

// setMode sets whether an operator extends the cell in place, along axis.
func (c *cell) setMode(appends bool, axis int) {
	if c.appends == appends && c.axis == axis {
		return
	}
	v := c.value()
	c.appends, c.axis, c.mem[1] = appends, axis, nil
	c.load(v)
}

// blocks returns the number of blocks of the cell and the size in bytes of an element of the axis
// of growth.
func (c *cell) blocks() (outer, row int) {
	outer, row = 1, c.dtype.Size()
	for k, d := range c.shape {
		if k < c.axis {
			outer *= d
		} else if k > c.axis {
			row *= d
		}
	}
	return outer, row
}

// compact reports whether the memory begins with the elements in their order.
func (c *cell) compact() bool {
	if !c.appends || c.cache.Room == c.shape[c.axis] {
		return true
	}
	outer, _ := c.blocks()
	return outer <= 1
}

// value returns a copy of the current value.
func (c *cell) value() *tensor.Tensor {
	if c.compact() {
		return c.headers[0].Clone()
	}
	n, _ := tensor.ByteLen(c.dtype, c.shape)
	b := memory.Uninitialized(n)
	outer, row := c.blocks()
	for k := range outer {
		w := c.shape[c.axis] * row
		copy(b[k*w:][:w], c.mem[0][k*c.cache.Room*row:])
	}
	t := new(tensor.Tensor)
	t.Reset(c.dtype, b, c.shape)
	return t
}

// current returns the tensor of the current value for a run. If whole is set, it has its contents
// even if the memory has gaps.
func (c *cell) current(whole bool) *tensor.Tensor {
	if whole && !c.compact() {
		return c.value()
	}
	return &c.headers[0]
}

// grow makes room for length elements along the axis of growth. It returns the number of bytes that
// it has allocated.
func (c *cell) grow(length int, reserve func(n int) error) error {
	if length <= c.cache.Room {
		return nil
	}
	room := max(length, firstRoom)
	if r := c.cache.Room; r <= math.MaxInt/2 {
		room = max(room, 2*r)
	}
	shape := slices.Clone(c.shape)
	shape[c.axis] = room
	n, err := tensor.ByteLen(c.dtype, shape)
	if err != nil {
		return err
	}
	if err := reserve(n); err != nil {
		return err
	}
	b := memory.Lasting(memory.Aligned(n)) // elements without a value are multiplied by probabilities of 0
	outer, row := c.blocks()
	for k := range outer {
		copy(b[k*room*row:][:c.shape[c.axis]*row], c.mem[0][k*c.cache.Room*row:])
	}
	c.mem[0] = b
	c.cache.Data, c.cache.Room = b, room
	c.describe()
	return nil
}

// truncate keeps the first n elements along an axis.
func (c *cell) truncate(axis, n int) error {
	if c.appends && (axis == c.axis || axis == c.axis-len(c.shape)) && n >= 0 && n <= c.shape[c.axis] {
		c.shape[c.axis] = n
		c.describe()
		return nil
	}
	v, err := c.current(true).Slice(axis, 0, n)
	if err == nil {
		c.load(v)
	}
	return err
}

// target returns a tensor for the next value of the given shape and size in bytes. moved reports
// whether its memory is new.
func (c *cell) target(shape []int, n int, reserve func(n int) error) (t *tensor.Tensor, moved bool, err error) {
	if moved = len(c.mem[1]) < n || c.mem[1] == nil; moved {
		size := n
		if len(c.mem[0]) < n { // the state grows
			size = max(n, 2*len(c.mem[0]))
		}
		if err := reserve(size); err != nil {
			return nil, false, err
		}
		c.mem[1] = memory.Uninitialized(size)
	}
	c.headers[1].Reset(c.dtype, c.mem[1][:n:n], shape)
	return &c.headers[1], moved, nil
}

// stage copies a result to the memory of the next value unless the operator has written it there.
// It reports whether that memory is new.
func (c *cell) stage(t *tensor.Tensor, reserve func(n int) error) (moved bool, err error) {
	if c.appends || sameMemory(t, &c.headers[1]) {
		return false, nil
	}
	to, moved, err := c.target(t.Shape(), len(t.Bytes()), reserve)
	if err == nil {
		copy(to.Bytes(), t.Bytes())
	}
	return moved, err
}

// commit makes the result of a successful run, which has been staged, the current value. It reports
// whether the shape has changed.
func (c *cell) commit(t *tensor.Tensor) (reshaped bool) {
	reshaped = !slices.Equal(c.shape, t.Shape())
	switch {
	case !c.appends:
		c.mem[0], c.mem[1] = c.mem[1], c.mem[0]
	case !c.extended: // the operator has written memory of its own
		c.load(t)
		return reshaped
	}
	c.shape = append(c.shape[:0], t.Shape()...)
	c.describe()
	return reshaped
}
