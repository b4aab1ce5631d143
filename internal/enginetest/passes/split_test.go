package passes

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestSplitFloat32 checks that GEMMs with many rows multiply bfloat16 parts on processors with AMX
// unless the session turns that off, that results are as near to those of reference, and that rows
// do not depend on the number of threads, nor on rows with exceptional numbers.
func TestSplitFloat32(t *testing.T) {
	defer cpu.EmulateBF16(cpu.BF16Tiles)()
	const rows, k, n = 96, 300, 260
	r := rand.New(rand.NewPCG(1, 4))
	b := onnx.NewModel("dense").Opset("", 21)
	b.Input("x", onnx.Float, "n", k).Output("y", onnx.Float, "n", n)
	g := b.GraphBuilder
	enginetest.AddWeights(g, r, "w", 0.1, k, 270)
	enginetest.AddWeights(g, r, "bias", 0.1, 270)
	enginetest.AddWeights(g, r, "u", 0.1, n, 270)
	b.Node("MatMul", []string{"x", "w"}, []string{"a"})
	b.Node("Add", []string{"a", "bias"}, []string{"b"})
	b.Node("Relu", []string{"b"}, []string{"c"})
	b.Node("Gemm", []string{"c", "u"}, []string{"y"}, onnx.Attrs{"transB": 1})
	m := b.Must()
	x := make([]float32, rows*k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	results := func(o onward.SessionOptions, x []float32) (y []float32) {
		t.Helper()
		s := enginetest.Open(t, m, &o)
		for range 3 { // later runs replay captured kernels
			out, err := s.Run(t.Context(), onward.Values{"x": tensor.Must(tensor.New(x, rows, k))}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := enginetest.Floats(t, out["y"])
			if y != nil && !slices.Equal(got, y) {
				t.Fatal("runs differ")
			}
			y = slices.Clone(got)
		}
		return y
	}
	want := results(onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}}, x)
	worst := func(y []float32) (e float64) {
		for i, v := range y {
			e = max(e, math.Abs(float64(v-want[i])))
		}
		return e
	}
	single := results(onward.SessionOptions{Config: map[string]string{onward.ConfigSplitFloat32: "0"}}, x)
	split := results(onward.SessionOptions{}, x)
	if got, most := worst(split), 1.5*worst(single); got > most {
		t.Errorf("largest error %g, want at most %g", got, most)
	}
	if active := cpu.UsesBF16(cpu.Active()) == cpu.BF16Tiles; slices.Equal(single, split) == active {
		t.Errorf("the results with splitting equal those without: %t", active)
	}
	other := slices.Clone(x)
	other[3*k+7], other[50*k] = float32(math.Inf(1)), math.MaxFloat32
	for _, o := range []onward.SessionOptions{{Threads: 1}, {Threads: 3}} {
		if !slices.Equal(results(o, x), split) {
			t.Errorf("%d threads: the results differ", o.Threads)
		}
	}
	s := enginetest.Open(t, m, nil)
	out, err := s.Run(t.Context(), onward.Values{"x": tensor.Must(tensor.New(other, rows, k))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range enginetest.Floats(t, out["y"]) {
		if row := i / n; row != 3 && row != 50 && v != split[i] {
			t.Fatalf("row %d is %g, without exceptional rows %g", row, v, split[i])
		}
	}
}
