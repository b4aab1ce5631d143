package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// axisSpan is a tensor seen as [outer, n, inner], n being the dimension along
// which an operator works.
type axisSpan struct{ outer, n, inner int }

func spanOf(shape []int, axis int) axisSpan {
	return axisSpan{product(shape[:axis]), shape[axis], product(shape[axis+1:])}
}

// columnBlock is how many neighbouring lines along an axis are worked on side by
// side, so that memory is read in order.
const columnBlock = 128

// eachLine calls fn for groups of up to columnBlock lines: the elements
// base + k·inner + j, for k in [0, n) and j in [0, m).
func (s axisSpan) eachLine(c *ir.Call, fn func(base, m int)) error {
	n, work, span := s.lines(fn)
	return reduceSpans(c, n, work, span)
}

// launchLines is eachLine by a launch.
func (s axisSpan) launchLines(c *ir.Call, fn func(base, m int)) {
	n, work, span := s.lines(fn)
	launchSpans(c, n, work, span)
}

// lines returns the number of blocks of neighbouring lines, the elements of a block, and fn
// over ranges of blocks.
func (s axisSpan) lines(fn func(base, m int)) (n, work int, span func(lo, hi int)) {
	if s.outer == 0 || s.n == 0 || s.inner == 0 {
		return 0, 0, nil
	}
	blocks := (s.inner + columnBlock - 1) / columnBlock
	return s.outer * blocks, s.n * min(s.inner, columnBlock), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			at := i % blocks * columnBlock
			fn(i/blocks*s.n*s.inner+at, min(columnBlock, s.inner-at))
		}
	}
}

// launchRows launches fn over ranges of dense float32 lines.
func (s axisSpan) launchRows(c *ir.Call, dst, src []float32, fn func(dst, src []float32, n int)) {
	if s.n == 0 {
		return
	}
	launchSpans(c, s.outer, s.n, func(lo, hi int) { fn(dst[lo*s.n:hi*s.n], src[lo*s.n:hi*s.n], s.n) })
}

// runWide calls f32 or f64 with input 0 and output 0, which has its shape. Half
// numbers are widened to float32 and narrowed back.
func runWide(c *ir.Call, f32 func(dst, src []float32) error, f64 func(dst, src []float64) error) error {
	x := c.Tensor(0)
	out, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	switch d := x.DType(); d {
	case tensor.TypeFloat32:
		return f32(tensor.Of[float32](out), tensor.Of[float32](x))
	case tensor.TypeFloat64:
		return f64(tensor.Of[float64](out), tensor.Of[float64](x))
	case tensor.TypeFloat16, tensor.TypeBFloat16:
		wide, err := toScratch(c, x, tensor.TypeFloat32)
		if err != nil {
			return err
		}
		res, err := scratchTensor(c, tensor.TypeFloat32, x.Shape())
		if err != nil {
			return err
		}
		if err := f32(tensor.Of[float32](res), tensor.Of[float32](wide)); err != nil {
			return err
		}
		c.Sync()
		return convertInto(c, out, res, tensor.ConvertOptions{})
	default:
		return fmt.Errorf("elements of type %s are not supported", d)
	}
}
