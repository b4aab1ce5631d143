package conv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// imagesKernel is a kernel for several images.
type imagesKernel interface {
	Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue)
	TakesImages(level cpu.Level, n int, ep *BlockedEpilogue) bool
	RunImages(level cpu.Level, par gemm.Par, y, x []float32, n int, ep *BlockedEpilogue)
}

// TestRunImages requires the bits that Run computes image by image.
func TestRunImages(t *testing.T) {
	taken := 0
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(20, 20))
		for i := range 80 {
			cin, cout, n, width := 1+r.IntN(70), 1+r.IntN(70), 1+r.IntN(40), 1+r.IntN(4)
			taps, stride, dilation, left := 1+r.IntN(4), 1+r.IntN(2), 1+r.IntN(2), r.IntN(2)
			if i%8 == 0 {
				cin, width = 2100, 1 // several calls for a tile
			}
			out := NewLayout(cout, 1, width, r.IntN(2), r.IntN(2), 0, r.IntN(2))
			weights, bias := random(r, cin*cout*taps), random(r, cout)
			ep := &BlockedEpilogue{}
			switch i % 3 {
			case 1:
				ep.Act = gemm.Relu
			case 2:
				ep.Map = func(dst, src []float32, block int) {
					for i, v := range src {
						dst[i] = 2*v + float32(block)
					}
				}
			}
			wide := (width-1)*stride + (taps-1)*dilation + 1
			size := 0
			var k imagesKernel
			if i%2 == 0 {
				in := NewLayout(cin, 1, wide, 0, left, 0, left)
				size = in.Len()
				k = &Direct{In: in, Out: out, StrideH: 1, StrideW: stride, DilationH: 1, DilationW: dilation,
					Left: left, Weights: PackWeights(l, weights, bias, cin, cout, 1, 1, taps)}
			} else {
				size = cin * wide
				k = &NCHWInput{Cin: cin, H: 1, W: wide, Out: out, StrideH: 1, StrideW: stride, DilationH: 1,
					DilationW: dilation, Weights: PackNCHWInput(l, weights, bias, cin, cout, 1, taps)}
			}
			if !k.TakesImages(l, n, ep) {
				continue
			}
			taken++
			x := testkit.Guarded[float32](t, n*size, testkit.High, 0)
			copy(x, random(r, n*size))
			want := make([]float32, n*out.Len())
			for i := range n {
				k.Run(l, nil, want[i*out.Len():][:out.Len()], x[i*size:][:size], ep)
			}
			for _, par := range []gemm.Par{nil, twoWays} {
				y := testkit.Guarded[float32](t, len(want), testkit.High, 0)
				k.RunImages(l, par, y, x, n, ep)
				if !slices.Equal(y, want) {
					t.Fatalf("%v: %T, %d images, %d→%d channels, %d taps, stride %d, dilation %d, width %d differ",
						l, k, n, cin, cout, taps, stride, dilation, width)
				}
			}
		}
	})
	if taken == 0 {
		t.Error("no kernel computes several images")
	}
}

// TestTakesImages checks which images are computed one by one.
func TestTakesImages(t *testing.T) {
	of := func(h, w int) *Direct {
		l := NewLayout(16, h, w, 0, 0, 0, 0)
		return &Direct{In: l, Out: l, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
			Weights: PackWeights(cpu.Generic, make([]float32, 256), nil, 16, 16, 1, 1, 1)}
	}
	none := &BlockedEpilogue{}
	for _, c := range []struct {
		d    *Direct
		n    int
		ep   *BlockedEpilogue
		want bool
	}{{of(1, 2), 4, none, true}, {of(1, 2), 3, none, false}, {of(2, 1), 8, none, false}, {of(1, 8), 99, none, false},
		{of(1, 1), 8, &BlockedEpilogue{Add: make([]float32, 272)}, false}} {
		if got := c.d.TakesImages(cpu.Generic, c.n, c.ep); got != c.want {
			t.Errorf("%d images of %d×%d: %t, want %t", c.n, c.d.Out.H, c.d.Out.W, got, c.want)
		}
	}
}
