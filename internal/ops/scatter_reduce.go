package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// checkScatterND checks the shapes of a scatter of slices.
func checkScatterND(data, indices, updates *tensor.Tensor) error {
	q := indices.Rank()
	if q < 1 || data.Rank() < 1 {
		return fail.Errorf("data has rank %d and indices have rank %d, want at least 1", data.Rank(), q)
	}
	width := indices.Dim(q - 1)
	if width > data.Rank() {
		return fail.Errorf("indices of shape %v have %d coordinates for data of shape %v", indices.Shape(),
			width, data.Shape())
	}
	want := append(append([]int{}, indices.Shape()[:q-1]...), data.Shape()[width:]...)
	if !slices.Equal(updates.Shape(), want) {
		return fail.Errorf("updates have shape %v, want %v for data of shape %v and indices of shape %v",
			updates.Shape(), want, data.Shape(), indices.Shape())
	}
	return nil
}

// scatterReductions lists the values of the attribute reduction of ScatterElements and ScatterND.
var scatterReductions = []string{"none", "add", "mul", "max", "min"}

// scatterReduction reads the attribute, if the version of the operator has it.
func scatterReduction(a *kit.Attrs, opset int) string {
	switch {
	case opset >= 18:
		return a.Enum("reduction", "none", scatterReductions...)
	case opset >= 16:
		return a.Enum("reduction", "none", scatterReductions[:3]...)
	}
	return "none"
}

// scatter writes output 0: data, with block elements of updates stored in, or reduced into, each of
// the linear indices at, in order.
func scatter(c *ir.Call, data, updates *tensor.Tensor, at []int, block int, reduction string) error {
	d := data.DType()
	if updates.DType() != d {
		return fail.Errorf("data is %s, updates are %s", d, updates.DType())
	}
	if wide, ok := scatterTypes[d]; ok && reduction != "none" {
		return scatterWidened(c, data, updates, wide, at, block, reduction)
	}
	dst, err := move.Out(c, 0, d, data.Shape()...)
	if err != nil {
		return err
	}
	src, err := move.In(c, data)
	if err != nil {
		return err
	}
	up, err := move.In(c, updates)
	if err != nil {
		return err
	}
	move.Copy(c, dst, src)
	if reduction == "none" {
		move.Scatter(dst, up, at, block)
		dst.Done()
		return nil
	}
	switch d {
	case tensor.TypeFloat32:
		scatterReal[float32](dst, up, at, block, reduction)
	case tensor.TypeFloat64:
		scatterReal[float64](dst, up, at, block, reduction)
	case tensor.TypeInt32:
		scatterReal[int32](dst, up, at, block, reduction)
	case tensor.TypeInt64:
		scatterReal[int64](dst, up, at, block, reduction)
	case tensor.TypeUint64:
		scatterReal[uint64](dst, up, at, block, reduction)
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

// scatterNumber lists the types that reductions of scatter operators support.
type scatterNumber interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func scatterReal[T scatterNumber](dst, up move.Buf, at []int, block int, reduction string) {
	scatterInto(memory.FromRaw[T](dst.Raw), memory.FromRaw[T](up.Raw), at, block, reduction)
}

// scatterInto reduces. NaN propagates in maxima and minima.
func scatterInto[T scatterNumber](dst, up []T, at []int, block int, reduction string) {
	if d, ok := any(dst).([]float32); ok && block >= kit.ShortRow {
		scatterRows(d, any(up).([]float32), at, block, reduction)
		return
	}
	if block == 1 {
		scatterElements(dst, up, at, reduction)
		return
	}
	order := make([]int, block)
	for k := range order {
		order[k] = k
	}
	for i, p := range at {
		scatterElements(dst[p:], up[i*block:], order, reduction)
	}
}

// scatterElements reduces one element for each index.
func scatterElements[T scatterNumber](dst, up []T, at []int, reduction string) {
	up = up[:len(at)]
	switch reduction {
	case "add":
		for i, v := range up {
			dst[at[i]] += v
		}
	case "mul":
		for i, v := range up {
			dst[at[i]] *= v
		}
	case "max":
		for i, v := range up {
			dst[at[i]] = max(dst[at[i]], v)
		}
	case "min":
		for i, v := range up {
			dst[at[i]] = min(dst[at[i]], v)
		}
	}
}

var scatterKernels = map[string]func(l cpu.Level, dst, a, b []float32){"add": vec.AddF32, "mul": vec.MulF32,
	"max": vec.MaxF32, "min": vec.MinF32}

// scatterRows is scatterInto with vector kernels.
func scatterRows(dst, up []float32, at []int, block int, reduction string) {
	kernel := scatterKernels[reduction]
	for i, p := range at {
		d := dst[p:][:block]
		kernel(cpu.Active(), d, d, up[i*block:])
	}
}

func scatterComplex[T complex64 | complex128](dst, up move.Buf, at []int, block int, reduction string) {
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

// scatterTypes are the types in which elements of others are reduced. Sums and products of integers
// have the same low bits in a wider type.
var scatterTypes = map[tensor.DType]tensor.DType{
	tensor.TypeFloat16: tensor.TypeFloat32, tensor.TypeBFloat16: tensor.TypeFloat32,
	tensor.TypeInt8: tensor.TypeInt32, tensor.TypeInt16: tensor.TypeInt32, tensor.TypeUint8: tensor.TypeInt32,
	tensor.TypeUint16: tensor.TypeInt32,
	tensor.TypeUint32: tensor.TypeInt64, tensor.TypeBool: tensor.TypeInt32,
}

// scatterWidened reduces in a wider type and converts, or rounds, once.
func scatterWidened(c *ir.Call, data, updates *tensor.Tensor, wide tensor.DType, at []int, block int,
	reduction string) error {
	out, err := c.Output(0, data.DType(), data.Shape()...)
	if err != nil {
		return err
	}
	if data.DType() == tensor.TypeBool { // sum and maximum are "or", product and minimum are "and"
		switch reduction {
		case "add":
			reduction = "max"
		case "mul":
			reduction = "min"
		}
	}
	sum, err := kit.ToScratch(c, data, wide)
	if err != nil {
		return err
	}
	up, err := kit.ToScratch(c, updates, wide)
	if err != nil {
		return err
	}
	switch wide {
	case tensor.TypeFloat32:
		scatterInto(tensor.MustData[float32](sum), tensor.MustData[float32](up), at, block, reduction)
	case tensor.TypeInt32:
		scatterInto(tensor.MustData[int32](sum), tensor.MustData[int32](up), at, block, reduction)
	default:
		scatterInto(tensor.MustData[int64](sum), tensor.MustData[int64](up), at, block, reduction)
	}
	return kit.ConvertInto(c, out, sum, tensor.ConvertOptions{})
}
