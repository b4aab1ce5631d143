package kit

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// CheckScatterND checks the shapes of a scatter of slices.
func CheckScatterND(data, indices, updates *tensor.Tensor) error {
	q := indices.Rank()
	if q < 1 || data.Rank() < 1 {
		return fail.Errorf("data has rank %d and indices have rank %d, want at least 1", data.Rank(), q)
	}
	width := indices.Dim(q - 1)
	if width > data.Rank() {
		return fail.Errorf("indices of shape %v have %d coordinates for data of shape %v", indices.Shape(), width, data.Shape())
	}
	want := append(append([]int{}, indices.Shape()[:q-1]...), data.Shape()[width:]...)
	if !slices.Equal(updates.Shape(), want) {
		return fail.Errorf("updates have shape %v, want %v for data of shape %v and indices of shape %v", updates.Shape(), want, data.Shape(), indices.Shape())
	}
	return nil
}

// scatterReductions lists the values of the attribute reduction of ScatterElements and ScatterND.
var scatterReductions = []string{"none", "add", "mul", "max", "min"}

// ScatterReduction reads the attribute, if the version of the operator has it.
func ScatterReduction(a *Attrs, opset int) string {
	switch {
	case opset >= 18:
		return a.Enum("reduction", "none", scatterReductions...)
	case opset >= 16:
		return a.Enum("reduction", "none", scatterReductions[:3]...)
	}
	return "none"
}

// Scatter writes output 0: data, with block elements of updates stored in, or reduced into, each of
// the linear indices at, in order.
func Scatter(c *ir.Call, data, updates *tensor.Tensor, at []int, block int, reduction string) error {
	d := data.DType()
	if updates.DType() != d {
		return fail.Errorf("data is %s, updates are %s", d, updates.DType())
	}
	if reduction != "none" {
		switch d {
		case tensor.TypeFloat16, tensor.TypeBFloat16:
			return scatterWidened(c, data, updates, at, block, reduction)
		}
	}
	dst, err := MoveOut(c, 0, d, data.Shape()...)
	if err != nil {
		return err
	}
	src, err := MoveIn(c, data)
	if err != nil {
		return err
	}
	up, err := MoveIn(c, updates)
	if err != nil {
		return err
	}
	MoveCopy(c, dst, src)
	if reduction == "none" {
		MoveScatter(dst, up, at, block)
		dst.Done()
		return nil
	}
	switch d {
	case tensor.TypeFloat32:
		scatterReal[float32](dst, up, at, block, reduction)
	case tensor.TypeFloat64:
		scatterReal[float64](dst, up, at, block, reduction)
	case tensor.TypeInt8:
		scatterReal[int8](dst, up, at, block, reduction)
	case tensor.TypeInt16:
		scatterReal[int16](dst, up, at, block, reduction)
	case tensor.TypeInt32:
		scatterReal[int32](dst, up, at, block, reduction)
	case tensor.TypeInt64:
		scatterReal[int64](dst, up, at, block, reduction)
	case tensor.TypeUint8:
		scatterReal[uint8](dst, up, at, block, reduction)
	case tensor.TypeUint16:
		scatterReal[uint16](dst, up, at, block, reduction)
	case tensor.TypeUint32:
		scatterReal[uint32](dst, up, at, block, reduction)
	case tensor.TypeUint64:
		scatterReal[uint64](dst, up, at, block, reduction)
	case tensor.TypeBool:
		// For bools, sum and maximum are "or", product and minimum are "and".
		switch reduction {
		case "add":
			reduction = "max"
		case "mul":
			reduction = "min"
		}
		scatterReal[uint8](dst, up, at, block, reduction)
	case tensor.TypeComplex64, tensor.TypeComplex128:
		if reduction != "add" && reduction != "mul" {
			return fail.Errorf("reduction %s is not supported for %s", reduction, d)
		}
		if d == tensor.TypeComplex64 {
			scatterComplex[complex64](dst, up, at, block, reduction)
		} else {
			scatterComplex[complex128](dst, up, at, block, reduction)
		}
	default:
		return fail.Errorf("reduction %s is not supported for %s", reduction, d)
	}
	return nil
}

// ScatterNumber lists the types that reductions of scatter operators support.
type ScatterNumber interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func scatterReal[T ScatterNumber](dst, up MoveBuf, at []int, block int, reduction string) {
	scatterInto(memory.FromRaw[T](dst.Raw), memory.FromRaw[T](up.Raw), at, block, reduction)
}

// scatterInto reduces. NaN propagates in maxima and minima.
func scatterInto[T ScatterNumber](dst, up []T, at []int, block int, reduction string) {
	for i, p := range at {
		d, u := dst[p:p+block], up[i*block:(i+1)*block]
		switch reduction {
		case "add":
			for k, v := range u {
				d[k] += v
			}
		case "mul":
			for k, v := range u {
				d[k] *= v
			}
		case "max":
			for k, v := range u {
				d[k] = max(d[k], v)
			}
		case "min":
			for k, v := range u {
				d[k] = min(d[k], v)
			}
		}
	}
}

func scatterComplex[T complex64 | complex128](dst, up MoveBuf, at []int, block int, reduction string) {
	to, from := memory.FromRaw[T](dst.Raw), memory.FromRaw[T](up.Raw)
	for i, p := range at {
		d, u := to[p:p+block], from[i*block:(i+1)*block]
		for k, v := range u {
			if reduction == "add" {
				d[k] += v
			} else {
				d[k] *= v
			}
		}
	}
}

// scatterWidened reduces float16 and bfloat16 in float32 and rounds once.
func scatterWidened(c *ir.Call, data, updates *tensor.Tensor, at []int, block int, reduction string) error {
	out, err := RealOut[float32](c, 0, data.DType(), data.Shape()...)
	if err != nil {
		return err
	}
	if err := RealConvert(out.Data, data); err != nil {
		return err
	}
	up, err := RealIn[float32](c, updates)
	if err != nil {
		return err
	}
	scatterInto(out.Data, up, at, block, reduction)
	out.Store()
	return nil
}
