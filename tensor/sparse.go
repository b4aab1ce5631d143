package tensor

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// positions returns the linear (row-major) index of each value. s is in COO format.
func (s *Sparse) positions() []int {
	ix := MustData[int64](s.Indices)
	out := make([]int, s.Values.Len())
	for i := range out {
		if s.Indices.Rank() == 1 {
			out[i] = int(ix[i])
			continue
		}
		for d, size := range s.Shape {
			out[i] = out[i]*size + int(ix[i*len(s.Shape)+d])
		}
	}
	return out
}

// ToDense returns the dense form of s. It fails before allocating if the contents would take more
// than limit bytes. A limit of 0 means no limit.
func (s *Sparse) ToDense(limit int64) (*Tensor, error) {
	s, err := s.COO()
	if err != nil {
		return nil, err
	}
	n, err := ByteLen(s.Values.dtype, s.Shape)
	if err != nil {
		return nil, err
	}
	if limit > 0 && int64(n) > limit {
		return nil, fail.Errorf("tensor: the dense form of %s%v takes %d bytes, above the limit of %d", s.Values.dtype,
			s.Shape, n, limit)
	}
	t, err := Zeros(s.Values.dtype, s.Shape...)
	if err != nil {
		return nil, err
	}
	for i, p := range s.positions() {
		copyElement(t, p, s.Values, i)
	}
	return t, nil
}

// FromDense returns the sparse form of t with linear indices of shape [nnz]. Elements that are zero
// (or empty strings) are left out; negative zeros and NaN are kept.
func FromDense(t *Tensor) (*Sparse, error) {
	ix := []int64{}
	for i := range t.Len() {
		if !zeroElement(t, i) {
			ix = append(ix, int64(i))
		}
	}
	values, err := Zeros(t.dtype, len(ix))
	if err != nil {
		return nil, err
	}
	for i, p := range ix {
		copyElement(values, i, t, int(p))
	}
	return &Sparse{Values: values, Indices: Must(New(ix, len(ix))), Shape: slices.Clone(t.shape)}, nil
}

// pick returns the elements at the sorted indices all: values at the indices at, a subset, and
// zeros elsewhere.
func pick(values *Tensor, at, all []int) *Tensor {
	t := Must(Zeros(values.dtype, len(all)))
	for i, p := range at {
		j, _ := slices.BinarySearch(all, p)
		copyElement(t, j, values, i)
	}
	return t
}

// copyElement copies element si of src to element di of dst, of the same type.
func copyElement(dst *Tensor, di int, src *Tensor, si int) {
	switch w := src.dtype.Bits(); {
	case src.dtype == TypeString:
		dst.strs[di] = src.strs[si]
	case w < 8:
		memory.SetPacked(dst.data, di, w, memory.PackedAt(src.data, si, w))
	default:
		w /= 8
		copy(dst.data[di*w:(di+1)*w], src.data[si*w:])
	}
}

func zeroElement(t *Tensor, i int) bool {
	switch w := t.dtype.Bits(); {
	case t.dtype == TypeString:
		return t.strs[i] == ""
	case w < 8:
		return memory.PackedAt(t.data, i, w) == 0
	default:
		var zero [unsafe.Sizeof(complex128(0))]byte
		return bytes.Equal(t.data[i*w/8:(i+1)*w/8], zero[:w/8])
	}
}
