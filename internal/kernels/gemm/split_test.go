package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("splitPanel", "splitRows")

// splitCase is a GEMM of m×n with sums of k terms and an epilogue, whose A and C end at the end of
// accessible memory, and its B. form selects packed panels of float32 or binary16, or a matrix as
// it is or transposed.
func splitCase(t testing.TB, r *rand.Rand, m, n, k, form int, number func() float32) (*Args[float32], []float32) {
	fill := func(x []float32) []float32 {
		for i := range x {
			x[i] = number()
		}
		return x
	}
	b := make([]float32, k*n)
	for i := range b {
		b[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(20)-10))
		if form == 1 {
			b[i] = float32(r.IntN(200) - 100)
		}
	}
	packed := make([]float32, PackedLen(k, n))
	Pack(packed, b, n, false, k, n)
	a := &Args[float32]{M: m, N: n, K: k, A: fill(testkit.Guarded[float32](t, m*k, testkit.High, 0)), LdA: k,
		C: testkit.Guarded[float32](t, m*n, testkit.High, 0), LdC: n, Splits: true}
	switch form {
	case 0:
		a.B, a.Packed = packed, true
	case 1:
		a.Half = make([]uint16, len(packed))
		PackHalf(cpu.Generic, a.Half, packed)
	case 2:
		a.B, a.LdB = b, n
	case 3:
		a.B, a.LdB, a.TransB = make([]float32, k*n), k, true
		vec.TransposeF32(cpu.Generic, a.B, k, b, n, k, n)
	}
	switch r.IntN(4) {
	case 0:
		a.BiasCol, a.Act = fill(make([]float32, n)), Relu
	case 1:
		a.Alpha, a.BiasRow = 0.5, fill(make([]float32, m))
	case 2:
		a.Add, a.LdAdd, a.Act, a.Lo, a.Hi = fill(make([]float32, m*n)), n, Clip, -1, 1
	}
	return a, b
}

// exceptional returns a number of a row that cannot be split.
func exceptional(r *rand.Rand) float32 {
	inf := float32(math.Inf(1))
	return []float32{inf, -inf, float32(math.NaN()), math.MaxFloat32, -1e30}[r.IntN(5)]
}

// TestSplitLevels requires the same bits of all levels and cuts, and of rows with exceptional
// numbers those of the row by itself without splitting.
func TestSplitLevels(t *testing.T) {
	defer cpu.EmulateBF16(cpu.BF16Tiles)()
	r := rand.New(rand.NewPCG(1, 3))
	cases := 60
	if testing.Short() {
		cases = 24
	}
	for i := range cases {
		m, n, k := 1+r.IntN(100), 1+r.IntN(100), 1+r.IntN(150)
		switch i % 20 {
		case 5:
			k += 1100
		case 10:
			m += 300
		case 15:
			n += 256
		}
		a, _ := splitCase(t, r, m, n, k, i%4, func() float32 {
			return float32(math.Ldexp(r.NormFloat64(), r.IntN(31)-15))
		})
		odd := make([]bool, m)
		for row := range m {
			switch x := a.A[row*k:][:k]; r.IntN(12) {
			case 0:
				odd[row], x[r.IntN(k)] = true, exceptional(r)
			case 1:
				odd[row] = true
				for j := range x {
					x[j] *= 0x1p-110
				}
			case 2:
				clear(x)
			}
		}
		var want []float32
		for _, l := range cpu.Levels() {
			a.Split = make([]uint16, SplitLen(m, k))
			a.SplitRows(l, a.Split, 0, m)
			for _, threads := range []int{1, 3} {
				for j := range a.C {
					a.C[j] = -7
				}
				Parallel(func(n int, fn func(lo, hi int)) {
					for i := range threads {
						fn(n*i/threads, n*(i+1)/threads)
					}
				}, l, a)
				alone := *a
				alone.Split, alone.C = nil, make([]float32, m*n)
				for row := range m {
					got := a.C[row*n:][:n]
					if odd[row] {
						F32(l, &alone, Block{row, row + 1, 0, Panels(n)})
						for j, v := range alone.C[row*n:][:n] {
							if math.Float32bits(v) != math.Float32bits(got[j]) && (v == v || got[j] == got[j]) {
								t.Fatalf("%s, case %d: row %d alone: result %d is %g, want %g", l, i, row, j, got[j], v)
							}
						}
						clear(got)
					}
				}
				if want == nil {
					want = slices.Clone(a.C)
				}
				for j, v := range a.C {
					if math.Float32bits(v) != math.Float32bits(want[j]) {
						t.Fatalf("%s, case %d, %d×%d×%d, %d threads: result %d is %g, want %g", l, i, m, n, k,
							threads, j, v, want[j])
					}
				}
			}
		}
	}
}

// TestSplitError bounds the error of sums of numbers of several magnitudes, and of sums that
// cancel, and compares its largest with that of float32 multiplications.
func TestSplitError(t *testing.T) {
	defer cpu.EmulateBF16(cpu.BF16Tiles)()
	level := cpu.Detected()
	r := rand.New(rand.NewPCG(2, 3))
	for _, c := range []struct {
		name   string
		a      float64 // factor of A
		spread int     // of the exponents of A
		cancel bool    // the second half of each sum is the first, negative, with one bit other
	}{{"normal", 1, 0, false}, {"spread", 1, 20, false}, {"small", 0x1p-36, 0, false},
		{"large", 0x1p55, 0, false}, {"wide", 0x1p20, 60, false}, {"cancelling", 1, 3, true}} {
		for _, k := range []int{32, 200, 1536} {
			m, n := 40, 40
			a, b := splitCase(t, r, m, n, k, 0, func() float32 {
				return float32(math.Ldexp(r.NormFloat64()*c.a, r.IntN(2*c.spread+1)-c.spread))
			})
			a.Epilogue = Epilogue[float32]{}
			if c.cancel {
				for i := range m {
					x := a.A[i*k:][:k]
					for j := range k / 2 {
						x[k/2+j] = -math.Float32frombits(math.Float32bits(x[j]) ^ 1)
					}
				}
				copy(b[k/2*n:], b[:k/2*n])
				Pack(a.B, b, n, false, k, n)
			}
			errors := func() (worst float64) {
				F32(level, a, a.Whole())
				for i := range m {
					most := 0.0
					for _, v := range a.A[i*k:][:k] {
						most = max(most, math.Abs(float64(v)))
					}
					for j := range n {
						var want, sum float64
						for p := range k {
							v := float64(a.A[i*k+p]) * float64(b[p*n+j])
							want += v
							sum += math.Abs(v)
						}
						lost := float64(k) * 0x1p-123 * (most + 0x1p13)
						e := math.Abs(float64(a.C[i*n+j])-want) - lost
						bound := (6*float64(k)/32 + 25) * 0x1p-24 * sum
						if a.Split != nil && e > bound {
							t.Fatalf("%s, K %d: error %g, want at most %g", c.name, k, e, bound)
						}
						worst = max(worst, e/sum)
					}
				}
				return worst
			}
			single := errors()
			a.Split = make([]uint16, SplitLen(m, k))
			a.SplitRows(level, a.Split, 0, m)
			if split := errors(); split > max(1.5*single, 0x1p-24) {
				t.Errorf("%s, K %d: largest error %g, without splitting %g", c.name, k, split*(1<<24), single*(1<<24))
			}
		}
	}
}

// TestSplitsB checks the limits of B.
func TestSplitsB(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		low, high float32
		want      bool
	}{{-1, 1, true}, {-0x1p50, 0, true}, {0, 0x1p-60, true}, {0, 0, false}, {0, 0x1p51, false}, {-0x1p51, 1, false},
		{-0x1p-61, 0x1p-61, false}, {-inf, 1, false}, {0, inf, false}, {nan, nan, false}} {
		if got := SplitsB(c.low, c.high); got != c.want {
			t.Errorf("SplitsB(%g, %g) = %t, want %t", c.low, c.high, got, c.want)
		}
	}
}

// TestSplitPauses checks that calls are short and allocate nothing.
func TestSplitPauses(t *testing.T) {
	level := cpu.Detected()
	if cpu.RunsBF16(level) != cpu.BF16Tiles {
		t.Skip("the processor has no AMX")
	}
	a, _ := splitCase(t, rand.New(rand.NewPCG(3, 3)), 300, 500, 2000, 0, func() float32 { return 1 })
	a.Epilogue = Epilogue[float32]{}
	a.Split = make([]uint16, SplitLen(a.M, a.K))
	run := func() {
		a.SplitRows(level, a.Split, 0, a.M)
		F32(level, a, a.Whole())
	}
	testkit.CheckPauses(t, run)
	if got := testing.AllocsPerRun(3, run); got != 0 {
		t.Errorf("%g allocations per call, want 0", got)
	}
}

func BenchmarkSplit(b *testing.B) {
	if cpu.RunsBF16(cpu.Active()) != cpu.BF16Tiles {
		b.Skip("the processor has no AMX")
	}
	for _, m := range []int{16, 64, 128, 256, 512} {
		for _, s := range [][2]int{{384, 384}, {768, 768}, {3072, 768}, {768, 3072}} {
			a, _ := splitCase(b, rand.New(rand.NewPCG(4, 3)), m, s[0], s[1], 0, func() float32 { return 1.1 })
			a.Epilogue = Epilogue[float32]{}
			split := *a
			split.Split = make([]uint16, SplitLen(m, a.K))
			for _, args := range []*Args[float32]{a, &split} {
				b.Run(fmt.Sprintf("split=%t/%dx%dx%d", args.Split != nil, m, a.N, a.K), func(b *testing.B) {
					for b.Loop() {
						if args.Split != nil {
							args.SplitRows(cpu.Active(), args.Split, 0, m)
						}
						F32(cpu.Active(), args, args.Whole())
					}
					b.ReportMetric(2*float64(m*a.N*a.K)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
				})
			}
		}
	}
}
