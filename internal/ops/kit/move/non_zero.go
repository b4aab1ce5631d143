package move

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// NonZeroOffsets returns the linear indices of the elements that are not zero.
func NonZeroOffsets(c *ir.Call, x *tensor.Tensor) ([]int, error) {
	b, err := In(c, x)
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
		return nonZeroOf(c, len(b.Strs), func(i int) bool { return b.Strs[i] != "" })
	case 1:
		return nonZeroBits(c, b.Raw, ^uint8(sign))
	case 2:
		return nonZeroBits(c, Of[uint16](b), ^uint16(sign))
	case 4:
		return nonZeroBits(c, Of[uint32](b), ^uint32(sign))
	case 8:
		return nonZeroBits(c, Of[uint64](b), ^sign)
	}
	pairs := Of[[2]uint64](b)
	return nonZeroOf(c, len(pairs), func(i int) bool { return (pairs[i][0]|pairs[i][1])&^sign != 0 })
}

// nonZeroOf returns the numbers below n for which is holds.
func nonZeroOf(c *ir.Call, n int, is func(i int) bool) ([]int, error) {
	count := 0
	c.Serial(n, kit.GrainCheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if is(i) {
				count++
			}
		}
	})
	at, err := ir.ScratchOf[int](c, count)
	if err != nil {
		return nil, err
	}
	count = 0
	c.Serial(n, kit.GrainCheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if is(i) {
				at[count] = i
				count++
			}
		}
	})
	return at, nil
}

// nonZeroBits is nonZeroOf for elements that are not zero under a mask. A function per element
// costs several times as much.
func nonZeroBits[T uint8 | uint16 | uint32 | uint64](c *ir.Call, s []T, mask T) ([]int, error) {
	n := 0
	c.Serial(len(s), kit.GrainCheap, func(lo, hi int) {
		for _, v := range s[lo:hi] {
			if v&mask != 0 {
				n++
			}
		}
	})
	at, err := ir.ScratchOf[int](c, n+1) // the loop stores every index, and keeps some
	if err != nil {
		return nil, err
	}
	n = 0
	c.Serial(len(s), kit.GrainCheap, func(lo, hi int) {
		for i, v := range s[lo:hi] {
			at[n] = lo + i
			next := n + 1
			if v&mask == 0 {
				next = n
			}
			n = next
		}
	})
	return at[:n], nil
}
