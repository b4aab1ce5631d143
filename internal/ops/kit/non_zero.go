package kit

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// NonZeroOffsets returns the linear indices of the elements that are not zero.
func NonZeroOffsets(c *ir.Call, x *tensor.Tensor) ([]int, error) {
	b, err := MoveIn(c, x)
	if err != nil {
		return nil, err
	}
	// Negative zeros count as zeros.
	sign := uint64(0)
	switch d := x.DType(); d {
	case tensor.TypeFloat16, tensor.TypeBFloat16, tensor.TypeFloat32, tensor.TypeFloat64:
		sign = 1 << (d.Bits() - 1)
	case tensor.TypeComplex64:
		sign = 1<<31 | 1<<63
	case tensor.TypeComplex128:
		sign = 1 << 63
	}
	switch b.Width {
	case 0:
		n := 0
		for _, s := range b.Strs {
			if s != "" {
				n++
			}
		}
		at, err := ir.ScratchOf[int](c, n)
		if err != nil {
			return nil, err
		}
		n = 0
		for i, s := range b.Strs {
			if s != "" {
				at[n] = i
				n++
			}
		}
		return at, nil
	case 1:
		return nonZeroOf(c, b.Raw, ^uint8(sign))
	case 2:
		return nonZeroOf(c, MoveOf[uint16](b), ^uint16(sign))
	case 4:
		return nonZeroOf(c, MoveOf[uint32](b), ^uint32(sign))
	case 8:
		return nonZeroOf(c, MoveOf[uint64](b), ^sign)
	}
	pairs := MoveOf[[2]uint64](b)
	n := 0
	for _, v := range pairs {
		if (v[0]|v[1])&^sign != 0 {
			n++
		}
	}
	at, err := ir.ScratchOf[int](c, n)
	if err != nil {
		return nil, err
	}
	n = 0
	for i, v := range pairs {
		if (v[0]|v[1])&^sign != 0 {
			at[n] = i
			n++
		}
	}
	return at, nil
}

func nonZeroOf[T uint8 | uint16 | uint32 | uint64](c *ir.Call, s []T, mask T) ([]int, error) {
	n := 0
	c.Serial(len(s), GrainCheap, func(lo, hi int) {
		for _, v := range s[lo:hi] {
			if v&mask != 0 {
				n++
			}
		}
	})
	at, err := ir.ScratchOf[int](c, n)
	if err != nil {
		return nil, err
	}
	n = 0
	c.Serial(len(s), GrainCheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if s[i]&mask != 0 {
				at[n] = i
				n++
			}
		}
	})
	return at, nil
}
