package tensor

import (
	"errors"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// Concat returns tensors joined along an axis, which may be negative: -1 is the last. They must
// have one type and equal sizes in the other dimensions.
func Concat(axis int, tensors ...*Tensor) (*Tensor, error) {
	if len(tensors) == 0 {
		return nil, errors.New("tensor: Concat of no tensors")
	}
	if i := slices.Index(tensors, nil); i >= 0 {
		return nil, fail.Errorf("tensor: cannot join tensors: item %d is nil", i)
	}
	first := tensors[0]
	rank := first.Rank()
	if axis < -rank || axis >= rank {
		return nil, fail.Errorf("tensor: axis %d is out of range for rank %d", axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	shape := slices.Clone(first.shape)
	for i, t := range tensors[1:] {
		same := t.dtype == first.dtype && t.Rank() == rank
		for d := 0; same && d < rank; d++ {
			same = d == axis || t.shape[d] == shape[d]
		}
		if !same {
			return nil, fail.Errorf("tensor: cannot join %s and %s (item %d) along axis %d", first, t, i+1, axis)
		}
		shape[axis] += t.shape[axis]
	}
	r, err := Zeros(first.dtype, shape...)
	if err != nil {
		return nil, err
	}
	outer := product(shape[:axis])
	at := 0
	if first.dtype.Packed() && (outer > 1 || slices.ContainsFunc(tensors, func(t *Tensor) bool {
		return t.Len()*t.dtype.Bits()%8 != 0
	})) {
		return nil, fail.Errorf("tensor: %s elements share bytes, and cannot be joined along axis %d of %v",
			first.dtype, axis, shape)
	}
	for o := range outer {
		for _, t := range tensors {
			if outer == 0 || t.Len() == 0 {
				continue
			}
			if t.dtype == TypeString {
				n := len(t.strs) / outer
				at += copy(r.strs[at:], t.strs[o*n:(o+1)*n])
			} else {
				n := len(t.data) / outer
				at += copy(r.data[at:], t.data[o*n:(o+1)*n])
			}
		}
	}
	return r, nil
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Stack returns tensors of one type and shape as the items of a new first dimension.
func Stack(tensors ...*Tensor) (*Tensor, error) {
	rows := make([]*Tensor, len(tensors))
	for i, t := range tensors {
		if t == nil {
			return nil, fail.Errorf("tensor: cannot stack tensors: item %d is nil", i)
		}
		r, err := t.Reshape(append([]int{1}, t.shape...)...)
		if err != nil {
			return nil, err
		}
		rows[i] = r
	}
	return Concat(0, rows...)
}

// Rows returns rows from to to-1 of the first dimension, as a tensor that shares the contents of t.
func (t *Tensor) Rows(from, to int) (*Tensor, error) {
	if t == nil {
		return nil, errors.New("tensor: rows of a nil tensor")
	}
	if t.Rank() == 0 {
		return nil, fail.Errorf("tensor: %s has no rows", t)
	}
	if from < 0 || to < from || to > t.shape[0] {
		return nil, fail.Errorf("tensor: rows %d to %d are out of range of %s", from, to, t)
	}
	r := &Tensor{dtype: t.dtype, shape: slices.Clone(t.shape)}
	r.shape[0] = to - from
	if t.dtype == TypeString {
		n := product(t.shape[1:])
		r.strs = t.strs[from*n : to*n : to*n]
		return r, nil
	}
	bits := int64(product(t.shape[1:])) * int64(t.dtype.Bits()) // int64, because int has 32 bits on some processors
	first, end := int64(from)*bits, int64(to)*bits
	if first%8 != 0 || to != t.shape[0] && end%8 != 0 {
		return nil, fail.Errorf("tensor: rows of %s share bytes: rows %d to %d do not begin and end at whole bytes", t,
			from, to)
	}
	if end /= 8; to == t.shape[0] {
		end = int64(len(t.data))
	}
	r.data = t.data[first/8 : end : end]
	return r, nil
}

// Row returns row i of the first dimension, without that dimension, as a tensor that shares the
// contents of t.
func (t *Tensor) Row(i int) (*Tensor, error) {
	r, err := t.Rows(i, i+1)
	if err != nil {
		return nil, err
	}
	return r.Reshape(t.shape[1:]...)
}

// Slice returns a copy of elements from to to-1 along an axis, which counts from the last one if it
// is negative. Elements must have whole bytes.
func (t *Tensor) Slice(axis, from, to int) (*Tensor, error) {
	if t == nil || t.dtype.Bits()%8 != 0 {
		return nil, fail.Errorf("tensor: slice of %v, want a tensor whose elements have whole bytes", t)
	}
	rank := t.Rank()
	if axis < -rank || axis >= rank {
		return nil, fail.Errorf("tensor: axis of a slice of %s must be in [-%d, %[2]d), got %d", t, rank, axis)
	}
	if axis < 0 {
		axis += rank
	}
	if from < 0 || to < from || to > t.shape[axis] {
		return nil, fail.Errorf("tensor: elements %d to %d are out of range of axis %d of %s", from, to, axis, t)
	}
	r := &Tensor{dtype: t.dtype, shape: slices.Clone(t.shape)}
	r.shape[axis] = to - from
	outer, inner := product(t.shape[:axis]), product(t.shape[axis+1:])
	if t.dtype == TypeString {
		for k := range outer {
			r.strs = append(r.strs, t.strs[(k*t.shape[axis]+from)*inner:][:(to-from)*inner]...)
		}
		return r, nil
	}
	inner *= t.dtype.Size()
	n := (to - from) * inner
	r.data = memory.Uninitialized(outer * n)
	for k := range outer {
		copy(r.data[k*n:][:n], t.data[(k*t.shape[axis]+from)*inner:])
	}
	return r, nil
}

// Items returns the elements of the tensors of a sequence, or of one tensor, as slices that alias
// them. It fails if v or one of its items is another value, or if T is not the Go type of the
// elements.
func Items[T Element](v Value) ([][]T, error) {
	items := []Value{v}
	if s, ok := v.(*Sequence); ok && s != nil {
		items = s.Items
	}
	r := make([][]T, len(items))
	for i, item := range items {
		d, err := Data[T](item)
		if err != nil {
			return nil, fail.Errorf("item %d: %w", i, err)
		}
		r[i] = d
	}
	return r, nil
}
