package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"pgregory.net/rapid"
)

// shape2 returns a two-dimensional shape with the same kernel, stride, dilation and padding
// along both axes.
func shape2(n, cin, cout, group, h, w, kernel, stride, dilation, pad int) *Shape {
	s := &Shape{N: n, Cin: cin, Cout: cout, Group: group, In: []int{h, w}, Kernel: []int{kernel, kernel},
		Stride:   []int{stride, stride},
		Dilation: []int{dilation, dilation}, PadBegin: []int{pad, pad}, PadEnd: []int{pad, pad}}
	if err := s.Check(); err != nil {
		panic(err)
	}
	return s
}

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func to64(v []float32) []float64 {
	if v == nil {
		return nil
	}
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}

func (e *Epilogue[T]) to64() *Epilogue[float64] {
	f := any(e).(*Epilogue[float32])
	return &Epilogue[float64]{Bias: to64(f.Bias), Add: to64(f.Add), Act: f.Act, Lo: float64(f.Lo), Hi: float64(f.Hi)}
}

// close32 reports elements that differ from want by more than tol times the output's root mean
// square.
func close32(t testing.TB, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	near32(t, what, got, want, tol*(rootMeanSquare(want)+1e-30))
}

func rootMeanSquare(v []float64) float64 {
	var sq float64
	for _, x := range v {
		sq += x * x
	}
	return math.Sqrt(sq / float64(max(1, len(v))))
}

// near32 reports elements that differ from want by more than tol.
func near32(t testing.TB, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	bad := 0
	for i, v := range want {
		if !(math.Abs(float64(got[i])-v) <= tol) && bad < 5 {
			bad++
			t.Errorf("%s: element %d is %g, want %g ± %g", what, i, got[i], v, tol)
		}
	}
}

func checkShape(t testing.TB, s *Shape, r *rand.Rand, epilogue int) {
	t.Helper()
	x := random(r, s.N*s.Cin*product(s.In))
	w := random(r, s.Cout*s.Cin/s.Group*product(s.Kernel))
	n := s.N * s.Cout * product(s.Out)
	ep := &Epilogue[float32]{}
	if epilogue&1 != 0 {
		ep.Bias = random(r, s.Cout)
	}
	if epilogue&2 != 0 {
		ep.Add = random(r, n)
	}
	if epilogue&4 != 0 {
		ep.Act, ep.Lo, ep.Hi = gemm.Clip, -1, 2
	}
	if epilogue&8 != 0 {
		ep.Act = gemm.Relu
	}
	want := make([]float64, n)
	NaiveGeneric(s, want, to64(x), to64(w), ep.to64())
	what := fmt.Sprintf("%+v epilogue %04b", *s, epilogue)
	for _, l := range cpu.Levels() {
		y := testkit.Guarded[float32](t, n, testkit.High, 0)
		F32(l, twoWays, s, y, testkit.GuardedCopy(t, x, testkit.High, 0),
			testkit.GuardedCopy(t, w, testkit.High, 0), ep)
		// of terms of size 1, of which Relu may leave only small sums
		tol := 2e-6*math.Sqrt(float64(s.Cin/s.Group*product(s.Kernel))) + 1e-6
		near32(t, what+" "+l.String(), y, want, tol*max(1, rootMeanSquare(want)))
	}
	y := make([]float64, n)
	Generic(nil, s, y, to64(x), to64(w), ep.to64())
	for i := range y {
		if math.Abs(y[i]-want[i]) > 1e-12*(1+math.Abs(want[i]))*float64(s.Cin) {
			t.Fatalf("%s float64: element %d is %g, want %g", what, i, y[i], want[i])
		}
	}
}

func twoWays(n int, fn func(lo, hi int)) {
	done := make(chan struct{})
	go func() { defer close(done); fn(0, n/3) }()
	defer func() { <-done }() // also if fn panics and the test continues
	fn(n/3, n)
}

func TestShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for i, s := range []*Shape{
		shape2(1, 3, 8, 1, 9, 11, 3, 1, 1, 1), shape2(2, 4, 6, 2, 8, 8, 3, 2, 1, 1), shape2(1, 5, 5, 5, 7, 7, 3, 1, 1, 1),
		shape2(1, 16, 20, 1, 7, 7, 1, 1, 1, 0), shape2(1, 16, 20, 1, 7, 7, 1, 2, 1, 0), shape2(1, 2, 3, 1, 12, 12, 3, 1, 2, 2), shape2(1, 3, 33, 1, 23, 23, 7, 2, 1, 3),
		{N: 1, Cin: 2, Cout: 3, Group: 1, In: []int{5, 6, 7}, Kernel: []int{3, 2, 3}, Stride: []int{1, 2, 1}, Dilation: []int{1, 1, 2}, PadBegin: []int{1, 0, 2}, PadEnd: []int{0, 1, 1}},
		{N: 2, Cin: 3, Cout: 3, Group: 3, In: []int{40}, Kernel: []int{31}, Stride: []int{1}, Dilation: []int{1}, PadBegin: []int{15}, PadEnd: []int{15}},
		{N: 2, Cin: 3, Cout: 4, Group: 1, In: []int{}, Kernel: []int{}, Stride: []int{}, Dilation: []int{}, PadBegin: []int{}, PadEnd: []int{}},
		{N: 0, Cin: 3, Cout: 4, Group: 1, In: []int{4}, Kernel: []int{1}, Stride: []int{1}, Dilation: []int{1}, PadBegin: []int{0}, PadEnd: []int{0}},
	} {
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		for _, ep := range []int{i & 15, 15, 0} {
			checkShape(t, s, r, ep)
		}
	}
}

func TestRapidShapes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.IntRange(1, 3).Draw(rt, "dims")
		ints := func(lo, hi int, name string) []int {
			return rapid.SliceOfN(rapid.IntRange(lo, hi), d, d).Draw(rt, name)
		}
		g := rapid.IntRange(1, 3).Draw(rt, "group")
		s := &Shape{N: rapid.IntRange(1, 2).Draw(rt, "n"), Group: g, Cin: g * rapid.IntRange(1, 4).Draw(rt, "cin"),
			Cout: g * rapid.IntRange(1, 6).Draw(rt, "cout"),
			In:   ints(1, 9, "in"), Kernel: ints(1, 4, "kernel"), Stride: ints(1, 3, "stride"), Dilation: ints(1, 3, "dilation"), PadBegin: ints(0, 4, "begin"), PadEnd: ints(0, 4, "end")}
		if s.Check() != nil {
			return
		}
		r, ep := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)), rapid.IntRange(0, 15).Draw(rt, "epilogue")
		testkit.Scope(t, func(t testing.TB) { checkShape(t, s, r, ep) })
	})
}

func TestCheckErrors(t *testing.T) {
	ok := func() *Shape { return shape2(1, 4, 4, 2, 5, 5, 3, 1, 1, 0) }
	for _, c := range []struct {
		change func(s *Shape)
		want   string
	}{
		{func(s *Shape) { s.Group = 3 }, "group 3 does not divide 4"},
		{func(s *Shape) { s.Group = 0 }, "group 0"},
		{func(s *Shape) { s.Stride[1] = 0 }, "dimension 1: kernel 3, stride 0"},
		{func(s *Shape) { s.Kernel[0] = 6 }, "does not fit into 5"},
		{func(s *Shape) { s.Kernel = s.Kernel[:1] }, "2 spatial dimensions"},
	} {
		s := ok()
		c.change(s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
