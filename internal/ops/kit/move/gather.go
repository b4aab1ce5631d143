package move

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// GatherAxis writes output 0: the slices of x at the given indices of an axis, whose dimension is
// replaced by shape.
func GatherAxis(c *ir.Call, x *tensor.Tensor, axis int, at []int, shape []int) error {
	out := append(c.Ints(x.Rank() + len(shape))[:0], x.Shape()[:axis]...)
	out = append(out, shape...)
	out = append(out, x.Shape()[axis+1:]...)
	dst, err := Out(c, 0, x.DType(), out...)
	if err != nil {
		return err
	}
	src, err := In(c, x)
	if err != nil {
		return err
	}
	outer, inner := AxisBlocks(x.Shape(), axis)
	Gather(c, dst, src, outer, x.Dim(axis)*inner, at, inner)
	dst.Done()
	return nil
}

// moveGatherOf copies blocks of run consecutive indices together.
func moveGatherOf[E Elem](c *ir.Call, dst, src []E, outer, srcOuter int, idx []int, run, unit int) {
	n, block := len(idx)/run, run*unit
	c.Parallel(outer*n, 1+(1<<15)/block, ir.Do(c, gatherSection[E]{dst, src, idx, srcOuter, n, run, unit}))
}

// gatherSection copies blocks of run·unit elements: n for each of the outer indices.
type gatherSection[E Elem] struct {
	dst, src               []E
	idx                    []int
	srcOuter, n, run, unit int
}

// Do copies the blocks [lo, hi).
func (s *gatherSection[E]) Do(lo, hi int) {
	n, block := s.n, s.run*s.unit
	to := s.dst[lo*block : hi*block]
	if n*block == 1 { // a column
		from := s.src[lo*s.srcOuter+s.idx[0]:]
		for i := range to {
			to[i] = from[i*s.srcOuter]
		}
		return
	}
	o, j := lo/n, lo%n
	for ; len(to) > 0; o, j = o+1, 0 {
		from := s.src[o*s.srcOuter:]
		part := min(len(to)/block, n-j)
		if block == 1 {
			for i, x := range s.idx[j : j+part] {
				to[i] = from[x]
			}
			to = to[part:]
			continue
		}
		for k := j; k < j+part; k++ {
			copy(to[:block], from[s.idx[k*s.run]*s.unit:][:block])
			to = to[block:]
		}
	}
}
