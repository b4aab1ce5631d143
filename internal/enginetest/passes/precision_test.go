package passes

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/testkit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// denseModel has a MatMul with a bias and a Relu, a Gemm, and a MatMul of another rank.
func denseModel(r *rand.Rand) *onnx.Model {
	b := onnx.NewModel("dense").Opset("", 21)
	b.Input("x", onnx.Float, "n", 96).Output("y", onnx.Float, "n", 130)
	g := b.GraphBuilder
	enginetest.AddWeights(g, r, "w", 0.1, 96, 200)
	enginetest.AddWeights(g, r, "bias", 0.1, 200)
	enginetest.AddWeights(g, r, "u", 0.1, 120, 200)
	enginetest.AddWeights(g, r, "v", 0.1, 120, 130)
	b.Node("MatMul", []string{"x", "w"}, []string{"a"})
	b.Node("Add", []string{"a", "bias"}, []string{"b"})
	b.Node("Relu", []string{"b"}, []string{"c"})
	b.Node("Gemm", []string{"c", "u"}, []string{"d"}, onnx.Attrs{"transB": 1})
	b.Node("MatMul", []string{"d", "v"}, []string{"y"})
	return b.Must()
}

// TestPrecision compares bfloat16 with float32: the results are near, equal for every number of
// threads and rows, and other if the processor is faster with bfloat16.
func TestPrecision(t *testing.T) { testkit.BF16Orders(t, testPrecision) }

func testPrecision(t *testing.T) {
	m := denseModel(rand.New(rand.NewPCG(1, 1)))
	x := make([]float32, 100*96)
	r := rand.New(rand.NewPCG(2, 2))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	results := func(t *testing.T, o onward.SessionOptions, rows int) []float32 {
		t.Helper()
		s := enginetest.Open(t, m, &o)
		var y []float32
		for range 3 { // later runs replay captured kernels
			out, err := s.Run(t.Context(), onward.Values{"x": tensor.Must(tensor.New(x[:rows*96], rows, 96))}, nil)
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
	for _, rows := range []int{1, 20, 100} {
		want := results(t, onward.SessionOptions{}, rows)
		var first []float32
		for _, o := range []onward.SessionOptions{{Threads: 1}, {Threads: 3}, {},
			{OptimizationLevel: onward.OptimizeNone}} {
			o.Precision = onward.PrecisionBFloat16
			t.Run(fmt.Sprintf("%d rows, %d threads, level %s", rows, o.Threads, o.OptimizationLevel),
				func(t *testing.T) {
					got := results(t, o, rows)
					var worst float64
					for i, v := range got {
						worst = max(worst, math.Abs(float64(v-want[i])))
					}
					if worst > 0.05 || (worst == 0) == cpu.BFloat16(cpu.Active()) {
						t.Errorf("bfloat16 differs by %g from float32 (fast bfloat16 %t)", worst,
							cpu.BFloat16(cpu.Active()))
					}
					if o.OptimizationLevel == onward.OptimizeAll {
						if first == nil {
							first = got
						} else if !slices.Equal(first, got) {
							t.Error("the results depend on the number of threads")
						}
					}
				})
		}
		reference := onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}}
		plain := results(t, reference, rows)
		reference.Precision = onward.PrecisionBFloat16
		if !slices.Equal(results(t, reference, rows), plain) {
			t.Error("reference rounds")
		}
	}
	var status *onward.StatusError
	if _, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{Precision: 7}); !errors.As(err, &status) ||
		status.Code != onward.CodeInvalidArgument {
		t.Errorf("precision 7: %v, want the status INVALID_ARGUMENT", err)
	}
}

// TestPrecisionConv compares convolutions with bfloat16 to float32: 1×1, fused with the depthwise
// one after it, strided, and with Winograd's filtering.
func TestPrecisionConv(t *testing.T) { testkit.BF16Orders(t, testPrecisionConv) }

func testPrecisionConv(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	b := onnx.NewModel("convolutions").Opset("", 21)
	b.Input("x", onnx.Float, 1, 20, 56, 56)
	from, channels := "x", 20
	for i, c := range []struct{ cout, group, kernel, stride int }{{96, 1, 1, 1}, {96, 96, 3, 1}, {24, 1, 1, 1},
		{40, 1, 3, 2}, {40, 1, 3, 1}, {72, 1, 1, 2}, {72, 1, 3, 1}, {50, 1, 1, 1}} {
		w := make([]float32, c.cout*channels/c.group*c.kernel*c.kernel)
		for j := range w {
			w[j] = float32(r.NormFloat64() / math.Sqrt(float64(len(w)/c.cout)))
		}
		name := fmt.Sprint(i)
		b.Initializer("w"+name, w, int64(c.cout), int64(channels/c.group), int64(c.kernel), int64(c.kernel))
		pad := c.kernel / 2
		b.Node("Conv", []string{from, "w" + name}, []string{"c" + name},
			onnx.Attrs{"strides": []int{c.stride, c.stride}, "pads": []int{pad, pad, pad, pad}, "group": c.group})
		b.Node("Relu", []string{"c" + name}, []string{"r" + name})
		from, channels = "r"+name, c.cout
	}
	b.Output(from, onnx.Float, 1, channels, 14, 14)
	m := b.Must()
	x := make([]float32, 20*56*56)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	result := func(o onward.SessionOptions) []float32 {
		s := enginetest.Open(t, m, &o)
		var y []float32
		for range 3 { // later runs replay captured kernels
			out, err := s.Run(t.Context(), onward.Values{"x": tensor.Must(tensor.New(x, 1, 20, 56, 56))}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := enginetest.Floats(t, out[from])
			if y != nil && !slices.Equal(got, y) {
				t.Fatal("runs differ")
			}
			y = slices.Clone(got)
		}
		return y
	}
	want := result(onward.SessionOptions{})
	got := result(onward.SessionOptions{Precision: onward.PrecisionBFloat16, Threads: 1})
	var signal, noise float64
	for i, v := range got {
		signal, noise = signal+float64(want[i]*want[i]), noise+float64((v-want[i])*(v-want[i]))
	}
	if rounds := cpu.UsesBF16(cpu.Active()) == cpu.BF16Pairs; noise > 1e-4*signal || (noise > 0) != rounds {
		t.Errorf("the error is %g of the results (%t that convolutions round)", math.Sqrt(noise/signal), rounds)
	}
	if !slices.Equal(got, result(onward.SessionOptions{Precision: onward.PrecisionBFloat16, Threads: 3})) {
		t.Error("the results depend on the number of threads")
	}
}

// TestPrecisionAttention compares attention with bfloat16 to float32: grouped heads, and with
// causal masks blocks of queries that see a part of the keys.
func TestPrecisionAttention(t *testing.T) { testkit.BF16Orders(t, testPrecisionAttention) }

func testPrecisionAttention(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, causal := range []int{0, 1} {
		b := onnx.NewModel("attention").Opset("", 23)
		feed := onward.Values{}
		for i, shape := range [][]int{{2, 4, 700, 40}, {2, 2, 700, 40}, {2, 2, 700, 50}} {
			name := []string{"q", "k", "v"}[i]
			b.Input(name, onnx.Float, shape[0], shape[1], shape[2], shape[3])
			x := make([]float32, shape[0]*shape[1]*shape[2]*shape[3])
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			feed[name] = tensor.Must(tensor.New(x, shape...))
		}
		b.Output("y", onnx.Float, 2, 4, 700, 50)
		b.Node("Attention", []string{"q", "k", "v"}, []string{"y"}, onnx.Attrs{"is_causal": causal})
		m := b.Must()
		result := func(o onward.SessionOptions) []float32 {
			out, err := enginetest.Open(t, m, &o).Run(t.Context(), feed, nil)
			if err != nil {
				t.Fatal(err)
			}
			return enginetest.Floats(t, out["y"])
		}
		want := result(onward.SessionOptions{})
		got := result(onward.SessionOptions{Precision: onward.PrecisionBFloat16, Threads: 1})
		var worst float64
		for i, v := range got {
			worst = max(worst, math.Abs(float64(v-want[i])))
		}
		if worst > 0.03 || (worst == 0) == cpu.BFloat16(cpu.Active()) {
			t.Errorf("causal %d: bfloat16 differs by %g from float32 (fast bfloat16 %t)", causal, worst,
				cpu.BFloat16(cpu.Active()))
		}
		if !slices.Equal(got, result(onward.SessionOptions{Precision: onward.PrecisionBFloat16, Threads: 3})) {
			t.Errorf("causal %d: the results depend on the number of threads", causal)
		}
	}
}

// TestPrecisionOfModel checks that products of models with weights of bfloat16 alone round as with
// the option, and that those of other models do not.
func TestPrecisionOfModel(t *testing.T) { testkit.BF16Orders(t, testPrecisionOfModel) }

func testPrecisionOfModel(t *testing.T) {
	for _, last := range []onnx.DataType{onnx.BFloat16, onnx.Float} { // type of the weights of the last product
		r := rand.New(rand.NewPCG(5, 5))
		b := onnx.NewModel("products").Opset("", 21)
		b.Input("x", onnx.BFloat16, "n", 96).Output("y", onnx.Float, "n", 120)
		rounded := func(x *tensor.Tensor) []tensor.BFloat16 {
			y := make([]tensor.BFloat16, x.Len())
			tensor.Float32sToBFloat16s(y, tensor.MustData[float32](x))
			return y
		}
		b.Initializer("w", rounded(enginetest.Normal(r, 200, 96)), 200, 96)
		b.Node("Transpose", []string{"w"}, []string{"t"}, onnx.Attrs{"perm": []int{1, 0}})
		b.Node("MatMul", []string{"x", "t"}, []string{"a"})
		b.Node("Cast", []string{"a"}, []string{"b"}, onnx.Attrs{"to": int(last)})
		if last == onnx.BFloat16 {
			b.Initializer("u", rounded(enginetest.Normal(r, 200, 120)), 200, 120)
		} else {
			enginetest.AddWeights(b.GraphBuilder, r, "u", 1, 200, 120)
		}
		b.Node("MatMul", []string{"b", "u"}, []string{"c"})
		b.Node("Cast", []string{"c"}, []string{"y"}, onnx.Attrs{"to": int(onnx.Float)})
		m := b.Must()
		x := tensor.Must(tensor.New(rounded(enginetest.Normal(r, 20, 96)), 20, 96))
		result := func(o *onward.SessionOptions) []float32 {
			out, err := enginetest.Open(t, m, o).Run(t.Context(), onward.Values{"x": x}, nil)
			enginetest.Must(t, err)
			return enginetest.Floats(t, out["y"])
		}
		got, asked := result(nil), result(&onward.SessionOptions{Precision: onward.PrecisionBFloat16})
		restore := cpu.WithoutMatrices()
		plain := result(nil)
		restore()
		rounds := last == onnx.BFloat16 && cpu.BFloat16(cpu.Active())
		if slices.Equal(got, plain) == rounds || rounds && !slices.Equal(got, asked) {
			t.Errorf("last weights %s: equal to float32 %t, to bfloat16 %t, fast bfloat16 %t", last,
				slices.Equal(got, plain), slices.Equal(got, asked), cpu.BFloat16(cpu.Active()))
		}
	}
}
