package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// unaryTable has one line per kernel of one vector input, which defines all of its tests.
var unaryTable = []struct {
	name   string
	f      func(l level, dst, x []float32)
	want   func(v float64) float64
	ulp    float64
	abs    float64 // used instead of ULP: error as a multiple of 2⁻²⁴·|v|
	lo, hi float64 // range of the random inputs
}{
	{"exp", ExpF32, math.Exp, 1.1, 0, -110, 95},
	{"expm1", Expm1F32, math.Expm1, 2, 0, -30, 95},
	{"sigmoid", SigmoidF32, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, 3, 0, -110, 95},
	{"tanh", TanhF32, math.Tanh, 2.5, 0, -12, 12},
	{"silu", SiluF32, func(v float64) float64 { return limit(v, v/(1+math.Exp(-v))) }, 4, 0, -120, 50},
	{"elu", func(l level, d, x []float32) { EluF32(l, d, x, 1.5) }, func(v float64) float64 {
		if v < 0 {
			return 1.5 * math.Expm1(v)
		}
		return v
	}, 3, 0, -20, 5},
	{"softplus", SoftplusF32, func(v float64) float64 { return max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) }, 2.5, 0, -110, 100},
	{"mish", MishF32, func(v float64) float64 {
		return limit(v, v*math.Tanh(max(v, 0)+math.Log1p(math.Exp(-math.Abs(v)))))
	}, 4, 0, -120, 50},
	{"log", LogF32, math.Log, 1.5, 0, -0.1, 10},
	{"sin", SinF32, math.Sin, 1.5, 0, -100, 100},
	{"cos", CosF32, math.Cos, 1.5, 0, -100, 100},
	{"tan", TanF32, math.Tan, 3.5, 0, -100, 100},
	{"asin", AsinF32, math.Asin, 2.5, 0, -1.1, 1.1},
	{"acos", AcosF32, math.Acos, 2, 0, -1.1, 1.1},
	{"atan", AtanF32, math.Atan, 2, 0, -5, 5},
	{"sinh", SinhF32, math.Sinh, 2.5, 0, -95, 95},
	{"cosh", CoshF32, math.Cosh, 2, 0, -95, 95},
	{"asinh", AsinhF32, math.Asinh, 3, 0, -5, 5},
	{"acosh", AcoshF32, math.Acosh, 3, 0, 0.9, 6},
	{"atanh", AtanhF32, math.Atanh, 3, 0, -1.05, 1.05},
	{"erf", ErfF32, math.Erf, 2.5, 0, -5, 5},
	{"gelu", GeluF32, func(v float64) float64 { return limit(v, v/2*math.Erfc(-v/math.Sqrt2)) }, 0, 4, -15, 15},
	{"geluTanh", GeluTanhF32, func(v float64) float64 {
		return limit(v, v/(1+math.Exp(-2*geluTanhScale*(v+0.044715*v*v*v))))
	}, 0, 4, -15, 15},
	{"relu", ReluF32, func(v float64) float64 { return max(v, 0) }, 0, 0, -2, 2},
	{"leakyRelu", func(l level, d, x []float32) { LeakyReluF32(l, d, x, 0.25) }, func(v float64) float64 {
		if v < 0 {
			return f32(v * 0.25)
		}
		return v
	}, 0, 0, -2, 2},
	{"clip", func(l level, d, x []float32) { ClipF32(l, d, x, -0.5, 1.5) }, func(v float64) float64 { return min(max(v, -0.5), 1.5) }, 0, 0, -2, 2},
	{"sqrt", SqrtF32, func(v float64) float64 { return f32(math.Sqrt(v)) }, 0, 0, -1, 10},
	{"reciprocal", ReciprocalF32, func(v float64) float64 { return f32(1 / v) }, 0, 0, -10, 10},
	{"neg", NegF32, func(v float64) float64 { return -v }, 0, 0, -10, 10},
	{"abs", AbsF32, math.Abs, 0, 0, -10, 10},
	{"floor", FloorF32, math.Floor, 0, 0, -10, 10},
	{"ceil", CeilF32, math.Ceil, 0, 0, -10, 10},
	{"roundEven", RoundEvenF32, math.RoundToEven, 0, 0, -10, 10},
	{"addScalar", func(l level, d, x []float32) { AddScalarF32(l, d, x, 0.1) }, func(v float64) float64 { return f32(v + tenth) }, 0, 0, -10, 10},
	{"subScalar", func(l level, d, x []float32) { SubScalarF32(l, d, x, 0.1) }, func(v float64) float64 { return f32(v - tenth) }, 0, 0, -10, 10},
	{"scalarSub", func(l level, d, x []float32) { ScalarSubF32(l, d, x, 0.1) }, func(v float64) float64 { return f32(tenth - v) }, 0, 0, -10, 10},
	{"mulScalar", func(l level, d, x []float32) { MulScalarF32(l, d, x, 0.1) }, func(v float64) float64 { return f32(v * tenth) }, 0, 0, -10, 10},
	{"divScalar", func(l level, d, x []float32) { DivScalarF32(l, d, x, 0.1) }, func(v float64) float64 { return f32(v / tenth) }, 0, 0, -10, 10},
	{"scalarDiv", func(l level, d, x []float32) { ScalarDivF32(l, d, x, 0.1) }, func(v float64) float64 { return f32(tenth / v) }, 0, 0, -10, 10},
	{"minScalar", func(l level, d, x []float32) { MinScalarF32(l, d, x, 0.1) }, func(v float64) float64 { return min(v, tenth) }, 0, 0, -10, 10},
	{"maxScalar", func(l level, d, x []float32) { MaxScalarF32(l, d, x, 0.1) }, func(v float64) float64 { return max(v, tenth) }, 0, 0, -10, 10},
	{"scaleShift", func(l level, d, x []float32) { ScaleShiftF32(l, d, x, 2, 0.1) }, func(v float64) float64 { return 2*v + tenth }, 0.5, 0, -10, 10},
	{"hardSigmoid", func(l level, d, x []float32) { HardSigmoidF32(l, d, x, 0.25, 0.5) }, func(v float64) float64 { return min(max(0.25*v+0.5, 0), 1) }, 0.5, 0, -4, 4},
	{"hardSwish", HardSwishF32, func(v float64) float64 { return v * min(max(v/6+0.5, 0), 1) }, 0, 2, -5, 5},
	{"scaleSub", func(l level, d, x []float32) { NormalizeF32(l, d, x, 0.1, 2, nil, nil) }, func(v float64) float64 { return f32(f32(v-tenth) * 2) }, 0, 0, -10, 10},
}

// flushed are the kernels whose results are 0, with their sign, where exp(x) is below 2^-125.
var flushed = []string{"sigmoid", "silu", "softplus", "mish"}

const tenthF32 = float32(0.1)

var tenth = float64(tenthF32)

func f32(v float64) float64 { return float64(float32(v)) }

// limit is the value at -Inf, where v·0 is NaN.
func limit(v, r float64) float64 {
	if math.IsInf(v, -1) {
		return math.Copysign(0, -1)
	}
	return r
}

func TestUnary(t *testing.T) {
	for _, k := range unaryTable {
		t.Run(k.name, func(t *testing.T) {
			testkit.Levels(t, func(t *testing.T, l level) {
				bad, worst := 0, 0.0
				check := func(got, x float32, what string) {
					want := k.want(float64(x))
					if got == 0 && math.Exp(float64(x)) < 0x1p-125 && slices.Contains(flushed, k.name) {
						want = math.Copysign(0, want)
						if math.Signbit(float64(got)) != math.Signbit(want) {
							t.Errorf("%s: f(%g) = %g, want %g", what, x, got, want)
						}
					}
					u := testkit.ULP32(got, want)
					tol := k.ulp
					if k.abs > 0 && u > 0 && !math.IsInf(float64(x), 0) && x == x {
						u, tol = math.Abs(float64(got)-want)/(math.Abs(float64(x))*0x1p-24+0x1p-149), k.abs
					}
					worst = max(worst, u)
					if !(u <= tol+0.01*btof(k.ulp > 0)) && bad < 8 {
						bad++
						t.Errorf("%s: f(%g) = %g, want %g: error %.3g over %g", what, x, got, want, u, tol)
					}
				}
				r := rand.New(rand.NewPCG(7, 7))
				in := testkit.Special32()
				for range 20000 {
					in = append(in, float32(k.lo+(k.hi-k.lo)*r.Float64()))
				}
				for range 20000 { // every magnitude
					in = append(in, math.Float32frombits(r.Uint32()))
				}
				out := make([]float32, len(in))
				k.f(l, out, in)
				for i, x := range in {
					check(out[i], x, "values")
				}
				// Lengths, offsets and sides, in place and not. Elements outside must not
				// change.
				testkit.Sides(func(name string, side testkit.Side) {
					for off := range 17 {
						x := testkit.GuardedCopy(t, in[:40], side, off)
						y := testkit.Guarded[float32](t, 40, side, off)
						for n := range 41 {
							a, b := x[:n], y[:n]
							if side == testkit.High {
								a, b = x[40-n:], y[40-n:]
							}
							k.f(l, b, a)
							for i := range a {
								check(b[i], a[i], fmt.Sprintf("%s off %d len %d", name, off, n))
							}
							keep := slices.Clone(a)
							k.f(l, a, a)
							for i := range a {
								if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
									t.Fatalf("%s off %d len %d: in place gives %g, want %g for %g", name, off,
										n, a[i], b[i], keep[i])
								}
							}
							copy(a, keep)
						}
					}
				})
				// longer than one assembly call
				long := make([]float32, chunk*2+3)
				for i := range long {
					long[i] = in[i%len(in)]
				}
				k.f(l, long, long)
				for i := range long {
					check(long[i], in[i%len(in)], fmt.Sprintf("long slice, element %d", i))
				}
				t.Logf("worst error %.3f", worst)
			})
		})
	}
}

// TestTanhSaturated checks that tanh and erf reach exactly 1: a range of [-1, 1] that is one ULP
// narrower has another zero point of DynamicQuantizeLinear.
func TestTanhSaturated(t *testing.T) {
	x := []float32{9.02, 9.5, 20, 88, 1000, math.MaxFloat32, float32(math.Inf(1)), 0}
	for range 5 { // a length that all levels compute with vectors
		x = append(x, x...)
	}
	out := make([]float32, len(x))
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, f := range []func(level, []float32, []float32){TanhF32, ErfF32} {
			for _, sign := range []float32{1, -1} {
				MulScalarF32(l, out, x, sign)
				f(l, out, out)
				for i, v := range out {
					if want := min(x[i], 1) * sign; v != want {
						t.Fatalf("of %v: got %v, want %v", x[i]*sign, v, want)
					}
				}
			}
		}
	})
}

// TestTrigRange stays within the range that the assembly reduces, unlike TestUnary, whose
// pieces have NaN.
func TestTrigRange(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		r := rand.New(rand.NewPCG(12, 12))
		x := make([]float32, 60000)
		for i := range x {
			switch i % 4 {
			case 0: // next to the zeros
				x[i] = math.Nextafter32(float32(float64(r.IntN(19000))*math.Pi/2), float32(r.IntN(2)*100000))
			case 1:
				x[i] = float32(r.NormFloat64())
			case 2:
				x[i] = float32(math.Exp(r.NormFloat64()*20 - 40))
			default:
				x[i] = float32(r.Float64()*2*maxReduced - maxReduced)
			}
			x[i] = min(max(x[i], -maxReduced), maxReduced)
		}
		x[0] = float32(math.Copysign(0, -1))
		d := make([]float32, len(x))
		for _, f := range []struct {
			name string
			f    func(level, []float32, []float32)
			want func(float64) float64
			ulp  float64
		}{{"sin", SinF32, math.Sin, 1.5}, {"cos", CosF32, math.Cos, 1.5}, {"tan", TanF32, math.Tan, 3.5}} {
			f.f(l, d, x)
			worst := 0.0
			for i, v := range x {
				u := testkit.ULP32(d[i], f.want(float64(v)))
				if worst = max(worst, u); u > f.ulp {
					t.Fatalf("%s(%g) = %g, want %g: %.2f ULP", f.name, v, d[i], f.want(float64(v)), u)
				}
			}
			t.Logf("%s: worst error %.3f ULP", f.name, worst)
		}
	})
}

func btof(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func BenchmarkUnary(b *testing.B) {
	const n = 65536
	x, d := make([]float32, n), make([]float32, n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for _, k := range unaryTable {
		for _, l := range cpu.Levels() {
			b.Run(fmt.Sprintf("%s/%v", k.name, l), func(b *testing.B) {
				for b.Loop() {
					k.f(l, d, x)
				}
				b.ReportMetric(float64(n)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "elem/ns")
			})
		}
	}
}

// BenchmarkUnderflow compares inputs of [-1, 1] with inputs whose exponential, its powers or the
// result underflow: they must not take longer.
func BenchmarkUnderflow(b *testing.B) {
	const n = 4096
	x, d := make([]float32, n), make([]float32, n)
	for _, k := range unaryTable {
		if !slices.Contains([]string{"sigmoid", "silu", "softplus", "mish", "geluTanh"}, k.name) {
			continue
		}
		for _, l := range cpu.Levels() {
			for _, v := range []float32{0, 35, -35, -50, -88, -95, -10_000} {
				r := rand.New(rand.NewPCG(1, 1))
				for i := range x {
					x[i] = v + r.Float32()*2 - 1
				}
				b.Run(fmt.Sprintf("%s/%v/%v", k.name, l, v), func(b *testing.B) {
					for b.Loop() {
						k.f(l, d, x)
					}
				})
			}
		}
	}
}
