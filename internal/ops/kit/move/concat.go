package move

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ConcatDims is ConcatShape for shapes that are partly unknown.
func ConcatDims(shapes [][]ir.Dim, axis int) ([]ir.Dim, error) {
	var out []ir.Dim
	sum := ir.Known(0)
	// Expressions are added once, with their number: a node may have millions of inputs.
	var symbols []ir.Dim
	var count map[ir.Dim]int
	for i, s := range shapes {
		if s == nil {
			sum = ir.Unknown
			continue
		}
		a, err := kit.NormalAxis(axis, len(s))
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = slices.Clone(s)
		} else if len(s) != len(out) {
			return nil, fail.Errorf("input 0 has rank %d, input %d has rank %d", len(out), i, len(s))
		}
		for k := range s {
			if k == a && s[k].IsKnown() {
				sum = sum.Add(s[k])
			} else if k == a {
				if count == nil {
					count = map[ir.Dim]int{}
				}
				if count[s[k]]++; count[s[k]] == 1 {
					symbols = append(symbols, s[k])
				}
			} else if out[k], err = mergeDims(out[k], s[k]); err != nil {
				return nil,
					fail.Errorf("inputs differ in dimension %d, which is not the axis: %s in input %d, %s in "+
						"earlier inputs", k, s[k], i, out[k])
			}
		}
	}
	if out == nil {
		return nil, nil
	}
	for _, d := range symbols {
		if sum.IsUnknown() {
			break
		}
		sum = sum.Add(d.Mul(ir.Known(count[d])))
	}
	a, err := kit.NormalAxis(axis, len(out))
	if err != nil {
		return nil, err
	}
	// An input with a dimension of 0 may be skipped, along the axis too.
	for _, s := range shapes {
		if s == nil {
			for k := range out {
				if out[k].Is(0) {
					out[k] = ir.Unknown
				}
			}
		}
		for k := range s {
			if k != a && s[k].Is(0) && !out[k].Is(0) {
				sum = ir.Unknown
			}
		}
	}
	out[a] = sum
	return out, nil
}

// mergeDims merges sizes of one dimension. A size of 0 may be that of an input that is skipped.
func mergeDims(a, b ir.Dim) (ir.Dim, error) {
	switch {
	case a.Is(0):
		return b, nil
	case b.Is(0):
		return a, nil
	}
	return ir.Merge(a, b)
}

// ConcatShape returns the shape of the result, and the axis in [0, rank). Like ONNX Runtime, it
// skips inputs without elements beside one with elements, if they differ in dimensions of 0: a Loop
// of no iterations cannot know the dimensions of its scan outputs.
func ConcatShape(c *ir.Call, in []*tensor.Tensor, axis int) ([]int, int, error) {
	first := max(0, slices.IndexFunc(in, func(t *tensor.Tensor) bool { return t.Len() > 0 }))
	ref := in[first]
	axis, err := kit.NormalAxis(axis, ref.Rank())
	if err != nil {
		return nil, 0, err
	}
	shape := append(c.Ints(ref.Rank())[:0], ref.Shape()...)
	shape[axis] = 0
	for i, t := range in {
		if t.Rank() != len(shape) {
			return nil, 0, fail.Errorf("input %d has rank %d, input %d has rank %d", first, len(shape), i, t.Rank())
		}
		if t.DType() != ref.DType() {
			return nil, 0, fail.Errorf("input %d is %s, input %d is %s", first, ref.DType(), i, t.DType())
		}
		size := t.Dim(axis)
		for k, d := range t.Shape() {
			switch {
			case k == axis || d == shape[k]:
			case d == 0 && ref.Len() > 0:
				size = 0
			default:
				return nil, 0,
					fail.Errorf("shapes %v of input %d and %v of input %d differ in dimension %d, which is not axis %d",
						ref.Shape(), first, t.Shape(), i, k, axis)
			}
		}
		shape[axis] += size
		if shape[axis] < 0 {
			return nil, 0, fail.Errorf("dimension %d of the result overflows", axis)
		}
	}
	return shape, axis, nil
}

// ConcatInto writes the concatenated tensors.
func ConcatInto(c *ir.Call, dst Buf, in []*tensor.Tensor, shape []int, axis int) error {
	outer, inner := AxisBlocks(shape, axis)
	row := shape[axis] * inner
	at := 0
	for _, t := range in {
		if t.Len() == 0 {
			continue
		}
		src, err := In(c, t)
		if err != nil {
			return err
		}
		w := t.Dim(axis) * inner
		if outer == 1 {
			Copy(c, dst.Slice(at, at+w), src)
			at += w
			continue
		}
		Strided(c, dst, src, []int{outer, w}, []int{row, 1}, at, []int{w, 1}, 0)
		at += w
	}
	dst.Done()
	return nil
}
