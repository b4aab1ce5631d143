package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

// naive computes element (i, j) of the GEMM and the sum of magnitudes in float64.
func naive[T Number](a *Args[T], i, j int) (sum, mag float64) {
	for p := range a.K {
		x, y := a.LdA*i+p, a.LdB*p+j
		if a.TransA {
			x = a.LdA*p + i
		}
		if a.TransB {
			y = a.LdB*j + p
		}
		v := float64(a.A[x]) * float64(a.B[y])
		sum += v
		mag += math.Abs(v)
	}
	return
}

func (e *Epilogue[T]) naive(s float64, i, j int) (float64, float64) {
	if e.Alpha != 0 {
		s *= float64(e.Alpha)
	}
	m := 0.0
	plus := func(v T) { s += float64(v); m += math.Abs(float64(v)) }
	if e.BiasCol != nil {
		plus(e.BiasCol[j])
	}
	if e.BiasRow != nil {
		plus(e.BiasRow[i])
	}
	if e.Add != nil {
		plus(e.Add[i*e.LdAdd+j])
	}
	switch e.Act {
	case Relu:
		s = max(s, 0)
	case Clip:
		s = min(max(s, float64(e.Lo)), float64(e.Hi))
	}
	return s, m
}

type shape struct {
	m, n, k        int
	transA, transB bool
	packed         bool
	ep             int // bits: alpha, column bias, row bias, add, relu, clip
	pad            int // strides beyond the row length
}

func (s shape) String() string {
	return fmt.Sprintf("m%d n%d k%d tA%v tB%v packed%v ep%06b pad%d", s.m, s.n, s.k, s.transA, s.transB,
		s.packed, s.ep, s.pad)
}

func check[T Number](t testing.TB, s shape, side testkit.Side, offset int, eps float64, gen func() T,
	run func(*Args[T])) {
	t.Helper()
	mk := func(n int) []T {
		g := testkit.Guarded[T](t, n, side, offset)
		for i := range g {
			g[i] = gen()
		}
		return g
	}
	matrix := func(r, c int) ([]T, int) {
		ld := c + s.pad
		return mk(max(0, (r-1)*ld+c)), ld
	}
	a := &Args[T]{M: s.m, N: s.n, K: s.k, TransA: s.transA, TransB: s.transB}
	if s.transA {
		a.A, a.LdA = matrix(s.k, s.m)
	} else {
		a.A, a.LdA = matrix(s.m, s.k)
	}
	if s.transB {
		a.B, a.LdB = matrix(s.n, s.k)
	} else {
		a.B, a.LdB = matrix(s.k, s.n)
	}
	a.C, a.LdC = matrix(s.m, s.n)
	if s.ep&1 != 0 {
		a.Alpha = 3
	}
	if s.ep&2 != 0 {
		a.BiasCol = mk(s.n)
	}
	if s.ep&4 != 0 {
		a.BiasRow = mk(s.m)
	}
	if s.ep&8 != 0 {
		a.Add, a.LdAdd = matrix(s.m, s.n)
	}
	if s.ep&16 != 0 {
		a.Act = Relu
	}
	if s.ep&32 != 0 {
		a.Act, a.Lo, a.Hi = Clip, 1, 2
	}
	before := append([]T(nil), a.C...)
	plain := *a
	if s.packed {
		p := testkit.Guarded[T](t, PackedLen(s.k, s.n), side, offset)
		Pack(p, a.B, a.LdB, a.TransB, s.k, s.n)
		a.B, a.Packed, a.TransB, a.LdB = p, true, false, 0
	}
	run(a)
	bad := 0
	for i := range s.m {
		for j := range s.n {
			sum, mag := naive(&plain, i, j)
			want, more := plain.Epilogue.naive(sum, i, j)
			tol := (mag*(float64(s.k)+3)*4 + more*4) * eps
			if got := float64(a.C[i*a.LdC+j]); !(math.Abs(got-want) <= tol) && bad < 5 {
				bad++
				t.Errorf("%v: C[%d,%d] = %g, want %g ± %g", s, i, j, got, want, tol)
			}
		}
		for j := s.n; j < a.LdC && i+1 < s.m; j++ {
			if a.C[i*a.LdC+j] != before[i*a.LdC+j] {
				t.Errorf("%v: C[%d,%d] between the rows was overwritten", s, i, j)
			}
		}
	}
}

func floats[T float32 | float64](r *rand.Rand) func() T {
	return func() T { return T(r.Float64()*2 - 1) }
}

func TestShapesF32(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(1, 2))
		ks := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64}
		ep := 0
		for m := range 32 {
			for _, n := range []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 48, 63, 64, 65, 100} {
				k := ks[(m*7+n)%len(ks)]
				ep = (ep + 13) & 63
				s := shape{m: m, n: n, k: k, packed: ep&1 == 0, pad: ep % 3, ep: ep, transA: ep%5 == 0,
					transB: ep%7 == 0}
				check(t, s, ep&4 == 0, ep&3, 0x1p-24, floats[float32](r),
					func(a *Args[float32]) { F32(l, a, a.Whole()) })
			}
		}
	})
}

func TestLongK(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(3, 4))
		for i, s := range []shape{
			{m: 1, n: 40, k: 5000}, {m: 1, n: 40, k: 5000, packed: true}, {m: 15, n: 33, k: 1030}, {m: 15, n: 33, k: 1030, packed: true},
			{m: 300, n: 35, k: 530}, {m: 20, n: 20, k: 1030, transA: true, transB: true}, {m: 260, n: 5, k: 600, transA: true},
		} {
			for _, ep := range []int{0, 63 &^ 32, 63} {
				s.ep = ep
				check(t, s, i&1 == 0, 1, 0x1p-24, floats[float32](r), func(a *Args[float32]) { F32(l, a, a.Whole()) })
			}
		}
	})
}

func TestRapidF32(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		rapid.Check(t, func(rt *rapid.T) {
			s := shape{
				m: rapid.IntRange(0, 40).Draw(rt, "m"), n: rapid.IntRange(0, 130).Draw(rt, "n"), k: rapid.IntRange(0, 90).Draw(rt, "k"),
				transA: rapid.Bool().Draw(rt, "transA"), transB: rapid.Bool().Draw(rt, "transB"), packed: rapid.Bool().Draw(rt, "packed"),
				ep: rapid.IntRange(0, 63).Draw(rt, "epilogue"), pad: rapid.IntRange(0, 3).Draw(rt, "pad"),
			}
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
			side, offset := testkit.Side(rapid.Bool().Draw(rt, "side")), rapid.IntRange(0, 17).Draw(rt, "offset")
			testkit.Scope(t, func(t testing.TB) {
				check(t, s, side, offset, 0x1p-24, floats[float32](r),
					func(a *Args[float32]) { Parallel(twoWays, l, a) })
			})
		})
	})
}

// twoWays runs uneven parts at the same time.
func twoWays(n int, fn func(lo, hi int)) {
	var wg sync.WaitGroup
	m := (n + 2) / 3
	wg.Go(func() { fn(0, m) })
	fn(m, n)
	wg.Wait()
}

func TestGenericTypes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range []shape{{m: 5, n: 37, k: 19, ep: 2}, {m: 9, n: 4, k: 3, transA: true, transB: true, ep: 63},
		{m: 3, n: 70, k: 600, packed: true, ep: 8}} {
		check(t, s, testkit.High, 0, 0x1p-53, floats[float64](r), func(a *Args[float64]) { Generic(a, a.Whole()) })
		check(t, s, testkit.High, 0, 0, func() int32 { return r.Int32N(7) - 3 },
			func(a *Args[int32]) { Generic(a, a.Whole()) })
		check(t, s, testkit.High, 0, 0, func() int64 { return r.Int64N(7) - 3 },
			func(a *Args[int64]) { Generic(a, a.Whole()) })
	}
}

// TestWide runs the kernels of float64 and integers for every number of rows and columns of a
// tile, in memory that ends after the matrices.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 6))
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for m := 1; m <= 9; m++ {
			for n := 1; n <= 33; n++ {
				s := shape{m: m, n: n, k: 1 + r.IntN(9), transA: m%3 == 0, transB: n%5 == 0,
					ep: []int{0, 63}[r.IntN(2)]}
				for _, side := range []testkit.Side{testkit.Low, testkit.High} {
					check(t, s, side, 0, 0x1p-53, floats[float64](r), func(a *Args[float64]) { Parallel(nil, l, a) })
					check(t, s, side, 0, 0, func() int32 { return r.Int32N(7) - 3 },
						func(a *Args[int32]) { Parallel(twoWays, l, a) })
					check(t, s, side, 0, 0, func() int64 { return r.Int64N(1<<25) - 1<<24 },
						func(a *Args[int64]) { Parallel(twoWays, l, a) })
				}
			}
		}
		check(t, shape{m: 40, n: 70, k: 2100}, testkit.High, 0, 0x1p-53, floats[float64](r),
			func(a *Args[float64]) { Parallel(twoWays, l, a) })
	})
}

// TestNaNAndInf has special values in A. They must reach every element of their row through the
// activations, and no other row.
func TestNaNAndInf(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, act := range []Activation{None, Relu, Clip} {
			for _, m := range []int{1, 2, 5, 14, 17} {
				const n, k = 45, 21
				a := &Args[float32]{M: m, N: n, K: k, A: make([]float32, m*k), LdA: k, B: make([]float32, k*n), LdB: n,
					C: make([]float32, m*n), LdC: n}
				a.Act, a.Lo, a.Hi = act, -3, inf
				for i := range a.A {
					a.A[i] = 1
				}
				for i := range a.B {
					a.B[i] = 1
				}
				a.A[(m-1)*k+20] = nan
				if m > 1 {
					a.A[3] = inf
				}
				F32(l, a, a.Whole())
				for i := range m {
					for j := range n {
						got := a.C[i*n+j]
						switch {
						case i == m-1:
							if got == got {
								t.Fatalf("act %d m %d: C[%d,%d] = %g, want NaN", act, m, i, j, got)
							}
						case i == 0:
							if got != inf {
								t.Fatalf("act %d m %d: C[%d,%d] = %g, want +Inf", act, m, i, j, got)
							}
						case got != k:
							t.Fatalf("act %d m %d: C[%d,%d] = %g, want %d", act, m, i, j, got, k)
						}
					}
				}
			}
		}
	})
}

func TestVectors(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, k := range []int{4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100} {
			for _, n := range []int{1, 2, 3, 4, 5, 8, 31, 63, 64, 65, 66, 80, 97, 130} {
				s := shape{m: 1 + (k+n)%2, n: n, k: k, transB: n%2 == 0, ep: (k * n) & 63, pad: n % 3}
				for _, side := range []testkit.Side{testkit.Low, testkit.High} {
					check(t, s, side, k%5, 0x1p-24, floats[float32](r),
						func(a *Args[float32]) { Parallel(twoWays, l, a) })
					s.transB = !s.transB
				}
			}
		}
		for _, s := range []shape{{m: 1, n: 9, k: 70000, transB: true}, {m: 1, n: 9000, k: 6},
			{m: 2, n: 700, k: 500, transB: true}} {
			check(t, s, testkit.High, 0, 0x1p-24, floats[float32](r), func(a *Args[float32]) { F32(l, a, a.Whole()) })
		}
	})
}

func TestHalf(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(9, 9))
		halves := func() float32 { return float32(r.IntN(4001)-2000) / 512 }
		multiply := func(a *Args[float32]) {
			a.Half = make([]uint16, len(a.B))
			if !PackHalf(l, a.Half, a.B) {
				t.Fatal("binary16 numbers are not packed as binary16")
			}
			a.B = nil
			Parallel(twoWays, l, a)
		}
		for _, s := range []shape{{m: 1, n: 70, k: 300, packed: true}, {m: 20, n: 33, k: 600, packed: true, ep: 63},
			{m: 1, n: 40, k: 0, packed: true, ep: 2}, {m: 1, n: 97, k: 5003, packed: true, ep: 63}, {m: 40, n: 32, k: 7, packed: true, ep: 8}, {m: 2, n: 33, k: 5000, packed: true, ep: 31}, {m: 3, n: 50, k: 70, packed: true, ep: 63}, {m: 4, n: 65, k: 33, packed: true}, {m: 5, n: 65, k: 33, packed: true},
			{m: 6, n: 10, k: 40, packed: true}, {m: 7, n: 64, k: 129, packed: true, ep: 63}, {m: 8, n: 70, k: 20, packed: true}, {m: 13, n: 65, k: 1100, packed: true, ep: 31}, {m: 17, n: 40, k: 70, packed: true}} {
			check(t, s, testkit.High, 0, 0x1p-24, halves, multiply)
		}
		for m := range 2*tileRows + 2 { // each height of the first tile, alone and with others
			check(t, shape{m: m + 1, n: 40, k: []int{1, 3, 6, 37, 1030}[m%5], packed: true, ep: m}, testkit.High, 0,
				0x1p-24, halves, multiply)
		}
		if PackHalf(l, make([]uint16, 3), []float32{1, 0.1, 2}) {
			t.Error("0.1 is packed as binary16, want a rejection")
		}
		if PackHalf(l, make([]uint16, 1), []float32{1e6}) {
			t.Error("1e6 is packed as binary16, want a rejection")
		}
	})
}

func TestEveryAssemblyFunctionIsTested(t *testing.T) {
	// TestShapesF32 runs every height; TestVectors; TestBF16Levels; TestRowOfPanels
	testkit.CheckAsmTested(t, ".", []string{"tile*", "dotRows*", "addRows*", "columns*", "wide*", "pairsBF16*",
		"foursBF16*", "rowBF16*", "rowsBF16*", "dots*", "rowPanels*", "rowHalves*"})
}

func TestPauses(t *testing.T) {
	const n = 256
	a := &Args[float32]{M: n, N: n, K: n, A: make([]float32, n*n), LdA: n, B: make([]float32, n*n), LdB: n,
		C: make([]float32, n*n), LdC: n}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		if l == cpu.Generic {
			t.Skip("Go code is preemptible")
		}
		testkit.CheckPauses(t, func() { F32(l, a, Block{0, 14, 0, 1}) })
		testkit.CheckPauses(t, func() { F32(l, a, a.Whole()) })
	})
}

func TestNoAllocations(t *testing.T) {
	const n = 50
	a := &Args[float32]{M: n, N: n, K: n, A: make([]float32, n*n), LdA: n, B: make([]float32, n*n), LdB: n,
		TransB: true, TransA: true, C: make([]float32, n*n), LdC: n}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		if got := testing.AllocsPerRun(20, func() { F32(l, a, a.Whole()) }); got != 0 {
			t.Errorf("%v allocations", got)
		}
	})
}

func BenchmarkHalf(b *testing.B) {
	const n, k = 4096, 4096
	a := &Args[float32]{M: 1, N: n, K: k, A: make([]float32, k), LdA: k, C: make([]float32, n), LdC: n, Packed: true}
	for _, half := range []bool{false, true} {
		if half {
			a.B, a.Half = nil, make([]uint16, PackedLen(k, n))
		} else {
			a.B = make([]float32, PackedLen(k, n))
		}
		b.Run(fmt.Sprintf("1x4096x4096/half=%v", half), func(b *testing.B) {
			for b.Loop() {
				F32(cpu.Active(), a, a.Whole())
			}
		})
	}
}

// BenchmarkStreamed multiplies by other weights each time, more than the caches hold, as the
// layers of a network do.
func BenchmarkStreamed(b *testing.B) {
	for _, s := range []shape{{m: 128, n: 768, k: 768}, {m: 128, n: 3072, k: 768}, {m: 128, n: 768, k: 3072},
		{m: 4, n: 768, k: 768}, {m: 8, n: 768, k: 768}, {m: 16, n: 768, k: 768}, {m: 1, n: 4096, k: 4096}} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), func(b *testing.B) {
			size := PackedLen(s.k, s.n)
			all := slices.Repeat([]float32{1}, 96<<20/4/size*size+size) // untouched pages would all share one page
			a := &Args[float32]{M: s.m, N: s.n, K: s.k, A: make([]float32, s.m*s.k+16), LdA: s.k,
				C: make([]float32, s.m*s.n+16), LdC: s.n, Packed: true}
			i := 0
			for b.Loop() {
				a.B = all[i : i+size]
				F32(cpu.Active(), a, a.Whole())
				if i += size; i == len(all) {
					i = 0
				}
			}
			b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()),
				"GFLOPS")
		})
	}
}

func BenchmarkF32(b *testing.B) {
	for _, s := range []shape{
		{m: 1, n: 1024, k: 1024, packed: true}, {m: 1, n: 1024, k: 1024}, {m: 1, n: 1024, k: 1024, transB: true},
		{m: 8, n: 768, k: 768, packed: true}, {m: 128, n: 768, k: 768, packed: true}, {m: 128, n: 768, k: 768}, {m: 128, n: 128, k: 64, transB: true},
		{m: 128, n: 3072, k: 768, packed: true}, {m: 128, n: 768, k: 3072, packed: true},
		// rows that share sets of a cache
		{m: 384, n: 768, k: 3072, packed: true}, {m: 500, n: 512, k: 2048, packed: true}, {m: 128, n: 1024, k: 1024, packed: true},
		{m: 512, n: 512, k: 512, packed: true}, {m: 1024, n: 1024, k: 1024, packed: true}, {m: 1024, n: 1024, k: 1024},
	} {
		for _, l := range cpu.Levels() {
			b.Run(fmt.Sprintf("%dx%dx%d/packed=%v,tB=%v/%v", s.m, s.n, s.k, s.packed, s.transB, l), func(b *testing.B) {
				a := &Args[float32]{M: s.m, N: s.n, K: s.k, A: make([]float32, s.m*s.k+16), LdA: s.k, LdB: s.n,
					TransB: s.transB, C: make([]float32, s.m*s.n+16), LdC: s.n, Packed: s.packed}
				a.B = make([]float32, PackedLen(s.k, s.n)+16)
				if s.transB {
					a.LdB = s.k
				}
				blk := a.Whole()
				for b.Loop() {
					F32(l, a, blk)
				}
				b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()),
					"GFLOPS")
			})
		}
	}
}

// TestRowsDoNotDependOnTheSplit compares bits: the results of threads that share the rows equal
// those of one thread. Tiles of another height must sum in the same order.
func TestRowsDoNotDependOnTheSplit(t *testing.T) {
	const n = 5
	r := rand.New(rand.NewPCG(7, 7))
	some := func(n int) []float32 {
		s, next := make([]float32, n), floats[float32](r)
		for i := range s {
			s[i] = next()
		}
		return s
	}
	for _, c := range []struct{ k, most int }{{39, 300}, {1500, 40}} {
		b := some(c.k * n)
		testkit.Levels(t, func(t *testing.T, l cpu.Level) {
			for m := 1; m <= c.most; m++ {
				a := some(m * c.k)
				product := func(par Par) []float32 {
					y := make([]float32, m*n)
					Parallel(par, l, &Args[float32]{M: m, N: n, K: c.k, A: a, LdA: c.k, B: b, LdB: n, C: y, LdC: n})
					return y
				}
				want := product(nil)
				for _, part := range []int{1, 2, 3} {
					got := product(func(n int, fn func(lo, hi int)) {
						for lo := 0; lo < n; lo += part {
							fn(lo, min(n, lo+part))
						}
					})
					if !slices.Equal(got, want) {
						t.Fatalf("%d rows, K %d, cut into %d units each: results differ from those in one piece",
							m, c.k, part)
					}
				}
			}
		})
	}
}

func TestColumnsDoNotDependOnTheSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	next := floats[float32](r)
	for _, n := range []int{7, 32, 33, 64, 70, 100, 300} {
		for _, k := range []int{3, 4, 30, 257} {
			const m = 3
			a, b := make([]float32, m*k), make([]float32, k*n)
			for _, x := range [][]float32{a, b} {
				for i := range x {
					x[i] = next()
				}
			}
			testkit.Levels(t, func(t *testing.T, l cpu.Level) {
				for g := (Args[float32]{N: n, K: k, A: a, LdA: k, B: b, LdB: n, LdC: n}); g.M < m; {
					g.M++
					for _, g.TransB = range []bool{false, true} {
						if g.LdB = n; g.TransB {
							g.LdB = k
						}
						product := func(par Par) []float32 {
							g.C = make([]float32, m*n)
							Parallel(par, l, &g)
							return g.C
						}
						want := product(nil)
						for part := range 3 {
							got := product(func(n int, fn func(lo, hi int)) {
								for lo := 0; lo < n; lo += part + 1 {
									fn(lo, min(n, lo+part+1))
								}
							})
							if !slices.Equal(got, want) {
								t.Fatalf("%d×%d×%d, B transposed %t, cut into %d panels each: results differ from "+
									"those in one piece", g.M, n, k, g.TransB, part+1)
							}
						}
					}
				}
			})
		}
	}
}

// TestThen checks that Then is applied once to each element of the result, after the epilogue.
func TestThen(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	next := floats[float32](r)
	for _, c := range []struct{ m, n, k int }{{1, 70, 30}, {2, 300, 64}, {7, 5, 0}, {20, 130, 1500}, {300, 200, 33}} {
		a, b := make([]float32, c.m*c.k), make([]float32, c.k*c.n)
		for i := range a {
			a[i] = next()
		}
		for i := range b {
			b[i] = next()
		}
		testkit.Levels(t, func(t *testing.T, l cpu.Level) {
			product := func(par Par, then func(l cpu.Level, dst, x []float32)) []float32 {
				g := &Args[float32]{M: c.m, N: c.n, K: c.k, A: a, LdA: c.k, B: b, LdB: c.n, C: make([]float32, c.m*c.n),
					LdC: c.n, Then: then}
				g.Act = Relu
				Parallel(par, l, g)
				return g.C
			}
			add := func(_ cpu.Level, dst, x []float32) {
				for i := range x {
					dst[i] = x[i] + 3
				}
			}
			for _, par := range []Par{nil, twoWays} {
				want := product(par, nil)
				for i := range want {
					want[i] += 3
				}
				if got := product(par, add); !slices.Equal(got, want) {
					t.Fatalf("%+v: results differ from a function that is applied afterwards", c)
				}
			}
		})
	}
}

// TestSplit checks that the blocks of any ranges cover each element of the result once and are
// of limited size.
func TestSplit(t *testing.T) {
	for _, c := range []struct{ m, n, k, work int }{
		{1, 1, 1, 1 << 20}, {14, 4096, 10, 1 << 20}, {5000, 20, 10, 1 << 20}, {700, 300, 100, 64 << 20}, {700, 100, 4096, 4 << 20}, {61, 70, 1 << 20, 4 << 20}, {300, 33, 0, 4 << 20},
	} {
		for _, step := range []int{1, 3, 7, 1 << 20} {
			panels := Panels(c.n)
			seen := make([]int, c.m*panels)
			Split(func(n int, fn func(lo, hi int)) {
				for lo := 0; lo < n; lo += step {
					fn(lo, min(n, lo+step))
				}
			}, c.m, c.n, c.k, c.work, func(b Block) {
				rows := b.Row1 - b.Row0
				if step == 1 && rows > tileRows && rows*PanelWidth*c.k > c.work &&
					(b.Panel1-b.Panel0 == 1 || c.m > blockM) {
					t.Errorf("%+v: a block of %d rows", c, rows)
				}
				for r := b.Row0; r < b.Row1; r++ {
					for p := b.Panel0; p < b.Panel1; p++ {
						seen[r*panels+p]++
					}
				}
			})
			for i, n := range seen {
				if n != 1 {
					t.Fatalf("%+v in steps of %d: row %d of panel %d is computed %d times", c, step,
						i/panels, i%panels, n)
				}
			}
		}
	}
}
