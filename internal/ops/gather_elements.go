package ops

import (
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// GatherElements returns one element of its first input for each element of indices, which is the
// coordinate along Axis (https://onnx.ai/onnx/operators/onnx__GatherElements.html).
type GatherElements struct{ Axis int }

var _ = kit.Register(&kit.Def{Name: "GatherElements", Since: kit.Versions{11, 13},
	In: "data:T, indices:I", Out: "output:T", Types: "T: " + move.Types + "; I: int32 int64",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &GatherElements{Axis: a.Int("axis", 0)} },
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *GatherElements) Infer(c *ir.InferContext) error {
	data, idx := c.Shape(0), c.Shape(1)
	kit.SetShape(c, 0, c.Elem(0), idx)
	if data == nil {
		return nil
	}
	if _, err := kit.NormalAxis(op.Axis, len(data)); err != nil {
		return err
	}
	if idx == nil {
		kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(len(data)))
	} else if len(idx) != len(data) {
		return fail.Errorf("indices have rank %d, data has rank %d", len(idx), len(data))
	}
	return nil
}

// Run implements ir.Operator.
func (op *GatherElements) Run(c *ir.Call) error {
	x, idx := c.Tensor(0), c.Tensor(1)
	axis, err := kit.NormalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, x.DType(), idx.Shape()...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	if !gatherRows(c, dst, src, x.Shape(), idx, axis) {
		at, err := move.ElementOffsets(c, x.Shape(), idx, axis)
		if err != nil {
			return err
		}
		move.Gather(c, dst, src, 1, 0, at, 1)
	}
	dst.Done()
	return nil
}

// gatherRows gathers rows of elements of up to 8 bytes without a list of offsets. It reports
// whether it did: not if an index or a shape is invalid.
func gatherRows(c *ir.Call, dst, src move.Buf, shape []int, indices *tensor.Tensor, axis int) bool {
	box := indices.Shape()
	if c.Generic || indices.DType() != tensor.TypeInt64 || len(box) != len(shape) || box[len(box)-1] < kit.ShortRow ||
		shape[axis] == 0 {
		return false
	}
	for k, d := range box {
		if k != axis && d > shape[k] {
			return false
		}
	}
	switch dst.Width {
	case 1:
		return gatherRowsOf(c, dst.Raw, src.Raw, tensor.MustData[int64](indices), shape, box, axis)
	case 2:
		return gatherRowsOf(c, move.Of[uint16](dst), move.Of[uint16](src), tensor.MustData[int64](indices),
			shape, box, axis)
	case 4:
		return gatherRowsOf(c, move.Of[uint32](dst), move.Of[uint32](src), tensor.MustData[int64](indices),
			shape, box, axis)
	case 8:
		return gatherRowsOf(c, move.Of[uint64](dst), move.Of[uint64](src), tensor.MustData[int64](indices),
			shape, box, axis)
	}
	return false
}

func gatherRowsOf[E move.Elem](c *ir.Call, dst, src []E, indices []int64, shape, box []int, axis int) bool {
	last := len(box) - 1
	width, steps := box[last], kit.Strides(shape)
	n, step := shape[axis], steps[axis]
	var invalid atomic.Bool
	c.Parallel(kit.Product(box[:last]), kit.GrainFor(width), func(lo, hi int) {
		m := ir.Meter{C: c}
		for r := lo; r < hi && m.Spend(width); r++ {
			base := 0
			for k, i := last-1, r; k >= 0; k-- {
				if k != axis {
					base += i % box[k] * steps[k]
				}
				i /= box[k]
			}
			to, at, ok := dst[r*width:][:width], indices[r*width:][:width], false
			if axis == last {
				ok = gatherRow(to, src[base:][:n], at)
			} else {
				ok = gatherColumns(to, src[base:][:(n-1)*step+width], at, n, step)
			}
			if !ok {
				invalid.Store(true)
				return
			}
		}
	})
	return !invalid.Load()
}

const gatherUnroll = 4 // indices that are checked together, which takes a tenth less

// gatherRow sets the elements of dst to those of row with the indices at. It reports whether they
// are valid.
func gatherRow[E move.Elem](dst, row []E, at []int64) bool {
	n := len(row)
	for len(at) >= gatherUnroll {
		a, d := (*[gatherUnroll]int64)(at), (*[gatherUnroll]E)(dst)
		v0, v1, v2, v3 := fromEnd(a[0], n), fromEnd(a[1], n), fromEnd(a[2], n), fromEnd(a[3], n)
		if max(v0, v1, v2, v3) >= uint64(n) {
			return false
		}
		d[0], d[1], d[2], d[3] = row[v0], row[v1], row[v2], row[v3]
		dst, at = dst[gatherUnroll:], at[gatherUnroll:]
	}
	dst = dst[:len(at)]
	for i, v := range at {
		v := fromEnd(v, len(row))
		if v >= uint64(len(row)) {
			return false
		}
		dst[i] = row[v]
	}
	return true
}

// gatherColumns is gatherRow for elements i of rows at[i] of n, which are step elements apart.
func gatherColumns[E move.Elem](dst, rows []E, at []int64, n, step int) bool {
	dst = dst[:len(at)]
	if len(at) == 0 {
		return true
	}
	_ = rows[(n-1)*step+len(at)-1]
	// A slice that begins at element i, with bounds of its own, would not fit the registers.
	x, size := unsafe.Pointer(unsafe.SliceData(rows)), int(unsafe.Sizeof(dst[0]))
	i := 0
	for ; i+gatherUnroll <= len(at); i += gatherUnroll {
		a, d := (*[gatherUnroll]int64)(unsafe.Pointer(&at[i])), (*[gatherUnroll]E)(unsafe.Pointer(&dst[i]))
		v0, v1, v2, v3 := fromEnd(a[0], n), fromEnd(a[1], n), fromEnd(a[2], n), fromEnd(a[3], n)
		if max(v0, v1, v2, v3) >= uint64(n) {
			return false
		}
		d[0] = *(*E)(unsafe.Add(x, int(v0)*step*size))
		d[1] = *(*E)(unsafe.Add(x, (int(v1)*step+1)*size))
		d[2] = *(*E)(unsafe.Add(x, (int(v2)*step+2)*size))
		d[3] = *(*E)(unsafe.Add(x, (int(v3)*step+3)*size))
		x = unsafe.Add(x, gatherUnroll*size)
	}
	for ; i < len(at); i++ {
		v := fromEnd(at[i], n)
		if v >= uint64(n) {
			return false
		}
		dst[i] = rows[int(v)*step+i]
	}
	return true
}

// fromEnd adds n to a negative index.
func fromEnd(v int64, n int) uint64 { return uint64(v + v>>63&int64(n)) }
