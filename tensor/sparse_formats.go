package tensor

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
)

// SparseFormat says how a [Sparse] tensor is stored, numbered as ONNX Runtime's
// OrtSparseFormat except that the zero value is COO.
type SparseFormat int

// The formats. ONNX and the operators know COO; sessions convert the others.
const (
	SparseCOO   SparseFormat = 0 // a position for each value
	SparseCSR   SparseFormat = 2 // a column for each value, and where each row begins
	SparseBlock SparseFormat = 4 // a position for each dense block
)

// String returns COO, CSR or BlockSparse.
func (f SparseFormat) String() string {
	switch f {
	case SparseCOO:
		return "COO"
	case SparseCSR:
		return "CSR"
	case SparseBlock:
		return "BlockSparse"
	}
	return fmt.Sprintf("SparseFormat(%d)", int(f))
}

// NewSparseCSR returns a sparse matrix in compressed rows: the values [nnz] of row
// r, with their columns in inner [nnz], are those from outer[r] to outer[r+1].
// Columns ascend within a row. Nothing is copied.
func NewSparseCSR(shape []int, values, inner, outer *Tensor) (*Sparse, error) {
	return consistent(&Sparse{Format: SparseCSR, Shape: slices.Clone(shape), Values: values,
		Indices: inner, Outer: outer})
}

// NewSparseBlock returns a sparse matrix of dense blocks: values [blocks, h, w] at
// indices [2, blocks], the blocks' rows before their columns, counted in blocks.
// Blocks ascend row by row. Nothing is copied.
func NewSparseBlock(shape []int, values, indices *Tensor) (*Sparse, error) {
	return consistent(&Sparse{Format: SparseBlock, Shape: slices.Clone(shape), Values: values, Indices: indices})
}

func consistent(s *Sparse) (*Sparse, error) {
	if _, err := s.COO(); err != nil {
		return nil, err
	}
	return s, nil
}

// COO returns the tensor in COO format, which is the one that ONNX has: s itself if it
// has it, else a tensor that shares the values where the format allows it.
func (s *Sparse) COO() (*Sparse, error) {
	if s.Format == SparseCOO {
		return s, nil
	}
	bad := func(format string, args ...any) (*Sparse, error) {
		return nil, fail.Errorf("tensor: "+s.Format.String()+" sparse tensor: "+format, args...)
	}
	if s.Values == nil || s.Indices == nil || s.Format == SparseCSR && s.Outer == nil {
		return bad("values or indices are missing")
	}
	if _, err := ByteLen(s.Values.DType(), s.Shape); err != nil {
		return bad("%w", err)
	}
	if s.Indices.DType() != TypeInt64 || s.Outer != nil && s.Outer.DType() != TypeInt64 {
		return bad("indices are %s, want int64", s.Indices.DType())
	}
	if len(s.Shape) != 2 {
		return bad("the shape %v has rank %d, want 2", s.Shape, len(s.Shape))
	}
	var values, indices *Tensor
	var err error
	switch s.Format {
	case SparseCSR:
		values = s.Values
		indices, err = s.fromRows()
	case SparseBlock:
		values, indices, err = s.fromBlocks()
	default:
		return bad("unknown format")
	}
	if err != nil {
		return bad("%w", err)
	}
	v, err := NewSparse(values, indices, s.Shape...)
	if err != nil {
		return bad("%w", err)
	}
	return v, nil
}

// fromRows returns the positions of compressed rows.
func (s *Sparse) fromRows() (*Tensor, error) {
	rows, cols := s.Shape[0], s.Shape[1]
	col, start := MustData[int64](s.Indices), MustData[int64](s.Outer)
	if s.Indices.Rank() != 1 || s.Outer.Rank() != 1 || len(start) != rows+1 || len(col) != s.Values.Len() {
		return nil, fail.Errorf("%d values with inner indices %v and outer indices %v for %d rows, want [%d] and [%d]",
			s.Values.Len(), s.Indices.Shape(), s.Outer.Shape(), rows, s.Values.Len(), rows+1)
	}
	at := make([]int64, len(col))
	if start[0] != 0 || start[rows] != int64(len(col)) {
		return nil, fail.Errorf("outer indices go from %d to %d, want 0 to %d", start[0], start[rows], len(col))
	}
	for r := range rows {
		if start[r+1] < start[r] || start[r+1] > int64(len(col)) {
			return nil, fail.Errorf("outer index %d is %d after %d, of %d values", r+1, start[r+1], start[r], len(col))
		}
		for i := start[r]; i < start[r+1]; i++ {
			if col[i] < 0 || col[i] >= int64(cols) {
				return nil, fail.Errorf("inner index %d is %d, outside of %d columns", i, col[i], cols)
			}
			at[i] = int64(r)*int64(cols) + col[i]
		}
	}
	return New(at, len(at))
}

// fromBlocks returns values and positions of dense blocks in the order of rows.
func (s *Sparse) fromBlocks() (values, indices *Tensor, err error) {
	rows, cols := s.Shape[0], s.Shape[1]
	v := s.Values.Shape()
	if len(v) != 3 || v[1] == 0 || v[2] == 0 || rows%v[1] != 0 || cols%v[2] != 0 {
		return nil, nil, fail.Errorf("values have shape %v, want [blocks h w] with h and w dividing %v", v, s.Shape)
	}
	if s.Values.DType() == TypeString || s.Values.DType().Packed() {
		return nil, nil, fail.Errorf("blocks of %s are not supported", s.Values.DType())
	}
	n, h, w := v[0], v[1], v[2]
	if !slices.Equal(s.Indices.Shape(), []int{2, n}) {
		return nil, nil, fail.Errorf("indices of %d blocks have shape %v, want [2 %d]", n, s.Indices.Shape(), n)
	}
	ix := MustData[int64](s.Indices)
	for b := range n {
		r, c := ix[b], ix[n+b]
		if r < 0 || r >= int64(rows/h) || c < 0 || c >= int64(cols/w) {
			return nil, nil, fail.Errorf("block %d is at [%d %d], outside of [%d %d] blocks", b, r, c, rows/h, cols/w)
		}
		if b > 0 && (r < ix[b-1] || r == ix[b-1] && c <= ix[n+b-1]) {
			return nil, nil,
				fail.Errorf("block %d at [%d %d] does not follow [%d %d], want ascending order without duplicates", b,
					r, c, ix[b-1], ix[n+b-1])
		}
	}
	size := s.Values.DType().Bits() / 8
	data, at := make([]byte, 0, n*h*w*size), make([]int64, 0, n*h*w)
	for first, end := 0, 0; first < n; first = end { // the blocks of a row
		for end = first + 1; end < n && ix[end] == ix[first]; {
			end++
		}
		for i := range h {
			for b := first; b < end; b++ {
				for j := range int64(w) {
					at = append(at, (ix[b]*int64(h)+int64(i))*int64(cols)+ix[n+b]*int64(w)+j)
				}
				from := (b*h + i) * w * size
				data = append(data, s.Values.Bytes()[from:from+w*size]...)
			}
		}
	}
	if values, err = FromBytes(s.Values.DType(), data, len(at)); err != nil {
		return nil, nil, err
	}
	indices, err = New(at, len(at))
	return values, indices, err
}
