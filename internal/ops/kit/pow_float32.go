package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// PowFloat stores a to the power of b. Small constant exponents are computed by products.
func PowFloat[T FloatNumber](dst, a, b []T) {
	if len(b) == 1 && len(a) == len(dst) {
		switch y := b[0]; y {
		case 2:
			for i, x := range a {
				dst[i] = x * x
			}
			return
		case 3:
			for i, x := range a {
				dst[i] = x * x * x
			}
			return
		default:
			for i, x := range a {
				dst[i] = T(math.Pow(float64(x), float64(y)))
			}
			return
		}
	}
	if len(a) == 1 && len(b) == len(dst) {
		x := float64(a[0])
		for i, y := range b {
			dst[i] = T(math.Pow(x, float64(y)))
		}
		return
	}
	if len(a) == 1 {
		RepeatOf(dst, T(math.Pow(float64(a[0]), float64(b[0]))))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Pow(float64(a[i]), float64(b[i])))
	}
}

// The tables of powFloat32: 16 intervals for the logarithm, one of them centered at 1, and the
// powers 2^(i/32).
var (
	powLog [16]struct{ inv, log float64 }
	powExp [32]uint64
)

// powFirst has the bits of the smallest number of the octave that is divided into intervals.
const powFirst = 0x3f330000

func init() {
	for i := range powLog {
		c := float64(math.Float32frombits(powFirst + uint32(i)<<19 + 1<<18))
		if i == 9 {
			c = 1
		}
		powLog[i].inv, powLog[i].log = 1/c, math.Log2(c)
	}
	for i := range powExp {
		powExp[i] = math.Float64bits(math.Exp2(float64(i)/32)) - uint64(i)<<47
	}
}

// log2Float32 returns the binary logarithm of x, which must be normal and positive.
func log2Float32(x float32) float64 {
	b := math.Float32bits(x)
	t := b - powFirst
	e := &powLog[t>>19&15]
	r := float64(math.Float32frombits(b-t&0xff800000))*e.inv - 1
	const k = math.Log2E
	p := k/3 + r*(-k/4+r*(k/5-r*(k/6)))
	return e.log + float64(int32(t)>>23) + r*(k+r*(-k/2+r*p))
}

// powFloat32 returns x to the power of y, within 1 ULP. log is log2Float32(x), for a normal
// positive x.
func powFloat32(x, y float32, log float64) float32 {
	t := float64(y) * log
	if !(t > -150 && t < 128) {
		return float32(math.Pow(float64(x), float64(y)))
	}
	const shift = 0x1.8p52 / 32
	n := t + shift
	i := math.Float64bits(n)
	r := t - (n - shift)
	const k = math.Ln2
	p := 1 + r*(k+r*(k*k/2+r*(k*k*k/6)))
	return float32(p * math.Float64frombits(powExp[i&31]+i<<47))
}

// powOf returns x to the power of y.
func powOf(x, y float32) float32 {
	if normalAboveZero(x) {
		return powFloat32(x, y, log2Float32(x))
	}
	if n := int32(y); normalAboveZero(-x) && y > -1<<24 && y < 1<<24 {
		if float32(n) != y {
			return float32(math.NaN())
		}
		p := powFloat32(-x, y, log2Float32(-x))
		return math.Float32frombits(math.Float32bits(p) ^ uint32(n)<<31)
	}
	return float32(math.Pow(float64(x), float64(y)))
}

func normalAboveZero(x float32) bool { return math.Float32bits(x)-0x00800000 < 0x7f000000 }

// PowFloats computes powers of a by b. Either may have one element, which is broadcast.
func PowFloats(dst, a, b []float32) {
	switch {
	case len(a) == 1 && len(dst) > 1 && len(b) == len(dst) && normalAboveZero(a[0]):
		log := log2Float32(a[0])
		for i, y := range b {
			dst[i] = powFloat32(a[0], y, log)
		}
	case len(b) == 1 && len(a) == len(dst) && b[0] == -1: // 1/x, rounded once
		vec.ReciprocalF32(cpu.Active(), dst, a)
	case len(b) == 1 && len(a) == len(dst):
		for i, x := range a {
			dst[i] = powOf(x, b[0])
		}
	case len(a) == len(dst) && len(b) == len(dst):
		for i, x := range a {
			dst[i] = powOf(x, b[i])
		}
	default:
		PowFloat(dst, a, b)
	}
}
