package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	testkit "github.com/onward-ml/onward/internal/testing"
)

type level = cpu.Level

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
	{"sigmoid", SigmoidF32, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, 2.5, 0, -110, 95},
	{"tanh", TanhF32, math.Tanh, 2.5, 0, -12, 12},
	{"silu", SiluF32, func(v float64) float64 { return limit(v, v/(1+math.Exp(-v))) }, 3, 0, -120, 50},
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
									t.Fatalf("%s off %d len %d: in place gives %g, want %g for %g", name, off, n, a[i], b[i], keep[i])
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

// binaryTable has one line per kernel of two or three vector inputs.
var binaryTable = []struct {
	name string
	f    func(l level, dst, a, b []float32)
	want func(a, b float32) float32
	ulp  float64
}{
	{"add", AddF32, func(a, b float32) float32 { return a + b }, 0},
	{"sub", SubF32, func(a, b float32) float32 { return a - b }, 0},
	{"mul", MulF32, func(a, b float32) float32 { return a * b }, 0},
	{"div", DivF32, func(a, b float32) float32 { return a / b }, 0},
	{"min", MinF32, func(a, b float32) float32 { return min(a, b) }, 0},
	{"max", MaxF32, func(a, b float32) float32 { return max(a, b) }, 0},
	{"mulAdd", func(l level, d, a, b []float32) { MulAddF32(l, d, a, b, b) }, func(a, b float32) float32 { return float32(math.FMA(float64(a), float64(b), float64(b))) }, 1e9},
	{"axpy", func(l level, d, a, b []float32) {
		c := append([]float32(nil), b[:len(d)]...)
		AxpyF32(l, c, a, 0.5)
		copy(d, c)
	}, func(a, b float32) float32 { return float32(float64(a)*0.5 + float64(b)) }, 0.51},
	{"normalize", func(l level, d, a, b []float32) { NormalizeF32(l, d, a, 0.5, 2, b, b) }, func(a, b float32) float32 {
		return float32(float64((a-0.5)*2)*float64(b) + float64(b))
	}, 1e9},
}

func TestBinary(t *testing.T) {
	for _, k := range binaryTable {
		t.Run(k.name, func(t *testing.T) {
			testkit.Levels(t, func(t *testing.T, l level) {
				check := func(got, a, b float32, what string) {
					want := k.want(a, b)
					if got == want || got != got && want != want {
						return
					}
					if k.ulp > 1e6 { // the sum may cancel: compare with the magnitudes
						if math.Abs(float64(got)-float64(want)) <= 0x1p-22*(math.Abs(float64(a)*float64(b))*2+math.Abs(float64(b))*2)+0x1p-148 || math.Abs(float64(a)) > 1e18 || math.Abs(float64(b)) > 1e18 {
							return
						}
					} else if u := testkit.ULP32(got, float64(want)); u <= k.ulp+0.5*btof(k.ulp > 0) {
						return
					}
					t.Errorf("%s: f(%g, %g) = %g, want %g", what, a, b, got, want)
				}
				sp := testkit.Special32()
				var a, b []float32
				for _, x := range sp {
					for _, y := range sp {
						a, b = append(a, x), append(b, y)
					}
				}
				d := make([]float32, len(a))
				k.f(l, d, a, b)
				for i := range d {
					check(d[i], a[i], b[i], "specials")
				}
				r := rand.New(rand.NewPCG(8, 8))
				testkit.Sides(func(name string, side testkit.Side) {
					for off := range 17 {
						x := testkit.Guarded[float32](t, 72, side, off)
						y := testkit.Guarded[float32](t, 72, side, 16-off)
						z := testkit.Guarded[float32](t, 72, side, off/2)
						for i := range x {
							x[i], y[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
						}
						for n := range 73 {
							p, q, o := x[:n], y[:n], z[:n]
							if side == testkit.High {
								p, q, o = x[72-n:], y[72-n:], z[72-n:]
							}
							k.f(l, o, p, q)
							for i := range o {
								check(o[i], p[i], q[i], fmt.Sprintf("%s off %d len %d", name, off, n))
							}
							for j, in := range [][]float32{p, q} { // in place
								keep := slices.Clone(in)
								k.f(l, in, p, q)
								for i := range in {
									if math.Float32bits(in[i]) != math.Float32bits(o[i]) {
										t.Fatalf("%s off %d len %d: in place over input %d gives %g, want %g", name, off, n, j, in[i], o[i])
									}
								}
								copy(in, keep)
							}
						}
					}
				})
			})
		})
	}
}

var reduceTable = []struct {
	name string
	f    func(l level, x []float32) float32
	want func(x []float32) (r, tol float64)
}{
	{"sum", SumF32, func(x []float32) (s, m float64) {
		for _, v := range x {
			s += float64(v)
			m += math.Abs(float64(v))
		}
		return s, m * 0x1p-20
	}},
	{"dot", func(l level, x []float32) float32 { return DotF32(l, x, x) }, func(x []float32) (s, m float64) {
		for _, v := range x {
			s += float64(v) * float64(v)
		}
		return s, s * 0x1p-20
	}},
	{"sumSquares", func(l level, x []float32) float32 { return SumSquaresF32(l, x, 0.5) }, func(x []float32) (s, m float64) {
		for _, v := range x {
			d := float64(v - 0.5)
			s += d * d
		}
		return s, s * 0x1p-20
	}},
	{"sumAbs", SumAbsF32, func(x []float32) (s, m float64) {
		for _, v := range x {
			s += math.Abs(float64(v))
		}
		return s, s * 0x1p-20
	}},
	{"reduceMax", ReduceMaxF32, func(x []float32) (m, tol float64) {
		m = math.Inf(-1)
		for _, v := range x {
			m = max(m, float64(v))
		}
		return m, 0
	}},
	{"reduceMin", ReduceMinF32, func(x []float32) (m, tol float64) {
		m = math.Inf(1)
		for _, v := range x {
			m = min(m, float64(v))
		}
		return m, 0
	}},
	{"expSubSum", func(l level, x []float32) float32 {
		d := slices.Clone(x)
		return ExpSubSumF32(l, d, d, 0.5)
	}, func(x []float32) (s, tol float64) {
		for _, v := range x {
			s += math.Exp(float64(v - 0.5))
		}
		return s, s * 0x1p-20
	}},
}

func TestReduce(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, k := range reduceTable {
		t.Run(k.name, func(t *testing.T) {
			testkit.Levels(t, func(t *testing.T, l level) {
				check := func(x []float32, what string) {
					t.Helper()
					want, tol := k.want(x)
					got := float64(k.f(l, x))
					tol += float64(len(x)) * 0x1p-149 // each term may be subnormal
					if !(math.Abs(got-want) <= tol) && got != want && !(got != got && want != want) {
						t.Errorf("%s, %d elements: %g, want %g ± %g", what, len(x), got, want, tol)
					}
				}
				r := rand.New(rand.NewPCG(9, 9))
				testkit.Sides(func(name string, side testkit.Side) {
					for off := range 17 {
						x := testkit.Guarded[float32](t, 140, side, off)
						for i := range x {
							x[i] = float32(r.NormFloat64())
						}
						for n := range 141 {
							y := x[:n]
							if side == testkit.High {
								y = x[140-n:]
							}
							check(y, name)
							if n > 0 && off < 3 {
								i := r.IntN(n)
								keep := y[i]
								for _, v := range []float32{nan, inf, -inf, 1e-42, -100, 50} {
									y[i] = v
									check(y, fmt.Sprint(name, " with ", v, " at ", i))
								}
								y[i] = keep
							}
						}
					}
				})
				long := make([]float32, chunk*3+77)
				for i := range long {
					long[i] = float32(r.NormFloat64()) + 1
				}
				check(long, "long")
				long[len(long)-1] = nan
				check(long, "long with NaN")
			})
		})
	}
}

// TestExpSubSum checks the elements, which TestReduce does not check.
func TestExpSubSum(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for n := range 70 {
			x := testkit.Guarded[float32](t, n, testkit.High, 0)
			d := testkit.Guarded[float32](t, n, testkit.High, 0)
			for i := range x {
				x[i] = float32(i) - 40
			}
			ExpSubSumF32(l, d, x, 2)
			for i := range d {
				if u := testkit.ULP32(d[i], math.Exp(float64(x[i]-2))); u > 1.1 {
					t.Errorf("n %d: element %d is %g, %.2f ULP off", n, i, d[i], u)
				}
			}
		}
	})
}

func TestRows(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		r := rand.New(rand.NewPCG(10, 10))
		for _, n := range []int{1, 2, 7, 16, 31, 100, 1000, 20000} {
			x, gain, bias := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range x {
				x[i], gain[i], bias[i] = float32(r.NormFloat64()*4), float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			var mx, sum, mean, vari, sq float64 = math.Inf(-1), 0, 0, 0, 0
			for _, v := range x {
				mx = max(mx, float64(v))
				mean += float64(v) / float64(n)
				sq += float64(v) * float64(v) / float64(n)
			}
			for _, v := range x {
				sum += math.Exp(float64(v) - mx)
				vari += (float64(v) - mean) * (float64(v) - mean) / float64(n)
			}
			d := make([]float32, n)
			want := func(name string, f func(i int) float64, tol func(w float64) float64) {
				t.Helper()
				for i := range d {
					if w := f(i); !(math.Abs(float64(d[i])-w) <= tol(w)) {
						t.Fatalf("%s n %d: element %d is %g, want %g ± %g", name, n, i, d[i], w, tol(w))
					}
				}
			}
			SoftmaxF32(l, d, x)
			want("softmax", func(i int) float64 { return math.Exp(float64(x[i])-mx) / sum }, func(w float64) float64 { return w * 3e-6 })
			LogSoftmaxF32(l, d, x)
			want("log softmax", func(i int) float64 { return float64(x[i]) - mx - math.Log(sum) }, func(w float64) float64 { return 1e-6 * (math.Abs(w) + 20) })
			for _, g := range []bool{false, true} {
				for _, b := range []bool{false, true} {
					gn, bs := gain, bias
					if !g {
						gn = nil
					}
					if !b {
						bs = nil
					}
					LayerNormF32(l, d, x, gn, bs, 1e-5)
					want("layer norm", func(i int) float64 {
						w := (float64(x[i]) - mean) / math.Sqrt(vari+1e-5)
						if g {
							w *= float64(gain[i])
						}
						if b {
							w += float64(bias[i])
						}
						return w
					}, func(w float64) float64 { return 3e-5 })
				}
			}
			RMSNormF32(l, d, x, gain, 1e-5)
			want("rms norm", func(i int) float64 { return float64(x[i]) / math.Sqrt(sq+1e-5) * float64(gain[i]) }, func(w float64) float64 { return 2e-6 * (1 + math.Abs(w)) })
		}
		nan := float32(math.NaN())
		for _, row := range [][]float32{{1, nan, 2}, {float32(math.Inf(-1)), float32(math.Inf(-1))}, {1, float32(math.Inf(1))}} {
			d := make([]float32, len(row))
			SoftmaxF32(l, d, row)
			if s := SumF32(l, d); s == s {
				t.Errorf("softmax of %v = %v, want a NaN", row, d)
			}
		}
	})
}

// TestConvert compares every level with the generic function bit by bit, for all halves and
// bfloat16s. These two functions are checked against arithmetic.
func TestConvert(t *testing.T) {
	half := make([]uint16, 1<<16)
	for i := range half {
		half[i] = uint16(i)
	}
	wide := make([]float32, 1<<16)
	f16ToF32Generic(wide, half)
	for i, v := range wide {
		h := uint16(i)
		e, m := int(h>>10&31), float64(h&1023)
		var want float64
		switch e {
		case 31:
			want = math.Inf(1)
			if m != 0 {
				want = math.NaN()
			}
		case 0:
			want = m * 0x1p-24
		default:
			want = math.Ldexp(1+m/1024, e-15)
		}
		if h>>15 != 0 {
			want = -want
		}
		if float64(v) != want && !(v != v && want != want) {
			t.Fatalf("half %#04x is %g, want %g", h, v, want)
		}
	}
	back := make([]uint16, 1<<16)
	f32ToF16Generic(back, wide)
	for i, v := range wide {
		if back[i] != half[i] && v == v {
			t.Fatalf("half %#04x is %#04x after a round trip", i, back[i])
		}
	}
	r := rand.New(rand.NewPCG(11, 11))
	values := append(testkit.Special32(), wide...)
	for i := range wide[:len(wide)-1] { // between neighbouring halves: ties and their neighbours
		if a, b := wide[i], wide[i+1]; a == a && b == b && !math.IsInf(float64(b), 0) {
			mid := float32((float64(a) + float64(b)) / 2)
			values = append(values, mid, math.Nextafter32(mid, a), math.Nextafter32(mid, b))
		}
	}
	for range 50000 {
		values = append(values, math.Float32frombits(r.Uint32()))
	}
	got, want := make([]uint16, len(values)), make([]uint16, len(values))
	testkit.Levels(t, func(t *testing.T, l level) {
		same := func(name string, g, w []uint16) {
			t.Helper()
			for i := range g {
				if g[i] != w[i] {
					t.Fatalf("%s of %g (%#08x) is %#04x, want %#04x", name, values[i], math.Float32bits(values[i]), g[i], w[i])
				}
			}
		}
		f32ToF16Generic(want, values)
		F32ToF16(l, got, values)
		same("F32ToF16", got, want)
		f32ToBF16Generic(want, values)
		F32ToBF16(l, got, values)
		same("F32ToBF16", got, want)
		for i, v := range values[:2000] {
			if near := math.Float32frombits(uint32(want[i]) << 16); v == v && math.Abs(float64(v)) < 3e38 && math.Abs(float64(near)-float64(v)) > math.Abs(float64(v))*0x1p-8+0x1p-134 {
				t.Fatalf("bfloat16 of %g is %g", v, near)
			}
		}
		convertLengths(t, "f16ToF32", half[31000:], F16ToF32, l, f16ToF32Generic)
		convertLengths(t, "bf16ToF32", half[31000:], BF16ToF32, l, bf16ToF32Generic)
		convertLengths(t, "f32ToF16", values, F32ToF16, l, f32ToF16Generic)
		convertLengths(t, "f32ToBF16", values, F32ToBF16, l, f32ToBF16Generic)
		i8, u8, i32 := make([]int8, 20000), make([]uint8, 20000), make([]int32, 20000)
		for i := range i8 {
			i8[i], u8[i], i32[i] = int8(r.Int32()), uint8(r.Int32()), int32(r.Uint32())
		}
		convertLengths(t, "i8ToF32", i8, I8ToF32, l, i8ToF32Generic)
		convertLengths(t, "u8ToF32", u8, U8ToF32, l, u8ToF32Generic)
		convertLengths(t, "f32ToI32", values, F32ToI32, l, f32ToI32Generic)
		convertLengths(t, "i32ToF32", i32, I32ToF32, l, i32ToF32Generic)
		all := make([]float32, 1<<16)
		F16ToF32(l, all, half)
		for i := range all {
			if math.Float32bits(all[i]) != math.Float32bits(wide[i]) {
				t.Fatalf("F16ToF32(%#04x) = %#08x, want %#08x", i, math.Float32bits(all[i]), math.Float32bits(wide[i]))
			}
		}
	})
}

func convertLengths[D, S any](t *testing.T, name string, in []S, f func(level, []D, []S), l level, twin func([]D, []S)) {
	t.Helper()
	testkit.Sides(func(sn string, side testkit.Side) {
		for off := range 5 {
			x := testkit.GuardedCopy(t, in[:70], side, off)
			d := testkit.Guarded[D](t, 70, side, off)
			w := make([]D, 70)
			for n := range 71 {
				a, b := x[:n], d[:n]
				if side == testkit.High {
					a, b = x[70-n:], d[70-n:]
				}
				f(l, b, a)
				twin(w[:n], a)
				for i := range b {
					if bits(b[i]) != bits(w[i]) {
						t.Fatalf("%s %s off %d len %d: %v gives %v, want %v", name, sn, off, n, a[i], b[i], w[i])
					}
				}
			}
		}
	})
	d, w := make([]D, min(len(in), 2*chunk+5)), make([]D, min(len(in), 2*chunk+5))
	f(l, d, in[:len(d)])
	twin(w, in[:len(d)])
	for i := range d {
		if bits(d[i]) != bits(w[i]) {
			t.Fatalf("%s long: element %d: %v gives %v, want %v", name, i, in[i], d[i], w[i])
		}
	}
}

func bits(v any) any {
	if f, ok := v.(float32); ok {
		return math.Float32bits(f)
	}
	if f, ok := v.(float64); ok {
		return math.Float64bits(f)
	}
	return v
}

func TestTranspose(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		sizes := []int{0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50}
		for i, rows := range sizes {
			for j, cols := range append(sizes, 1100) {
				side := testkit.Side((i+j)%2 == 0)
				lds, ldd := cols+i%3, rows+j%3
				x := testkit.Guarded[float32](t, max(0, (rows-1)*lds+cols), side, i%5)
				y := testkit.Guarded[float32](t, max(0, (cols-1)*ldd+rows), side, j%5)
				if rows*cols == 0 {
					x, y = nil, nil
				}
				for k := range x {
					x[k] = float32(k + 1)
				}
				for k := range y {
					y[k] = -1
				}
				TransposeF32(l, y, ldd, x, lds, rows, cols)
				for k, v := range y {
					want := float32(-1)
					if k%ldd < rows {
						want = x[k%ldd*lds+k/ldd]
					}
					if v != want {
						t.Fatalf("%d×%d, strides %d, %d: element %d is %g, want %g", rows, cols, lds, ldd, k, v, want)
					}
				}
			}
		}
	})
}

func TestSoftmaxRows(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		testkit.Sides(func(side string, s testkit.Side) {
			for n := 1; n <= 140; n++ {
				for rows := range 4 {
					x, d := testkit.Guarded[float32](t, n*rows, s, rows%3), testkit.Guarded[float32](t, n*rows, s, rows%3)
					e := testkit.Guarded[float32](t, n*rows, s, 1)
					w, v := make([]float32, n*rows), make([]float32, n*rows)
					for i := range x {
						x[i] = float32((i*7+n)%23) - 100
					}
					total, totalWant := testkit.Guarded[float32](t, rows, s, 0), make([]float32, rows)
					LogSumExpRowsF32(l, total, x, n)
					logSumExpRowsF32Generic(totalWant, x, n)
					LogSoftmaxRowsF32(l, e, x, n)
					logSoftmaxRowsF32Generic(v, x, n)
					SoftmaxRowsF32(l, d, x, n)
					softmaxRowsF32Generic(w, x, n)
					SoftmaxRowsF32(l, x, x, n)
					for i := range d {
						if math.Abs(float64(d[i]-w[i])) > 3e-6*float64(w[i]) || x[i] != d[i] {
							t.Fatalf("%s: element %d of %d·%d is %g, in place %g, want %g", side, i, rows, n, d[i], x[i], w[i])
						}
						if i%n == 0 && math.Abs(float64(total[i/n]-totalWant[i/n])) > 0x1p-22*(1+100) {
							t.Fatalf("%s: logarithm of sum %d of %d·%d is %g, want %g", side, i/n, rows, n, total[i/n], totalWant[i/n])
						}
						if math.Abs(float64(e[i]-v[i])) > 2e-6*(1+math.Abs(float64(v[i]))) {
							t.Fatalf("%s: logarithm %d of %d·%d is %g, want %g", side, i, rows, n, e[i], v[i])
						}
					}
				}
			}
		})
		nan := float32(math.NaN())
		inf := float32(math.Inf(1))
		x := []float32{1, nan, 2, -inf, -inf, -inf, 1, inf, 0, 0, 0, 0}
		for _, f := range []func(l level, dst, x []float32, n int){SoftmaxRowsF32, LogSoftmaxRowsF32} {
			d := make([]float32, len(x))
			f(l, d, x, 3)
			for i := range 3 {
				if s := SumF32(l, d[3*i:3*i+3]); s == s {
					t.Errorf("row %v gives %v, want a NaN", x[3*i:3*i+3], d[3*i:3*i+3])
				}
			}
			if s := d[9]; s != s {
				t.Errorf("a NaN changes the next row: %v", d)
			}
		}
	})
}

func TestEveryAssemblyFunctionIsTested(t *testing.T) {
	var names []string
	add := func(n string) { names = append(names, n+"AVX512", n+"AVX2", n+"NEON") }
	for _, k := range unaryTable {
		add(k.name + "F32")
	}
	for _, k := range binaryTable {
		add(k.name + "F32")
	}
	for _, k := range reduceTable {
		add(k.name + "F32")
	}
	for _, k := range rowsTable {
		names = append(names, k.name+"RowsF32AVX512", k.name+"RowsF32AVX2")
	}
	for _, n := range []string{"U8", "U16", "U32", "U64"} { // TestTransposeAny
		names = append(names, "transpose"+n+"AVX512", "transpose"+n+"EdgeAVX512")
	}
	for _, n := range []string{"f16ToF32", "f32ToF16", "bf16ToF32", "f32ToBF16", "i8ToF32", "u8ToF32", "i32ToF32", "f32ToI32", "transposeF32",
		"lessF32", "lessOrEqualF32", "equalF32", "selectU32", "softmaxRowsF32", "logSoftmaxRowsF32", "logSumExpRowsF32"} { // TestConvert, TestTranspose, TestCompare, TestSoftmaxRows
		add(n)
	}
	for _, k := range castTable {
		names = append(names, k.name+"AVX512")
		if !k.only512 {
			names = append(names, k.name+"AVX2")
		}
	}
	for _, n := range []string{"less", "lessOrEqual", "equal"} { // TestCompareNumbers
		for _, typ := range []string{"I32", "I64", "F64"} {
			names = append(names, n+typ+"AVX512", n+typ+"AVX2")
		}
	}
	for _, op := range []string{"sum", "max", "min"} { // TestFold
		for _, typ := range []string{"I32", "I64", "F64"} {
			for _, form := range []string{"Fold", "Each"} {
				names = append(names, op+typ+form+"AVX512", op+typ+form+"AVX2")
			}
		}
	}
	names = append(names, "sumWindow*", "maxWindow*", "minWindow*") // TestWindow
	testkit.CheckAsmTested(t, ".", names)
}

func TestPauses(t *testing.T) {
	x, d := make([]float32, 3*chunk), make([]float32, 3*chunk)
	testkit.Levels(t, func(t *testing.T, l level) {
		if l == cpu.Generic {
			t.Skip("Go code is preemptible")
		}
		testkit.CheckPauses(t, func() { MishF32(l, d, x) })
		testkit.CheckPauses(t, func() { AddF32(l, d[:16], x[:16], x[:16]) })
	})
}

func TestNoAllocations(t *testing.T) {
	x, d := make([]float32, 100), make([]float32, 100)
	testkit.Levels(t, func(t *testing.T, l level) {
		if n := testing.AllocsPerRun(50, func() {
			SoftmaxF32(l, d, x)
			LayerNormF32(l, d, x, x, x, 1e-5)
			GeluF32(l, d, x)
		}); n != 0 {
			t.Errorf("%v allocations, want 0", n)
		}
	})
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

func BenchmarkRows(b *testing.B) {
	x, d, g := make([]float32, 768), make([]float32, 768), make([]float32, 768)
	for _, l := range cpu.Levels() {
		b.Run(fmt.Sprintf("softmax768/%v", l), func(b *testing.B) {
			for b.Loop() {
				SoftmaxF32(l, d, x)
			}
		})
		b.Run(fmt.Sprintf("layernorm768/%v", l), func(b *testing.B) {
			for b.Loop() {
				LayerNormF32(l, d, x, g, g, 1e-5)
			}
		})
	}
}
