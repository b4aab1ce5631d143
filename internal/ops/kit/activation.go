package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Activation is a function that a fused operator applies last. The zero Activation is the identity.
type Activation struct {
	Kind   ActivationKind
	Lo, Hi float32 // bounds of ActClip
}

// ActivationKind is the function of an Activation.
type ActivationKind uint8

// The activation functions of fused operators.
const (
	ActNone ActivationKind = iota
	ActRelu
	ActClip
)

// Gemm returns the activation that kernels of package gemm apply.
func (a Activation) Gemm() gemm.Activation {
	switch a.Kind {
	case ActRelu:
		return gemm.Relu
	case ActClip:
		return gemm.Clip
	}
	return gemm.None
}

// Apply computes the activation in place.
func (a Activation) Apply(x []float32) {
	switch a.Kind {
	case ActRelu:
		vec.ReluF32(cpu.Active(), x, x)
	case ActClip:
		vec.ClipF32(cpu.Active(), x, x, a.Lo, a.Hi)
	}
}

// GeluLoop computes the exact Gelu, x·Φ(x), in float64.
func GeluLoop[T FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := float64(x)
		dst[i] = T(Gated(v, 0.5*(1+math.Erf(v*(1/math.Sqrt2)))))
	}
}

// GeluTanhLoop computes x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
func GeluTanhLoop[T FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	const k = 0.79788456080286535588 // √(2/π)
	for i, x := range src {
		v := float64(x)
		dst[i] = T(Gated(v, 0.5*(1+math.Tanh(k*(v+0.044715*v*v*v)))))
	}
}

// GeluTanhF64 is [GeluTanhLoop] with a vector kernel. dst may be x.
func GeluTanhF64(l cpu.Level, dst, x []float64) {
	const k = 0.79788456080286535588 // √(2/π)
	var part [256]float64
	for n := 0; len(dst) > 0; dst, x = dst[n:], x[n:] {
		n = min(len(dst), len(part))
		for i, v := range x[:n] {
			part[i] = k * (v + 0.044715*v*v*v)
		}
		vec.TanhF64(l, part[:n], part[:n])
		for i, v := range x[:n] {
			dst[i] = Gated(v, 0.5*(1+part[i]))
		}
	}
}

// Gated returns x·gate. For x = −∞, whose gate is 0, it returns the limit −0 instead of NaN.
func Gated(x, gate float64) float64 {
	if gate == 0 {
		return math.Copysign(0, x)
	}
	return x * gate
}

// Logistic returns 1/(1+exp(−x)) without overflow for large |x|.
func Logistic(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

// Sigmoid32 returns 1/(1+exp(−v)), computed in float64 and rounded once.
func Sigmoid32(v float32) float32 { return float32(1 / (1 + math.Exp(-float64(v)))) }

// Softplus returns ln(exp(x)+1) without overflow for large x.
func Softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// SwishLoop computes x·sigmoid(alpha·x) in float64.
func SwishLoop[T FloatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := float64(x)
		dst[i] = T(Gated(v, 1/(1+math.Exp(-alpha*v))))
	}
}
