package move

import (
	"bytes"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ElementOffsets returns, for each element of indices, the linear index that GatherElements and
// ScatterElements access in a tensor of the given shape: the coordinates of the element, with the
// one along the axis replaced by its value.
func ElementOffsets(c *ir.Call, shape []int, indices *tensor.Tensor, axis int) ([]int, error) {
	if indices.Rank() != len(shape) {
		return nil, fail.Errorf("indices have rank %d, data has rank %d", indices.Rank(), len(shape))
	}
	for k, d := range indices.Shape() {
		if k != axis && d > shape[k] {
			return nil, fail.Errorf("indices of shape %v exceed data of shape %v in dimension %d",
				indices.Shape(), shape, k)
		}
	}
	at, err := IndexList(c, indices, shape[axis], "indices")
	if err != nil || len(at) == 0 {
		return nil, err
	}
	s := kit.Strides(shape)
	box := indices.Shape()
	last := len(box) - 1
	pos := make([]int, len(box))
	base := 0 // offset of the current row, without the coordinate along the axis
	for lo := 0; lo < len(at); lo += box[last] {
		row := at[lo : lo+box[last]]
		if axis == last {
			for i, x := range row {
				row[i] = base + x
			}
		} else {
			for i, x := range row {
				row[i] = base + x*s[axis] + i
			}
		}
		for k := last - 1; k >= 0; k-- {
			if k == axis {
				if pos[k]++; pos[k] < box[k] {
					break
				}
				pos[k] = 0
				continue
			}
			base += s[k]
			if pos[k]++; pos[k] < box[k] {
				break
			}
			base -= box[k] * s[k]
			pos[k] = 0
		}
	}
	return at, nil
}

// RowOffsets is [ElementOffsets] for indices along axis 0 that are equal within each row, the
// elements after the first dimension, if rows are as long as those of the shape. It returns the
// offset of each row and the number of its elements, or 0 elements for other or wrong indices.
func RowOffsets(c *ir.Call, shape []int, indices *tensor.Tensor) (at []int, block int, err error) {
	if len(shape) < 2 || indices.Rank() != len(shape) || !slices.Equal(indices.Shape()[1:], shape[1:]) {
		return nil, 0, nil
	}
	if block = kit.Product(shape[1:]); block < 2 || indices.Len() == 0 {
		return nil, 0, nil
	}
	size := Width(indices.DType())
	for row := range slices.Chunk(indices.Bytes(), block*size) {
		if !bytes.Equal(row[size:], row[:len(row)-size]) {
			return nil, 0, nil
		}
	}
	if at, err = ir.ScratchOf[int](c, indices.Dim(0)); err != nil {
		return nil, 0, err
	}
	for i := range at {
		var x int
		if size == 4 {
			x = int(tensor.MustData[int32](indices)[i*block])
		} else {
			x = int(tensor.MustData[int64](indices)[i*block])
		}
		if x < 0 {
			x += shape[0]
		}
		if uint(x) >= uint(shape[0]) {
			return nil, 0, nil
		}
		at[i] = x * block
	}
	return at, block, nil
}

// SliceOffsets returns the offsets in a tensor of the given shape of the slices that GatherND and
// ScatterND select, and the number of elements of a slice. The innermost vectors of indices select
// the slices. Both tensors share the first batch dimensions.
func SliceOffsets(c *ir.Call, shape []int, indices *tensor.Tensor, batch int) (at []int, block int, err error) {
	r, q := len(shape), indices.Rank()
	if q < 1 || r < 1 {
		return nil, 0, fail.Errorf("data has rank %d and indices have rank %d, want at least 1", r, q)
	}
	if batch < 0 || batch >= min(q, r) {
		return nil, 0, fail.Errorf("batch_dims is %d, want it in [0, %d] for data of rank %d and indices of rank %d",
			batch, min(q, r)-1, r, q)
	}
	for k := range batch {
		if shape[k] != indices.Dim(k) {
			return nil, 0, fail.Errorf("data of shape %v and indices of shape %v differ in batch dimension %d",
				shape, indices.Shape(), k)
		}
	}
	width := indices.Dim(q - 1)
	if width < 1 && indices.Dim(q-1) != 0 || width > r-batch {
		return nil, 0,
			fail.Errorf("indices of shape %v have %d coordinates for data of shape %v with %d batch dimensions",
				indices.Shape(), width, shape, batch)
	}
	n := kit.Product(indices.Shape()[:q-1])
	if at, err = ir.ScratchOf[int](c, n); err != nil {
		return nil, 0, err
	}
	s := kit.Strides(shape)
	dims := shape[batch : batch+width]
	steps := s[batch : batch+width]
	block = kit.Product(shape[batch+width:])
	batches := kit.Product(shape[:batch])
	perBatch, size := 0, kit.Product(shape[batch:])
	if batches > 0 {
		perBatch = n / batches
	}
	coords := tensor.MustData[int64](indices)
	for i := range at {
		p := 0
		if perBatch > 0 {
			p = i / perBatch * size
		}
		for k, d := range dims {
			x := int(coords[i*width+k])
			if x < 0 {
				x += d
			}
			if uint(x) >= uint(d) {
				return nil, 0, fail.Errorf("indices: coordinate %d of vector %d is %d, outside of [%d, %d]", k, i,
					coords[i*width+k], -d, d-1)
			}
			p += x * steps[k]
		}
		at[i] = p
	}
	return at, block, nil
}

// SparseOffsets returns the linear indices of the values of a sparse tensor.
func SparseOffsets(c *ir.Call, s *tensor.Sparse) ([]int, error) {
	if s.Indices.Rank() == 2 {
		at, _, err := SliceOffsets(c, s.Shape, s.Indices, 0)
		return at, err
	}
	return IndexList(c, s.Indices, kit.Product(s.Shape), "sparse indices")
}
