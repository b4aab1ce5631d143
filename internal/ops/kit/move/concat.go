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
	empty := func(s []ir.Dim) bool { return slices.ContainsFunc(s, func(d ir.Dim) bool { return d.Is(0) }) }
	var out []ir.Dim
	sum, first, skipped := ir.Known(0), 0, false
	for i, s := range shapes {
		if s == nil {
			sum = ir.Unknown
			continue
		}
		merged, size, err := mergeConcat(out, s, axis)
		switch {
		case err == nil:
			if out == nil {
				first = i
			}
			out, sum = merged, sum.Add(size)
		case empty(s):
			skipped = true
		case out != nil && empty(shapes[first]):
			if out, _, err = mergeConcat(nil, s, axis); err != nil {
				return nil, err
			}
			first, skipped = i, true
		default:
			return nil, fail.Errorf("input %d and input %d: %w", first, i, err)
		}
	}
	if out != nil {
		a, err := kit.NormalAxis(axis, len(out))
		if err != nil {
			return nil, err
		}
		if out[a] = sum; skipped {
			out[a] = ir.Unknown
		}
	}
	return out, nil
}

// mergeConcat returns what out, or nothing, and s say about the dimensions other than the axis, and the size of s along the axis.
func mergeConcat(out, s []ir.Dim, axis int) ([]ir.Dim, ir.Dim, error) {
	a, err := kit.NormalAxis(axis, len(s))
	if err != nil {
		return nil, ir.Unknown, err
	}
	if out != nil && len(out) != len(s) {
		return nil, ir.Unknown, fail.Errorf("ranks are %d and %d, want equal ranks", len(out), len(s))
	}
	r := slices.Clone(s)
	r[a] = ir.Unknown
	for k := range out {
		if k == a {
			continue
		}
		if r[k], err = ir.Merge(out[k], s[k]); err != nil {
			return nil, ir.Unknown, fail.Errorf("dimension %d is %s and %s, want equal sizes off axis %d", k, out[k], s[k], a)
		}
	}
	return r, s[a], nil
}

// ConcatShape returns the shape of the result, and the axis in [0, rank). Like ONNX Runtime, it skips inputs without elements whose
// other dimensions do not match, if any input has elements: a Loop of no iterations cannot know the dimensions of its scan outputs.
func ConcatShape(in []*tensor.Tensor, axis int) ([]int, int, error) {
	first := max(0, slices.IndexFunc(in, func(t *tensor.Tensor) bool { return t.Len() > 0 }))
	ref := in[first]
	axis, err := kit.NormalAxis(axis, ref.Rank())
	if err != nil {
		return nil, 0, err
	}
	shape := append([]int{}, ref.Shape()...)
	shape[axis] = 0
	for i, t := range in {
		if t.DType() != ref.DType() {
			return nil, 0, fail.Errorf("input %d is %s, input %d is %s", first, ref.DType(), i, t.DType())
		}
		skip := t.Len() == 0 && ref.Len() > 0
		if t.Rank() != len(shape) {
			if skip {
				continue
			}
			return nil, 0, fail.Errorf("input %d has rank %d, input %d has rank %d", first, len(shape), i, t.Rank())
		}
		if k := mismatch(t.Shape(), shape, axis); k >= 0 {
			if skip {
				continue
			}
			return nil, 0, fail.Errorf("shapes %v of input %d and %v of input %d differ in dimension %d, which is not axis %d", ref.Shape(), first, t.Shape(), i, k, axis)
		}
		shape[axis] += t.Dim(axis)
		if shape[axis] < 0 {
			return nil, 0, fail.Errorf("dimension %d of the result overflows", axis)
		}
	}
	return shape, axis, nil
}

// mismatch returns the first dimension other than axis in which a and b differ, or -1.
func mismatch(a, b []int, axis int) int {
	for k, d := range a {
		if k != axis && d != b[k] {
			return k
		}
	}
	return -1
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
		Strided(c, dst, src, []int{outer, w}, []int{row, 1}, at, []int{w, 1}, 0)
		at += w
	}
	dst.Done()
	return nil
}
