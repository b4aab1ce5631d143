// Package weights summarizes the elements of tensors.
package weights

import (
	"errors"
	"math"

	"github.com/onward-ml/onward/tensor"
)

// Bins is the number of bins of a histogram.
const Bins = 32

// Summary describes the elements of a tensor. Minimum, maximum, mean and standard deviation are
// those of the finite elements, and 0 without finite elements.
type Summary struct {
	Count, Zeros, NotFinite int64
	Min, Max, Mean, StdDev  float64
	// Histogram counts the finite elements in bins of equal width from Min to Max. It is nil if Min
	// equals Max.
	Histogram []int64
}

// Summarize returns the summary of a tensor of numbers or booleans.
func Summarize(t *tensor.Tensor) (*Summary, error) {
	switch d := t.DType(); d {
	case tensor.TypeFloat32:
		return summarize(tensor.MustData[float32](t)), nil
	case tensor.TypeFloat64:
		return summarize(tensor.MustData[float64](t)), nil
	case tensor.TypeInt8:
		return summarize(tensor.MustData[int8](t)), nil
	case tensor.TypeUint8:
		return summarize(tensor.MustData[uint8](t)), nil
	case tensor.TypeInt32:
		return summarize(tensor.MustData[int32](t)), nil
	case tensor.TypeInt64:
		return summarize(tensor.MustData[int64](t)), nil
	case tensor.TypeString, tensor.TypeComplex64, tensor.TypeComplex128:
		return nil, errors.New("elements of type " + d.String() + " have no order")
	case tensor.TypeUint32, tensor.TypeUint64: // float32 has too few digits
		x, err := tensor.Convert(t, tensor.TypeFloat64, nil)
		if err != nil {
			return nil, err
		}
		return summarize(tensor.MustData[float64](x)), nil
	}
	x, err := tensor.Convert(t, tensor.TypeFloat32, nil)
	if err != nil {
		return nil, err
	}
	return summarize(tensor.MustData[float32](x)), nil
}

func summarize[T int8 | uint8 | int32 | int64 | float32 | float64](list []T) *Summary {
	s := &Summary{Count: int64(len(list)), Min: math.Inf(1), Max: math.Inf(-1)}
	n, center := 0, 0.0 // sums of differences from the first element round less than sums of elements
	sum, squares := 0.0, 0.0
	for _, e := range list {
		x := float64(e)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			s.NotFinite++
			continue
		}
		if n == 0 {
			center = x
		}
		n++
		if x == 0 {
			s.Zeros++
		}
		s.Min, s.Max = min(s.Min, x), max(s.Max, x)
		sum += x - center
		squares += (x - center) * (x - center)
	}
	if n == 0 {
		s.Min, s.Max = 0, 0
		return s
	}
	m := sum / float64(n)
	s.Mean, s.StdDev = center+m, math.Sqrt(max(squares/float64(n)-m*m, 0))
	if s.Min == s.Max {
		return s
	}
	s.Histogram = make([]int64, Bins)
	// Halves, because the difference of two numbers may overflow.
	scale := Bins / (s.Max/2 - s.Min/2)
	for _, e := range list {
		if k := (float64(e)/2 - s.Min/2) * scale; k >= 0 && k <= Bins {
			s.Histogram[min(int(k), Bins-1)]++
		}
	}
	return s
}
