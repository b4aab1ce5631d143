package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// scatterReductions are the values of attribute reduction of ScatterElements and
// ScatterND.
var scatterReductions = []string{"none", "add", "mul", "max", "min"}

// scatterReduction reads the attribute as far as the version of the operator knows
// it.
func scatterReduction(a *Attrs, opset int) string {
	switch {
	case opset >= 18:
		return a.Enum("reduction", "none", scatterReductions...)
	case opset >= 16:
		return a.Enum("reduction", "none", scatterReductions[:3]...)
	}
	return "none"
}

// scatter writes output 0: data with block elements of updates put, or reduced
// into, each of the places at. Places are visited in order.
func scatter(c *ir.Call, data, updates *tensor.Tensor, at []int, block int, reduction string) error {
	d := data.DType()
	if updates.DType() != d {
		return fmt.Errorf("data is %s, updates are %s", d, updates.DType())
	}
	if reduction != "none" {
		switch d {
		case tensor.TypeFloat16, tensor.TypeBFloat16:
			return scatterWidened(c, data, updates, at, block, reduction)
		}
	}
	dst, err := moveOut(c, 0, d, data.Shape()...)
	if err != nil {
		return err
	}
	src, err := moveIn(c, data)
	if err != nil {
		return err
	}
	up, err := moveIn(c, updates)
	if err != nil {
		return err
	}
	moveCopy(c, dst, src)
	if reduction == "none" {
		moveScatter(dst, up, at, block)
		dst.done()
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
		// Sums and maxima of booleans are "or", products and minima are "and".
		switch reduction {
		case "add":
			reduction = "max"
		case "mul":
			reduction = "min"
		}
		scatterReal[uint8](dst, up, at, block, reduction)
	case tensor.TypeComplex64, tensor.TypeComplex128:
		if reduction != "add" && reduction != "mul" {
			return fmt.Errorf("reduction %s is not defined for %s", reduction, d)
		}
		if d == tensor.TypeComplex64 {
			scatterComplex[complex64](dst, up, at, block, reduction)
		} else {
			scatterComplex[complex128](dst, up, at, block, reduction)
		}
	default:
		return fmt.Errorf("reduction %s is not defined for %s", reduction, d)
	}
	return nil
}

type scatterNumber interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func scatterReal[T scatterNumber](dst, up moveBuf, at []int, block int, reduction string) {
	scatterInto(tensor.FromRaw[T](dst.raw), tensor.FromRaw[T](up.raw), at, block, reduction)
}

// scatterInto reduces; a NaN wins over any number in maxima and minima.
func scatterInto[T scatterNumber](dst, up []T, at []int, block int, reduction string) {
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

func scatterComplex[T complex64 | complex128](dst, up moveBuf, at []int, block int, reduction string) {
	to, from := tensor.FromRaw[T](dst.raw), tensor.FromRaw[T](up.raw)
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

// scatterWidened reduces float16 and bfloat16 as float and rounds once.
func scatterWidened(c *ir.Call, data, updates *tensor.Tensor, at []int, block int, reduction string) error {
	out, err := realOut[float32](c, 0, data.DType(), data.Shape()...)
	if err != nil {
		return err
	}
	if err := realConvert(out.data, data); err != nil {
		return err
	}
	up, err := realIn[float32](c, updates)
	if err != nil {
		return err
	}
	scatterInto(out.data, up, at, block, reduction)
	out.store()
	return nil
}
