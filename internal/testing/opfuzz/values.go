package opfuzz

import (
	"math"

	"github.com/onward-ml/onward/tensor"
)

// kind is a distribution of the elements of a tensor.
type kind int

const (
	normal   kind = iota // around 0
	positive             // above 0
	unit                 // in (-1, 1)
	whole                // small integers, so that some are equal
	special              // normal, with NaN, infinities, zeros of both signs, tiny and huge numbers
)

// contents draws the kind of a data input, mostly normal.
func (g *gen) contents() kind {
	switch g.n(10) {
	case 8:
		return special
	case 7:
		return whole
	}
	return normal
}

// tensor draws a tensor.
func (g *gen) tensor(d tensor.DType, k kind, shape ...int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(d, shape...))
	n := t.Len()
	r := g.rng
	switch {
	case d == tensor.TypeString:
		for i := range tensor.MustData[string](t) {
			tensor.MustData[string](t)[i] = []string{"a", "b", "", "cat", "Dog", "1.5", "-2", "größer",
				"a b"}[r.IntN(9)]
		}
		return t
	case d == tensor.TypeBool:
		for i := range tensor.MustData[bool](t) {
			tensor.MustData[bool](t)[i] = r.IntN(2) == 0
		}
		return t
	case d == tensor.TypeComplex64:
		for i := range tensor.MustData[complex64](t) {
			tensor.MustData[complex64](t)[i] = complex(float32(r.NormFloat64()), float32(r.NormFloat64()))
		}
		return t
	case d == tensor.TypeComplex128:
		for i := range tensor.MustData[complex128](t) {
			tensor.MustData[complex128](t)[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		return t
	}
	v := make([]float64, n)
	for i := range v {
		switch k {
		case positive:
			v[i] = 0.1 + 3*r.Float64()
		case unit:
			v[i] = 1.96*r.Float64() - 0.98
		case whole:
			v[i] = float64(r.IntN(7) - 3)
		default:
			v[i] = r.NormFloat64() * 2
		}
		if k == special && r.IntN(5) == 0 {
			v[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e-41, -1e30, 1e30, 88.9,
				-104, 0.5, 1.5, -2.5}[r.IntN(13)]
		}
	}
	if !d.IsFloat() {
		lo, hi := intRange(d)
		for i := range v {
			x := math.Round(v[i] * 3)
			if k == special && r.IntN(4) == 0 {
				x = []float64{lo, hi, hi - 1, lo + 1}[r.IntN(4)]
			}
			if k == positive {
				x = 1 + math.Abs(x)
			}
			if lo == 0 {
				x = math.Abs(x)
			}
			if x != x {
				x = 1
			}
			v[i] = min(max(x, lo), hi)
		}
	}
	if err := tensor.ConvertInto(t, tensor.Must(tensor.New(v, shapeOf(shape, n)...)),
		nil); err != nil {
		panic(err)
	}
	return t
}

func shapeOf(shape []int, n int) []int {
	if len(shape) == 0 {
		return []int{1}
	}
	return shape
}

// intRange returns the smallest and largest value of an integer type that float64 represents.
func intRange(d tensor.DType) (lo, hi float64) {
	switch d {
	case tensor.TypeInt8:
		return -128, 127
	case tensor.TypeUint8:
		return 0, 255
	case tensor.TypeInt16:
		return -1 << 15, 1<<15 - 1
	case tensor.TypeUint16:
		return 0, 1<<16 - 1
	case tensor.TypeInt32:
		return -1 << 31, 1<<31 - 1
	case tensor.TypeUint32:
		return 0, 1<<32 - 1
	case tensor.TypeInt64:
		return -1 << 53, 1 << 53
	case tensor.TypeUint64:
		return 0, 1 << 53
	case tensor.TypeInt4:
		return -8, 7
	case tensor.TypeUint4:
		return 0, 15
	case tensor.TypeInt2:
		return -2, 1
	case tensor.TypeUint2:
		return 0, 3
	}
	return -8, 8
}

// ints makes an int64 tensor of the given numbers.
func ints(v ...int) *tensor.Tensor {
	r := make([]int64, len(v))
	for i, x := range v {
		r[i] = int64(x)
	}
	return tensor.Must(tensor.New(r, len(r)))
}

// indices draws numbers from [-n, n), or from [0, n) if negative is false.
func (g *gen) indices(d tensor.DType, n int, negative bool, shape ...int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(tensor.TypeInt64, shape...))
	for i := range tensor.MustData[int64](t) {
		v := g.rng.IntN(max(1, n))
		if negative && g.rng.IntN(4) == 0 {
			v -= n
		}
		tensor.MustData[int64](t)[i] = int64(v)
	}
	if d == tensor.TypeInt64 {
		return t
	}
	r := tensor.Must(tensor.Zeros(d, shape...))
	if err := tensor.ConvertInto(r, t, nil); err != nil {
		panic(err)
	}
	return r
}

// dtype draws one of the types of a type variable of the signature, except those in not. If
// float32 is among them, it is drawn half of the time.
func (g *gen) dtype(variable string, not ...tensor.DType) tensor.DType {
	var of []tensor.DType
	has := false
	for _, t := range g.def.Signature().Vars[variable] {
		if t.Kind != tensor.KindTensor {
			continue
		}
		out := false
		for _, d := range not {
			out = out || d == t.Elem
		}
		if !out {
			of = append(of, t.Elem)
			has = has || t.Elem == tensor.TypeFloat32
		}
	}
	if len(of) == 0 {
		return tensor.TypeFloat32
	}
	if has && g.n(5) < 3 {
		return tensor.TypeFloat32
	}
	return pick(g, of...)
}
