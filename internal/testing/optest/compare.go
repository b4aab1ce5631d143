package optest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// Same reports whether two values are equal. Floats may differ by tol relative to the larger
// one, and NaN equals NaN. If tol is 0, the bits must be equal.
func Same(a, b tensor.Value, tol float64) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case *tensor.Tensor:
		b, ok := b.(*tensor.Tensor)
		if !ok || a.DType() != b.DType() || !slices.Equal(a.Shape(), b.Shape()) {
			return false
		}
		if a.DType() == tensor.TypeString {
			return slices.Equal(tensor.MustData[string](a), tensor.MustData[string](b))
		}
		if bytes.Equal(a.Bytes(), b.Bytes()) {
			return true
		}
		x, y := Floats(a), Floats(b)
		if tol == 0 || x == nil {
			return false
		}
		for i := range x {
			if math.IsNaN(x[i]) && math.IsNaN(y[i]) || x[i] == y[i] {
				continue
			}
			if largest := max(math.Abs(x[i]), math.Abs(y[i])); math.IsInf(largest, 0) ||
				!(math.Abs(x[i]-y[i]) <= 1e-7+tol*largest) {
				return false
			}
		}
		return true
	case *tensor.Sequence:
		b, ok := b.(*tensor.Sequence)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !Same(a.Items[i], b.Items[i], tol) {
				return false
			}
		}
		return true
	case *tensor.Map:
		b, ok := b.(*tensor.Map)
		return ok && Same(a.Keys, b.Keys, 0) && Same(a.Values, b.Values, tol)
	case *tensor.Optional:
		b, ok := b.(*tensor.Optional)
		return ok && (a.Value == nil) == (b.Value == nil) && (a.Value == nil || Same(a.Value, b.Value, tol))
	case *tensor.Sparse:
		b, ok := b.(*tensor.Sparse)
		return ok && slices.Equal(a.Shape, b.Shape) && Same(a.Indices, b.Indices, 0) && Same(a.Values, b.Values, tol)
	}
	return false
}

// Floats converts the elements of a numeric tensor to float64. It returns nil for strings
// and complex numbers.
func Floats(t *tensor.Tensor) []float64 {
	switch t.DType() {
	case tensor.TypeFloat32:
		return widened(t, func(v float32) float64 { return float64(v) })
	case tensor.TypeFloat64:
		return widened(t, func(v float64) float64 { return v })
	case tensor.TypeFloat16:
		return widened(t, func(v tensor.Float16) float64 { return float64(v.Float32()) })
	case tensor.TypeBFloat16:
		return widened(t, func(v tensor.BFloat16) float64 { return float64(v.Float32()) })
	case tensor.TypeFloat8E4M3FN:
		return widened(t, func(v tensor.Float8E4M3FN) float64 { return float64(v.Float32()) })
	case tensor.TypeFloat8E4M3FNUZ:
		return widened(t, func(v tensor.Float8E4M3FNUZ) float64 { return float64(v.Float32()) })
	case tensor.TypeFloat8E5M2:
		return widened(t, func(v tensor.Float8E5M2) float64 { return float64(v.Float32()) })
	case tensor.TypeFloat8E5M2FNUZ:
		return widened(t, func(v tensor.Float8E5M2FNUZ) float64 { return float64(v.Float32()) })
	case tensor.TypeFloat8E8M0:
		return widened(t, func(v tensor.Float8E8M0) float64 { return float64(v.Float32()) })
	case tensor.TypeBool:
		return widened(t, func(v bool) float64 {
			if v {
				return 1
			}
			return 0
		})
	case tensor.TypeInt8:
		return widened(t, func(v int8) float64 { return float64(v) })
	case tensor.TypeInt16:
		return widened(t, func(v int16) float64 { return float64(v) })
	case tensor.TypeInt32:
		return widened(t, func(v int32) float64 { return float64(v) })
	case tensor.TypeInt64:
		return widened(t, func(v int64) float64 { return float64(v) })
	case tensor.TypeUint8:
		return widened(t, func(v uint8) float64 { return float64(v) })
	case tensor.TypeUint16:
		return widened(t, func(v uint16) float64 { return float64(v) })
	case tensor.TypeUint32:
		return widened(t, func(v uint32) float64 { return float64(v) })
	case tensor.TypeUint64:
		return widened(t, func(v uint64) float64 { return float64(v) })
	case tensor.TypeInt4, tensor.TypeInt2:
		v, _ := tensor.Unpack[int8](t)
		return widenedSlice(v, func(v int8) float64 { return float64(v) })
	case tensor.TypeUint4, tensor.TypeUint2:
		v, _ := tensor.Unpack[uint8](t)
		return widenedSlice(v, func(v uint8) float64 { return float64(v) })
	case tensor.TypeFloat4E2M1:
		v, _ := tensor.Unpack[tensor.Float4E2M1](t)
		return widenedSlice(v, func(v tensor.Float4E2M1) float64 { return float64(v.Float32()) })
	case tensor.TypeFloat6E2M3:
		v, _ := tensor.Unpack[tensor.Float6E2M3](t)
		return widenedSlice(v, func(v tensor.Float6E2M3) float64 { return float64(v.Float32()) })
	case tensor.TypeFloat6E3M2:
		v, _ := tensor.Unpack[tensor.Float6E3M2](t)
		return widenedSlice(v, func(v tensor.Float6E3M2) float64 { return float64(v.Float32()) })
	}
	return nil
}

func widened[T tensor.Element](t *tensor.Tensor, f func(T) float64) []float64 {
	return widenedSlice(tensor.MustData[T](t), f)
}

func widenedSlice[T any](s []T, f func(T) float64) []float64 {
	r := make([]float64, len(s))
	for i, v := range s {
		r[i] = f(v)
	}
	return r
}

// Show returns the text of a value with its contents.
func Show(v tensor.Value) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case *tensor.Tensor:
		if v.DType() == tensor.TypeString {
			return fmt.Sprintf("%s%q", v, tensor.MustData[string](v))
		}
		if f := Floats(v); f != nil && len(f) <= 64 {
			return fmt.Sprintf("%s%v", v, f)
		}
		return v.String()
	case *tensor.Sequence:
		s := make([]string, len(v.Items))
		for i, it := range v.Items {
			s[i] = Show(it)
		}
		return "[" + strings.Join(s, ", ") + "]"
	}
	return v.Type().String()
}
