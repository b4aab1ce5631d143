package kit

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// AxisSpan is the shape of a tensor viewed as [outer, n, inner], where an operator works along the
// dimension n.
type AxisSpan struct{ Outer, N, Inner int }

// SpanOf returns the span of the axis in a tensor of the given shape.
func SpanOf(shape []int, axis int) AxisSpan {
	return AxisSpan{Product(shape[:axis]), shape[axis], Product(shape[axis+1:])}
}

// ColumnBlock is the number of adjacent lines along an axis that are processed together, so that
// memory is read in order.
const ColumnBlock = 256

// EachLine calls fn for groups of up to ColumnBlock lines. A group consists of the elements base +
// k·inner + j for k in [0, n) and j in [0, m).
func (s AxisSpan) EachLine(c *ir.Call, fn func(base, m int)) error {
	s.EachLines(c, ColumnBlock, fn)
	return nil
}

// EachLines is EachLine for groups of up to block lines.
func (s AxisSpan) EachLines(c *ir.Call, block int, fn func(base, m int)) {
	n, work, span := s.lines(block, fn)
	ParallelSpans(c, n, work, span)
}

// LaunchLines is eachLine by a launch.
func (s AxisSpan) LaunchLines(c *ir.Call, fn func(base, m int)) {
	n, work, span := s.lines(ColumnBlock, fn)
	LaunchSpans(c, n, work, span)
}

// lines returns the number of blocks of neighbouring lines, the elements of a block, and fn
// over ranges of blocks.
func (s AxisSpan) lines(block int, fn func(base, m int)) (n, work int, span func(lo, hi int)) {
	if s.Outer == 0 || s.N == 0 || s.Inner == 0 {
		return 0, 0, nil
	}
	blocks := (s.Inner + block - 1) / block
	return s.Outer * blocks, s.N * min(s.Inner, block), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			at := i % blocks * block
			fn(i/blocks*s.N*s.Inner+at, min(block, s.Inner-at))
		}
	}
}

// RunWide calls f32 or f64 with input 0 and output 0 of the same shape. Half-precision elements are
// widened to float32 and narrowed afterwards.
func RunWide(c *ir.Call, f32 func(dst, src []float32) error, f64 func(dst, src []float64) error) error {
	x := c.Tensor(0)
	out, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	switch d := x.DType(); d {
	case tensor.TypeFloat32:
		return f32(tensor.MustData[float32](out), tensor.MustData[float32](x))
	case tensor.TypeFloat64:
		return f64(tensor.MustData[float64](out), tensor.MustData[float64](x))
	case tensor.TypeFloat16, tensor.TypeBFloat16:
		wide, err := ToScratch(c, x, tensor.TypeFloat32)
		if err != nil {
			return err
		}
		res, err := ScratchTensor(c, tensor.TypeFloat32, x.Shape())
		if err != nil {
			return err
		}
		if err := f32(tensor.MustData[float32](res), tensor.MustData[float32](wide)); err != nil {
			return err
		}
		c.Sync()
		return ConvertInto(c, out, res, tensor.ConvertOptions{})
	default:
		return fail.Errorf("elements of type %s are not supported", d)
	}
}
