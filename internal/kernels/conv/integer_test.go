package conv

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

func checkInteger[X, W quant.Byte](t testing.TB, l cpu.Level, s *Shape, r *rand.Rand, zeros int, bias bool) {
	t.Helper()
	in, out := product(s.In), product(s.Out)
	x := testkit.Guarded[X](t, s.N*s.Cin*in, testkit.High, 0)
	w := make([]W, s.Cout*s.Cin/s.Group*product(s.Kernel))
	for i := range x {
		x[i] = X(r.Uint32())
	}
	for i := range w {
		w[i] = W(r.Uint32())
	}
	xZero := int32(X(r.Uint32()))
	wZero := make([]int32, min(zeros, 1))
	if zeros == 2 {
		wZero = make([]int32, s.Cout)
	}
	for i := range wZero {
		wZero[i] = int32(W(r.Uint32()))
		if zeros == 3 { // differences fit a byte
			wZero[i] = 128
			if signed[W]() {
				wZero[i] = 0
			}
		}
	}
	var bs []int32
	if bias {
		bs = make([]int32, s.Cout)
		for i := range bs {
			bs[i] = int32(r.Uint32() >> 8)
		}
	}
	// the naive sum over int64: with zero points subtracted first, the padding is zero
	wide := make([]int64, len(x))
	for i, v := range x {
		wide[i] = int64(int32(v) - xZero)
	}
	ww := make([]int64, len(w))
	per := len(w) / s.Cout
	for i, v := range w {
		ww[i] = int64(v)
		switch zeros {
		case 1, 3:
			ww[i] -= int64(wZero[0])
		case 2:
			ww[i] -= int64(wZero[i/per])
		}
	}
	ep := &Epilogue[int64]{}
	for _, v := range bs {
		ep.Bias = append(ep.Bias, int64(v))
	}
	want := make([]int64, s.N*s.Cout*out)
	NaiveGeneric(s, want, wide, ww, ep)
	d, err := NewInteger(l, s, w, xZero, wZero, bs)
	if err != nil {
		t.Fatal(err)
	}
	y := testkit.Guarded[int32](t, len(want), testkit.High, 0)
	RunInteger(d, twoWays, y, x)
	what := fmt.Sprintf("%v %T·%T %+v zeros %d", l, x, w, *s, zeros)
	for i, v := range want {
		if y[i] != int32(v) {
			t.Fatalf("%s: sum %d is %d, want %d", what, i, y[i], int32(v))
		}
	}
	scale := []float32{0.001}
	if bias {
		scale = make([]float32, s.Cout)
		for i := range scale {
			scale[i] = r.Float32() * 0.01
		}
		switch r.IntN(4) {
		case 0:
			scale[r.IntN(len(scale))] = 1e30 // products exceed int32
		case 1:
			scale[r.IntN(len(scale))] = float32(int(1) << r.IntN(24)) // some do
		}
	}
	q := testkit.Guarded[uint8](t, len(want), testkit.High, 0)
	RunRequantized(d, nil, q, x, scale, 77)
	for i, v := range y {
		f := scale[0]
		if bias {
			f = scale[i/out%s.Cout]
		}
		if w := min(max(math.RoundToEven(float64(float32(v)*f))+77, 0), 255); float64(q[i]) != w {
			t.Fatalf("%s: output %d is %d, want %g", what, i, q[i], w)
		}
	}
	qs := testkit.Guarded[int8](t, len(want), testkit.High, 0)
	RunRequantized(d, twoWays, qs, x, scale, 77-128)
	for i, v := range q {
		if int(qs[i])+128 != int(v) {
			t.Fatalf("%s: signed output %d is %d, want %d", what, i, qs[i], int(v)-128)
		}
	}
	if !d.Last() {
		return
	}
	xl, ql := testkit.Guarded[X](t, len(x), testkit.High, 0), testkit.Guarded[uint8](t, len(q), testkit.High, 0)
	for i, v := range x { // (n, c, pixel) to (n, pixel, c)
		xl[(i/in/s.Cin*in+i%in)*s.Cin+i/in%s.Cin] = v
	}
	const seen = 0x55
	RunRequantizedLast(d, twoWays, ql, xl, scale, 77, func(lo, hi int) { flipBytes(ql[lo:hi], seen) })
	for i, v := range q {
		if g := ql[(i/out/s.Cout*out+i%out)*s.Cout+i/out%s.Cout] ^ seen; g != v {
			t.Fatalf("%s: channels last: output %d is %d, want %d", what, i, g, v)
		}
	}
}

func checkIntegerTypes(t testing.TB, l cpu.Level, s *Shape, r *rand.Rand, zeros int, bias bool) {
	t.Helper()
	checkInteger[uint8, int8](t, l, s, r, zeros, bias)
	checkInteger[int8, int8](t, l, s, r, zeros, bias)
	checkInteger[uint8, uint8](t, l, s, r, zeros, !bias)
	checkInteger[int8, uint8](t, l, s, r, zeros, !bias)
}

func TestInteger(t *testing.T) {
	testkit.ByteLevels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(11, 11))
		for i, s := range []*Shape{
			shape2(1, 3, 8, 1, 9, 11, 3, 1, 1, 1), shape2(2, 16, 40, 1, 8, 8, 1, 1, 1, 0), shape2(1, 12, 6, 2, 7, 7, 3, 2, 1, 1), shape2(1, 5, 5, 5, 9, 7, 3, 1, 1, 1),
			shape2(1, 6, 6, 6, 9, 7, 3, 2, 2, 2), shape2(1, 3, 20, 1, 23, 20, 7, 2, 1, 3), shape2(1, 20, 33, 1, 6, 6, 3, 1, 2, 2), shape2(1, 9, 4, 1, 17, 19, 3, 1, 1, 1),
			{N: 2, Cin: 3, Cout: 4, Group: 1, In: []int{4, 5, 6}, Kernel: []int{2, 3, 2}, Stride: []int{1, 2, 1}, Dilation: []int{1, 1, 2}, PadBegin: []int{1, 0, 2}, PadEnd: []int{0, 1, 1}},
			{N: 1, Cin: 4, Cout: 4, Group: 4, In: []int{30}, Kernel: []int{5}, Stride: []int{2}, Dilation: []int{2}, PadBegin: []int{4}, PadEnd: []int{3}},
			// more output pixels than input pixels
			{N: 1, Cin: 1, Cout: 2, Group: 1, In: []int{9, 1, 4}, Kernel: []int{1, 1, 1}, Stride: []int{1, 1, 1}, Dilation: []int{1, 1, 1}, PadBegin: []int{0, 0, 0}, PadEnd: []int{1, 3, 2}},
			shape2(2, 17, 17, 17, 21, 37, 3, 1, 1, 1), shape2(1, 5, 5, 5, 20, 33, 5, 2, 1, 2), shape2(1, 5, 5, 5, 20, 70, 3, 2, 2, 2), shape2(1, 40, 70, 1, 7, 7, 3, 1, 1, 1), shape2(1, 8, 33, 1, 20, 17, 3, 1, 1, 1), shape2(2, 48, 96, 3, 19, 33, 3, 2, 1, 1), shape2(1, 3, 5, 1, 40, 37, 5, 1, 2, 4), shape2(1, 64, 48, 1, 5, 40, 1, 1, 1, 0),
			// for window tiles: stride 1, 2, dilated rows and columns
			shape2(1, 32, 32, 32, 9, 13, 3, 1, 1, 1), shape2(2, 48, 48, 48, 11, 20, 3, 2, 1, 1), shape2(1, 16, 16, 16, 5, 9, 3, 1, 2, 2),
			// for AMX: equal chunks, padded ones, pairs of rows, groups, dilated taps
			shape2(1, 96, 4, 1, 3, 33, 3, 1, 1, 1), shape2(2, 70, 33, 1, 5, 13, 1, 1, 1, 0), shape2(1, 32, 8, 1, 5, 14, 3, 1, 1, 1), shape2(1, 96, 6, 2, 5, 21, 3, 2, 1, 1), shape2(1, 68, 3, 1, 7, 12, 3, 1, 2, 2), shape2(1, 48, 3, 1, 7, 12, 3, 1, 2, 2),
			{N: 1, Cin: 3, Cout: 4, Group: 1, In: []int{}, Kernel: []int{}, Stride: []int{}, Dilation: []int{}, PadBegin: []int{}, PadEnd: []int{}},
		} {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			checkIntegerTypes(t, l, s, r, i%3, i&1 == 0)
			checkIntegerTypes(t, l, s, r, 3, i&1 != 0)
		}
	})
}

func TestRapidInteger(t *testing.T) {
	testkit.ByteLevels(t, func(t *testing.T, l cpu.Level) {
		rapid.Check(t, func(rt *rapid.T) {
			d := rapid.IntRange(1, 3).Draw(rt, "dims")
			ints := func(lo, hi int, name string) []int {
				return rapid.SliceOfN(rapid.IntRange(lo, hi), d, d).Draw(rt, name)
			}
			g := rapid.IntRange(1, 3).Draw(rt, "group")
			s := &Shape{N: rapid.IntRange(1, 2).Draw(rt, "n"), Group: g,
				Cin: g * rapid.IntRange(1, []int{40, 16, 4}[d-1]).Draw(rt, "cin"), Cout: g * rapid.IntRange(1, 6).Draw(rt, "cout"),
				In: ints(1, []int{20, 12, 7}[d-1], "in"), Kernel: ints(1, 4, "kernel"), Stride: ints(1, 3, "stride"), Dilation: ints(1, 3, "dilation"), PadBegin: ints(0, 4, "begin"), PadEnd: ints(0, 4, "end")}
			if s.Check() != nil {
				return
			}
			r, zeros, bias := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)),
				rapid.IntRange(0, 3).Draw(rt, "zeros"), rapid.Bool().Draw(rt, "bias")
			if rapid.Bool().Draw(rt, "no matrices") {
				defer cpu.WithoutMatrices()()
			}
			testkit.Scope(t, func(t testing.TB) { checkIntegerTypes(t, l, s, r, zeros, bias) })
		})
	})
}

func TestByteTile(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(12, 12))
		for pixels := 1; pixels <= pixelsOf(l); pixels++ {
			for k := 1; k <= 9; k++ {
				taps, pixel, half := 1+r.IntN(3), 4*k+r.IntN(5), (pixels+1)/2
				tile := byteTile{taps: taps, k: k, pixel: pixel, second: half*pixel + r.IntN(20), ldc: 150,
					secondC: half*150 + r.IntN(20), mask: uint32(r.Uint64()) | 1, zero: r.Int32N(256), sums: uint64(k & 1), signed: k&2 != 0}
				least := float32(0)
				if k%4 == 2 {
					tile.zero, least = tile.zero-128, -128
				}
				if k%3 == 0 {
					tile.mask = 1<<(1+r.IntN(32)) - 1
				}
				tile.lo, tile.hi = least-float32(tile.zero), least+255-float32(tile.zero)
				tile.Unsigned = quant.AsUnsigned(tile.zero, tile.lo)
				a := testkit.Guarded[uint8](t, tile.second+(half-1)*pixel+taps*4*k, testkit.High, r.IntN(3))
				b := testkit.Guarded[int8](t, taps*k*byteCols*4, testkit.High, 0)
				for i := range a {
					a[i] = uint8(r.Uint32())
				}
				for i := range b {
					b[i] = int8(r.Uint32())
				}
				var bias [byteCols]int32
				scale := [byteCols]float32{0.99999994, -0.99999994, 0, float32(math.Copysign(0, -1)),
					1e-40, -1e-40, 1, -1}
				for i := range bias {
					bias[i] = int32(r.Uint32()) >> 8
				}
				bias[0], bias[1] = math.MaxInt32-1<<24, math.MaxInt32-1<<24
				for i := 8; i < len(scale); i++ {
					scale[i] = r.Float32() * 1e-3
				}
				offsets := make([]int, taps)
				for i := range offsets {
					offsets[i] = r.IntN(taps) * 4 * k
				}
				tile.a, tile.b, tile.offsets = unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]), unsafe.Pointer(&offsets[0])
				tile.bias, tile.scale = unsafe.Pointer(&bias), unsafe.Pointer(&scale)
				var got, want [14*150 + 200]byte
				tile.c = unsafe.Pointer(&got)
				runByteTile(l, pixels, &tile)
				tile.c = unsafe.Pointer(&want)
				byteTileGeneric(pixels, &tile)
				if got != want {
					t.Fatalf("%d pixels, %d taps of %d, mask %x: %v, want %v", pixels, taps, k, tile.mask, got, want)
				}
			}
		}
	})
}

func TestChannelTile(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(13, 13))
		for pixels := 1; pixels <= channelPixels; pixels++ {
			for blocks := 1; blocks <= 3; blocks++ {
				rest := 1 + r.IntN(Lanes)
				channels := (blocks-1)*Lanes + rest
				tile := channelTile{taps: 1 + r.IntN(9), blocks: blocks, pixel: channels * (1 + r.IntN(2)),
					ldc: channels + r.IntN(3), mask: 1<<rest - 1, zero: r.Int32N(256)}
				tile.lo, tile.hi = float32(-tile.zero), float32(255-tile.zero)
				offsets := make([]int, tile.taps)
				for i := range offsets {
					offsets[i] = r.IntN(5) * channels
				}
				a := testkit.Guarded[uint8](t, (pixels-1)*tile.pixel+5*channels, testkit.High, 0)
				b := testkit.Guarded[int32](t, blocks*tile.taps*Lanes, testkit.High, 0)
				bias, scale := testkit.Guarded[int32](t, blocks*Lanes, testkit.High, 0),
					testkit.Guarded[float32](t, blocks*Lanes, testkit.High, 0)
				for i := range a {
					a[i] = uint8(r.Uint32())
				}
				for i := range b {
					b[i] = r.Int32N(511) - 255
				}
				for i := range bias {
					bias[i], scale[i] = int32(r.Uint32())>>8, r.Float32()*1e-3
				}
				copy(scale, []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
					0, 1e30, -1e30, 1e-40})
				tile.a, tile.b, tile.offsets = unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]), unsafe.Pointer(&offsets[0])
				tile.bias, tile.scale = unsafe.Pointer(&bias[0]), unsafe.Pointer(&scale[0])
				size := (pixels-1)*tile.ldc + channels
				got, want := testkit.Guarded[byte](t, size, testkit.High, 0), make([]byte, size)
				tile.c = unsafe.Pointer(&got[0])
				runChannelTile(l, pixels, &tile)
				tile.c = unsafe.Pointer(&want[0])
				channelTileGeneric(pixels, &tile)
				if !bytes.Equal(got, want) {
					t.Fatalf("%d pixels, %d taps, %d channels: %v, want %v", pixels, tile.taps, channels, got, want)
				}
			}
		}
	})
}

func TestWindowTile(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(15, 15))
		for i := range 4 * windowMost {
			channels, stride, n, least := 1+i%windowMost, 1+i/windowMost%2, 1+r.IntN(5), float32(0)
			size := windowChannels(channels)
			tile := windowTile{column: channels + r.IntN(3), ldc: channels + r.IntN(3), n: n, left: r.IntN(2),
				right: r.IntN(2), zero: r.Int32N(256),
				mask: math.MaxUint64 >> (windowMost - channels), pad: r.Uint32N(256) * 0x01010101}
			if r.IntN(2) == 0 {
				tile.zero, least = tile.zero-128, -128
			}
			tile.lo, tile.hi = least-float32(tile.zero), least+255-float32(tile.zero)
			tile.Unsigned = quant.AsUnsigned(tile.zero, tile.lo)
			columns := (n-1)*stride + 3 - tile.left - tile.right
			for k := range tile.rows {
				a := testkit.Guarded[uint8](t, (columns-1)*tile.column+channels, testkit.High, 0)
				for i := range a {
					a[i] = uint8(r.Uint32())
				}
				tile.rows[k] = unsafe.Pointer(&a[0])
			}
			b := testkit.Guarded[int8](t, 3*size*4, testkit.High, 0)
			bias, scale := testkit.Guarded[int32](t, size, testkit.High, 0),
				testkit.Guarded[float32](t, size, testkit.High, 0)
			for i := range b {
				if b[i] = int8(r.Uint32()); i%4 == 3 {
					b[i] = 0
				}
			}
			for i := range bias {
				bias[i], scale[i] = int32(r.Uint32())>>8, r.Float32()*1e-3
			}
			copy(scale, []float32{0, float32(math.Copysign(0, -1)), 0.99999994, -0.99999994, 1e-40})
			copy(bias, []int32{0, 0, math.MaxInt32 - 1<<20, math.MaxInt32 - 1<<20, 0})
			tile.b, tile.bias, tile.scale = unsafe.Pointer(&b[0]), unsafe.Pointer(&bias[0]), unsafe.Pointer(&scale[0])
			length := (n-1)*tile.ldc + channels
			got, want := testkit.Guarded[byte](t, length, testkit.High, 0), make([]byte, length)
			tile.c = unsafe.Pointer(&got[0])
			runWindowTile(l, size, stride, &tile)
			tile.c = unsafe.Pointer(&want[0])
			windowTileGeneric(size, stride, &tile)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d pixels, stride %d, %d channels, padding %d, %d: %v, want %v", n, stride, channels,
					tile.left, tile.right, got, want)
			}
		}
	})
}

func TestPlaneTile(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(14, 14))
		for n := 1; n < 70; n++ {
			stride, rows := 1+n&1, 1+r.IntN(planeRows)
			tile := planeTile{kh: 1 + r.IntN(3), kw: 1 + r.IntN(3), dx: 1 + r.IntN(2), n: n, ldc: 300, bias: r.Int32(),
				zero: r.Int32N(256), sums: uint64(r.IntN(2)),
				scale: []float32{1e-3, 1e-7, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), -1e-6, 0}[r.IntN(7)]}
			tile.lo, tile.hi = float32(-tile.zero), float32(255-tile.zero)
			tile.dy = n*stride + 10
			tile.row = tile.dy * (1 + r.IntN(2))
			a := testkit.Guarded[uint8](t, (rows-1)*tile.row+tile.kh*tile.dy+tile.kw*tile.dx+planeSlack+n*stride,
				testkit.High, r.IntN(3))
			b := testkit.Guarded[int32](t, tile.kh*tile.kw, testkit.High, 0)
			for i := range a {
				a[i] = uint8(r.Uint32())
			}
			for i := range b {
				b[i] = r.Int32N(511) - 255
			}
			tile.a, tile.b = unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0])
			var got, want [planeRows * 300]byte
			tile.c = unsafe.Pointer(&got)
			runPlaneTile(l, rows, stride, &tile)
			tile.c = unsafe.Pointer(&want)
			planeTileGeneric(rows, stride, &tile)
			if got != want {
				t.Fatalf("%d rows of %d outputs, stride %d, %d×%d: %v, want %v", rows, n, stride,
					tile.kh, tile.kw, got, want)
			}
		}
	})
}

func TestNewIntegerErrors(t *testing.T) {
	s := shape2(1, 4, 4, 1, 5, 5, 3, 1, 1, 0)
	if _, err := NewInteger(cpu.Generic, s, make([]int8, 144), 0, make([]int32, 3), nil); err == nil ||
		!strings.Contains(err.Error(), "3 zero points") {
		t.Errorf("error %v", err)
	}
	if _, err := NewInteger(cpu.Generic, &Shape{In: make([]int, 4)}, []int8{}, 0, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "4 spatial dimensions") {
		t.Errorf("error %v", err)
	}
}

func BenchmarkInteger(b *testing.B) {
	for _, s := range []*Shape{shape2(1, 64, 64, 1, 56, 56, 3, 1, 1, 1), shape2(1, 256, 64, 1, 56, 56, 1, 1, 1, 0),
		shape2(1, 256, 256, 1, 14, 14, 3, 1, 1, 1), shape2(1, 3, 64, 1, 224, 224, 7, 2, 1, 3), shape2(1, 96, 96, 96, 56, 56, 3, 1, 1, 1), shape2(1, 64, 256, 1, 56, 56, 1, 1, 1, 0), shape2(1, 512, 512, 1, 7, 7, 3, 1, 1, 1), shape2(1, 512, 2048, 1, 7, 7, 1, 1, 1, 0), shape2(1, 16, 96, 1, 112, 112, 1, 1, 1, 0), shape2(1, 64, 384, 1, 14, 14, 1, 1, 1, 0), shape2(1, 256, 512, 1, 56, 56, 1, 2, 1, 0)} {
		d, err := NewInteger(cpu.Active(), s, make([]int8, s.Cout*s.Cin/s.Group*product(s.Kernel)), 3, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		x, y := make([]uint8, s.Cin*product(s.In)), make([]uint8, s.Cout*product(s.Out))
		b.Run(fmt.Sprintf("%dx%d_g%d_k%d@%d", s.Cin, s.Cout, s.Group, s.Kernel[0], s.In[0]), func(b *testing.B) {
			for b.Loop() {
				RunRequantized(d, nil, y, x, []float32{0.1}, 0)
			}
			b.ReportMetric(2*float64(s.Cout*s.Cin/s.Group*product(s.Kernel)*product(s.Out))*float64(b.N)/float64(
				b.Elapsed().Nanoseconds()), "GOPS")
		})
		if !d.Last() {
			continue
		}
		b.Run(fmt.Sprintf("%dx%d_g%d_k%d@%d_last", s.Cin, s.Cout, s.Group, s.Kernel[0], s.In[0]), func(b *testing.B) {
			for b.Loop() {
				RunRequantizedLast(d, nil, y, x, []float32{0.1}, 0, nil)
			}
			b.ReportMetric(2*float64(s.Cout*s.Cin/s.Group*product(s.Kernel)*product(s.Out))*float64(b.N)/float64(
				b.Elapsed().Nanoseconds()), "GOPS")
		})
	}
}
