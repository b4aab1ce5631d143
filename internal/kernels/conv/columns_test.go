package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// runColumns computes s by [Columns] with the given number of columns per pixel.
func runColumns(t testing.TB, l cpu.Level, par gemm.Par, s *Shape, columns int, planar bool, w, bias, image []float32,
	out Layout, y []float32, ep *BlockedEpilogue) {
	t.Helper()
	kh, kw := s.Kernel[0], s.Kernel[1]
	wide, wideBias := WideColumns(w, bias, s.Cin, s.Cout, kh, kw, s.Stride[1], columns)
	width := len(wide) / (columns * s.Cout * s.Cin * kh)
	if planar {
		NewInputColumns(NCHWInput{Cin: s.Cin, H: s.In[0], W: s.In[1], Out: out, StrideH: s.Stride[0],
			StrideW: s.Stride[1], DilationH: s.Dilation[0], DilationW: 1, Top: s.PadBegin[0], Left: s.PadBegin[1],
			Weights: PackNCHWInput(l, wide, wideBias, s.Cin, columns*s.Cout, kh, width)}, columns).Run(l, par, y, image, ep)
		return
	}
	right := ColumnsBorder(s.In[1], s.Out[1], kw, s.Stride[1], s.PadBegin[1], columns)
	in := NewLayout(s.Cin, s.In[0], s.In[1], s.PadBegin[0], s.PadBegin[1], s.PadEnd[0], right)
	x := testkit.Guarded[float32](t, in.Len(), testkit.Side(columns%2 == 0), 0)
	in.FromNCHW(l, x, image, 0, in.Blocks())
	c, err := NewColumns(Direct{In: in, Out: out, StrideH: s.Stride[0], StrideW: s.Stride[1], DilationH: s.Dilation[0],
		DilationW: 1, Top: s.PadBegin[0], Left: s.PadBegin[1],
		Weights: PackWeights(l, wide, wideBias, s.Cin, columns*s.Cout, 1, kh, width)}, columns)
	if err != nil {
		t.Fatal(err)
	}
	c.Run(l, par, y, x, ep)
}

func TestColumns(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(31, 7))
		for i, s := range []*Shape{
			shape2(1, 8, 8, 1, 3, 30, 3, 1, 1, 1), shape2(1, 3, 3, 1, 5, 17, 5, 1, 1, 2), shape2(1, 33, 1, 1, 4, 70, 3, 2, 1, 0),
			shape2(1, 20, 5, 1, 1, 45, 3, 1, 1, 1),
			{N: 1, Cin: 1, Cout: 1, Group: 1, In: []int{1, 300}, Kernel: []int{1, 40}, Stride: []int{1, 2},
				Dilation: []int{1, 1}, PadBegin: []int{0, 19}, PadEnd: []int{0, 20}},
			{N: 1, Cin: 4, Cout: 2, Group: 1, In: []int{9, 23}, Kernel: []int{3, 7}, Stride: []int{2, 1},
				Dilation: []int{2, 1}, PadBegin: []int{2, 3}, PadEnd: []int{1, 4}},
		} {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			for e := range 12 {
				b := newBlocked(r, s, e)
				for columns := 2; columns*s.Cout <= 2*Lanes; columns += 1 + columns/3 {
					for _, planar := range []bool{false, true} {
						if planar && s.Cin > 4 {
							continue
						}
						tol := 6e-6 * max(1, math.Sqrt(float64(s.Cin*product(s.Kernel)))/30)
						what := fmt.Sprintf("%v %+v, %d columns, planar %v", l, *s, columns, planar)
						b.run(t, what, l, testkit.Side(e&1 == 0), i%2 == 0, tol,
							func(_, out Layout, y, _ []float32, ep *BlockedEpilogue) {
								par := []gemm.Par{nil, twoWays}[e/2%2]
								runColumns(t, l, par, s, columns, planar, b.w, b.ep.Bias, b.x, out, y, ep)
							})
					}
				}
			}
		}
	})
}

// TestColumnsKeepNaN checks that an infinite pixel affects only the outputs that read it.
func TestColumnsKeepNaN(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		s := shape2(1, 3, 2, 1, 4, 29, 3, 1, 1, 1)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		b := newBlocked(rand.New(rand.NewPCG(3, 4)), s, 1)
		b.x[2*29+11] = float32(math.Inf(1))
		want := make([]float64, len(b.want))
		NaiveGeneric(s, want, to64(b.x), to64(b.w), b.ep.to64())
		for _, planar := range []bool{false, true} {
			out := NewLayout(2, 4, 29, 0, 0, 0, 0)
			y, got := make([]float32, out.Len()), make([]float32, len(want))
			runColumns(t, l, nil, s, 5, planar, b.w, b.ep.Bias, b.x, out, y, &BlockedEpilogue{})
			out.ToNCHW(l, got, y, 0, 1)
			for i, v := range got {
				if d := math.Abs(float64(v) - want[i]); !(d < 1e-4) && float64(v) != want[i] {
					t.Fatalf("planar %v: output %d is %g, want %g", planar, i, v, want[i])
				}
			}
		}
	})
}

func TestChooseColumns(t *testing.T) {
	for _, c := range []struct{ cout, kw, stride, dilation, width, want int }{
		{8, 39, 1, 1, 264, 4}, {1, 5, 1, 1, 264, 16}, {1, 256, 2, 1, 21922, 32}, {3, 9, 1, 1, 500, 5},
		{16, 9, 1, 1, 500, 1}, {1, 1, 1, 1, 500, 1}, {1, 9, 1, 2, 500, 1}, {12, 3, 1, 1, 500, 1}, {1, 5, 1, 1, 1, 1},
	} {
		if got := ChooseColumns(cpu.AVX512, c.cout, c.kw, c.stride, c.dilation, c.width); got != c.want {
			t.Errorf("%+v: %d columns", c, got)
		}
	}
}
