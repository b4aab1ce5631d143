package kit

import (
	"math"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// IsDimension reports whether d is an expression that cannot be negative, since symbols are
// dimensions.
func IsDimension(d ir.Dim) bool {
	return !d.IsKnown() && !d.IsUnknown() && !strings.Contains(d.String(), "-")
}

// NegativeDim returns the error for a shape whose element i is n < 0.
func NegativeDim(i, n int) error {
	return fail.Errorf("dimension %d of the shape is %d, want at least 0", i, n)
}

// NormalAxis converts an axis in [−rank, rank) to [0, rank).
func NormalAxis(axis, rank int) (int, error) {
	if axis < -rank || axis >= rank {
		return 0, fail.Errorf("axis %d is out of range [%d, %d] for rank %d", axis, -rank, rank-1, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis, nil
}

// NormalAxes converts axes to sorted ones in [0, rank). It fails for duplicates.
func NormalAxes(axes []int, rank int) ([]int, error) {
	seen := make([]bool, rank)
	for _, a := range axes {
		n, err := NormalAxis(a, rank)
		if err != nil {
			return nil, err
		}
		if seen[n] {
			return nil, fail.Errorf("axis %d appears twice in %v", a, axes)
		}
		seen[n] = true
	}
	r := make([]int, 0, len(axes))
	for i, s := range seen {
		if s {
			r = append(r, i)
		}
	}
	return r, nil
}

// Ints returns an int64 or int32 tensor as Ints; nil for a nil tensor.
func Ints(t *tensor.Tensor) []int {
	if t == nil {
		return nil
	}
	return appendInts(make([]int, 0, t.Len()), t)
}

// RunInts is [Ints] for the run of a call.
func RunInts(c *ir.Call, t *tensor.Tensor) []int {
	if t == nil {
		return nil
	}
	return appendInts(c.Ints(t.Len())[:0], t)
}

func appendInts(r []int, t *tensor.Tensor) []int {
	switch t.DType() {
	case tensor.TypeInt64:
		for _, v := range tensor.MustData[int64](t) {
			r = append(r, Saturate(v))
		}
	case tensor.TypeInt32:
		for _, v := range tensor.MustData[int32](t) {
			r = append(r, int(v))
		}
	}
	return r
}

// Saturate returns v, or the nearest int if v is out of its range, as it can be in 32-bit programs.
func Saturate(v int64) int {
	if int64(int(v)) == v {
		return int(v)
	}
	if v < 0 {
		return math.MinInt
	}
	return math.MaxInt
}

// ScalarInt returns the only element of an int64 or int32 tensor.
func ScalarInt(t *tensor.Tensor, name string) (int, error) {
	if t.Len() == 1 {
		var one [1]int
		if v := appendInts(one[:0], t); len(v) == 1 {
			return v[0], nil
		}
	}
	return 0, fail.Errorf("%s has shape %v, want one integer", name, t.Shape())
}

// Product returns the product of dims of an existing tensor, which cannot
// overflow. Inlined into its hundreds of callers, it would take 16 KB.
//
//go:noinline
func Product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// BroadcastShapes returns the shape to which all shapes broadcast by NumPy's
// rules (https://onnx.ai/onnx/repo-docs/Broadcasting.html).
func BroadcastShapes(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		off := rank - len(s)
		for i, d := range s {
			switch o := &out[off+i]; {
			case d == *o || d == 1:
			case *o == 1:
				*o = d
			default:
				return nil, fail.Errorf("shapes %v cannot be broadcast together: dimensions %d and %d differ",
					shapes, *o, d)
			}
		}
	}
	return out, nil
}

// BroadcastDims is BroadcastShapes for shapes that are partly unknown. If a shape is nil, the
// result is nil.
func BroadcastDims(shapes ...[]ir.Dim) ([]ir.Dim, error) {
	rank := 0
	for _, s := range shapes {
		if s == nil {
			return nil, nil
		}
		rank = max(rank, len(s))
	}
	out := make([]ir.Dim, rank)
	for i := range out {
		out[i] = ir.Known(1)
	}
	for _, s := range shapes {
		off := rank - len(s)
		for i, d := range s {
			o := &out[off+i]
			switch {
			case d.Is(1) || d.Same(*o):
			case o.Is(1):
				*o = d
			case d.Differs(*o):
				return nil, fail.Errorf("shapes %v cannot be broadcast together: dimensions %s and %s differ",
					shapes, *o, d)
			case o.IsKnown():
				// The result is a known number other than 1, since the unknown dimension is that
				// number or 1.
			case d.IsKnown() || o.IsMinOf(d):
				// min(n, d) is 1 or d, because any other n below d cannot be broadcast to d.
				*o = d
			case d.IsMinOf(*o):
			default:
				*o = ir.Unknown
			}
		}
	}
	return out, nil
}

// Strides returns the row-major strides of a shape, in elements.
func Strides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// BroadcastStrides returns the strides with which a tensor of the given shape is read as shape out:
// 0 along broadcast dimensions.
func BroadcastStrides(shape, out []int) []int {
	r := make([]int, len(out))
	s := Strides(shape)
	off := len(out) - len(shape)
	for i, d := range shape {
		if d != 1 {
			r[off+i] = s[i]
		}
	}
	return r
}

// SameAsInput infers an output of the type and shape of input 0, including known contents.
func SameAsInput(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	return nil
}

// CheckRank returns an error if the rank of input i is known and differs from want.
func CheckRank(c *ir.InferContext, i, want int, name string) error {
	if s := c.Shape(i); s != nil && len(s) != want {
		return fail.Errorf("%s has rank %d, want %d", name, len(s), want)
	}
	return nil
}

// MakeInts returns n zeros that are charged to the run's memory limit. n is a size of an input,
// which may be huge if another size is 0.
func MakeInts(c *ir.Call, n int) ([]int, error) {
	if int64(n) > 1<<56 {
		return nil, fail.Errorf("slice of %d integers is too large", n)
	}
	if err := c.Reserve(8 * int64(n)); err != nil {
		return nil, err
	}
	return make([]int, n), nil
}

// NextIndex moves an index of a shape to the next in row-major order and
// reports whether there is one.
func NextIndex(index, shape []int) bool {
	for d := len(index) - 1; d >= 0; d-- {
		if index[d]++; index[d] < shape[d] {
			return true
		}
		index[d] = 0
	}
	return false
}
