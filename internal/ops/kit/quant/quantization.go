// Package quant maps elements to scales and zero points, per tensor, per axis and per block.
// QuantizeLinear, DequantizeLinear and their forms of com.microsoft import it.
package quant

import (
	"math"
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Byte limits a rounded number to [0, 255]. NaN becomes 0.
func Byte(v float32) uint8 {
	if !(v >= 0) {
		v = 0
	}
	return uint8(min(v, 255))
}

// DynamicRange returns the scale and zero point that map the range of src, extended to 0, to uint8.
func DynamicRange(c *ir.Call, src []float32) (scale, zero float32) {
	var least, most float32
	if n := len(src); n > 0 && n <= kit.GrainCheap {
		least, most = extend(c, src, 0, 0)
	} else {
		least, most = longRange(c, src)
	}
	width := most - least
	if width == 0 {
		width = 1
	}
	scale = width / 255
	zero = float32(math.RoundToEven(float64(max(0, min(255, -least/scale)))))
	return scale, zero
}

// extend returns the range of src, extended to [least, most].
func extend(c *ir.Call, src []float32, least, most float32) (float32, float32) {
	if !c.Generic {
		return min(least, vec.ReduceMinF32(cpu.Active(), src)), max(most, vec.ReduceMaxF32(cpu.Active(), src))
	}
	for _, v := range src {
		least, most = min(least, v), max(most, v)
	}
	return least, most
}

// longRange is extend for many elements. Its closure is allocated.
func longRange(c *ir.Call, src []float32) (least, most float32) {
	c.Serial(len(src), kit.GrainCheap, func(lo, hi int) { least, most = extend(c, src[lo:hi], least, most) })
	return least, most
}

// Types lists the output types of QuantizeLinear.
const Types = "int8 uint8 int16 uint16 @float8 @float6 @packed"

// Quantization defines which elements share a scale and a zero point: all of them (a scale with one
// element), those of one index along Axis (a scale of rank 1), or BlockSize adjacent elements along
// Axis.
type Quantization struct {
	Axis      int
	BlockSize int
}

// Read reads the attributes axis and block_size.
func Read(a *kit.Attrs, opset int) Quantization {
	q := Quantization{Axis: 1}
	if opset >= 13 {
		q.Axis = a.Int("axis", 1)
	}
	if opset >= 21 {
		if q.BlockSize = a.Int("block_size", 0); q.BlockSize < 0 {
			a.Errorf("attribute block_size must be non-negative, got %d", q.BlockSize)
		}
	}
	return q
}

// quantGrid maps elements of a tensor to scales.
type quantGrid struct {
	Runs   int // number of runs: ranges of the tensor with a common index of scales
	Length int // elements of a run; the last one of a group may be shorter
	// group is the number of elements of perGroup runs, or 0.
	group, perGroup int
	// vector means that each element of a run has its own scale, stored contiguously. Otherwise all
	// elements of a run share one.
	Vector bool
	Scale  func(run int) int // index of the run's first scale
}

// Bounds returns the range of elements of a run.
func (g *quantGrid) Bounds(run int) (lo, hi int) {
	if g.group == 0 {
		return run * g.Length, (run + 1) * g.Length
	}
	start := run / g.perGroup * g.group
	lo = start + run%g.perGroup*g.Length
	return lo, min(lo+g.Length, start+g.group)
}

func (q *Quantization) grid(shape, scale []int) (*quantGrid, error) {
	n := kit.Product(shape)
	if kit.Product(scale) == 1 {
		// With one scale, the length of a run is chosen for the amount of work.
		const length = 1 << 14
		return &quantGrid{Runs: (n + length - 1) / length, Length: length, group: max(n, 1),
			perGroup: (n + length - 1) / length,
			Scale:    func(int) int { return 0 }}, nil
	}
	axis, err := kit.NormalAxis(q.Axis, len(shape))
	if err != nil {
		return nil, err
	}
	s := kit.SpanOf(shape, axis)
	if q.BlockSize == 0 {
		if len(scale) != 1 || scale[0] != s.N {
			return nil, fail.Errorf("scale has shape %v, want one element or [%d], the size of axis %d",
				scale, s.N, axis)
		}
		if s.Inner == 1 {
			return &quantGrid{Runs: s.Outer, Length: s.N, Vector: true, Scale: func(int) int { return 0 }}, nil
		}
		return &quantGrid{Runs: s.Outer * s.N, Length: s.Inner, Scale: func(run int) int { return run % s.N }}, nil
	}
	want := slices.Clone(shape)
	blocks := s.N / q.BlockSize
	if s.N%q.BlockSize != 0 {
		blocks++
	}
	want[axis] = blocks
	if !slices.Equal(want, scale) {
		return nil, fail.Errorf("scale has shape %v, want %v: blocks of %d along axis %d of shape %v", scale, want,
			q.BlockSize, axis, shape)
	}
	if s.Inner == 1 {
		return &quantGrid{Runs: s.Outer * blocks, Length: min(q.BlockSize, s.N), group: s.N, perGroup: blocks,
			Scale: func(run int) int { return run }}, nil
	}
	return &quantGrid{Runs: s.Outer * s.N, Length: s.Inner, Vector: true, Scale: func(run int) int {
		return (run/s.N*blocks + run%s.N/q.BlockSize) * s.Inner
	}}, nil
}

// Params holds scales and zero points, converted to float32.
type Params struct {
	Scale, Zero []float32 // zero is nil if there are no zero points
	Grid        *quantGrid
}

// Params returns the scales and zero points, inputs 1 and 2, for a tensor of the given shape.
func (q *Quantization) Params(c *ir.Call, shape []int) (*Params, error) {
	scale, zero := c.Tensor(1), c.Tensor(2)
	g, err := q.grid(shape, scale.Shape())
	if err != nil {
		return nil, err
	}
	wide, err := kit.ToScratch(c, scale, tensor.TypeFloat32)
	if err != nil {
		return nil, err
	}
	p := &Params{Scale: tensor.MustData[float32](wide), Grid: g}
	if zero != nil {
		if zero.Len() != scale.Len() || zero.Rank() > 1 && !slices.Equal(zero.Shape(), scale.Shape()) {
			return nil, fail.Errorf("zero point has shape %v and scale %v, want the same", zero.Shape(), scale.Shape())
		}
		if wide, err = kit.ToScratch(c, zero, tensor.TypeFloat32); err != nil {
			return nil, err
		}
		p.Zero = tensor.MustData[float32](wide)
	}
	if q.BlockSize == 0 && len(p.Scale) > 1 && !c.Generic {
		return p, p.repeatShort(c, kit.Product(shape))
	}
	return p, nil
}

// Block is the memory of a worker for one block of elements.
type Block struct {
	Scale, Zero, Value [kit.LoopBlock]float32
}

var quantBlocks = sync.Pool{New: func() any { return new(Block) }}

// EachBlock calls fn for blocks of at most kit.LoopBlock elements, with a scale and a zero point
// per element.
//
//go:noinline
func (p *Params) EachBlock(c *ir.Call, fn func(b *Block, lo, hi int)) error {
	return p.EachRun(c, kit.LoopBlock, func(lo, hi int, scale, zero []float32) {
		b := quantBlocks.Get().(*Block)
		defer quantBlocks.Put(b)
		for _, x := range []struct{ dst, from []float32 }{{b.Scale[:hi-lo], scale}, {b.Zero[:hi-lo], zero}} {
			if len(x.from) == 1 {
				kit.RepeatOf(x.dst, x.from[0])
			} else {
				copy(x.dst, x.from)
			}
		}
		fn(b, lo, hi)
	})
}

// EachRun calls fn for at most that many elements from lo to hi, with one scale and zero point or
// one per element. zero is nil if there are no zero points.
func (p *Params) EachRun(c *ir.Call, most int, fn func(lo, hi int, scale, zero []float32)) error {
	g := p.Grid
	kit.ParallelEach(c, g.Runs, g.Length, func(run int) {
		first, end := g.Bounds(run)
		s := g.Scale(run)
		for lo := first; lo < end; lo += most {
			hi := min(end, lo+most)
			at, n := s, 1
			if g.Vector {
				at, n = s+lo-first, hi-lo
			}
			if p.Zero == nil {
				fn(lo, hi, p.Scale[at:][:n], nil)
			} else {
				fn(lo, hi, p.Scale[at:][:n], p.Zero[at:][:n])
			}
		}
	})
	return c.Err()
}

// repeatShort expands scales and zero points to one per element if runs along an axis are short. It
// works in runs of about shortRuns elements, or of as many as the scales of an axis serve.
func (p *Params) repeatShort(c *ir.Call, n int) error {
	const shortRuns, most = 128, 1 << 16
	g := p.Grid
	inner := 1
	if !g.Vector {
		inner = g.Length
	}
	period := len(p.Scale) * inner
	if g.Length >= shortRuns || period > most || period == 0 {
		return nil
	}
	length := min((kit.LoopBlock+period-1)/period*period, max(n, 1))
	for _, list := range []*[]float32{&p.Scale, &p.Zero} {
		if *list == nil {
			continue
		}
		all, err := ir.ScratchOf[float32](c, length)
		if err != nil {
			return err
		}
		for i, v := range (*list)[:(min(period, length)+inner-1)/inner] {
			kit.RepeatOf(all[i*inner:min((i+1)*inner, length)], v)
		}
		Repeat(all, period)
		*list = all
	}
	runs := (n + length - 1) / length
	p.Grid = &quantGrid{Runs: runs, Length: length, group: max(n, 1), perGroup: max(runs, 1), Vector: true,
		Scale: func(int) int { return 0 }}
	return nil
}

// Repeat fills x with its first n elements.
func Repeat[T any](x []T, n int) {
	for ; n > 0 && n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}

// RoundTo rounds float32 numbers to a type of lower precision.
func RoundTo(x []float32, d tensor.DType) {
	if !kit.IsHalf(d) {
		return
	}
	var half [512]uint16
	for len(x) > 0 {
		n := min(len(x), len(half))
		b := memory.AsBytes(half[:n])
		kit.NarrowHalfFast(b, x[:n], d)
		kit.WidenHalfFast(x[:n], b, d)
		x = x[n:]
	}
}
