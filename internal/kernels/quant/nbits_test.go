package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

type nbitsProblem struct {
	m, n, k, bits, block int
	zeros, int8, bias    bool
	fractions            bool // zero points are not integers
}

func checkNBits(t *testing.T, l cpu.Level, p nbitsProblem, r *rand.Rand) {
	t.Helper()
	blocks := tiles(p.k, p.block)
	b := make([]uint8, p.n*blocks*p.block*p.bits/8)
	for i := range b {
		b[i] = uint8(r.Uint32())
	}
	scales := make([]float32, p.n*blocks)
	var zeros []float32
	if p.zeros {
		zeros = make([]float32, p.n*blocks)
	}
	for i := range scales {
		scales[i] = r.Float32() + 0.1
		if p.zeros {
			if zeros[i] = float32(r.IntN(1 << p.bits)); p.fractions {
				zeros[i] += r.Float32()
			}
		}
	}
	w, err := PackNBits(b, scales, zeros, p.k, p.n, p.bits, p.block)
	if err != nil {
		t.Fatal(err)
	}
	lda, ldc := p.k+1, p.n+2
	g := &NBitsArgs{M: p.m, A: testkit.Guarded[float32](t, (p.m-1)*lda+p.k, testkit.High, 0), LdA: lda, B: w,
		C: testkit.Guarded[float32](t, (p.m-1)*ldc+p.n, testkit.High, 0), LdC: ldc, Int8: p.int8, Split: true}
	for i := range g.A {
		g.A[i] = float32(r.NormFloat64())
	}
	if p.bias {
		g.Bias = make([]float32, p.n)
		for i := range g.Bias {
			g.Bias[i] = float32(r.NormFloat64())
		}
	}
	ParallelNBits(twoWays, l, g)
	for i := range p.m {
		for j := range p.n {
			var want, tol float64
			for k := range p.k {
				q := j*blocks + k/p.block
				v := float64(b[j*blocks*p.block*p.bits/8+k*p.bits/8])
				if p.bits == 4 {
					v = float64(int(v) >> (k % 2 * 4) & 15)
				}
				z := float64(int(1) << (p.bits - 1))
				if p.zeros {
					z = float64(zeros[q])
				}
				v = (v - z) * float64(scales[q])
				want += float64(g.A[i*lda+k]) * v
				tol += math.Abs(float64(g.A[i*lda+k])*v)*1e-6*math.Sqrt(float64(p.k)) + 1e-6
				if p.zeros { // the parts with and without the zero point cancel
					tol += 128 * float64(scales[q]) * 1e-6
				}
				if p.int8 {
					tol += math.Abs(v) * 5 / 254 // half a step of a block up to 5
				}
			}
			if p.bias {
				want += float64(g.Bias[j])
			}
			if got := float64(g.C[i*ldc+j]); !(math.Abs(got-want) <= tol) {
				t.Fatalf("%v %+v: C[%d,%d] = %g, want %g ± %g", l, p, i, j, got, want, tol)
			}
		}
	}
}

func TestNBits(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(3, 3))
		for i := range 60 {
			checkNBits(t, l, nbitsProblem{m: 1 + i%12, n: 1 + i*13%70, k: 1 + i*29%200, bits: 4 + 4*(i%2),
				block: 16 << (i % 4), zeros: i&1 == i>>1&1, int8: i%3 == 0, bias: i%5 == 0,
				fractions: i%7 < 3}, r)
		}
		for m := 1; m < 7; m++ {
			for _, zeros := range []bool{false, true} {
				for _, i8 := range []bool{false, true} {
					for _, bits := range []int{4, 8} {
						checkNBits(t, l, nbitsProblem{m: m, n: 45, k: 100, bits: bits, block: 32,
							zeros: zeros, int8: i8}, r)
					}
				}
			}
		}
		// products of bfloat16 tiles, of which the panels have whole blocks or padding
		checkNBits(t, l, nbitsProblem{m: 70, n: 290, k: 256, bits: 4, block: 32, bias: true}, r)
		checkNBits(t, l, nbitsProblem{m: 64, n: 256, k: 300, bits: 4, block: 16, zeros: true}, r)
		checkNBits(t, l, nbitsProblem{m: 65, n: 257, k: 270, bits: 8, block: 64, zeros: true}, r)
		checkNBits(t, l, nbitsProblem{m: 2, n: 3, k: 17000, bits: 4, block: 128, int8: true}, r)
		checkNBits(t, l, nbitsProblem{m: 2, n: 3, k: 17000, bits: 4, block: 128, zeros: true}, r)
	})
}

// TestInt8IsExactOnIntegers checks that rows of small integers whose block maximum is 127 are
// exact.
func TestInt8IsExactOnIntegers(t *testing.T) {
	testInt8IsExact(t, 4)
	testInt8IsExact(t, 8)
}

func testInt8IsExact(t *testing.T, bits int) {
	const n, k, block = 40, 96, 32
	r := rand.New(rand.NewPCG(4, 4))
	b, scales, a := make([]uint8, n*k*bits/8), make([]float32, n*k/block), make([]float32, k)
	for i := range b {
		b[i] = uint8(r.Uint32())
	}
	for i := range scales {
		scales[i] = 0.5
	}
	for i := range a {
		a[i] = float32(r.IntN(255) - 127)
		if i%block == 0 {
			a[i] = 127
		}
	}
	w, err := PackNBits(b, scales, nil, k, n, bits, block)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		exact, rounded := make([]float32, n), make([]float32, n)
		ParallelNBits(nil, l, &NBitsArgs{M: 1, A: a, LdA: k, B: w, C: exact, LdC: n})
		ParallelNBits(nil, l, &NBitsArgs{M: 1, A: a, LdA: k, B: w, C: rounded, LdC: n, Int8: true})
		for j := range exact {
			var want float32
			for i, v := range a {
				q := b[(j*k+i)*bits/8]
				if bits == 4 {
					q = q >> (i % 2 * 4) & 15
				}
				want += v * (float32(q) - w.standard()) / 2
			}
			if exact[j] != want || rounded[j] != want {
				t.Errorf("%d bits, column %d: %g and %g, want %g", bits, j, exact[j], rounded[j], want)
			}
		}
	})
}

// TestNBitsInfinite checks that an infinite element of A gives the infinities and NaN of the
// dequantized GEMM.
func TestNBitsInfinite(t *testing.T) {
	const n, k, block = 33, 64, 32
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, bits := range []int{4, 8} {
			r := rand.New(rand.NewPCG(9, uint64(bits)))
			b, scales := make([]uint8, n*k*bits/8), make([]float32, n*k/block)
			for i := range b {
				b[i] = uint8(r.Uint32())
			}
			for i := range scales {
				scales[i] = 0.5
			}
			w, err := PackNBits(b, scales, nil, k, n, bits, block)
			if err != nil {
				t.Fatal(err)
			}
			for m := 1; m <= 5; m++ {
				a, c := make([]float32, m*k), make([]float32, m*n)
				for i := range a {
					a[i] = float32(1 + i%3)
				}
				a[7], a[m*k-2] = float32(math.Inf(1)), float32(math.Inf(-1))
				ParallelNBits(nil, l, &NBitsArgs{M: m, A: a, LdA: k, B: w, C: c, LdC: n})
				for i := range m {
					for j := range n {
						var want float32
						for q := range k {
							v := b[(j*k+q)*bits/8]
							if bits == 4 {
								v = v >> (q % 2 * 4) & 15
							}
							want += a[i*k+q] * ((float32(v) - w.standard()) * scales[(j*k+q)/block])
						}
						if got := c[i*n+j]; got != want && !(got != got && want != want) {
							t.Errorf("%v, %d bits, C[%d,%d] of %d rows = %g, want %g", l, bits, i, j, m, got, want)
						}
					}
				}
			}
		}
	})
}

// TestNBitsMagnitudes checks rows whose blocks differ in magnitude, up to those that have no scale
// as digits, and NaN.
func TestNBitsMagnitudes(t *testing.T) {
	const n, k, block = 40, 128, 32
	r := rand.New(rand.NewPCG(10, 10))
	b, scales := make([]uint8, n*k), make([]float32, n*k/block)
	for i := range b {
		b[i] = uint8(r.Uint32())
	}
	for i := range scales {
		scales[i] = 0.5
	}
	w, err := PackNBits(b, scales, nil, k, n, 8, block)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, magnitudes := range [][k / block]float64{{1, 1, 1, 1}, {1, 127. / 128, 255. / 256, 1 - 1e-7},
			{1e-20, 1, 1e20, 0}, {1e-30, 1e-25, 1e-28, 0}, {1e-37, 1e-36, 1e-40, 0}, {1e34, 1e30, 1, 0}, {math.NaN(), 1, 1, 1}} {
			a, c := make([]float32, k), make([]float32, n)
			for i := range a {
				a[i] = float32(magnitudes[i/block] * (1 - 2*r.Float64()))
				if i%block == 5 {
					a[i] = float32(magnitudes[i/block])
				}
			}
			ParallelNBits(nil, l, &NBitsArgs{M: 1, A: a, LdA: k, B: w, C: c, LdC: n})
			for j := range n {
				var want, tol float64
				for i, v := range a {
					want += float64(v) * (float64(b[j*k+i]) - 128) / 2
					tol += 64 * math.Abs(magnitudes[i/block]) * 0x1p-22
				}
				tol += 1e-45 * k // of subnormal products
				if got := float64(c[j]); !(math.Abs(got-want) <= tol) && !(got != got && want != want) {
					t.Errorf("%v, magnitudes %v: C[%d] = %g, want %g ± %g", l, magnitudes, j, got, want, tol)
				}
			}
		}
	})
}

func TestPackNBitsErrors(t *testing.T) {
	for _, c := range []struct {
		bits, block, bytes int
		want               string
	}{{3, 32, 64, "3 bits"}, {4, 24, 64, "block size 24"}, {4, 8, 64, "block size 8"}, {4, 32, 10, "10 bytes"}} {
		if _, err := PackNBits(make([]uint8, c.bytes), make([]float32, 4), nil, 32, 4, c.bits, c.block); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func BenchmarkNBits(b *testing.B) {
	const n, k = 4096, 4096
	for _, bits := range []int{4, 8} {
		w, err := PackNBits(make([]uint8, n*k*bits/8), make([]float32, n*k/32), nil, k, n, bits, 32)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range []int{1, 4, 8, 16, 32, 128} {
			for _, i8 := range []bool{false, true} {
				g := &NBitsArgs{M: m, A: make([]float32, m*k), LdA: k, B: w, C: make([]float32, m*n), LdC: n, Int8: i8}
				for i := range g.A {
					g.A[i] = float32(i % 7)
				}
				b.Run(fmt.Sprintf("bits%d/m%d/int8=%v", bits, m, i8), func(b *testing.B) {
					for b.Loop() {
						ParallelNBits(nil, cpu.Active(), g)
					}
					b.ReportMetric(2*float64(m*n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GOPS")
				})
			}
		}
	}
}
