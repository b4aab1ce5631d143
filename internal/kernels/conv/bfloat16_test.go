package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// rounded64 returns the values of x rounded to bfloat16.
func rounded64(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(math.Float32frombits(uint32(vec.RoundBF16(v)) << 16))
	}
	return y
}

// roundedShapes are convolutions with every tile height, one and two blocks, parts of octets,
// strides, dilations and groups.
func roundedShapes() []*Shape {
	s := []*Shape{
		shape2(1, 16, 32, 1, 5, 14, 3, 1, 1, 1), shape2(1, 24, 40, 1, 6, 29, 1, 1, 1, 0), shape2(1, 5, 20, 1, 9, 9, 3, 2, 1, 1),
		shape2(1, 40, 48, 1, 7, 7, 3, 1, 2, 2), shape2(1, 32, 32, 8, 6, 6, 3, 1, 1, 1), shape2(1, 96, 48, 3, 5, 5, 1, 1, 1, 0), shape2(1, 30, 60, 5, 5, 8, 3, 2, 1, 1),
		shape2(1, 48, 24, 2, 4, 4, 5, 3, 1, 2), shape2(1, 20, 12, 1, 3, 3, 3, 1, 1, 2), shape2(1, 33, 70, 1, 15, 15, 1, 2, 1, 0), shape2(1, 300, 20, 1, 14, 15, 3, 1, 1, 1),
		shape2(1, 2000, 20, 1, 1, 200, 1, 1, 1, 0), shape2(1, 2000, 33, 1, 12, 12, 1, 1, 1, 0),
	}
	for w := 1; w < 31; w++ {
		s = append(s, shape2(1, 17, 16*(1+w%3), 1, 2, w, 1, 1, 1, 0))
	}
	return s
}

// rounded returns the convolution with rounded operands.
func (b *blocked) rounded(t testing.TB, l cpu.Level, in, out Layout) *Rounded {
	d := &Direct{In: in, Out: out, StrideH: b.Stride[0], StrideW: b.Stride[1], DilationH: b.Dilation[0],
		DilationW: b.Dilation[1], Top: b.PadBegin[0], Left: b.PadBegin[1],
		Weights: PackWeights(l, b.w, b.ep.Bias, b.Cin, b.Cout, b.Group, b.Kernel[0], b.Kernel[1])}
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return d.rounded(l)
}

// TestRounded compares with sums of rounded operands in float64.
func TestRounded(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(1, 9))
		for i, s := range roundedShapes() {
			b := newBlocked(r, s, []int{0, 3, 7, 11}[i%4])
			NaiveGeneric(s, b.want, rounded64(b.x), rounded64(b.w), b.ep.to64())
			k := float64(b.Cin / b.Group * product(b.Kernel))
			for _, flat := range []bool{false, true} {
				if flat && product(s.PadBegin) > 0 {
					continue
				}
				b.run(t, fmt.Sprintf("rounded %v %+v", l, *s), l, i&1 == 0, flat, 6e-6*max(1, math.Sqrt(k)/30),
					func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
						b.rounded(t, l, in, out).Run(l, twoWays, y, x, ep)
					})
			}
		}
	})
}

// TestRoundedLevels requires the same bits of all levels and cuts, for numbers from subnormal to
// infinite.
func TestRoundedLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	for i, s := range roundedShapes() {
		spread := []int{0, 3, 40, 75, 140}[i%5]
		number := func(x []float32) {
			for j := range x {
				x[j] = float32(math.Ldexp(r.NormFloat64(), r.IntN(2*spread+1)-spread))
				if i%5 == 4 && r.IntN(1000) == 0 {
					x[j] = float32(math.Inf(r.IntN(3) - 1))
				}
			}
		}
		b := newBlocked(r, s, []int{3, 7, 11}[i%3])
		number(b.x)
		number(b.w)
		number(b.ep.Bias)
		in, out, add := b.layouts(i&1 == 0 && product(s.PadBegin) == 0)
		x := testkit.Guarded[float32](t, in.Len(), testkit.High, 0)
		in.FromNCHW(cpu.Generic, x, b.x, 0, in.Blocks())
		ep := &BlockedEpilogue{Act: b.ep.Act, Lo: b.ep.Lo, Hi: b.ep.Hi, AddLayout: add, Add: make([]float32, add.Len())}
		number(ep.Add)
		var want []float32
		for _, l := range cpu.Levels() {
			d := b.rounded(t, l, in, out)
			for _, par := range []func(n int, fn func(lo, hi int)){nil, twoWays, oneByOne} {
				y := testkit.Guarded[float32](t, out.Len(), testkit.High, 0)
				d.Run(l, par, y, x, ep)
				if want == nil {
					want = slices.Clone(y)
				}
				for j, v := range y {
					if math.Float32bits(v) != math.Float32bits(want[j]) && (v == v || want[j] == want[j]) {
						t.Fatalf("%s: %+v, spread %d: result %d is %g, want %g", l, *s, spread, j, v, want[j])
					}
				}
			}
		}
	}
}

// TestRoundedPermuted requires the weights of a convolution with permuted weights.
func TestRoundedPermuted(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 9))
	for _, c := range [][2]int{{24, 144}, {37, 70}, {8, 16}, {160, 33}} {
		cin, cout := c[0], c[1]
		in, out := NewLayout(cin, 5, 6, 1, 1, 1, 1), NewLayout(cout, 5, 6, 0, 0, 0, 0)
		w, permuted, order := random(r, cin*cout), make([]float32, cin*cout), r.Perm(cin)
		for i, v := range w {
			permuted[i/cin*cin+order[i%cin]] = v
		}
		p, err := newPermuted(w, nil, 1, in, out, 1, 1, order)
		if err != nil {
			t.Fatal(err)
		}
		d := &Direct{In: in, Out: out, Weights: PackWeights(cpu.Generic, permuted, nil, cin, cout, 1, 1, 1)}
		if got, want := p.rounded(cpu.Active()), d.rounded(cpu.Generic); !slices.Equal(got.data,
			want.data) || !slices.Equal(got.Weights.panels, want.Weights.panels) {
			t.Errorf("%d to %d channels: the weights differ", cin, cout)
		}
	}
	p, err := newPermuted(make([]float32, 32*16), nil, 2, NewLayout(32, 2, 2, 0, 0, 0, 0),
		NewLayout(32, 2, 2, 0, 0, 0, 0), 1, 1, nil)
	if err != nil || p.rounded(cpu.Active()) != nil {
		t.Errorf("a convolution with groups is rounded (%v)", err)
	}
}

// TestRoundedLong does not round sums that one call cannot compute.
func TestRoundedLong(t *testing.T) {
	for cin, want := range map[int]bool{8192: true, 8193: false} {
		l := NewLayout(cin, 1, 1, 0, 0, 0, 0)
		d := &Direct{In: l, Out: NewLayout(1, 1, 1, 0, 0, 0, 0),
			Weights: PackWeights(cpu.Active(), make([]float32, cin), nil, cin, 1, 1, 1, 1)}
		if got := d.rounded(cpu.Active()) != nil; got != want {
			t.Errorf("%d channels: rounded %t, want %t", cin, got, want)
		}
		if got := d.Rounded(cpu.Active()) != nil; got != (want && cpu.UsesBF16(cpu.Active()) == cpu.BF16Pairs) {
			t.Errorf("%d channels: rounded %t on this processor", cin, got)
		}
	}
}

// TestRoundedWinograd requires exact results for small integers, and the same bits of all cuts.
func TestRoundedWinograd(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	for i, s := range []*Shape{
		shape2(1, 32, 32, 1, 8, 8, 3, 1, 1, 1), shape2(1, 20, 50, 1, 7, 7, 3, 1, 1, 1), shape2(1, 16, 16, 1, 13, 18, 3, 1, 1, 0), shape2(1, 40, 33, 1, 1, 3, 3, 1, 1, 1),
		shape2(1, 160, 130, 1, 9, 10, 3, 1, 1, 1), shape2(1, 17, 32, 1, 30, 23, 3, 1, 1, 2), shape2(1, 32, 40, 1, 11, 9, 3, 1, 2, 2),
	} {
		b := newBlocked(r, s, 7)
		for _, exact := range []bool{true, false} {
			if exact {
				for j := range b.x {
					b.x[j] = float32(r.IntN(7) - 3)
				}
				for j := range b.w {
					b.w[j] = float32(r.IntN(7)-3) * 4
				}
				for j := range b.ep.Bias {
					b.ep.Bias[j] = float32(r.IntN(7) - 3)
				}
				for j := range b.ep.Add {
					b.ep.Add[j] = float32(r.IntN(7) - 3)
				}
				b.ep.Lo, b.ep.Hi = -200, 300
			} else {
				b = newBlocked(r, s, 7)
			}
			NaiveGeneric(s, b.want, to64(b.x), to64(b.w), b.ep.to64())
			for _, l := range cpu.Levels() {
				var want []float32
				for cut, par := range []gemm.Par{nil, twoWays, oneByOne, oneByOne} {
					tol := map[bool]float64{true: 0, false: 0.03}[exact]
					b.run(t, fmt.Sprintf("rounded F(2,3) %v %+v", l, *s), l, i&1 == 0, i%3 == 0, tol,
						func(in, out Layout, y, x []float32, ep *BlockedEpilogue) {
							d := &Winograd{In: in, Out: out, Top: s.PadBegin[0], Left: s.PadBegin[1],
								Dilation: s.Dilation[0], Weights: PackWinograd(cpu.Generic, 2, b.w, b.ep.Bias, s.Cin, s.Cout)}
							ep.Threads = 1 << (2 * cut) // 64 threads share blocks
							d.rounded(l).Run(l, par, y, x, ep)
							if want == nil {
								want = slices.Clone(y)
							}
							if ep.Channels == 0 && !slices.Equal(y, want) {
								t.Fatalf("%v %+v: the results depend on how the work is split", l, *s)
							}
						})
				}
			}
		}
	}
}

// TestRoundOctets compares with the plain code.
func TestRoundOctets(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), 0x1p-149, -0x1p-127, 0x1p-126, float32(math.Inf(1)),
		float32(math.Inf(-1)), math.MaxFloat32, float32(math.NaN()), 1 + 0x1p-8, 1 + 0x3p-8}
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(8, 9))
		for n := 1; n < 20; n++ {
			for _, step := range []int{Lanes, 2 * Lanes} {
				next, mask := n*octet+r.IntN(9), uint32(1)<<(1+r.IntN(Lanes))-1
				x := testkit.Guarded[float32](t, (n-1)*step+Lanes, testkit.High, 0)
				for i := range x {
					if x[i] = math.Float32frombits(r.Uint32()); i%3 == 0 {
						x[i] = special[r.IntN(len(special))]
					}
				}
				want := make([]uint16, next+n*octet)
				got := testkit.Guarded[uint16](t, len(want), testkit.High, 0)
				roundOctetsGeneric(want, x, n, step, next, mask)
				roundOctets(l, got, x, n, step, next, mask)
				if !slices.Equal(got, want) {
					t.Fatalf("%d pixels, %d apart, mask %#x:\n%#x, want\n%#x", n, step, mask, got, want)
				}
			}
		}
	})
}

// TestRoundedPauses checks that calls are short and allocate nothing.
func TestRoundedPauses(t *testing.T) {
	b := newBlocked(rand.New(rand.NewPCG(9, 9)), shape2(1, 512, 64, 1, 14, 14, 3, 1, 1, 1), 0)
	in, out, _ := b.layouts(false)
	x, y := make([]float32, in.Len()), make([]float32, out.Len())
	d := b.rounded(t, cpu.Active(), in, out)
	w := (&Winograd{In: in, Out: out, Top: 1, Left: 1, Dilation: 1,
		Weights: PackWinograd(cpu.Active(), 2, b.w, nil, 512, 64)}).rounded(cpu.Active())
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		if cpu.RunsBF16(l) != cpu.BF16Pairs {
			t.Skip("the level has no instructions for bfloat16")
		}
		for _, run := range []func(){func() { d.Run(l, nil, y, x, &BlockedEpilogue{}) },
			func() { w.Run(l, nil, y, x, &BlockedEpilogue{}) }} {
			testkit.CheckPauses(t, run)
		}
	})
}

func BenchmarkRounded(b *testing.B) {
	for _, s := range []*Shape{
		shape2(1, 64, 64, 1, 56, 56, 1, 1, 1, 0), shape2(1, 64, 256, 1, 56, 56, 1, 1, 1, 0), shape2(1, 256, 64, 1, 56, 56, 1, 1, 1, 0), shape2(1, 256, 128, 1, 56, 56, 1, 1, 1, 0), shape2(1, 512, 128, 1, 28, 28, 1, 1, 1, 0), shape2(1, 128, 512, 1, 28, 28, 1, 1, 1, 0),
		shape2(1, 256, 1024, 1, 14, 14, 1, 1, 1, 0), shape2(1, 1024, 256, 1, 14, 14, 1, 1, 1, 0), shape2(1, 512, 2048, 1, 7, 7, 1, 1, 1, 0), shape2(1, 2048, 512, 1, 7, 7, 1, 1, 1, 0), shape2(1, 1024, 2048, 1, 14, 14, 1, 2, 1, 0),
		shape2(1, 128, 128, 1, 56, 56, 3, 2, 1, 1), shape2(1, 256, 256, 1, 28, 28, 3, 2, 1, 1), shape2(1, 512, 512, 1, 14, 14, 3, 2, 1, 1),
		shape2(1, 64, 64, 1, 56, 56, 3, 1, 1, 1), shape2(1, 128, 128, 1, 28, 28, 3, 1, 1, 1), shape2(1, 256, 256, 1, 14, 14, 3, 1, 1, 1), shape2(1, 512, 512, 1, 7, 7, 3, 1, 1, 1),
		shape2(1, 144, 24, 1, 56, 56, 1, 1, 1, 0), shape2(1, 96, 576, 1, 14, 14, 1, 1, 1, 0), shape2(1, 576, 96, 1, 14, 14, 1, 1, 1, 0), shape2(1, 960, 160, 1, 7, 7, 1, 1, 1, 0), shape2(1, 32, 16, 1, 112, 112, 1, 1, 1, 0),
	} {
		c := newBlocked(rand.New(rand.NewPCG(3, 9)),
			&Shape{N: 1, Cin: s.Cin, Cout: s.Cout, Group: 1, In: []int{1, 1}, Out: []int{1, 1}, Kernel: []int{1, 1},
				Stride: []int{1, 1}, Dilation: []int{1, 1}, PadBegin: []int{0, 0}, PadEnd: []int{0, 0}}, 3)
		c.Shape, c.w = s, random(rand.New(rand.NewPCG(4, 9)), s.Cin*s.Cout*product(s.Kernel))
		pad := s.PadBegin[0]
		in, out := NewLayout(s.Cin, s.In[0], s.In[1], pad, pad, pad, pad),
			NewLayout(s.Cout, s.Out[0], s.Out[1], 0, 0, 0, 0)
		x, y := memory.Slice[float32](in.Len()), memory.Slice[float32](out.Len())
		in.FromNCHW(cpu.Active(), x, random(rand.New(rand.NewPCG(5, 9)), s.Cin*product(s.In)), 0, in.Blocks())
		d := c.rounded(b, cpu.Active(), in, out)
		b.Run(fmt.Sprintf("%dx%d_k%d_s%d@%d", s.Cin, s.Cout, s.Kernel[0], s.Stride[0], s.In[0]), func(b *testing.B) {
			for b.Loop() {
				d.Run(cpu.Active(), nil, y, x, &BlockedEpilogue{})
			}
			b.ReportMetric(2*float64(s.Cout*s.Cin*product(s.Kernel)*product(s.Out))*float64(b.N)/float64(
				b.Elapsed().Nanoseconds()), "GFLOPS")
		})
	}
}
