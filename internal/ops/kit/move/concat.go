package move

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ConcatDims is ConcatShape for shapes that are partly unknown.
func ConcatDims(shapes [][]ir.Dim, axis int) ([]ir.Dim, error) {
	var out []ir.Dim
	sum := ir.Known(0)
	for i, s := range shapes {
		if s == nil {
			sum = ir.Unknown
			continue
		}
		a, err := kit.NormalAxis(axis, len(s))
		if err != nil {
			return nil, err
		}
		sum = sum.Add(s[a])
		if out == nil {
			out = append([]ir.Dim{}, s...)
			out[a] = ir.Unknown
			continue
		}
		if len(s) != len(out) {
			return nil, fail.Errorf("input 0 has rank %d, input %d has rank %d", len(out), i, len(s))
		}
		for k := range s {
			if k == a {
				continue
			}
			d, err := ir.Merge(out[k], s[k])
			if err != nil {
				return nil, fail.Errorf("inputs differ in dimension %d, which is not the axis: %s in input %d, %s in earlier inputs", k, s[k], i, out[k])
			}
			out[k] = d
		}
	}
	if out != nil {
		a, err := kit.NormalAxis(axis, len(out))
		if err != nil {
			return nil, err
		}
		out[a] = sum
	}
	return out, nil
}

// ConcatShape returns the shape of the result, and the axis in [0, rank).
func ConcatShape(in []*tensor.Tensor, axis int) ([]int, int, error) {
	axis, err := kit.NormalAxis(axis, in[0].Rank())
	if err != nil {
		return nil, 0, err
	}
	shape := append([]int{}, in[0].Shape()...)
	for i, t := range in[1:] {
		if t.Rank() != len(shape) {
			return nil, 0, fail.Errorf("input 0 has rank %d, input %d has rank %d", len(shape), i+1, t.Rank())
		}
		if t.DType() != in[0].DType() {
			return nil, 0, fail.Errorf("input 0 is %s, input %d is %s", in[0].DType(), i+1, t.DType())
		}
		for k, d := range t.Shape() {
			if k != axis && d != shape[k] {
				return nil, 0, fail.Errorf("shapes %v of input 0 and %v of input %d differ in dimension %d, which is not axis %d", in[0].Shape(), t.Shape(), i+1, k, axis)
			}
		}
		shape[axis] += t.Dim(axis)
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
		src, err := In(c, t)
		if err != nil {
			return err
		}
		w := t.Dim(axis) * inner
		Strided(c, dst, src, []int{outer, w}, []int{row, 1}, at, []int{w, 1}, 0)
		at += w
	}
	dst.Done()
	return nil
}
