package gemm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// bf16Case is a GEMM with an epilogue, whose A and C end at the end of accessible memory.
func bf16Case(t *testing.T, r *rand.Rand, m, n, k int, transA bool, number func() float32) (*Args[float32], []float32) {
	fill := func(x []float32) []float32 {
		for i := range x {
			x[i] = number()
		}
		return x
	}
	b := fill(make([]float32, k*n))
	packed := make([]float32, PackedLen(k, n))
	Pack(packed, b, n, false, k, n)
	a := &Args[float32]{M: m, N: n, K: k, A: fill(testkit.Guarded[float32](t, m*k, testkit.High, 0)),
		LdA: k, TransA: transA,
		BF16: make([]uint16, BF16Len(k, n)), C: testkit.Guarded[float32](t, m*n, testkit.High, 0), LdC: n}
	if transA {
		a.LdA = m
	}
	PackBF16(cpu.Generic, a.BF16, packed, k, n)
	switch r.IntN(5) {
	case 0:
		a.BiasCol = fill(make([]float32, n))
	case 1:
		a.Alpha, a.BiasRow, a.Act = 0.5, fill(make([]float32, m)), Relu
	case 2:
		a.Add, a.LdAdd, a.Act, a.Lo, a.Hi = fill(make([]float32, m*n)), n, Clip, -1, 1
	case 3:
		a.Alpha, a.BiasCol, a.Add, a.LdAdd = 0.5, fill(make([]float32, n)), fill(make([]float32, m*n)), n
	}
	return a, b
}

// TestBF16Levels requires the same bits of all levels, for numbers from subnormal to infinite.
func TestBF16Levels(t *testing.T) {
	testkit.BF16Orders(t, testBF16Levels)
}

func testBF16Levels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cases := 150
	if testing.Short() {
		cases = 60
	}
	for i := range cases {
		m, n, k := 1+r.IntN(70), 1+r.IntN(100), 1+r.IntN(150)
		if i%10 == 0 {
			k += 512
		}
		spread := []int{0, 3, 40, 75, 270}[i%5]
		number := func() float32 {
			x := float32(math.Ldexp(r.NormFloat64(), r.IntN(2*spread+1)-spread))
			if i%5 == 4 && r.IntN(1000) == 0 {
				x = float32(math.Inf(r.IntN(3) - 1))
			}
			return x
		}
		a, _ := bf16Case(t, r, m, n, k, i%3 == 0, number)
		if i%2 == 0 {
			a.Rounded = make([]uint16, RoundedLen(m, k))
			a.RoundRows(cpu.Generic, a.Rounded, 0, m)
		}
		Generic(a, a.Whole())
		want := slices.Clone(a.C)
		for _, l := range cpu.Levels() {
			if a.Rounded != nil {
				got := make([]uint16, len(a.Rounded))
				a.RoundRows(l, got, 0, m)
				if !slices.Equal(got, a.Rounded) {
					t.Fatalf("%s: the rounded rows differ", l)
				}
			}
			for j := range a.C {
				a.C[j] = -7
			}
			Parallel(func(n int, fn func(lo, hi int)) {
				for i := range n {
					fn(i, i+1)
				}
			}, l, a)
			for j, v := range a.C {
				if math.Float32bits(v) != math.Float32bits(want[j]) && (v == v || want[j] == want[j]) {
					t.Fatalf("%s (fast %t): %d×%d×%d, spread %d: result %d is %g, want %g", l, cpu.BFloat16(l), m, n,
						k, spread, j, v, want[j])
				}
			}
		}
	}
}

// TestBF16Sums compares with float64 sums of the rounded operands.
func TestBF16Sums(t *testing.T) { testkit.BF16Orders(t, testBF16Sums) }

func testBF16Sums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	round := func(x float32) float64 {
		return float64(math.Float32frombits(uint32(vec.RoundBF16(x)) << 16))
	}
	for range 20 {
		m, n, k := 1+r.IntN(40), 1+r.IntN(70), 1+r.IntN(200)
		a, b := bf16Case(t, r, m, n, k, false, func() float32 { return float32(r.NormFloat64()) })
		a.Epilogue = Epilogue[float32]{}
		for _, l := range cpu.Levels() {
			F32(l, a, a.Whole())
			for i := range m {
				for j := range n {
					var want, bound float64
					for p := range k {
						v := round(a.A[i*k+p]) * round(b[p*n+j])
						want += v
						bound += math.Abs(v)
					}
					bound *= float64(k+3) * 0x1p-24
					if got := float64(a.C[i*n+j]); math.Abs(got-want) > bound {
						t.Fatalf("%s: %d×%d×%d at %d, %d: %g, want %g ± %g", l, m, n, k, i, j, got, want, bound)
					}
				}
			}
		}
	}
}

// TestPackBF16 requires the same panels of all levels, padded with zeros.
func TestPackBF16(t *testing.T) { testkit.BF16Orders(t, testPackBF16) }

func testPackBF16(t *testing.T) {
	group := bf16Order().group()
	r := rand.New(rand.NewPCG(5, 6))
	for k := 1; k < 70; k += 3 {
		n := 1 + r.IntN(80)
		packed := make([]float32, PackedLen(k, n))
		for i := range packed {
			packed[i] = math.Float32frombits(r.Uint32())
		}
		want := make([]uint16, BF16Len(k, n))
		PackBF16(cpu.Generic, want, packed, k, n)
		size := len(want) / Panels(n)
		for i, v := range want {
			p, at := i/size, i%size
			row, col := at/(group*PanelWidth)*group+at%group, at/group%PanelWidth
			x := uint16(0)
			if row < k {
				x = vec.RoundBF16(packed[(p*k+row)*PanelWidth+col])
			}
			if v != x {
				t.Fatalf("K %d: element %d is %#x, want %#x", k, i, v, x)
			}
		}
		for _, l := range cpu.Levels() {
			got := make([]uint16, len(want))
			for i := range got {
				got[i] = 7
			}
			if PackBF16(l, got, packed, k, n); !slices.Equal(got, want) {
				t.Fatalf("%s: the panels of %d×%d differ", l, k, n)
			}
		}
	}
}

// TestBF16Pauses checks that calls are short and allocate nothing.
func TestBF16Pauses(t *testing.T) {
	const m, n = 200, 500
	k := 2000
	if testing.Short() {
		k = 500
	}
	a := &Args[float32]{M: m, N: n, K: k, A: make([]float32, m*k), LdA: k, BF16: make([]uint16, BF16Len(k, n)),
		C: make([]float32, m*n), LdC: n}
	a.BiasCol = make([]float32, n)
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		if cpu.RunsBF16(l) == cpu.BF16None {
			t.Skip("the level has no instructions for bfloat16")
		}
		testkit.CheckPauses(t, func() { F32(l, a, a.Whole()) })
		if got := testing.AllocsPerRun(3, func() { F32(l, a, a.Whole()) }); got != 0 {
			t.Errorf("%g allocations per call, want 0", got)
		}
	})
}

func BenchmarkBF16(b *testing.B) {
	for _, s := range [][3]int{{128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {384, 768, 768}, {384, 3072, 768},
		{384, 768, 3072}, {1, 768, 768}, {16, 768, 768}, {1024, 1024, 1024}} {
		m, n, k := s[0], s[1], s[2]
		r := rand.New(rand.NewPCG(7, 8))
		a := &Args[float32]{M: m, N: n, K: k, A: make([]float32, m*k), LdA: k, B: make([]float32, PackedLen(k, n)),
			LdB: n, Packed: true, C: make([]float32, m*n), LdC: n}
		a.BiasCol = make([]float32, n)
		for i := range a.A {
			a.A[i] = float32(r.NormFloat64())
		}
		for i := range a.B {
			a.B[i] = float32(r.NormFloat64())
		}
		l := cpu.Active()
		run := func(name string, a *Args[float32], rounded bool) {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", name, m, n, k), func(b *testing.B) {
				for b.Loop() {
					if rounded {
						a.RoundRows(l, a.Rounded, 0, m)
					}
					F32(l, a, a.Whole())
				}
				b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
			})
		}
		run("float32", a, false)
		w := *a
		w.B, w.Packed, w.BF16 = nil, false, make([]uint16, BF16Len(k, n))
		PackBF16(l, w.BF16, a.B, k, n)
		run("bfloat16", &w, false)
		w.Rounded = make([]uint16, RoundedLen(m, k))
		w.RoundRows(l, w.Rounded, 0, m)
		run("rounded", &w, false)
	}
}

// TestSumToOdd compares with sums of 300 bits.
func TestSumToOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for range 20000 {
		x := math.Float32frombits(r.Uint32())
		y := math.Float32frombits(math.Float32bits(x) ^ 1<<31 ^ r.Uint32()>>(5+r.IntN(20)))
		if x-x != 0 || y-y != 0 {
			continue
		}
		s := new(big.Float).SetPrec(300).Add(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		down := new(big.Float).SetMode(big.ToZero).SetPrec(24).Set(s)
		v, _ := down.Float64()
		want := float32(v)
		switch {
		case down.MantExp(nil) > 128:
			want = float32(math.Inf(s.Sign()))
		case down.MantExp(nil) < -125 && s.Sign() != 0:
			want = float32(math.Copysign(0, v))
		case down.Cmp(s) != 0:
			want = math.Float32frombits(math.Float32bits(want) | 1)
		}
		if got := float32(sumToOdd(float64(x), float64(y))); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%g + %g: %g, want %g", x, y, got, want)
		}
	}
}
