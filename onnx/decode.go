package onnx

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/onward-ml/onward/tensor"
)

// elements returns the product of dims. It fails for negative dims, overflow and ranks over tensor.MaxRank.
func elements(dims []int64) (int64, error) {
	if len(dims) > tensor.MaxRank {
		return 0, fmt.Errorf("rank %d exceeds the limit of %d", len(dims), tensor.MaxRank)
	}
	n, zero, over := uint64(1), false, false
	for i, d := range dims {
		switch {
		case d < 0:
			return 0, fmt.Errorf("dim %d is negative: %d", i, d)
		case d == 0:
			zero = true
		case !over:
			hi, lo := bits.Mul64(n, uint64(d))
			over = hi != 0 || lo > math.MaxInt64
			n = lo
		}
	}
	if zero {
		return 0, nil
	}
	if over {
		return 0, errors.New("product of dims overflows int64")
	}
	return int64(n), nil
}

// FromTensor returns a tensor in the form of a file: raw data, or string data. It aliases t.
func FromTensor(t *tensor.Tensor) *Tensor {
	p := &Tensor{DataType: DataType(t.DType()), Dims: make([]int64, t.Rank())}
	for i, d := range t.Shape() {
		p.Dims[i] = int64(d)
	}
	if t.DType() == tensor.TypeString {
		p.StringData = tensor.Of[string](t)
		return p
	}
	if p.RawData = t.Bytes(); p.RawData == nil {
		p.RawData = []byte{}
	}
	return p
}
