package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// PowF32 computes dst[i] = x[i] to the power of y[i], within 1 ULP. An element's result does not
// depend on its index.
func PowF32(l cpu.Level, dst, x, y []float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	if l != cpu.AVX512 {
		powF32Generic(dst, x, y)
		return
	}
	whole := len(dst) &^ (lanes512 - 1)
	powF32(l, dst[:whole], x[:whole], y[:whole])
	var base, exponent [lanes512]float32
	copy(exponent[:], y[whole:])
	if copy(base[:], x[whole:]) > 0 {
		powF32(l, base[:], base[:], exponent[:])
		copy(dst[whole:], base[:])
	}
}

func powF32Generic(dst, x, y []float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i := range dst {
		dst[i] = powOf(x[i], y[i])
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
