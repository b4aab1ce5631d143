package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

func twoWays(n int, fn func(lo, hi int)) {
	var wg sync.WaitGroup
	m := (n + 2) / 3
	wg.Go(func() { fn(0, m) })
	fn(m, n)
	wg.Wait()
}

type problem struct {
	m, n, k      int
	trans        bool
	aZero, bZero int // lengths: 0, 1 or 2 for one per row or column
	bias         bool
	words        bool // pack 16-bit integers at every level
	vnni         bool // no AMX
	extreme      bool // only the ends of the range
	large        int  // one of so many elements of B is more than 64 away from the middle; 0: any
}

func check[A, B Byte](t testing.TB, l cpu.Level, p problem, r *rand.Rand, side testkit.Side, offset int) {
	t.Helper()
	val := func() uint8 {
		if p.extreme {
			return []uint8{0, 127, 128, 255}[r.IntN(4)]
		}
		return uint8(r.Uint32())
	}
	lda, ldb, ldc := p.k+offset, p.n+1, p.n+2
	a := testkit.Guarded[A](t, max(0, (p.m-1)*lda+p.k), side, offset)
	nb := p.k * ldb
	if p.trans {
		ldb = p.k + 1
		nb = p.n * ldb
	}
	b := make([]B, nb)
	for i := range a {
		a[i] = A(val())
	}
	for i := range b {
		if b[i] = B(val()); p.large > 0 && r.IntN(p.large) > 0 { // within ±64 of the middle
			v := int(int8(val()) / 2)
			if _, least, _ := bytesOf(b); least == 0 {
				v += 128
			}
			b[i] = B(v)
		}
	}
	zeros := func(kind, n int) []int32 {
		z := make([]int32, min(kind, 1))
		if kind >= 2 {
			z = make([]int32, n)
		}
		for i := range z {
			if z[i] = r.Int32N(256) - 128; kind == 3 { // all equal
				z[i] = z[0]
			}
		}
		return z
	}
	bytes, least, _ := bytesOf(a)
	g := &Args{M: p.m, A: bytes, Signed: least < 0, LdA: lda,
		AZero: zeros(p.aZero, p.m), BZero: zeros(p.bZero, p.n), LdC: ldc}
	if p.large > 0 {
		g.B = Pack(twoWays, l, b, ldb, p.trans, p.k, p.n)
	} else {
		g.B = pack(&Packed{K: p.k, N: p.n, dot: dotProduct(l) && !p.words}, nil, cpu.AMX(l) && !p.vnni, b, ldb, p.trans)
	}
	g.C = testkit.Guarded[int32](t, max(0, (p.m-1)*ldc+p.n), side, 0)
	if p.bias {
		g.Bias = make([]int32, p.n)
		for i := range g.Bias {
			g.Bias[i] = int32(r.Uint32())
		}
	}
	Parallel(twoWays, l, g)
	for i := range p.m {
		for j := range p.n {
			var want int32
			if p.bias {
				want = g.Bias[j]
			}
			for q := range p.k {
				at := q*ldb + j
				if p.trans {
					at = j*ldb + q
				}
				want += (int32(a[i*lda+q]) - zeroAt(g.AZero, i)) * (int32(b[at]) - zeroAt(g.BZero, j))
			}
			if got := g.C[i*ldc+j]; got != want {
				t.Fatalf("%v %T·%T %+v: C[%d,%d] = %d, want %d", l, a, b, p, i, j, got, want)
			}
		}
	}
	for _, out := range []*Requantized{{Scale: []float32{r.Float32() * .001}, Zero: 9},
		{Scale: make([]float32, p.n), Signed: true, Zero: -3}} {
		out.Y = testkit.Guarded[byte](t, p.m*p.n, side, offset)
		for j := range out.Scale {
			out.Scale[j] = r.Float32() * .001
		}
		to := *g
		to.C, to.Out = nil, out
		Parallel(twoWays, l, &to)
		want := make([]byte, p.n)
		for i := range p.m {
			lo, hi := out.bounds()
			requantizeI32Generic(want, g.C[i*ldc:], out.Scale, min(1, max(0, len(out.Scale)-1)),
				float32(out.Zero), lo, hi)
			if got := out.Y[i*p.n:][:p.n]; !slices.Equal(got, want) {
				t.Fatalf("%v %T·%T %+v: row %d in bytes is %d, want %d", l, a, b, p, i, got, want)
			}
		}
	}
	checkReal(t, l, g, p, r)
}

// checkReal checks results of float32 against the sums of g.
func checkReal(t testing.TB, l cpu.Level, g *Args, p problem, r *rand.Rand) {
	t.Helper()
	row := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = r.Float32() - 0.5
		}
		return x
	}
	halve := func(_ cpu.Level, dst, x []float32) {
		for i, v := range x {
			dst[i] = v / 2
		}
	}
	for _, o := range []*Real{{Scale: row(1)}, {Scale: row(p.n), Bias: row(p.n), Add: row(p.m * p.n), Then: halve}} {
		o.Y = make([]float32, p.m*p.n)
		to := *g
		to.C, to.Real = nil, o
		Parallel(twoWays, l, &to)
		for i, got := range o.Y {
			j := i % p.n
			// The conversion rounds the product: compilers for arm64 would fuse it with the sum.
			want := float32(float32(g.C[i/p.n*g.LdC+j]) * o.Scale[min(j, len(o.Scale)-1)])
			if o.Bias != nil {
				want = (want + o.Bias[j] + o.Add[i]) / 2
			}
			if got != want {
				t.Fatalf("%v %+v: element %d as float32 is %g, want %g", l, p, i, got, want)
			}
		}
	}
}

func checkTypes(t testing.TB, l cpu.Level, p problem, r *rand.Rand, side testkit.Side, offset int) {
	t.Helper()
	check[uint8, int8](t, l, p, r, side, offset)
	check[uint8, uint8](t, l, p, r, side, offset)
	check[int8, int8](t, l, p, r, side, offset)
	check[int8, uint8](t, l, p, r, side, offset)
}

func TestCompute(t *testing.T) {
	testkit.ByteLevels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(1, 1))
		for i := 1; i < 32; i++ { // every height and width
			checkTypes(t, l, problem{m: i, n: 1 + i*37%70, k: 1 + i*5%23, aZero: i % 3, bZero: i / 3 % 3,
				bias: i&1 == 0, trans: i&2 == 0, words: i%4 < 2, vnni: i%8 < 4}, r, i&1 == 0, i%3)
			checkTypes(t, l, problem{m: i, n: 33 + i, k: 9, words: i%4 >= 2, vnni: i%8 < 4}, r, testkit.High, 0)
		}
		for _, p := range []problem{
			{m: 9, n: 70, k: 500, large: 3000, aZero: 1, bZero: 1}, {m: 6, n: 64, k: 502, large: 3000, extreme: true},
			{m: 300, n: 40, k: 1001, large: 3000, trans: true, bias: true}, {m: 3, n: 40, k: 17000, large: 4000},
			{m: 3, n: 40, k: 128, large: 1 << 40, extreme: true}, {m: 2, n: 40, k: 128, large: 2},
			{m: 0, n: 5, k: 4}, {m: 3, n: 0, k: 4}, {m: 3, n: 5, k: 0, bias: true}, {m: 3, n: 40, k: 512, extreme: true, aZero: 1, bZero: 1},
			{m: 1, n: 300, k: 40, aZero: 1, bZero: 2, bias: true}, {m: 253, n: 300, k: 40, aZero: 2, bZero: 2},
			{m: 300, n: 33, k: 20, aZero: 2, bZero: 2}, {m: 300, n: 33, k: 300, aZero: 2, bZero: 2}, {m: 5, n: 3, k: 20000, aZero: 1, bZero: 1, bias: true},
			{m: 5, n: 3, k: 20000, aZero: 1, bZero: 1, bias: true, vnni: true}, {m: 2, n: 3, k: 70000, extreme: true}, {m: 2, n: 3, k: 70000, extreme: true, words: true},
		} {
			checkTypes(t, l, p, r, testkit.High, 0)
		}
	})
}

func TestRapidCompute(t *testing.T) {
	testkit.ByteLevels(t, func(t *testing.T, l cpu.Level) {
		rapid.Check(t, func(rt *rapid.T) {
			n := func(lo, hi int, name string) int { return rapid.IntRange(lo, hi).Draw(rt, name) }
			p := problem{m: n(0, 70, "m"), n: n(0, 70, "n"), k: n(0, 150, "k"), trans: rapid.Bool().Draw(rt, "trans"),
				aZero: n(0, 3, "azero"), bZero: n(0, 3, "bzero"), bias: rapid.Bool().Draw(rt, "bias"), words: rapid.Bool().Draw(rt, "words"), vnni: rapid.Bool().Draw(rt, "vnni"), extreme: rapid.Bool().Draw(rt, "extreme")}
			r, side, offset := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)),
				testkit.Side(rapid.Bool().Draw(rt, "side")), n(0, 3, "offset")
			testkit.Scope(t, func(t testing.TB) { checkTypes(t, l, p, r, side, offset) })
		})
	})
}

func TestLinear(t *testing.T) {
	inf := float32(math.Inf(1))
	r := rand.New(rand.NewPCG(2, 2))
	x := append(testkit.Special32(), 0.5, 1.5, 2.5, -0.5, -1.5, inf, -inf, 127.5, 128.5, 254.5, 255.5)
	var sums []int32
	for range 3000 {
		x = append(x, float32(r.NormFloat64()*200))
		sums = append(sums, int32(r.NormFloat64()*3000))
	}
	sums = append(sums, math.MinInt32, math.MaxInt32)
	scales := make([]float32, len(sums))
	for i := range scales {
		scales[i] = r.Float32() * 0.1
	}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for n := range 70 {
			for _, side := range []testkit.Side{testkit.Low, testkit.High} {
				in := testkit.GuardedCopy(t, x[n*5:][:n], side, n%5)
				u, s := testkit.Guarded[uint8](t, n, side, n%3), testkit.Guarded[int8](t, n, side, n%3)
				Quantize(l, u, in, 0.75, 100)
				Quantize(l, s, in, 2, -3)
				for i, v := range in {
					if w := saturate(math.RoundToEven(float64(v/0.75))+100, 0, 255); float64(u[i]) != w {
						t.Fatalf("Quantize(%g) to uint8 = %d, want %g", v, u[i], w)
					}
					if w := saturate(math.RoundToEven(float64(v/2))-3, -128, 127); float64(s[i]) != w {
						t.Fatalf("Quantize(%g) to int8 = %d, want %g", v, s[i], w)
					}
				}
				q := testkit.GuardedCopy(t, sums[len(sums)-n:], side, 0)
				sc := testkit.GuardedCopy(t, scales[:n], side, 0)
				Requantize(l, u, q, []float32{0.03}, 7)
				for i, v := range q {
					if w := saturate(math.RoundToEven(float64(float32(v)*float32(0.03)))+7, 0,
						255); float64(u[i]) != w {
						t.Fatalf("Requantize(%d) = %d, want %g", v, u[i], w)
					}
				}
				if n == 0 {
					continue
				}
				Requantize(l, s, q, sc, 7)
				for i, v := range q {
					if n == 1 {
						break
					}
					if w := saturate(math.RoundToEven(float64(float32(v)*sc[i]))+7, -128, 127); float64(s[i]) != w {
						t.Fatalf("Requantize(%d·%g) = %d, want %g", v, sc[i], s[i], w)
					}
				}
			}
		}
		b := make([]uint8, 3*1<<15+77)
		var want uint32
		for i := range b {
			b[i] = uint8(r.Uint32())
			want += uint32(b[i])
		}
		if got := sumU8(l, b); got != want {
			t.Errorf("sum of bytes %d, want %d", got, want)
		}
	})
}

func saturate(v, lo, hi float64) float64 {
	if v != v {
		return lo
	}
	return min(max(v, lo), hi)
}

func TestTransposeBytes(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		sizes := []int{0, 1, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 50}
		for i, rows := range sizes {
			for j, cols := range append(sizes, 4200) {
				side := testkit.Side((i+j)%2 == 0)
				lds, ldd := cols+i%3, rows+(i+j)%3
				n, m := max(0, (rows-1)*lds+cols), max(0, (cols-1)*ldd+rows)
				if rows*cols == 0 {
					n, m = 0, 0
				}
				x, y := testkit.Guarded[byte](t, n, side, i%5), testkit.Guarded[byte](t, m, side, j%5)
				for k := range x {
					x[k] = byte(k*7+k>>8) | 1
				}
				TransposeBytes(l, y, ldd, x, lds, rows, cols)
				for k, v := range y {
					want := byte(0)
					if k%ldd < rows {
						want = x[k%ldd*lds+k/ldd]
					}
					if v != want {
						t.Fatalf("%d×%d, strides %d, %d: element %d is %d, want %d", rows, cols, lds, ldd, k, v, want)
					}
				}
			}
		}
	})
}

// TestQuantizeRounds has quotients close to the middle of two integers, and steps whose reciprocals
// are not normal numbers.
func TestQuantizeRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, scale := range []float32{0.1, 1.0 / 3, 0.0078125, 7, 1e-39, 3e38, 1e-30, -0.3, 0, float32(math.Inf(1)),
			float32(math.NaN())} {
			x := make([]float32, 4096)
			for i := range x {
				x[i] = scale * (float32(r.IntN(600)-300) + 0.5)
				for range r.IntN(4) {
					x[i] = math.Nextafter32(x[i], float32(r.IntN(2)*2-1)*math.MaxFloat32)
				}
			}
			got, want := make([]uint8, len(x)), make([]uint8, len(x))
			Quantize(l, got, x, scale, 7)
			quantizeF32Generic(want, x, scale, 7, 0, 255)
			for i, w := range want {
				if got[i] != w {
					t.Fatalf("%v: %v / %v + 7 = %d, want %d", l, x[i], scale, got[i], w)
				}
			}
		}
	})
}

func TestAddBytes(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		checkAdd[uint8](t, l)
		checkAdd[int8](t, l)
	})
}

func raw[T Byte](s []T) []byte {
	b, _, _ := bytesOf(s)
	return b
}

func checkAdd[T Byte](t *testing.T, l cpu.Level) {
	r := rand.New(rand.NewPCG(3, 3))
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	scales := []float32{0.01, 0.5, 1, 1.7, -2, 1e-40, 16383, -16384, 3e38, 0, float32(math.Copysign(0, -1)),
		inf, -inf, nan}
	lo, hi := 0.0, 255.0
	if T(0)-1 < 0 {
		lo, hi = -128, 127
	}
	for n := range 150 {
		for _, side := range []testkit.Side{testkit.Low, testkit.High} {
			a, b, y := testkit.Guarded[T](t, n, side, n%3), testkit.Guarded[T](t, n, side, n%5),
				testkit.Guarded[T](t, n, side, n%2)
			for i := range a {
				a[i], b[i] = T(r.Uint32()), T(r.Uint32())
			}
			p, q := Linear{scales[n%len(scales)], int32(T(r.Uint32()))},
				Linear{scales[n*5/7%len(scales)], int32(T(r.Uint32()))}
			zero := T(r.Uint32())
			sum := func(a, b T) T {
				v := float32(float32(int32(a)-p.Zero)*p.Scale) + float32(float32(int32(b)-q.Zero)*q.Scale)
				if ps, qs := float64(p.Scale), float64(q.Scale); math.Abs(ps) < 1<<14 && math.Abs(qs) < 1<<14 {
					c := float64(float32(-float64(p.Zero)*ps - float64(q.Zero)*qs))
					v = float32(math.FMA(float64(a), ps, float64(float32(math.FMA(float64(b), qs, c)))))
				}
				return T(int32(saturate(math.RoundToEven(float64(v))+float64(zero), lo, hi)))
			}
			want := make([]T, n)
			for i := range want {
				want[i] = sum(a[i], b[i])
			}
			Add(l, raw(y), raw(a), raw(b), lo < 0, p, q, int32(zero))
			for i, w := range want {
				if y[i] != w {
					t.Fatalf("%v: %d of %d, %d·%+v + %d·%+v + %d = %d, want %d", l, i, n, a[i], p,
						b[i], q, zero, y[i], w)
				}
			}
			for i := range want {
				v := float32(float32(float32(int32(a[i])-p.Zero)*float32(int32(b[i])-q.Zero))*p.Scale) + float32(zero)
				want[i] = T(int32(saturate(math.RoundToEven(float64(v)), lo, hi)))
			}
			Mul(l, raw(y), raw(a), raw(b), lo < 0, p.Zero, q.Zero, p.Scale, int32(zero))
			if !slices.Equal(y, want) {
				t.Fatalf("%v: (%v - %d)·(%v - %d)·%v + %d = %v, want %v", l, a, p.Zero, b, q.Zero,
					p.Scale, zero, y, want)
			}
			for i := range want {
				want[i] = sum(a[i], b[i])
			}
			Add(l, raw(a), raw(a), raw(b), lo < 0, p, q, int32(zero))
			if !slices.Equal(a, want) {
				t.Fatalf("%v: in place %v, want %v", l, a, want)
			}
		}
	}
}

func TestMaxWindow(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		checkMaxWindow[uint8](t, l)
		checkMaxWindow[int8](t, l)
	})
}

// leastOf returns the bits of the smallest value of T.
func leastOf[T Byte]() uint8 {
	if _, lo, _ := bytesOf([]T{}); lo < 0 {
		return 128
	}
	return 0
}

func checkMaxWindow[T Byte](t *testing.T, l cpu.Level) {
	r := rand.New(rand.NewPCG(4, 4))
	for n := 1; n < 100; n++ {
		for stride := 1; stride <= 3; stride++ {
			kh, kw := 1+r.IntN(3), 1+r.IntN(4)
			lds := n*stride + kw + r.IntN(3)
			x := testkit.Guarded[T](t, (kh-1)*lds+(n-1)*stride+kw+stride-1, testkit.Side(n&1 == 0), n%3)
			for i := range x {
				x[i] = T(r.Uint32())
			}
			y, want := testkit.Guarded[T](t, n, testkit.High, 0), make([]T, n)
			for i := range want {
				want[i] = x[i*stride]
				for j := range kh {
					want[i] = max(want[i], slices.Max(x[j*lds+i*stride:][:kw]))
				}
			}
			if MaxWindow(l, raw(y), raw(x), lds, kh, kw, stride, leastOf[T]()); !slices.Equal(y, want) {
				t.Fatalf("%v %d windows of %d×%d, stride %d: %v, want %v", l, n, kh, kw, stride, y, want)
			}
		}
	}
}

func TestMaxRanges(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		checkMaxRanges[uint8](t, l)
		checkMaxRanges[int8](t, l)
	})
}

func checkMaxRanges[T Byte](t *testing.T, l cpu.Level) {
	r := rand.New(rand.NewPCG(5, 5))
	for n := 1; n < 200; n++ {
		count, step, lds, taps := 1+r.IntN(4), r.IntN(2*n), r.IntN(2*n), 1+r.IntN(3)
		x := testkit.Guarded[T](t, (count-1)*step+(taps-1)*lds+n, testkit.Side(n&1 == 0), n%3)
		for i := range x {
			x[i] = T(r.Uint32())
		}
		y, want := testkit.Guarded[T](t, count*n, testkit.High, 0), make([]T, count*n)
		for i := range want {
			want[i] = x[i/n*step+i%n]
			for k := range taps {
				want[i] = max(want[i], x[i/n*step+k*lds+i%n])
			}
		}
		if MaxRanges(l, raw(y), raw(x), n, step, lds, taps, leastOf[T]()); !slices.Equal(y, want) {
			t.Fatalf("%v %d ranges of %d, step %d, %d taps %d apart: %v, want %v", l, count, n,
				step, taps, lds, y, want)
		}
	}
}

func TestEveryAssemblyFunctionIsTested(t *testing.T) {
	testkit.CheckAsmTested(t, ".", []string{"tile*", "sumU8*", "quantizeF32*", "requantizeI32*", "transposeBytes*",
		"interleaveBytes*", "packRows*", "addRows*", "addBytes*", "mulBytes*", "maxWindow*",
		"nbits*", "dequantize4*", "dequantize8*", "quantizeBlock*", "digitBytes*"}) // TestNBits
}

func TestPauses(t *testing.T) {
	a, b := make([]uint8, 64*512), make([]int8, 512*64)
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		if l == cpu.Generic {
			t.Skip("Go code is preemptible")
		}
		g := &Args{M: 64, A: a, LdA: 512, B: Pack(nil, l, b, 64, false, 512, 64), C: make([]int32, 64*64), LdC: 64}
		testkit.CheckPauses(t, func() { Parallel(nil, l, g) })
	})
}

func BenchmarkCompute(b *testing.B) {
	for _, s := range [][3]int{{1, 1024, 1024}, {128, 768, 768}, {512, 512, 512}, {1024, 1024, 1024}} {
		m, n, k := s[0], s[1], s[2]
		random := rand.New(rand.NewPCG(1, 1)) // zeros are multiplied faster
		for _, l := range cpu.Levels() {
			w := make([]int8, k*n)
			for i := range w {
				w[i] = int8(random.Uint32())
			}
			a, s := make([]uint8, m*k), make([]int8, m*k)
			for i := range a {
				a[i], s[i] = uint8(random.Uint32()), int8(random.Uint32())
			}
			signed, _, _ := bytesOf(s)
			p := Pack(nil, l, w, n, false, k, n)
			run := func(kind string, f func()) {
				b.Run(fmt.Sprintf("%dx%dx%d/%s/%v", m, n, k, kind, l), func(b *testing.B) {
					for b.Loop() {
						f()
					}
					b.ReportMetric(2*float64(m*n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GOPS")
				})
			}
			c := make([]int32, m*n)
			u := &Args{M: m, A: a, LdA: k, B: p, C: c, LdC: n, AZero: []int32{3}}
			run("u8s8", func() { Compute(l, u, gemm.Block{Row1: m, Panel1: gemm.Panels(n)}) })
			i := &Args{M: m, A: signed, Signed: true, LdA: k, B: p, C: c, LdC: n, AZero: []int32{3}, BZero: []int32{1}}
			run("s8s8", func() { Compute(l, i, gemm.Block{Row1: m, Panel1: gemm.Panels(n)}) })
		}
	}
}

// A matrix without rows still has columns.
func TestPackOfNoRows(t *testing.T) {
	testkit.ByteLevels(t, func(t *testing.T, l cpu.Level) {
		for _, trans := range []bool{false, true} {
			for _, n := range []int{3, 70} {
				y := slices.Repeat([]int32{1}, n)
				Parallel(nil, l, &Args{M: 1, A: nil, AZero: []int32{3}, B: Pack(nil, l, []uint8{}, n, trans, 0, n),
					C: y, LdC: n})
				if !slices.Equal(y, make([]int32, n)) {
					t.Errorf("trans %v: product over nothing is %v, want zeros", trans, y)
				}
			}
		}
	})
}
