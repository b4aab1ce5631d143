package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

// blocked is a random two-dimensional convolution in both layouts.
type blocked struct {
	*Shape
	x, w  []float32
	ep    Epilogue[float32]
	want  []float64
	check func(got []float32) // compares the results, unless nil
}

func newBlocked(r *rand.Rand, s *Shape, epilogue int) *blocked {
	b := &blocked{Shape: s, x: random(r, s.Cin*s.In[0]*s.In[1]), w: random(r, s.Cout*s.Cin/s.Group*product(s.Kernel))}
	n := s.Cout * product(s.Out)
	if epilogue&1 != 0 {
		b.ep.Bias = random(r, s.Cout)
	}
	if epilogue&2 != 0 {
		b.ep.Add = random(r, n)
	}
	if epilogue&4 != 0 {
		b.ep.Act, b.ep.Lo, b.ep.Hi = gemm.Clip, -1, 2
	}
	if epilogue&8 != 0 {
		b.ep.Act = gemm.Relu
	}
	b.want = make([]float64, n)
	NaiveGeneric(s, b.want, to64(b.x), to64(b.w), b.ep.to64())
	return b
}

// layouts returns the layouts of input, output and residual. The borders of the last two must
// not change.
func (b *blocked) layouts(flat bool) (in, out, add Layout) {
	if flat {
		return NewLayout(b.Cin, b.In[0], b.In[1], 0, 0, 0, 0), NewLayout(b.Cout, b.Out[0], b.Out[1], 0, 0, 0, 0),
			NewLayout(b.Cout, b.Out[0], b.Out[1], 0, 0, 0, 0)
	}
	return NewLayout(b.Cin, b.In[0], b.In[1], b.PadBegin[0], b.PadBegin[1], b.PadEnd[0], b.PadEnd[1]),
		NewLayout(b.Cout, b.Out[0], b.Out[1], 1, 2, 0, 1), NewLayout(b.Cout, b.Out[0], b.Out[1], 0, 1, 2, 0)
}

// run converts, calls f on guarded slices and compares.
func (b *blocked) run(t testing.TB, what string, level cpu.Level, side testkit.Side, flat bool, tol float64,
	f func(in, out Layout, y, x []float32, ep *BlockedEpilogue)) {
	t.Helper()
	in, out, add := b.layouts(flat)
	x := testkit.Guarded[float32](t, in.Len(), side, 0)
	in.FromNCHW(level, x, b.x, 0, in.Blocks())
	y := testkit.Guarded[float32](t, out.Len(), side, 0)
	const mark = -77
	for i := range y {
		y[i] = mark
	}
	ep := &BlockedEpilogue{Act: b.ep.Act, Lo: b.ep.Lo, Hi: b.ep.Hi}
	if b.ep.Add != nil {
		ep.AddLayout = add
		ep.Add = testkit.Guarded[float32](t, add.Len(), side, 0)
		add.FromNCHW(level, ep.Add, b.ep.Add, 0, add.Blocks())
	}
	f(in, out, y, x, ep)
	got := make([]float32, len(b.want))
	out.ToNCHW(level, got, y, 0, out.Blocks())
	// Clipping makes the outputs small, but not the errors, which depend on the sums of normal
	// products.
	if b.check != nil {
		b.check(got)
	} else {
		near32(t, what, got, b.want, tol*math.Sqrt(float64(b.Cin/b.Group*product(b.Kernel))))
	}
	// The border must not change.
	inside := make([]bool, len(y))
	for c := range out.Blocks() {
		for h := range out.H {
			for i := range out.W * Lanes {
				inside[out.At(c, h, 0)+i] = true
			}
		}
	}
	for i, v := range y {
		if !inside[i] && v != mark {
			t.Fatalf("%s: element %d of the border was overwritten with %g", what, i, v)
		}
	}
	// An infinite input makes no padding channel NaN.
	if ep.Channels = b.Cout; b.Cout%Lanes == 0 {
		return
	}
	for i := range x {
		x[i] = float32(math.Inf(1))
	}
	finite := b.x
	b.x = slices.Repeat(x[:1], len(b.x))
	f(in, out, y, x, ep)
	b.x = finite
	for h := range out.H {
		for i, v := range y[out.At(out.Blocks()-1, h, 0):][:out.W*Lanes] {
			if i%Lanes >= b.Cout%Lanes && v != v {
				t.Fatalf("%s: channel %d of pixel %d in row %d is NaN", what, b.Cout/Lanes*Lanes+i%Lanes, i/Lanes, h)
			}
		}
	}
}

func (b *blocked) direct(t testing.TB, l cpu.Level, side testkit.Side, flat bool) {
	t.Helper()
	k := float64(b.Cin / b.Group * product(b.Kernel))
	b.run(t, fmt.Sprintf("direct %v %+v", l, *b.Shape), l, side, flat, 6e-6*max(1, math.Sqrt(k)/30),
		func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
			d := &Direct{In: in, Out: out, StrideH: b.Stride[0], StrideW: b.Stride[1], DilationH: b.Dilation[0],
				DilationW: b.Dilation[1], Top: b.PadBegin[0], Left: b.PadBegin[1],
				Weights: PackWeights(l, b.w, b.ep.Bias, b.Cin, b.Cout, b.Group, b.Kernel[0], b.Kernel[1])}
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
			d.Run(l, twoWays, y, x, ep)
		})
}

func TestDirect(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(1, 2))
		for i, s := range []*Shape{
			shape2(1, 16, 32, 1, 5, 14, 3, 1, 1, 1), shape2(1, 24, 40, 1, 6, 29, 1, 1, 1, 0), shape2(1, 3, 20, 1, 9, 9, 3, 2, 1, 1),
			shape2(1, 40, 48, 1, 7, 7, 3, 1, 2, 2), shape2(1, 32, 32, 8, 6, 6, 3, 1, 1, 1), shape2(1, 96, 48, 3, 5, 5, 1, 1, 1, 0), shape2(1, 30, 60, 5, 5, 8, 3, 2, 1, 1),
			// 24 channels of a tile
			shape2(1, 48, 24, 2, 4, 4, 5, 3, 1, 2), shape2(1, 20, 12, 1, 3, 3, 3, 1, 1, 2), shape2(1, 700, 20, 1, 4, 5, 3, 1, 1, 1), shape2(1, 700, 24, 1, 3, 28, 3, 1, 1, 1), shape2(1, 20, 52, 1, 2, 14, 1, 1, 1, 0), shape2(1, 20, 24, 1, 15, 29, 3, 2, 1, 1),
		} {
			for _, e := range []int{0, 3, 7, 11} {
				b := newBlocked(r, s, e)
				b.direct(t, l, i&1 == 0, false)
				if product(s.Kernel) == 1 {
					b.direct(t, l, i&1 == 1, true)
				}
			}
		}
		for w := 1; w < 31; w++ { // every tile height, one and two blocks
			newBlocked(r, shape2(1, 17, 16*(1+w%3), 1, 2, w, 1, 1, 1, 0), w&15).direct(t, l, w&1 == 0, w%3 == 0)
		}
	})
}

func TestRapidDirect(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		rapid.Check(t, func(rt *rapid.T) {
			g := rapid.SampledFrom([]int{1, 1, 2, 3, 4}).Draw(rt, "group")
			n := func(lo, hi int, name string) []int {
				return rapid.SliceOfN(rapid.IntRange(lo, hi), 2, 2).Draw(rt, name)
			}
			s := &Shape{N: 1, Group: g, Cin: g * rapid.IntRange(1, 24).Draw(rt, "cin"),
				Cout: g * rapid.IntRange(1, 24).Draw(rt, "cout"),
				In:   n(1, 17, "in"), Kernel: n(1, 4, "kernel"), Stride: n(1, 3, "stride"), Dilation: n(1, 2, "dilation"), PadBegin: n(0, 3, "begin"), PadEnd: n(0, 3, "end")}
			if s.Check() != nil {
				return
			}
			b := newBlocked(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)), s,
				rapid.IntRange(0, 15).Draw(rt, "epilogue"))
			side := testkit.Side(rapid.Bool().Draw(rt, "side"))
			testkit.Scope(t, func(t testing.TB) { b.direct(t, l, side, false) })
		})
	})
}

func TestDepthwise(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(4, 4))
		shapes := []*Shape{
			shape2(1, 16, 16, 16, 5, 14, 3, 1, 1, 1), shape2(1, 40, 40, 40, 9, 15, 5, 2, 1, 2), shape2(1, 5, 5, 5, 8, 31, 3, 1, 2, 2), shape2(1, 33, 33, 33, 3, 1, 1, 1, 1, 0),
			shape2(1, 16, 16, 16, 2, 2, 3, 1, 1, 1), shape2(1, 16, 16, 16, 4, 10, 3, 1, 1, 1), shape2(1, 16, 16, 16, 4, 9, 3, 1, 1, 1), shape2(1, 16, 16, 16, 4, 13, 3, 1, 1, 1), shape2(1, 16, 16, 16, 4, 11, 3, 1, 1, 1),
			shape2(1, 16, 16, 16, 3, 7, 46, 1, 1, 23), // more taps than one call takes
		}
		for w := 1; w < 32; w++ { // every tile height of the kernels of 3 and 5 columns
			for k := 3; k <= 5; k += 2 {
				shapes = append(shapes, shape2(1, 20, 20, 20, 3, w, k, 1, 1, k/2),
					shape2(1, 20, 20, 20, 5, 2*w, k, 2, 1, k/2))
			}
		}
		for i, s := range shapes {
			epilogues := 16
			if i > 9 {
				epilogues = 2 + 2*(i&1)
			}
			for e := range epilogues {
				b := newBlocked(r, s, e)
				b.run(t, fmt.Sprintf("depthwise %v %+v", l, *s), l, (i+e)&1 == 0, false, 1e-5,
					func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
						d := &Depthwise{In: in, Out: out, StrideH: s.Stride[0], StrideW: s.Stride[1],
							DilationH: s.Dilation[0], DilationW: s.Dilation[1], Top: s.PadBegin[0], Left: s.PadBegin[1],
							Weights: PackDepthwise(b.w, b.ep.Bias, s.Cin, s.Kernel[0], s.Kernel[1])}
						if err := d.Check(); err != nil {
							t.Fatal(err)
						}
						d.Run(l, twoWays, y, x, ep)
					})
			}
		}
	})
}

func TestNCHWInput(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(5, 5))
		shapes := []*Shape{shape2(1, 3, 64, 1, 23, 30, 7, 2, 1, 3), shape2(1, 1, 20, 1, 12, 12, 5, 1, 1, 2),
			shape2(1, 4, 40, 1, 9, 9, 3, 2, 2, 1), shape2(1, 3, 16, 1, 4, 2, 3, 1, 1, 4)}
		for w := 1; w < 16; w++ {
			shapes = append(shapes, shape2(1, 2, 16*(1+w%2), 1, 3, w, 3, 1, 1, 1))
		}
		for i, s := range shapes {
			for _, e := range []int{i & 15, 3, 7, 8} {
				b := newBlocked(r, s, e)
				b.run(t, fmt.Sprintf("nchw %v %+v", l, *s), l, i&1 == 0, false, 1e-5,
					func(_, out Layout, y, _ []float32, ep *BlockedEpilogue) {
						d := &NCHWInput{Cin: s.Cin, H: s.In[0], W: s.In[1], Out: out, StrideH: s.Stride[0],
							StrideW: s.Stride[1], DilationH: s.Dilation[0], DilationW: s.Dilation[1],
							Top: s.PadBegin[0], Left: s.PadBegin[1], Weights: PackNCHWInput(l, b.w, b.ep.Bias, s.Cin, s.Cout, s.Kernel[0], s.Kernel[1])}
						d.Run(l, twoWays, y, testkit.GuardedCopy(t, b.x, testkit.High, 0), ep)
					})
			}
		}
	})
}

func TestPool(t *testing.T) {
	nan := float32(math.NaN())
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(6, 6))
		for i, s := range []*Shape{
			shape2(1, 16, 16, 16, 8, 30, 3, 2, 1, 1), shape2(1, 20, 20, 20, 7, 7, 2, 2, 1, 0), shape2(1, 16, 16, 16, 7, 9, 7, 1, 1, 3), shape2(1, 16, 16, 16, 12, 9, 3, 1, 2, 2),
			shape2(1, 16, 16, 16, 3, 3, 3, 1, 1, 0), shape2(1, 16, 16, 16, 2, 40, 2, 1, 1, 1), shape2(1, 16, 16, 16, 3, 2, 2, 3, 1, 4),
		} {
			x := random(r, s.Cin*product(s.In))
			x[r.IntN(len(x))] = nan
			x[r.IntN(len(x))] = float32(math.Inf(1))
			in, out := NewLayout(s.Cin, s.In[0], s.In[1], i%2, 0, 1, i%3),
				NewLayout(s.Cin, s.Out[0], s.Out[1], 0, i%2, 0, 0)
			bx := testkit.Guarded[float32](t, in.Len(), testkit.High, 0)
			in.FromNCHW(l, bx, x, 0, in.Blocks())
			for _, kind := range []PoolKind{MaxPool, AveragePool, AveragePoolIncludePad} {
				by := testkit.Guarded[float32](t, out.Len(), testkit.High, 0)
				p := &Pool{Kind: kind, In: in, Out: out, KH: s.Kernel[0], KW: s.Kernel[1], StrideH: s.Stride[0],
					StrideW: s.Stride[1], DilationH: s.Dilation[0], DilationW: s.Dilation[1],
					Top: s.PadBegin[0], Left: s.PadBegin[1], Bottom: s.PadEnd[0], Right: s.PadEnd[1]}
				if err := p.Check(); err != nil {
					t.Fatal(err)
				}
				p.Run(l, twoWays, by, bx)
				y := make([]float32, s.Cin*product(s.Out))
				out.ToNCHW(l, y, by, 0, out.Blocks())
				for j, got := range y {
					c, oy, ox := j/product(s.Out), j%product(s.Out)/s.Out[1], j%s.Out[1]
					m, sum, n, padded := math.Inf(-1), 0.0, 0, 0
					for ky := range s.Kernel[0] {
						for kx := range s.Kernel[1] {
							iy, ix := oy*s.Stride[0]-s.PadBegin[0]+ky*s.Dilation[0],
								ox*s.Stride[1]-s.PadBegin[1]+kx*s.Dilation[1]
							if iy < s.In[0]+s.PadEnd[0] && ix < s.In[1]+s.PadEnd[1] {
								padded++
							}
							if iy >= 0 && iy < s.In[0] && ix >= 0 && ix < s.In[1] {
								v := float64(x[(c*s.In[0]+iy)*s.In[1]+ix])
								m, sum, n = max(m, v), sum+v, n+1
							}
						}
					}
					want := m
					switch {
					case kind == MaxPool:
					case n == 0:
						want = 0
					case kind == AveragePool:
						want = sum / float64(n)
					default:
						want = sum / float64(padded)
					}
					if g := float64(got); g != want && !(math.Abs(g-want) <= 2e-6) && !(g != g && want != want) {
						t.Fatalf("%v kind %d %+v: output %d is %g, want %g", l, kind, *s, j, got, want)
					}
				}
			}
		}
	})
}

// TestNaNPasses checks that activations and maxima propagate NaN.
func TestNaNPasses(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		s := shape2(1, 16, 32, 1, 6, 6, 3, 1, 1, 1)
		for _, e := range []int{0, 3, 7, 11} {
			b := newBlocked(rand.New(rand.NewPCG(7, uint64(e))), s, e)
			b.x[14] = float32(math.NaN())
			in, out, _ := b.layouts(false)
			x, y := make([]float32, in.Len()), make([]float32, out.Len())
			in.FromNCHW(l, x, b.x, 0, in.Blocks())
			ep := &BlockedEpilogue{Act: b.ep.Act, Lo: b.ep.Lo, Hi: b.ep.Hi}
			for name, run := range map[string]func(){
				"direct": func() {
					(&Direct{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
						Weights: PackWeights(l, b.w, nil, 16, 32, 1, 3, 3)}).Run(l, nil, y, x, ep)
				},
				"winograd": func() {
					(&Winograd{In: in, Out: out, Top: 1, Left: 1, Dilation: 1,
						Weights: PackWinograd(l, 2, b.w, nil, 16, 32)}).Run(l, nil, y, x, ep)
				},
			} {
				clear(y)
				run()
				if v := y[out.At(1, 2, 2)]; v == v {
					t.Errorf("%s epilogue %d: NaN gives %g, want NaN", name, e, v)
				}
				if v := y[out.At(1, 5, 5)]; v != v {
					t.Errorf("%s epilogue %d: NaN reached a pixel that does not read it", name, e)
				}
			}
		}
	})
}

func TestLayoutRoundTrip(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for _, s := range [][7]int{{1, 1, 1, 0, 0, 0, 0}, {16, 5, 7, 1, 1, 1, 1}, {37, 4, 33, 0, 2, 1, 0},
			{20, 9, 9, 0, 0, 0, 0}} {
			ly := NewLayout(s[0], s[1], s[2], s[3], s[4], s[5], s[6])
			x := make([]float32, s[0]*s[1]*s[2])
			for i := range x {
				x[i] = float32(i + 1)
			}
			b := testkit.Guarded[float32](t, ly.Len(), testkit.High, 0)
			for i := range b {
				b[i] = -1
			}
			ly.FromNCHW(l, b, x, 0, ly.Blocks())
			for i, v := range b {
				if v < 0 {
					t.Fatalf("%v: element %d of the blocked image was not written", s, i)
				}
			}
			for c := range s[0] {
				if got, want := b[ly.At(c/16, s[1]-1, s[2]-1)+c%16], x[(c+1)*s[1]*s[2]-1]; got != want {
					t.Fatalf("%v: channel %d at the last pixel is %g, want %g", s, c, got, want)
				}
			}
			y := testkit.Guarded[float32](t, len(x), testkit.High, 0)
			ly.ToNCHW(l, y, b, 0, ly.Blocks())
			if !slices.Equal(x, y) {
				t.Errorf("%v: the image differs after a round trip", s)
			}
		}
	})
}

func TestAffine(t *testing.T) {
	nan := float32(math.NaN())
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(10, 10))
		for n := range 12 {
			for _, act := range []gemm.Activation{gemm.None, gemm.Relu, gemm.Clip} {
				for _, side := range []testkit.Side{testkit.Low, testkit.High} {
					x := testkit.GuardedCopy(t, random(r, n*Lanes), side, n%3)
					y := testkit.Guarded[float32](t, n*Lanes, side, n%5)
					scale, shift := (*[Lanes]float32)(random(r, Lanes)), (*[Lanes]float32)(random(r, Lanes))
					if n > 3 {
						x[40] = nan
					}
					Affine(l, y, x, scale, shift, act, -0.5, 0.5)
					keep := slices.Clone(x)
					Affine(l, x, x, scale, shift, act, -0.5, 0.5)
					for i, v := range keep {
						want := float64(v)*float64(scale[i%Lanes]) + float64(shift[i%Lanes])
						switch act {
						case gemm.Relu:
							want = max(want, 0)
						case gemm.Clip:
							want = min(max(want, -0.5), 0.5)
						}
						if !(math.Abs(float64(y[i])-want) <= 1e-6) && (want == want || y[i] == y[i]) {
							t.Fatalf("%d pixels, activation %d: element %d is %g, want %g", n, act, i, y[i], want)
						}
						if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
							t.Fatalf("%d pixels: in place gives %g, want %g", n, x[i], y[i])
						}
					}
				}
			}
		}
		long := make([]float32, 3000*Lanes)
		Affine(l, long, long, new([Lanes]float32), &[Lanes]float32{3: 2}, gemm.None, 0, 0)
		for i, v := range long {
			if want := map[bool]float32{true: 2}[i%Lanes == 3]; v != want {
				t.Fatalf("long: element %d is %g, want %g", i, v, want)
			}
		}
	})
}

// TestNoAllocations runs every blocked operation without a parallel split.
func TestNoAllocations(t *testing.T) {
	s := shape2(1, 32, 32, 1, 14, 14, 3, 1, 1, 1)
	b := newBlocked(rand.New(rand.NewPCG(13, 13)), s, 0)
	in, out, _ := b.layouts(false)
	x, y := make([]float32, in.Len()), make([]float32, out.Len())
	direct := &Direct{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
		Weights: PackWeights(cpu.Active(), b.w, nil, 32, 32, 1, 3, 3)}
	winograd := &Winograd{In: in, Out: out, Top: 1, Left: 1, Dilation: 1,
		Weights: PackWinograd(cpu.Active(), 4, b.w, nil, 32, 32)}
	taps := &PerTap{In: in, Out: out, KH: 3, KW: 3, DilationH: 12, DilationW: 12, Top: 12, Left: 12,
		Weights: PackPerTap(cpu.Active(), b.w, nil, 32, 32, 3, 3)}
	depthwise := &Depthwise{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1, Left: 1,
		Weights: PackDepthwise(b.w, nil, 32, 3, 3)}
	nchw := &NCHWInput{Cin: 3, H: 14, W: 14, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1,
		Left: 1, Weights: PackNCHWInput(cpu.Active(), b.w, nil, 3, 32, 3, 3)}
	pool := &Pool{Kind: MaxPool, In: in, Out: out, KH: 3, KW: 3, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
		Top: 1, Left: 1, Bottom: 1, Right: 1}
	mixed, each4 := *direct, &Grouped{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: 1,
		Left: 1, Weights: PackGrouped(b.w, nil, 32, 4, 3, 3)}
	mixed.Weights = PackWeights(cpu.Active(), b.w, nil, 32, 32, 8, 3, 3)
	fused, err := NewFusedDepthwise(direct.To(in), depthwise)
	if err != nil {
		t.Fatal(err)
	}
	plain := &Epilogue[float32]{}
	yn := make([]float32, 32*14*14)
	integer, err := NewInteger(cpu.Active(), s, make([]int8, 32*32*9), 3, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	xb, yb := make([]uint8, 32*14*14), make([]uint8, 32*14*14)
	scale := []float32{0.1}
	ep := &BlockedEpilogue{}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for name, f := range map[string]func(){
			"direct":    func() { direct.Run(l, nil, y, x, ep) },
			"mixed":     func() { mixed.Run(l, nil, y, x, ep) },
			"grouped":   func() { each4.Run(l, nil, y, x, ep) },
			"winograd":  func() { winograd.Run(l, nil, y, x, ep) },
			"per tap":   func() { taps.Run(l, nil, y, x, ep) },
			"depthwise": func() { depthwise.Run(l, nil, y, x, ep) },
			"fused":     func() { fused.Run(l, nil, y, x, ep, ep) },
			"nchw":      func() { nchw.Run(l, nil, y, b.x, ep) },
			"pool":      func() { pool.Run(l, nil, y, x) },
			"plain":     func() { F32(l, nil, s, yn, b.x, b.w, plain) },
			"integer":   func() { RunRequantized(integer, nil, yb, xb, scale, 0) },
		} {
			f()
			// A collection may empty the pools of scratch memory in between, so the minimum
			// counts.
			least := 1e9
			for range 3 {
				least = min(least, testing.AllocsPerRun(2, f))
			}
			if least > 4 { // closures
				t.Errorf("%s: %v allocations, want at most 4", name, least)
			}
		}
	})
}

func TestReduceBlock(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(5, 5))
		for h := 1; h < 32; h += 3 {
			for _, w := range []int{1 + h%7, 14*4 + h, 200} {
				in := NewLayout(20, h, w, 1, 2, 0, 1)
				x := testkit.GuardedCopy(t, random(r, in.Len()), testkit.High, 0)
				x[in.At(1, h/2, w/2)+3] = float32(math.NaN())
				for cb := range in.Blocks() {
					var sum [Lanes]float64
					var largest [Lanes]float32
					for row := range in.H {
						for i, v := range x[in.At(cb, row, 0):][:in.W*Lanes] {
							if sum[i%Lanes] += float64(v); row == 0 && i < Lanes {
								largest[i] = v
							}
							largest[i%Lanes] = max(largest[i%Lanes], v)
						}
					}
					gotSum, gotMax := SumBlock(l, &in, x, cb), MaxBlock(l, &in, x, cb)
					for j := range sum {
						if !(math.Abs(gotSum[j]-sum[j]) <= 1e-3) && sum[j] == sum[j] || gotMax[j] != largest[j] &&
							largest[j] == largest[j] {
							t.Fatalf("%d×%d, block %d: sums %v, want %v, maxima %v, want %v", h, w, cb,
								gotSum, sum, gotMax, largest)
						}
						if nan := sum[j] != sum[j]; nan != (gotSum[j] != gotSum[j]) || nan != (gotMax[j] != gotMax[j]) {
							t.Fatalf("%d×%d, block %d: sum %g and maximum %g of channel %d, NaN %v", h, w, cb,
								gotSum[j], gotMax[j], j, nan)
						}
					}
				}
			}
		}
	})
}

func TestClearBorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(what string, most int) int { return rapid.IntRange(0, most).Draw(t, what) }
		l := NewLayout(1+n("c", 40), n("h", 4), n("w", 4), n("top", 2), n("left", 2), n("bottom", 2), n("right", 2))
		data := make([]float32, l.Len())
		for i := range data {
			data[i] = 1
		}
		l.ClearBorder(data, 0, l.Blocks())
		for b := range l.Blocks() {
			for y := -l.Top; y < l.H+l.Bottom; y++ {
				for x := -l.Left; x < l.W+l.Right; x++ {
					want := float32(0)
					if y >= 0 && y < l.H && x >= 0 && x < l.W {
						want = 1
					}
					for k, v := range data[l.At(b, y, x):][:Lanes] {
						if v != want {
							t.Fatalf("%+v: block %d, pixel %d,%d, channel %d is %g, want %g", l, b, y, x, k, v, want)
						}
					}
				}
			}
		}
	})
}
