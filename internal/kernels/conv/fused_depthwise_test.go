package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

// fusedCase is a convolution from cin channels and the depthwise convolution of its result.
type fusedCase struct {
	kind         string // of the first: direct, permuted, nchw or rounded
	first, dw    *Shape
	firstEp, dwE int // epilogues as of newBlocked
}

// parts makes both kernels with random weights, and the layouts that the depthwise convolution
// needs between them.
func (c *fusedCase) parts(t testing.TB, level cpu.Level, r *rand.Rand,
	flat bool) (in, mid, out Layout, first any, dw *Depthwise) {
	f, s := c.first, c.dw
	in = NewLayout(f.Cin, f.In[0], f.In[1], f.PadBegin[0], f.PadBegin[1], f.PadEnd[0], f.PadEnd[1])
	mid = NewLayout(s.Cin, s.In[0], s.In[1], s.PadBegin[0], s.PadBegin[1], s.PadEnd[0], s.PadEnd[1])
	out = NewLayout(s.Cout, s.Out[0], s.Out[1], 1, 0, 2, 1)
	if flat {
		out = NewLayout(s.Cout, s.Out[0], s.Out[1], 0, 0, 0, 0)
	}
	w, bias := random(r, f.Cout*f.Cin/f.Group*product(f.Kernel)), random(r, f.Cout)
	var err error
	switch c.kind {
	case "direct", "rounded":
		d := &Direct{In: in, Out: mid, StrideH: f.Stride[0], StrideW: f.Stride[1], DilationH: f.Dilation[0],
			DilationW: f.Dilation[1], Top: f.PadBegin[0], Left: f.PadBegin[1],
			Weights: PackWeights(level, w, bias, f.Cin, f.Cout, f.Group, f.Kernel[0], f.Kernel[1])}
		first, err = d, d.Check()
		if c.kind == "rounded" {
			first = d.rounded(level)
		}
	case "permuted":
		first, err = newPermuted(w, bias, f.Group, in, mid, f.Stride[0], f.Stride[1], r.Perm(f.Cin))
	case "nchw":
		first = &NCHWInput{Cin: f.Cin, H: f.In[0], W: f.In[1], Out: mid, StrideH: f.Stride[0], StrideW: f.Stride[1],
			DilationH: f.Dilation[0], DilationW: f.Dilation[1],
			Top: f.PadBegin[0], Left: f.PadBegin[1], Weights: PackNCHWInput(level, w, bias, f.Cin, f.Cout, f.Kernel[0], f.Kernel[1])}
	}
	if err != nil {
		t.Fatal(err)
	}
	dw = &Depthwise{In: mid, Out: out, StrideH: s.Stride[0], StrideW: s.Stride[1], DilationH: s.Dilation[0],
		DilationW: s.Dilation[1], Top: s.PadBegin[0], Left: s.PadBegin[1],
		Weights: PackDepthwise(random(r, s.Cin*product(s.Kernel)), random(r, s.Cin), s.Cin, s.Kernel[0], s.Kernel[1])}
	if err := dw.Check(); err != nil {
		t.Fatal(err)
	}
	return in, mid, out, first, dw
}

func epilogueOf(kind int, level cpu.Level) *BlockedEpilogue {
	e := &BlockedEpilogue{}
	switch kind {
	case 1:
		e.Act = gemm.Relu
	case 2:
		e.Act, e.Lo, e.Hi = gemm.Clip, -1, 2
	case 3:
		e.Map = func(d, s []float32, block int) {
			vec.SiluF32(level, d, s)
			vec.ScaleShiftF32(level, d, d, 1/float32(1+block), 0.1*float32(block%2))
		}
	}
	return e
}

// check compares the fused convolution with its parts, run one after the other, and with itself
// split differently.
func (c *fusedCase) check(t testing.TB, level cpu.Level, r *rand.Rand, flat bool) {
	t.Helper()
	in, mid, out, first, dw := c.parts(t, level, r, flat)
	var x []float32
	if c.kind == "nchw" {
		x = testkit.GuardedCopy(t, random(r, c.first.Cin*product(c.first.In)), testkit.High, 0)
	} else {
		x = testkit.Guarded[float32](t, in.Len(), testkit.High, 0)
		in.FromNCHW(level, x, random(r, in.C*in.H*in.W), 0, in.Blocks())
	}
	ep1, ep2 := epilogueOf(c.firstEp, level), epilogueOf(c.dwE&3, level)
	if c.dwE&4 != 0 {
		ep2.AddLayout = NewLayout(out.C, out.H, out.W, 0, 1, 0, 0)
		ep2.Add = random(r, ep2.AddLayout.Len())
	}
	between, want := make([]float32, mid.Len()), testkit.Guarded[float32](t, out.Len(), testkit.Low, 0)
	type runner interface {
		Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue)
	}
	first.(runner).Run(level, nil, between, x, ep1)
	dw.Run(level, nil, want, between, ep2)
	fused, err := NewFusedDepthwise(first, dw)
	if err != nil {
		t.Fatal(err)
	}
	// The tolerance is for sums of products of normal sums of normal products, in another
	// order.
	tol := 3e-6 * math.Sqrt(float64(c.first.Cin/c.first.Group*product(c.first.Kernel)*product(c.dw.Kernel)))
	const mark = -77
	var whole []float32
	for i, par := range []gemm.Par{nil, twoWays, oneByOne, inOrder, interleaved, twoWays, oneByOne, interleaved} {
		y := testkit.Guarded[float32](t, out.Len(), testkit.High, 0)
		for i := range y {
			y[i] = mark
		}
		ep2.Threads = 8 * i // more bands
		if i > 4 {
			ep2.Threads = 1 // divided by panels
		}
		fused.Run(level, par, y, x, ep1, ep2)
		got, same := make([]float32, out.C*out.H*out.W), make([]float64, out.C*out.H*out.W)
		out.ToNCHW(level, got, want, 0, out.Blocks())
		for i, v := range got {
			same[i] = float64(v)
		}
		out.ToNCHW(level, got, y, 0, out.Blocks())
		near32(t, fmt.Sprintf("%s %v %+v, %+v, epilogues %d and %d", c.kind, level, *c.first, *c.dw, c.firstEp, c.dwE),
			got, same, tol)
		if out.Top > 0 && (y[out.At(0, -1, 0)] != mark || y[out.At(0, out.H, 0)] != mark) || out.Right > 0 &&
			y[out.At(0, 0, out.W)] != mark {
			t.Fatalf("%+v: the border was overwritten", out)
		}
		if i == 0 {
			whole = y
			continue
		}
		for j, v := range y {
			if v != whole[j] {
				t.Fatalf("%s %+v, %+v: element %d is %g, but %g if the work is split differently", c.kind, *c.first,
					*c.dw, j, whole[j], v)
			}
		}
	}
}

// inOrder runs every unit of work in a call of its own.
func inOrder(n int, fn func(lo, hi int)) {
	for i := range n {
		fn(i, i+1)
	}
}

// interleaved runs pairs of units, first every second one.
func interleaved(n int, fn func(lo, hi int)) {
	for first := range 2 {
		for lo := 2 * first; lo < n; lo += 4 {
			fn(lo, min(n, lo+2))
		}
	}
}

// oneByOne runs every unit of work in a call of its own, the last one first.
func oneByOne(n int, fn func(lo, hi int)) {
	for i := n - 1; i >= 0; i-- {
		fn(i, i+1)
	}
}

// then returns the depthwise convolution of the result of first.
func then(first *Shape, kernel, stride, dilationW, before, after int) *Shape {
	s := shape2(1, first.Cout, first.Cout, first.Cout, first.Out[0], first.Out[1], kernel, stride, 1, before)
	s.PadEnd = []int{after, after}
	s.Dilation[1] = dilationW
	if err := s.Check(); err != nil {
		panic(err)
	}
	return s
}

func TestFusedDepthwise(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(21, 1))
		for i, f := range []struct {
			kind  string
			shape *Shape
		}{
			{"direct", shape2(1, 16, 96, 1, 12, 29, 1, 1, 1, 0)}, {"direct", shape2(1, 24, 40, 1, 9, 7, 1, 1, 1, 0)}, {"direct", shape2(1, 20, 17, 1, 30, 14, 3, 1, 1, 1)},
			{"permuted", shape2(1, 24, 144, 1, 28, 15, 1, 1, 1, 0)}, {"rounded", shape2(1, 24, 144, 1, 28, 15, 1, 1, 1, 0)}, {"rounded", shape2(1, 20, 17, 1, 30, 14, 3, 2, 1, 1)}, {"permuted", shape2(1, 40, 60, 1, 11, 20, 1, 2, 1, 0)},
			{"nchw", shape2(1, 3, 32, 1, 41, 37, 3, 2, 1, 1)}, {"nchw", shape2(1, 4, 70, 1, 20, 33, 5, 1, 1, 2)},
		} {
			for e, s := range []*Shape{then(f.shape, 3, 1, 1, 1, 1), then(f.shape, 3, 2, 1, 1, 1),
				then(f.shape, 5, 1, 1, 2, 2), then(f.shape, 5, 2, 1, 1, 2), then(f.shape, 1, 2, 1, 0, 0), then(f.shape, 2, 1, 2, 1, 0), then(f.shape, 3, 1, 1, 0, 2)} {
				c := fusedCase{kind: f.kind, first: f.shape, dw: s, firstEp: (e + i) & 3, dwE: (e + 3*i) & 7}
				c.check(t, l, r, e&1 == 0)
			}
		}
	})
}

func TestRapidFusedDepthwise(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		rapid.Check(t, func(rt *rapid.T) {
			n := func(lo, hi int, name string) []int {
				return rapid.SliceOfN(rapid.IntRange(lo, hi), 2, 2).Draw(rt, name)
			}
			c := fusedCase{kind: rapid.SampledFrom([]string{"direct", "permuted", "nchw", "rounded"}).Draw(rt, "kind"),
				firstEp: rapid.IntRange(0, 3).Draw(rt, "first"), dwE: rapid.IntRange(0, 7).Draw(rt, "second")}
			f := &Shape{N: 1, Group: 1, Cin: rapid.IntRange(1, 40).Draw(rt, "cin"),
				Cout: rapid.IntRange(1, 70).Draw(rt, "cout"), In: n(1, 40, "in"),
				Kernel: []int{1, 1}, Stride: n(1, 2, "stride"), Dilation: []int{1, 1}, PadBegin: []int{0, 0}, PadEnd: []int{0, 0}}
			if c.kind != "permuted" {
				f.Kernel, f.PadBegin, f.PadEnd = n(1, 3, "kernel"), n(0, 2, "begin"), n(0, 2, "end")
			}
			if c.kind == "nchw" {
				f.Cin = min(f.Cin, 4)
			}
			if f.Check() != nil {
				return
			}
			s := &Shape{N: 1, Group: f.Cout, Cin: f.Cout, Cout: f.Cout, In: f.Out, Kernel: n(1, 5, "dw kernel"),
				Stride: n(1, 3, "dw stride"), Dilation: []int{1, rapid.IntRange(1, 2).Draw(rt, "dilation")},
				PadBegin: n(0, 3, "dw begin"), PadEnd: n(0, 3, "dw end")}
			if s.Check() != nil {
				return
			}
			c.first, c.dw = f, s
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
			flat := rapid.Bool().Draw(rt, "flat")
			testkit.Scope(t, func(t testing.TB) { c.check(t, l, r, flat) })
		})
	})
}

func TestFusedDepthwiseErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	f := shape2(1, 16, 32, 1, 8, 8, 1, 1, 1, 0)
	c := fusedCase{kind: "direct", first: f, dw: then(f, 3, 1, 1, 1, 1)}
	_, _, _, first, dw := c.parts(t, cpu.Active(), r, false)
	for want, try := range map[string]func() (any, *Depthwise){
		"unsupported convolution *conv.Winograd":                                func() (any, *Depthwise) { return &Winograd{}, dw },
		"dilation of rows is 2, want 1":                                         func() (any, *Depthwise) { d := *dw; d.DilationH = 2; return first, &d },
		"intermediate result is 32×8×8, the depthwise convolution reads 32×7×8": func() (any, *Depthwise) { d := *dw; d.In.H = 7; return first, &d },
		"sum of 8192 products, want at most 4096": func() (any, *Depthwise) {
			f := shape2(1, 8192, 16, 1, 1, 1, 1, 1, 1, 0)
			c := fusedCase{kind: "direct", first: f, dw: then(f, 1, 1, 1, 0, 0)}
			_, _, _, first, dw := c.parts(t, cpu.Active(), r, false)
			return first, dw
		},
	} {
		if _, err := NewFusedDepthwise(try()); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// BenchmarkFusedDepthwise runs the first two convolutions of the blocks of MobileNetV2 and
// EfficientNet-B0 one after the other, and as one.
func BenchmarkFusedDepthwise(b *testing.B) {
	for _, s := range []struct{ cin, cout, h, kernel, stride, ep int }{
		{3, 32, 224, 3, 1, 2}, {16, 96, 112, 3, 2, 2}, {24, 144, 56, 3, 1, 2}, {24, 144, 56, 3, 2, 2}, {32, 192, 28, 3, 1, 2}, {32, 192, 28, 3, 2, 2}, {64, 384, 14, 3, 1, 2}, {96, 576, 14, 3, 1, 2}, {96, 576, 14, 3, 2, 2}, {160, 960, 7, 3, 1, 2},
		{3, 32, 224, 3, 1, 3}, {16, 96, 112, 3, 2, 3}, {24, 144, 56, 3, 1, 3}, {24, 144, 56, 5, 2, 3}, {40, 240, 28, 5, 1, 3}, {40, 240, 28, 3, 2, 3}, {80, 480, 14, 3, 1, 3}, {112, 672, 14, 5, 1, 3}, {112, 672, 14, 5, 2, 3}, {192, 1152, 7, 5, 1, 3},
	} {
		f, kind := shape2(1, s.cin, s.cout, 1, s.h, s.h, 1, 1, 1, 0), "direct"
		if s.cin == 3 {
			f, kind = shape2(1, s.cin, s.cout, 1, s.h, s.h, 3, 2, 1, 1), "nchw"
		} else if PermutedPointwisePays(s.cin, s.cout, 1) {
			kind = "permuted"
		}
		c := fusedCase{kind: kind, first: f, dw: then(f, s.kernel, s.stride, 1, s.kernel/2, s.kernel/2)}
		in, mid, out, first, dw := c.parts(b, cpu.Active(), rand.New(rand.NewPCG(1, 1)), true)
		x, y, between := memory.Slice[float32](max(in.Len(), s.cin*s.h*s.h)), memory.Slice[float32](out.Len()),
			memory.Slice[float32](mid.Len())
		ep := epilogueOf(s.ep, cpu.Active())
		name := fmt.Sprintf("%d-%d@%d_k%d_s%d_%d", s.cin, s.cout, s.h, s.kernel, s.stride, s.ep)
		b.Run(name+"/apart", func(b *testing.B) {
			for b.Loop() {
				first.(interface {
					Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue)
				}).Run(cpu.Active(), nil, between, x, ep)
				dw.Run(cpu.Active(), nil, y, between, ep)
			}
		})
		r, err := NewFusedDepthwise(first, dw)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/fused", func(b *testing.B) {
			for b.Loop() {
				r.Run(cpu.Active(), nil, y, x, ep, ep)
			}
		})
	}
}

// TestDepthwiseRowsEndInMemory runs depthwise convolutions whose rows end where their memory
// ends, while the collector checks the pointers: a pointer beyond the last row was fatal.
func TestDepthwiseRowsEndInMemory(t *testing.T) {
	done := make(chan struct{})
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	}()
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		for w := 15; w < 32; w++ {
			in, out := NewLayout(16, 3, w, 0, 0, 0, 0), NewLayout(16, 1, w-2, 0, 0, 0, 0)
			out.Block -= Lanes // nothing follows the last row
			d := &Depthwise{In: in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
				Weights: PackDepthwise(make([]float32, 16*9), nil, 16, 3, 3)}
			for range 200 {
				d.Run(l, nil, make([]float32, out.Len()), make([]float32, in.Len()), &BlockedEpilogue{})
			}
		}
	})
	close(done)
	<-collected
}

// TestFusedDepthwiseRows checks that the units of many threads cover each row of each panel once,
// and that they take equal times but for a row.
func TestFusedDepthwiseRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, h := rapid.IntRange(1, 200).Draw(t, "channels"), rapid.IntRange(1, 60).Draw(t, "rows")
		units := rapid.IntRange(1, 300).Draw(t, "units")
		l := NewLayout(c, h, 5, 0, 0, 0, 0)
		r := &FusedDepthwise{dw: &Depthwise{Out: l},
			first: directRows{&Direct{Out: l, Weights: PackWeights(cpu.Generic, make([]float32, c), nil, 1, c, 1, 1, 1)}}}
		next := make([]int, r.first.count())
		for u := range units {
			sum := 0
			r.rows(u, u+1, units, func(p, a, b int) {
				if a != next[p] {
					t.Fatalf("unit %d of panel %d begins at row %d, want %d", u, p, a, next[p])
				}
				_, blocks := r.first.at(p)
				next[p], sum = b, sum+(b-a)*(1+2*blocks)
			})
			if all := l.Blocks()/2*5*h + l.Blocks()%2*3*h; sum > (all+units-1)/units+5 {
				t.Fatalf("unit %d takes %d of %d for %d units", u, sum, all, units)
			}
		}
		for p, end := range next {
			if end != h {
				t.Fatalf("panel %d ends at row %d of %d", p, end, h)
			}
		}
	})
}

// TestFusedDepthwiseReplays runs the launches of a convolution again for another image, as captured
// runs do. A thread must not continue with rows of the first image.
func TestFusedDepthwiseReplays(t *testing.T) {
	f := shape2(1, 32, 32, 1, 24, 28, 1, 1, 1, 0)
	c := fusedCase{kind: "direct", first: f, dw: then(f, 3, 1, 1, 1, 1)}
	level := cpu.Active()
	r := rand.New(rand.NewPCG(31, 31))
	in, _, out, first, dw := c.parts(t, level, r, true)
	fused, err := NewFusedDepthwise(first, dw)
	if err != nil {
		t.Fatal(err)
	}
	var images, want [3][]float32
	for i := range images { // these runs end before the replays
		images[i], want[i] = random(r, in.C*in.H*in.W), make([]float32, out.Len())
		x := make([]float32, in.Len())
		in.FromNCHW(level, x, images[i], 0, in.Blocks())
		fused.Run(level, nil, want[i], x, &BlockedEpilogue{}, &BlockedEpilogue{})
	}
	type launch struct {
		n  int
		fn func(lo, hi int)
	}
	var launches []launch
	x, y := make([]float32, in.Len()), make([]float32, out.Len())
	fused.Run(level, func(n int, fn func(lo, hi int)) { launches = append(launches, launch{n, fn}) }, y, x,
		&BlockedEpilogue{}, &BlockedEpilogue{Threads: 4})
	for k, image := range images {
		in.FromNCHW(level, x, image, 0, in.Blocks())
		for _, l := range launches {
			for i := range l.n { // the last item of a replay is before the first one of the next
				u := (i + l.n - 1) % l.n
				l.fn(u, u+1)
			}
		}
		if !slices.Equal(y, want[k]) {
			t.Errorf("replay %d differs from a run", k)
		}
	}
}
