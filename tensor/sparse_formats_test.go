package tensor

import (
	"strings"
	"testing"
)

func TestSparseMisuse(t *testing.T) {
	ints := func(v []int64, shape ...int) *Tensor { return Must(New(v, shape...)) }
	two := Must(New([]float32{1, 2}, 2))
	block := Must(New(make([]float32, 4), 1, 2, 2))
	shape := []int{2, 2}
	for name, c := range map[string]struct {
		do   func() (*Sparse, error)
		want string
	}{
		"no values":   {func() (*Sparse, error) { return NewSparse(nil, ints([]int64{0}), shape...) }, "values or indices of a sparse tensor are missing"},
		"COO outside": {func() (*Sparse, error) { return NewSparse(two, ints([]int64{0, 4}, 2), shape...) }, "outside of 4 elements"},
		"COO order":   {func() (*Sparse, error) { return NewSparse(two, ints([]int64{1, 0}, 2), shape...) }, "ascending"},
		"shape overflows": {func() (*Sparse, error) {
			return NewSparse(two, ints([]int64{0, 1}, 2), 1<<40, 1<<40)
		}, "overflows"},
		"CSR rank": {func() (*Sparse, error) {
			return NewSparseCSR([]int{4}, two, ints([]int64{0, 1}, 2), ints([]int64{0, 2}, 2))
		}, "has rank 1, want 2"},
		"CSR without rows": {func() (*Sparse, error) {
			return NewSparseCSR(shape, two, ints([]int64{0, 1}, 2), nil)
		}, "missing"},
		"CSR length": {func() (*Sparse, error) {
			return NewSparseCSR(shape, two, ints([]int64{0, 1}, 2), ints([]int64{0, 2}, 2))
		}, "want [2] and [3]"},
		"CSR end": {func() (*Sparse, error) {
			return NewSparseCSR(shape, two, ints([]int64{0, 1}, 2), ints([]int64{0, 1, 9}, 3))
		}, "outer indices go from 0 to 9, want 0 to 2"},
		"CSR goes back": {func() (*Sparse, error) {
			return NewSparseCSR(shape, two, ints([]int64{0, 1}, 2), ints([]int64{0, 9, 2}, 3))
		}, "outer index 1 is 9 after 0"},
		"CSR column": {func() (*Sparse, error) {
			return NewSparseCSR(shape, two, ints([]int64{0, 2}, 2), ints([]int64{0, 1, 2}, 3))
		}, "outside of 2 columns"},
		"CSR types": {func() (*Sparse, error) {
			return NewSparseCSR(shape, two, Must(New([]int32{0, 1}, 2)), ints([]int64{0, 1, 2}, 3))
		}, "indices are int32, want int64"},
		"blocks of no size": {func() (*Sparse, error) {
			return NewSparseBlock(shape, two, ints([]int64{0, 0}, 2, 1))
		}, "want [blocks h w]"},
		"blocks that do not fit": {func() (*Sparse, error) {
			return NewSparseBlock([]int{3, 2}, block, ints([]int64{0, 0}, 2, 1))
		}, "dividing [3 2]"},
		"indices of blocks": {func() (*Sparse, error) {
			return NewSparseBlock(shape, block, ints([]int64{0, 0}, 1, 2))
		}, "want [2 1]"},
		"block outside": {func() (*Sparse, error) {
			return NewSparseBlock(shape, block, ints([]int64{1, 0}, 2, 1))
		}, "block 0 is at [1 0], outside of [1 1] blocks"},
		"no such format": {func() (*Sparse, error) {
			s := &Sparse{Format: 9, Shape: shape, Values: two, Indices: ints([]int64{0, 1}, 2)}
			_, err := s.COO()
			return nil, err
		}, "unknown format"},
	} {
		if _, err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// This test checks that the formats of one tensor have the same dense form, JSON and copies.
func TestSparseFormatsAgree(t *testing.T) {
	ints := func(v []int64, shape ...int) *Tensor { return Must(New(v, shape...)) }
	csr, err := NewSparseCSR([]int{2, 2}, Must(New([]float32{5, 7}, 2)), ints([]int64{1, 0}, 2),
		ints([]int64{0, 1, 2}, 3))
	if err != nil {
		t.Fatal(err)
	}
	coo, err := NewSparse(Must(New([]float32{5, 7}, 2)), ints([]int64{1, 2}, 2), 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	clone := Clone(csr).(*Sparse)
	for _, s := range []*Sparse{csr, clone} {
		if err := AllClose(s, coo, 0, 0); err != nil || s.Format != SparseCSR {
			t.Errorf("%s: %v", s.Format, err)
		}
		text, err := s.MarshalJSON()
		if want, _ := coo.MarshalJSON(); err != nil || string(text) != string(want) {
			t.Errorf("%s: %s, %v, want %s", s.Format, text, err, want)
		}
	}
	if clone.Outer == csr.Outer || SizeOf(csr) <= SizeOf(coo) {
		t.Errorf("the copy shares its outer indices, or their %d bytes are not counted", SizeOf(csr))
	}
}
