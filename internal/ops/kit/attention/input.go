package attention

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Input is a validated Q, K or V.
type Input struct {
	Batch, Heads, Length, Size int
	Last                       bool // heads are part of the last dimension
}

// NewInput reads the sizes of t: [batch, heads, length, size], or [batch, length,
// heads·size] with the given number of heads. If heads is 0, only rank 4 is allowed.
func NewInput(t *tensor.Tensor, name string, heads int) (Input, error) {
	s := t.Shape()
	switch len(s) {
	case 4:
		if heads != 0 && heads != s[1] {
			return Input{}, fail.Errorf("%s has shape %v, want %d heads", name, s, heads)
		}
		return Input{s[0], s[1], s[2], s[3], false}, nil
	case 3:
		if heads <= 0 || s[2]%heads != 0 {
			return Input{},
				fail.Errorf("%s has shape %v and %d heads, want a last dimension divisible by the number of heads",
					name, s, heads)
		}
		return Input{s[0], heads, s[1], s[2] / heads, true}, nil
	}
	return Input{}, fail.Errorf("%s has shape %v, want rank 3 or 4", name, s)
}

// View returns a view of the data of an input by batch item, head and row.
func View[T kit.RealFloat](data []T, in Input) HeadView[T] {
	if in.Last {
		return HeadsLast(data, in.Heads, in.Length, in.Size)
	}
	return HeadsFirst(data, in.Heads, in.Length, in.Size)
}

// Mask returns a mask that broadcasts to [batch, heads, q, kv] as a bias: booleans become
// 0 and −Inf, numbers are used as they are. If the last dimension is less than kv, it is padded
// with −Inf; a last dimension of 1 is padded only if pad is set.
func Mask[T kit.RealFloat](c *ir.Call, t *tensor.Tensor, batch, heads, q, kv int, pad bool) (*Bias[T], error) {
	s := t.Shape()
	full := []int{batch, heads, q, kv}
	if len(s) > 4 {
		return nil, fail.Errorf("attn_mask has shape %v, want rank 4 at most", s)
	}
	var stride [4]int
	step, cols := 1, 1
	for k := len(s) - 1; k >= 0; k-- {
		d := 4 - len(s) + k
		switch {
		case d == 3 && (s[k] == kv || s[k] < kv && (s[k] != 1 || pad)):
			stride[d], cols = 1, s[k]
		case s[k] == 1:
		case d != 3 && s[k] == full[d]:
			stride[d] = step
		default:
			return nil, fail.Errorf("attn_mask has shape %v, want one that broadcasts to %v", s, full)
		}
		step *= s[k]
	}
	data, err := maskBias[T](c, t)
	if err != nil {
		return nil, err
	}
	return NewBias(data, stride, cols, kv), nil
}

// NewBias returns the bias whose elements for kv keys are data, at the strides of batch items,
// heads, queries and keys; that of keys is 0 or 1. From key cols on the bias is −Inf.
func NewBias[T kit.RealFloat](data []T, stride [4]int, cols, kv int) *Bias[T] {
	bias, ninf := &Bias[T]{}, T(math.Inf(-1))
	if stride[3] != 0 && cols == kv {
		bias.Rows = HeadView[T]{Data: data, Batch: stride[0], Head: stride[1], Row: stride[2]}
	}
	bias.Fill = func(b, h, i int, row []T) {
		m := data[b*stride[0]+h*stride[1]+i*stride[2]:]
		if stride[3] == 0 {
			for j := range row {
				row[j] = m[0]
			}
			return
		}
		copy(row[:cols], m)
		for j := cols; j < len(row); j++ {
			row[j] = ninf
		}
	}
	return bias
}

func maskBias[T kit.RealFloat](c *ir.Call, t *tensor.Tensor) ([]T, error) {
	if t.DType().IsFloat() {
		return kit.RealIn[T](c, t)
	}
	r, err := ir.ScratchOf[T](c, t.Len())
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.TypeBool:
		ninf := T(math.Inf(-1))
		for i, v := range tensor.MustData[bool](t) {
			r[i] = 0
			if !v {
				r[i] = ninf
			}
		}
	case tensor.TypeInt8:
		castReal(r, tensor.MustData[int8](t))
	case tensor.TypeInt16:
		castReal(r, tensor.MustData[int16](t))
	case tensor.TypeInt32:
		castReal(r, tensor.MustData[int32](t))
	case tensor.TypeInt64:
		castReal(r, tensor.MustData[int64](t))
	case tensor.TypeUint8:
		castReal(r, tensor.MustData[uint8](t))
	case tensor.TypeUint16:
		castReal(r, tensor.MustData[uint16](t))
	case tensor.TypeUint32:
		castReal(r, tensor.MustData[uint32](t))
	case tensor.TypeUint64:
		castReal(r, tensor.MustData[uint64](t))
	default:
		return nil, fail.Errorf("attn_mask has type %s", t.DType())
	}
	return r, nil
}

func castReal[T kit.RealFloat, S int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []T, src []S) {
	for i, v := range src {
		dst[i] = T(v)
	}
}

// Scale returns the factor of the scores: 1/√size unless the attribute is set.
func Scale(scale float32, size int) float64 {
	if scale != 0 {
		return float64(scale)
	}
	return 1 / math.Sqrt(float64(max(1, size)))
}

// ReadHeads reads a number of heads, which must be positive.
func ReadHeads(a *kit.Attrs, name string) int {
	a.Require(name)
	n := a.Int(name, 1)
	if n < 1 || n > math.MaxInt32 {
		a.Errorf("%s is %d, want at least 1", name, n)
		return 1
	}
	return n
}
