package kit

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// RealFloat lists the types in which floating-point operators compute: float64 for float64, and
// float32 for float32, float16 and bfloat16.
type RealFloat interface{ float32 | float64 }

// RealIn returns the elements of a floating-point tensor as T: the memory of the tensor if it has
// type T, otherwise converted in scratch memory.
func RealIn[T RealFloat](c *ir.Call, t *tensor.Tensor) ([]T, error) {
	if t == nil {
		return nil, nil
	}
	return RealRange[T](c, t, 0, t.Len())
}

// RealRange is RealIn for the elements [from, to).
func RealRange[T RealFloat](c *ir.Call, t *tensor.Tensor, from, to int) ([]T, error) {
	if t.DType() == tensor.DTypeOf[T]() {
		return tensor.MustData[T](t)[from:to], nil
	}
	buf, err := ir.ScratchOf[T](c, to-from)
	if err != nil {
		return nil, err
	}
	if err := realConvert(buf[:0], t, 0, 0); err != nil {
		return nil, err
	}
	c.Parallel(len(buf), GrainCheap, ir.Do(c, realSection[T]{c, buf, t, from}))
	return buf, nil
}

// realSection converts the elements of a tensor from one on.
type realSection[T RealFloat] struct {
	c    *ir.Call
	dst  []T
	t    *tensor.Tensor
	from int
}

// Do converts the elements [lo, hi) of the result.
func (s *realSection[T]) Do(lo, hi int) {
	if f, ok := any(s.dst[lo:hi]).([]float32); ok && IsHalf(s.t.DType()) && !s.c.Generic {
		WidenHalfFast(f, s.t.Bytes()[2*(s.from+lo):2*(s.from+hi)], s.t.DType())
		return
	}
	_ = realConvert(s.dst[lo:hi], s.t, s.from+lo, s.from+hi)
}

// RealConvert converts the elements of a floating-point tensor to dst.
func RealConvert[T RealFloat](dst []T, t *tensor.Tensor) error {
	return realConvert(dst, t, 0, t.Len())
}

// realConvert is RealConvert for the elements [lo, hi) of t.
func realConvert[T RealFloat](dst []T, t *tensor.Tensor, lo, hi int) error {
	switch t.DType() {
	case tensor.TypeFloat32:
		for i, v := range tensor.MustData[float32](t)[lo:hi] {
			dst[i] = T(v)
		}
	case tensor.TypeFloat64:
		for i, v := range tensor.MustData[float64](t)[lo:hi] {
			dst[i] = T(v)
		}
	case tensor.TypeFloat16:
		if d, ok := any(dst).([]float32); ok {
			tensor.Float16sToFloat32s(d, tensor.MustData[tensor.Float16](t)[lo:hi])
			return nil
		}
		for i, v := range tensor.MustData[tensor.Float16](t)[lo:hi] {
			dst[i] = T(v.Float32())
		}
	case tensor.TypeBFloat16:
		for i, v := range tensor.MustData[tensor.BFloat16](t)[lo:hi] {
			dst[i] = T(v.Float32())
		}
	default:
		return fail.Errorf("element type is %s, want a floating-point type", t.DType())
	}
	return nil
}

// RealOutput is an output that is computed as T and stored as its own element type.
type RealOutput[T RealFloat] struct {
	Data []T // every element must be written
	T    *tensor.Tensor
	call *ir.Call
}

// RealOut allocates output i of the call.
func RealOut[T RealFloat](c *ir.Call, i int, dtype tensor.DType, shape ...int) (RealOutput[T], error) {
	t, err := c.Output(i, dtype, shape...)
	if err != nil {
		return RealOutput[T]{}, err
	}
	if dtype == tensor.DTypeOf[T]() {
		return RealOutput[T]{tensor.MustData[T](t), t, c}, nil
	}
	buf, err := ir.ScratchOf[T](c, t.Len())
	return RealOutput[T]{buf, t, c}, err
}

// Store converts the computed elements to the element type of the output.
func (o RealOutput[T]) Store() {
	switch {
	case o.T.DType() == tensor.DTypeOf[T]():
	case o.call == nil:
		o.store(0, len(o.Data))
	default:
		o.call.Parallel(len(o.Data), GrainCheap, ir.Do(o.call, storeSection[T]{o}))
	}
}

// storeSection is [RealOutput.Store] as a section.
type storeSection[T RealFloat] struct{ o RealOutput[T] }

// Do stores the elements [lo, hi).
func (s *storeSection[T]) Do(lo, hi int) { s.o.store(lo, hi) }

// parts calls fn with ranges of the elements: with one if the output belongs to no call.
func (o RealOutput[T]) parts(fn func(lo, hi int)) {
	if o.call == nil {
		fn(0, len(o.Data))
		return
	}
	o.call.Parallel(len(o.Data), GrainCheap, fn)
}

// store is Store for the elements [lo, hi).
func (o RealOutput[T]) store(lo, hi int) {
	data := o.Data[lo:hi]
	if f, ok := any(data).([]float32); ok && IsHalf(o.T.DType()) && o.call != nil && !o.call.Generic {
		NarrowHalfFast(o.T.Bytes()[2*lo:2*hi], f, o.T.DType())
		return
	}
	switch o.T.DType() {
	case tensor.TypeFloat32:
		d := tensor.MustData[float32](o.T)[lo:hi]
		for i, v := range data {
			d[i] = float32(v)
		}
	case tensor.TypeFloat64:
		d := tensor.MustData[float64](o.T)[lo:hi]
		for i, v := range data {
			d[i] = float64(v)
		}
	case tensor.TypeFloat16:
		d := tensor.MustData[tensor.Float16](o.T)[lo:hi]
		if s, ok := any(data).([]float32); ok {
			tensor.Float32sToFloat16s(d, s)
			return
		}
		for i, v := range data {
			d[i] = tensor.NewFloat16FromFloat64(float64(v))
		}
	case tensor.TypeBFloat16:
		d := tensor.MustData[tensor.BFloat16](o.T)[lo:hi]
		if s, ok := any(data).([]float32); ok {
			tensor.Float32sToBFloat16s(d, s)
			return
		}
		for i, v := range data {
			d[i] = tensor.NewBFloat16FromFloat64(float64(v))
		}
	}
}

// Widen converts elements of a floating-point type in src to dst.
func Widen[T RealFloat](dst []T, src []byte, d tensor.DType) {
	if f, ok := any(dst).([]float32); ok && IsHalf(d) {
		WidenHalfFast(f, src, d)
		return
	}
	var t tensor.Tensor
	t.Reset(d, src, []int{len(dst)})
	_ = RealConvert(dst, &t) // d is a floating-point type
}

// Narrow converts src to elements of a floating-point type in dst.
func Narrow[T RealFloat](dst []byte, src []T, d tensor.DType) {
	if f, ok := any(src).([]float32); ok && IsHalf(d) {
		NarrowHalfFast(dst, f, d)
		return
	}
	var t tensor.Tensor
	t.Reset(d, dst, []int{len(src)})
	RealOutput[T]{Data: src, T: &t}.Store()
}

// RealMaybe is RealOut if output i is used, otherwise it returns scratch memory without a tensor.
func RealMaybe[T RealFloat](c *ir.Call, i int, dtype tensor.DType, shape ...int) (RealOutput[T], error) {
	if c.Wants(i) {
		return RealOut[T](c, i, dtype, shape...)
	}
	n, err := tensor.Elements(shape)
	if err != nil {
		return RealOutput[T]{}, err
	}
	buf, err := ir.ScratchOf[T](c, n)
	return RealOutput[T]{Data: buf}, err
}
