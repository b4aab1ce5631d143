package move

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// UniqueSlices returns the distinct slices of x along an axis: the index of the first occurrence of
// each, the index among them of each slice of x, and the numbers of occurrences. If sorted is not
// set, they are in order of first occurrence.
func UniqueSlices(c *ir.Call, x *tensor.Tensor, axis int, sorted bool) (first, group, counts []int, err error) {
	n := x.Dim(axis)
	compare, key, err := uniqueCompare(c, x, axis)
	if err != nil {
		return nil, nil, nil, err
	}
	space, err := ir.ScratchOf[int](c, 4*n)
	if err != nil {
		return nil, nil, nil, err
	}
	first, counts, group = space[:0:n], space[n:n:2*n], space[2*n:3*n]
	order := space[3*n:]
	if !sorted && len(key) == n && n < math.MaxInt32 && !c.Generic {
		return hashedGroups(c, key, first, group, counts)
	}
	for i := range order {
		order[i] = i
	}
	if len(key) == n && !c.Generic {
		if order, err = radixOrder(c, key, order); err != nil {
			return nil, nil, nil, err
		}
		compare = func(a, b int) int { return cmp.Compare(key[a], key[b]) }
	} else {
		slices.SortFunc(order, func(a, b int) int {
			if r := compare(a, b); r != 0 {
				return r
			}
			return a - b
		})
	}
	if err := c.Err(); err != nil {
		return nil, nil, nil, err
	}
	c.Serial(n, kit.GrainCheap, func(lo, hi int) {
		for k, i := range order[lo:hi] {
			if k += lo; k == 0 || compare(order[k-1], i) != 0 {
				first = append(first, i)
				counts = append(counts, 0)
			}
			group[i] = len(first) - 1
			counts[len(counts)-1]++
		}
	})
	if !sorted {
		g := len(first)
		if space, err = ir.ScratchOf[int](c, 3*g); err != nil {
			return nil, nil, nil, err
		}
		place, f, m, k := space[:g], space[g:2*g], space[2*g:], 0
		c.Serial(n, kit.GrainCheap, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				g := group[i]
				if first[g] == i {
					place[g], f[k], m[k] = k, i, counts[g]
					k++
				}
				group[i] = place[g]
			}
		})
		first, counts = f, m
	}
	return first, group, counts, nil
}

// hashedGroups groups equal keys in the order of their first occurrence, with a hash table. It adds
// the groups to first and counts. The factor of the hash function is random, so that an input
// cannot provoke collisions.
func hashedGroups(c *ir.Call, key []uint64, first, group, counts []int) (_, _, _ []int, err error) {
	size := bits.Len(uint(2 * len(key)))
	table, err := ir.ScratchOf[uint32](c, 1<<size) // 0, or the group plus 1
	if err != nil {
		return nil, nil, nil, err
	}
	ir.Clear(c, table)
	factor, mask := rand.Uint64()|1, len(table)-1
	c.Serial(len(key), kit.GrainCheap, func(lo, hi int) {
		m := ir.Meter{C: c}
		f, n := first, counts
		for i, k := range key[lo:hi] {
			at := int(k * factor >> (64 - size))
			for ; table[at] != 0 && key[f[table[at]-1]] != k; at = (at + 1) & mask {
				m.Check(1)
			}
			g := int(table[at]) - 1
			if g < 0 {
				g = len(f)
				f, n = append(f, lo+i), append(n, 0)
				table[at] = uint32(g + 1)
			}
			group[lo+i] = g
			n[g]++
		}
		first, counts = f, n
	})
	return first, group, counts, c.Err()
}

// radixOrder returns the indices in order, sorted stably by their keys. It sorts by one byte of the
// keys after the other, from the least significant one, and skips bytes that are equal in all keys.
func radixOrder(c *ir.Call, key []uint64, order []int) ([]int, error) {
	other, err := ir.ScratchOf[int](c, len(order))
	if err != nil {
		return nil, err
	}
	varying := uint64(0)
	c.Serial(len(key), kit.GrainCheap, func(lo, hi int) {
		for _, k := range key[lo:hi] {
			varying |= k ^ key[0]
		}
	})
	for shift := 0; shift < 64; shift += 8 {
		if varying>>shift&0xff == 0 {
			continue
		}
		var at [256]int
		c.Serial(len(key), kit.GrainCheap, func(lo, hi int) {
			for _, k := range key[lo:hi] {
				at[k>>shift&0xff]++
			}
		})
		sum := 0
		for b, n := range at {
			at[b] = sum
			sum += n
		}
		c.Serial(len(order), kit.GrainCheap, func(lo, hi int) {
			for _, i := range order[lo:hi] {
				b := key[i] >> shift & 0xff
				other[at[b]] = i
				at[b]++
			}
		})
		order, other = other, order
	}
	return order, nil
}

// uniqueCompare returns a comparison of slices of x along an axis, and the keys that it compares,
// one for each element, or nil for strings. The comparison does not return if the run must stop.
func uniqueCompare(c *ir.Call, x *tensor.Tensor, axis int) (compare func(a, b int) int, key []uint64, err error) {
	outer, inner := AxisBlocks(x.Shape(), axis)
	step := x.Dim(axis) * inner
	m := ir.Meter{C: c}
	const call = 8 // cost of a call, in elements
	if x.DType() == tensor.TypeString {
		s := tensor.MustData[string](x)
		return func(a, b int) int {
			for o := range outer {
				m.Check(inner + call)
				p, q := o*step+a*inner, o*step+b*inner
				for k := range inner {
					if r := strings.Compare(s[p+k], s[q+k]); r != 0 {
						return r
					}
				}
			}
			return 0
		}, nil, nil
	}
	key, per, err := sortKeys(c, x)
	if err != nil {
		return nil, nil, err
	}
	inner *= per
	step *= per
	return func(a, b int) int {
		for o := range outer {
			m.Check(inner + call)
			p, q := o*step+a*inner, o*step+b*inner
			u, v := key[p:p+inner], key[q:q+inner]
			for k, x := range u {
				if y := v[k]; x != y {
					if x < y {
						return -1
					}
					return 1
				}
			}
		}
		return 0
	}, key, nil
}

// sortKeys returns integers that compare like the elements of x, per integers for each element.
// NaNs are equal to each other and last; negative zeros are equal to positive ones.
func sortKeys(c *ir.Call, x *tensor.Tensor) (key []uint64, per int, err error) {
	per = 1
	if d := x.DType(); d == tensor.TypeComplex64 || d == tensor.TypeComplex128 {
		per = 2
	}
	if key, err = ir.ScratchOf[uint64](c, x.Len()*per); err != nil {
		return nil, 0, err
	}
	const top = 1 << 63
	m := ir.Meter{C: c}
	float := func(i int, v float64) {
		m.Check(1)
		key[i] = uint64(kit.OrderF64(v)) ^ top
	}
	switch x.DType() {
	case tensor.TypeBool, tensor.TypeUint8:
		for i, v := range x.Bytes() {
			m.Check(1)
			key[i] = uint64(v)
		}
	case tensor.TypeUint16:
		for i, v := range tensor.MustData[uint16](x) {
			m.Check(1)
			key[i] = uint64(v)
		}
	case tensor.TypeUint32:
		for i, v := range tensor.MustData[uint32](x) {
			m.Check(1)
			key[i] = uint64(v)
		}
	case tensor.TypeUint64:
		for i, v := range tensor.MustData[uint64](x) {
			m.Check(1)
			key[i] = v
		}
	case tensor.TypeComplex64:
		for i, v := range tensor.MustData[complex64](x) {
			float(2*i, float64(real(v)))
			float(2*i+1, float64(imag(v)))
		}
	case tensor.TypeComplex128:
		for i, v := range tensor.MustData[complex128](x) {
			float(2*i, real(v))
			float(2*i+1, imag(v))
		}
	case tensor.TypeInt8, tensor.TypeInt16, tensor.TypeInt32, tensor.TypeInt64:
		v, err := kit.AnyInts(x)
		if err != nil {
			return nil, 0, err
		}
		for i, n := range v {
			m.Check(1)
			key[i] = uint64(n) ^ top
		}
	case tensor.TypeFloat64:
		for i, v := range tensor.MustData[float64](x) {
			float(i, v)
		}
	default:
		v, err := kit.RealIn[float32](c, x)
		if err != nil {
			return nil, 0, err
		}
		for lo, hi := range ir.Steps(c, len(v)) {
			for i, f := range v[lo:hi] {
				key[lo+i] = uint64(kit.OrderF32(f)) ^ top
			}
		}
	}
	return key, per, nil
}
