package ops

import (
	"fmt"
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// quantizedTypes are the types that QuantizeLinear makes.
const quantizedTypes = "int8 uint8 int16 uint16 @float8 @float6 @packed"

// quantization says which elements share a scale and a zero point: all of them
// (a scale with one element), those of one index along Axis (a scale of rank 1),
// or BlockSize neighbours along Axis.
type quantization struct {
	Axis      int
	BlockSize int
}

func readQuantization(a *Attrs, opset int) quantization {
	q := quantization{Axis: 1}
	if opset >= 13 {
		q.Axis = a.Int("axis", 1)
	}
	if opset >= 21 {
		if q.BlockSize = a.Int("block_size", 0); q.BlockSize < 0 {
			a.Errorf("attribute block_size is %d, want it positive, or 0 for none", q.BlockSize)
		}
	}
	return q
}

// quantGrid is how scales spread over a tensor.
type quantGrid struct {
	runs   int // pieces of the tensor whose scales are found in one place
	length int // elements of a run; the last one of a group may be shorter
	// group, if not 0, is how many elements a group of perGroup runs has.
	group, perGroup int
	// vector says that each element of a run has its own scale, next to each
	// other; otherwise all share one.
	vector bool
	scale  func(run int) int // index of the run's first scale
}

// bounds returns the elements of a run.
func (g *quantGrid) bounds(run int) (lo, hi int) {
	if g.group == 0 {
		return run * g.length, (run + 1) * g.length
	}
	start := run / g.perGroup * g.group
	lo = start + run%g.perGroup*g.length
	return lo, min(lo+g.length, start+g.group)
}

func (q *quantization) grid(shape, scale []int) (*quantGrid, error) {
	n := product(shape)
	if product(scale) == 1 {
		// Runs have a length that suits the work, not the tensor.
		const length = 1 << 14
		return &quantGrid{runs: (n + length - 1) / length, length: length, group: max(n, 1), perGroup: (n + length - 1) / length,
			scale: func(int) int { return 0 }}, nil
	}
	axis, err := normalAxis(q.Axis, len(shape))
	if err != nil {
		return nil, err
	}
	s := spanOf(shape, axis)
	if q.BlockSize == 0 {
		if len(scale) != 1 || scale[0] != s.n {
			return nil, fmt.Errorf("scale has shape %v, want one element or [%d], the size of axis %d", scale, s.n, axis)
		}
		if s.inner == 1 {
			return &quantGrid{runs: s.outer, length: s.n, vector: true, scale: func(int) int { return 0 }}, nil
		}
		return &quantGrid{runs: s.outer * s.n, length: s.inner, scale: func(run int) int { return run % s.n }}, nil
	}
	want := slices.Clone(shape)
	blocks := s.n / q.BlockSize
	if s.n%q.BlockSize != 0 {
		blocks++
	}
	want[axis] = blocks
	if !slices.Equal(want, scale) {
		return nil, fmt.Errorf("scale has shape %v, want %v: blocks of %d along axis %d of shape %v", scale, want, q.BlockSize, axis, shape)
	}
	if s.inner == 1 {
		return &quantGrid{runs: s.outer * blocks, length: min(q.BlockSize, s.n), group: s.n, perGroup: blocks,
			scale: func(run int) int { return run }}, nil
	}
	return &quantGrid{runs: s.outer * s.n, length: s.inner, vector: true, scale: func(run int) int {
		return (run/s.n*blocks + run%s.n/q.BlockSize) * s.inner
	}}, nil
}

// quantParams are scales and zero points, widened.
type quantParams struct {
	scale, zero []float32 // zero is nil when there is none
	grid        *quantGrid
}

func (q *quantization) params(c *ir.Call, shape []int) (*quantParams, error) {
	scale, zero := c.Tensor(1), c.Tensor(2)
	g, err := q.grid(shape, scale.Shape())
	if err != nil {
		return nil, err
	}
	wide, err := toScratch(c, scale, tensor.TypeFloat32)
	if err != nil {
		return nil, err
	}
	p := &quantParams{scale: tensor.Of[float32](wide), grid: g}
	if zero != nil {
		if zero.Len() != scale.Len() || zero.Rank() > 1 && !slices.Equal(zero.Shape(), scale.Shape()) {
			return nil, fmt.Errorf("zero point has shape %v and scale %v, want the same", zero.Shape(), scale.Shape())
		}
		if wide, err = toScratch(c, zero, tensor.TypeFloat32); err != nil {
			return nil, err
		}
		p.zero = tensor.Of[float32](wide)
	}
	return p, nil
}

// quantBlock is what a worker needs for one block of elements.
type quantBlock struct {
	scale, zero, value [loopBlock]float32
}

var quantBlocks = sync.Pool{New: func() any { return new(quantBlock) }}

// eachBlock calls fn for blocks of at most loopBlock elements with their scales
// and zero points, one for each element.
func (p *quantParams) eachBlock(c *ir.Call, fn func(b *quantBlock, lo, hi int)) error {
	g := p.grid
	return reduceEach(c, g.runs, g.length, func(run int) {
		b := quantBlocks.Get().(*quantBlock)
		defer quantBlocks.Put(b)
		first, end := g.bounds(run)
		s := g.scale(run)
		if !g.vector {
			repeatOf(b.scale[:min(loopBlock, end-first)], p.scale[s])
			if p.zero != nil {
				repeatOf(b.zero[:min(loopBlock, end-first)], p.zero[s])
			}
		}
		for lo := first; lo < end; lo += loopBlock {
			hi := min(end, lo+loopBlock)
			if g.vector {
				copy(b.scale[:hi-lo], p.scale[s+lo-first:])
				if p.zero != nil {
					copy(b.zero[:hi-lo], p.zero[s+lo-first:])
				}
			}
			fn(b, lo, hi)
		}
	})
}
