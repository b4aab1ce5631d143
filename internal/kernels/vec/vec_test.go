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

type level = cpu.Level

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
						if math.Abs(float64(got)-float64(want)) <=
							0x1p-22*(math.Abs(float64(a)*float64(b))*2+math.Abs(float64(b))*2)+0x1p-148 ||
							math.Abs(float64(a)) > 1e18 || math.Abs(float64(b)) > 1e18 {
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
										t.Fatalf("%s off %d len %d: in place over input %d gives %g, want %g", name,
											off, n, j, in[i], o[i])
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
		return ExpSubSumF32(l, d, d, largest(x)-1)
	}, func(x []float32) (s, tol float64) {
		shift := largest(x) - 1
		for _, v := range x {
			s += math.Exp(float64(v - shift))
		}
		return s, s * 0x1p-20
	}},
}

// largest returns the largest element, 0 without elements.
func largest(x []float32) float32 {
	if len(x) == 0 {
		return 0
	}
	return slices.Max(x)
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
			want("softmax", func(i int) float64 { return math.Exp(float64(x[i])-mx) / sum },
				func(w float64) float64 { return w * 3e-6 })
			LogSoftmaxF32(l, d, x)
			want("log softmax", func(i int) float64 { return float64(x[i]) - mx - math.Log(sum) },
				func(w float64) float64 { return 1e-6 * (math.Abs(w) + 20) })
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
			want("rms norm", func(i int) float64 { return float64(x[i]) / math.Sqrt(sq+1e-5) * float64(gain[i]) },
				func(w float64) float64 { return 2e-6 * (1 + math.Abs(w)) })
		}
		nan := float32(math.NaN())
		for _, row := range [][]float32{{1, nan, 2}, {float32(math.Inf(-1)), float32(math.Inf(-1))},
			{1, float32(math.Inf(1))}} {
			d := make([]float32, len(row))
			SoftmaxF32(l, d, row)
			if s := SumF32(l, d); s == s {
				t.Errorf("softmax of %v = %v, want a NaN", row, d)
			}
		}
	})
}

var _ = testkit.Tested("transposeF32")

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

var _ = testkit.Tested("softmaxRowsF32", "logSoftmaxRowsF32", "logSumExpRowsF32")

func TestSoftmaxRows(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		testkit.Sides(func(side string, s testkit.Side) {
			for n := 1; n <= 140; n++ {
				for rows := range 4 {
					x, d := testkit.Guarded[float32](t, n*rows, s, rows%3),
						testkit.Guarded[float32](t, n*rows, s, rows%3)
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
							t.Fatalf("%s: element %d of %d·%d is %g, in place %g, want %g", side, i,
								rows, n, d[i], x[i], w[i])
						}
						if i%n == 0 && math.Abs(float64(total[i/n]-totalWant[i/n])) > 0x1p-22*(1+100) {
							t.Fatalf("%s: logarithm of sum %d of %d·%d is %g, want %g", side, i/n, rows, n,
								total[i/n], totalWant[i/n])
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
	for _, k := range unaryTable {
		names = append(names, k.name+"F32")
	}
	for _, k := range binaryTable {
		names = append(names, k.name+"F32")
	}
	for _, k := range reduceTable {
		names = append(names, k.name+"F32")
	}
	for _, k := range rowsTable {
		names = append(names, k.name+"RowsF32")
	}
	for _, k := range castTable {
		names = append(names, k.name)
	}
	testkit.CheckAsmTested(t, ".", names)
}

func TestPauses(t *testing.T) {
	x := make([]float32, 32<<20) // without chunks, a call would take tens of milliseconds
	testkit.Levels(t, func(t *testing.T, l level) {
		if l == cpu.Generic {
			t.Skip("Go code is preemptible")
		}
		testkit.CheckPauses(t, func() { MishF32(l, x, x) })
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

// BenchmarkMaskedSoftmax has rows whose scores are masked but for the first, as those of attention:
// exponentials that underflow must not take longer.
func BenchmarkMaskedSoftmax(b *testing.B) {
	for _, masked := range []float32{-1, -10_000, float32(math.Inf(-1))} {
		x, y := make([]float32, 1024), make([]float32, 1024)
		for i := range x[1:] {
			x[1+i] = masked
		}
		for _, l := range cpu.Levels() {
			b.Run(fmt.Sprintf("%v/%v", masked, l), func(b *testing.B) {
				for b.Loop() {
					SoftmaxF32(l, y, x)
				}
			})
		}
	}
}
