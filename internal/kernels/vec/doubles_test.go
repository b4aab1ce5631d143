package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("powF32")

// TestPowF32 compares all pairs of special numbers and random ones with math.Pow, with every number
// of elements after the last whole vector.
func TestPowF32(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	special := append(testkit.Special32(), 0.5, -0.5, 3, -3, 1<<24, 1<<24+2, -1<<25)
	var a, b []float32
	for _, x := range special {
		for _, y := range special {
			a, b = append(a, x), append(b, y)
		}
	}
	for range 50000 {
		a = append(a, math.Float32frombits(r.Uint32()), float32(r.NormFloat64()), 1+float32(r.NormFloat64())/64)
		b = append(b, float32(r.NormFloat64()*4), float32(math.Round(r.NormFloat64()*20)),
			float32(r.NormFloat64()*2000))
	}
	testkit.Levels(t, func(t *testing.T, l level) {
		for first, n := 0, 1; first < len(a); first, n = first+n, n*5/4+1 {
			x := testkit.GuardedCopy(t, a[first:min(first+n, len(a))], testkit.High, 0)
			y := testkit.GuardedCopy(t, b[first:min(first+n, len(a))], testkit.High, 0)
			d := testkit.Guarded[float32](t, len(x), testkit.High, 0)
			PowF32(l, d, x, y)
			one := make([]float32, 1)
			for i, v := range d {
				want := math.Pow(float64(x[i]), float64(y[i]))
				if u := testkit.ULP32(v, want); !(u <= 1) || math.Signbit(float64(v)) != math.Signbit(want) && v == v {
					t.Fatalf("%g to the power of %g is %g, want %g: %.3g ULP", x[i], y[i], v, want, u)
				}
				if PowF32(l, one, x[i:], y[i:]); math.Float32bits(one[0]) != math.Float32bits(v) {
					t.Fatalf("%g to the power of %g is %g alone, but element %d of %d is %g", x[i],
						y[i], one[0], i, len(d), v)
				}
			}
		}
	})
}

var _ = testkit.Tested("twistU32", "uniformsF64")

// TestRandomWords compares with MT19937 as its authors define it, in place and for every length.
func TestRandomWords(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 33, 227, 396, chunk + 21} {
			state := testkit.Guarded[uint32](t, n+400, testkit.High, 0)
			for i := range state {
				state[i] = rand.Uint32()
			}
			want := append([]uint32{}, state...)
			for i := range n {
				y := want[i]&0x80000000 | want[i+1]&0x7fffffff
				if want[i] = want[i+397] ^ y>>1; y%2 == 1 {
					want[i] ^= 0x9908b0df
				}
			}
			TwistU32(l, state[:n], state[:n], state[1:][:n], state[397:][:n])
			for i, v := range state {
				if v != want[i] {
					t.Fatalf("word %d of %d is %#x, want %#x", i, n, v, want[i])
				}
			}
			words := testkit.GuardedCopy(t, state[:n/2*2], testkit.High, 0)
			dst := testkit.Guarded[float64](t, n/2, testkit.High, 0)
			UniformsF64(l, dst, words)
			for i, v := range dst {
				a, b := Temper(words[2*i])>>5, Temper(words[2*i+1])>>6
				if want := (float64(a)*67108864 + float64(b)) / 9007199254740992; v != want {
					t.Fatalf("number %d of %d is %v, want %v", i, n/2, v, want)
				}
			}
		}
	})
}

var _ = testkit.Tested("expF64", "logF64", "tanhF64")

// TestDoubles allows 4 ULP, because math.Exp itself errs by 3 on amd64.
func TestDoubles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	special := []float64{0, math.Copysign(0, -1), 1, math.Sqrt2, math.Sqrt2 / 2, math.Inf(1), math.Inf(-1), math.NaN(),
		-1, 5e-324, 1e-310, 0x1p-1023, 0x1p-1022, math.MaxFloat64,
		-708, -745, -746, 709, 709.78, 709.79, 710, 1e-20, math.Nextafter(1, 0), math.Nextafter(1, 2)}
	exp := func(v float64) float64 {
		if v > 709 { // math.Exp of amd64 overflows from 709.44 on
			return math.Exp(v-1) * math.E
		}
		return math.Exp(v)
	}
	log := func(v float64) float64 {
		if v > 0 && v < 0x1p-1022 { // math.Log of amd64 is wrong
			return math.Log2(v) * math.Ln2
		}
		return math.Log(v)
	}
	for _, k := range []struct {
		name string
		f    func(l level, dst, x []float64)
		of   func(float64) float64
		draw func() float64
	}{
		{"exp", ExpF64, exp, func() float64 { return r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10)) }},
		{"sigmoid", SigmoidF64, func(v float64) float64 { return 1 / (1 + exp(-v)) }, func() float64 { return r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10)) }},
		{"tanh", TanhF64, math.Tanh, func() float64 { return r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10)) }},
		{"log", LogF64, log, func() float64 { return math.Exp(r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10))) }},
	} {
		x := append([]float64{}, special...)
		for range 100000 {
			x = append(x, k.draw())
		}
		testkit.Levels(t, func(t *testing.T, l level) {
			y := testkit.Guarded[float64](t, len(x), testkit.High, 0)
			k.f(l, y, testkit.GuardedCopy(t, x, testkit.High, 0))
			one := make([]float64, 1)
			for i, v := range y {
				if k.f(l, one, x[i:i+1]); math.Float64bits(one[0]) != math.Float64bits(v) && v == v {
					t.Fatalf("%s(%g) is %g alone, but %g as element %d", k.name, x[i], one[0], v, i)
				}
				want := k.of(x[i])
				if v != want && v == v && math.Abs(v-want) > 4*math.Abs(math.Nextafter(want, math.Inf(1))-want) ||
					(v == v) != (want == want) || math.IsInf(v, 0) != math.IsInf(want, 0) {
					t.Fatalf("%s(%g) is %g, want %g", k.name, x[i], v, want)
				}
			}
		})
	}
}

var _ = testkit.Tested("sinF64", "cosF64")

// TestSine compares with math.Sin and math.Cos, whose errors near zeros are as large as those of
// SinF64.
func TestSine(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	x := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, 1e-310,
		math.MaxFloat64, mostReduced, -mostReduced, math.Nextafter(mostReduced, 0), 1e15, -1e22}
	for i := range 100 {
		x = append(x, float64(i)*math.Pi/4, -float64(i)*math.Pi/4)
	}
	for range 100000 {
		x = append(x, r.NormFloat64()*math.Exp2(float64(r.IntN(40)-10)))
	}
	for i := range 100000 { // blocks without large numbers, which kernels compute
		x = append(x, math.Copysign(r.Float64()*math.Exp2(float64(r.IntN(60)-33)), r.NormFloat64()),
			math.Copysign(0, float64(i&1)-.5))
	}
	for _, k := range []struct {
		name string
		f    func(l level, dst, x []float64)
		of   func(float64) float64
	}{{"sin", SinF64, math.Sin}, {"cos", CosF64, math.Cos}} {
		testkit.Levels(t, func(t *testing.T, l level) {
			y := testkit.Guarded[float64](t, len(x), testkit.High, 0)
			k.f(l, y, testkit.GuardedCopy(t, x, testkit.High, 0))
			one := make([]float64, 1)
			for i, v := range y {
				if k.f(l, one, x[i:i+1]); math.Float64bits(one[0]) != math.Float64bits(v) && v == v {
					t.Fatalf("%s(%g) is %g alone, but %g as element %d", k.name, x[i], one[0], v, i)
				}
				want := k.of(x[i])
				if limit := max(0x1p-54, 2*math.Abs(math.Nextafter(want, 2)-want)); v != want && v == v &&
					math.Abs(v-want) > limit || (v == v) != (want == want) ||
					math.Signbit(v) != math.Signbit(want) && want == 0 {
					t.Fatalf("%s(%g) is %g, want %g", k.name, x[i], v, want)
				}
			}
		})
	}
}
