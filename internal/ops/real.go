package ops

import (
	"fmt"
	"runtime"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// realFloat lists the types in which floating-point operators compute: double
// stays double, and float16 and bfloat16 widen to float.
type realFloat interface{ float32 | float64 }

// realIn returns the elements of a floating-point tensor as T: the tensor's own
// memory where it holds T, else converted in scratch memory.
func realIn[T realFloat](c *ir.Call, t *tensor.Tensor) ([]T, error) {
	if t == nil {
		return nil, nil
	}
	if t.DType() == tensor.DTypeOf[T]() {
		return tensor.Of[T](t), nil
	}
	buf, err := ir.ScratchOf[T](c, t.Len())
	if err != nil {
		return nil, err
	}
	return buf, realConvert(buf, t)
}

// realConvert writes the elements of a floating-point tensor to dst.
func realConvert[T realFloat](dst []T, t *tensor.Tensor) error {
	switch t.DType() {
	case tensor.TypeFloat32:
		for i, v := range tensor.Of[float32](t) {
			dst[i] = T(v)
		}
	case tensor.TypeFloat64:
		for i, v := range tensor.Of[float64](t) {
			dst[i] = T(v)
		}
	case tensor.TypeFloat16:
		if d, ok := any(dst).([]float32); ok {
			tensor.Float16sToFloat32s(d, tensor.Of[tensor.Float16](t))
			return nil
		}
		for i, v := range tensor.Of[tensor.Float16](t) {
			dst[i] = T(v.Float32())
		}
	case tensor.TypeBFloat16:
		for i, v := range tensor.Of[tensor.BFloat16](t) {
			dst[i] = T(v.Float32())
		}
	default:
		return fmt.Errorf("element type is %s, want a floating-point type", t.DType())
	}
	return nil
}

// realOutput is an output that is computed as T and stored as its own element
// type.
type realOutput[T realFloat] struct {
	data []T // every element must be written
	t    *tensor.Tensor
}

// realOut allocates output i of the call.
func realOut[T realFloat](c *ir.Call, i int, dtype tensor.DType, shape ...int) (realOutput[T], error) {
	t, err := c.Output(i, dtype, shape...)
	if err != nil {
		return realOutput[T]{}, err
	}
	if dtype == tensor.DTypeOf[T]() {
		return realOutput[T]{tensor.Of[T](t), t}, nil
	}
	buf, err := ir.ScratchOf[T](c, t.Len())
	return realOutput[T]{buf, t}, err
}

// store converts the computed elements to the output's element type.
func (o realOutput[T]) store() {
	switch o.t.DType() {
	case tensor.DTypeOf[T]():
	case tensor.TypeFloat32:
		for i, v := range o.data {
			tensor.Of[float32](o.t)[i] = float32(v)
		}
	case tensor.TypeFloat64:
		for i, v := range o.data {
			tensor.Of[float64](o.t)[i] = float64(v)
		}
	case tensor.TypeFloat16:
		d := tensor.Of[tensor.Float16](o.t)
		if s, ok := any(o.data).([]float32); ok {
			tensor.Float32sToFloat16s(d, s)
			return
		}
		for i, v := range o.data {
			d[i] = tensor.NewFloat16FromFloat64(float64(v))
		}
	case tensor.TypeBFloat16:
		d := tensor.Of[tensor.BFloat16](o.t)
		if s, ok := any(o.data).([]float32); ok {
			tensor.Float32sToBFloat16s(d, s)
			return
		}
		for i, v := range o.data {
			d[i] = tensor.NewBFloat16FromFloat64(float64(v))
		}
	}
}

// inSlots runs work items [0, n) on as many slots as there may be threads. An
// item may use its slot's memory alone; which slot runs an item is not fixed.
// The error of the lowest slot that fails is returned.
func inSlots(c *ir.Call, n int, item func(slot, i int) error) error {
	slots := slotCount(n)
	if slots == 0 {
		return nil
	}
	errs := make([]error, slots)
	c.Parallel(slots, 1, func(lo, hi int) {
		for s := lo; s < hi; s++ {
			for i := s; i < n; i += slots {
				if errs[s] = c.Err(); errs[s] != nil {
					break
				}
				if errs[s] = item(s, i); errs[s] != nil {
					break
				}
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// slotCount returns the number of slots that inSlots uses for n items.
func slotCount(n int) int { return min(n, max(1, runtime.GOMAXPROCS(0))) }

// grainFor returns how many items of the given cost, in elementary operations,
// are worth a thread.
func grainFor(cost int) int { return max(1, 32768/max(1, cost)) }
