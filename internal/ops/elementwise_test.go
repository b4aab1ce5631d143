package ops

import (
	"math"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// TestUnaryFloatOperators compares each operator with its formula, on every
// float type and on special values.
func TestUnaryFloatOperators(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	type test struct {
		name  string
		opset int
		attrs map[string]any
		f     func(x float64) float64
	}
	tests := []test{
		{"Abs", 13, nil, math.Abs}, {"Acos", 22, nil, math.Acos}, {"Acosh", 22, nil, math.Acosh},
		{"Asin", 22, nil, math.Asin}, {"Asinh", 22, nil, math.Asinh}, {"Atan", 22, nil, math.Atan},
		{"Atanh", 22, nil, math.Atanh}, {"Ceil", 13, nil, math.Ceil}, {"Cos", 22, nil, math.Cos},
		{"Cosh", 22, nil, math.Cosh}, {"Erf", 13, nil, math.Erf}, {"Exp", 13, nil, math.Exp},
		{"Floor", 13, nil, math.Floor}, {"Log", 13, nil, math.Log},
		{"Neg", 13, nil, func(x float64) float64 { return -x }},
		{"Reciprocal", 13, nil, func(x float64) float64 { return 1 / x }},
		{"Round", 22, nil, math.RoundToEven}, {"Sigmoid", 13, nil, sigmoid},
		{"Sign", 13, nil, func(x float64) float64 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		}},
		{"Sin", 22, nil, math.Sin}, {"Sinh", 22, nil, math.Sinh},
		{"Softplus", 22, nil, func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }},
		{"Softsign", 22, nil, func(x float64) float64 { return x / (1 + math.Abs(x)) }},
		{"Sqrt", 13, nil, math.Sqrt}, {"Tan", 22, nil, math.Tan}, {"Tanh", 13, nil, math.Tanh},
		{"Relu", 14, nil, func(x float64) float64 { return max(x, 0) }},
		{"HardSwish", 22, nil, func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) }},
		{"Mish", 22, nil, func(x float64) float64 {
			return x * math.Tanh(max(x, 0)+math.Log1p(math.Exp(-math.Abs(x))))
		}},
		{"Elu", 22, map[string]any{"alpha": 2.0}, func(x float64) float64 {
			if x < 0 {
				return 2 * math.Expm1(x)
			}
			return x
		}},
		{"Selu", 22, nil, func(x float64) float64 {
			if x > 0 {
				return 1.0507010221481323 * x
			}
			return 1.0507010221481323 * 1.6732631921768188 * math.Expm1(x)
		}},
		{"Selu", 1, nil, func(x float64) float64 {
			if x > 0 {
				return 1.0507 * x
			}
			return 1.0507 * 1.6732 * math.Expm1(x)
		}},
		{"Celu", 28, map[string]any{"alpha": 2.0}, func(x float64) float64 { return max(0, x) + min(0, 2*math.Expm1(x/2)) }},
		{"LeakyRelu", 16, nil, func(x float64) float64 {
			if x < 0 {
				return float64(float32(0.01)) * x
			}
			return x
		}},
		{"ThresholdedRelu", 22, nil, func(x float64) float64 {
			if x > 1 {
				return x
			}
			return 0
		}},
		{"Shrink", 9, map[string]any{"bias": 0.25}, func(x float64) float64 {
			switch {
			case x < -0.5:
				return x + 0.25
			case x > 0.5:
				return x - 0.25
			}
			return 0
		}},
		{"HardSigmoid", 22, nil, func(x float64) float64 { return max(0, min(1, float64(float32(0.2))*x+0.5)) }},
		{"Swish", 24, map[string]any{"alpha": 0.5}, func(x float64) float64 { return x * sigmoid(0.5*x) }},
		{"Gelu", 20, nil, func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }},
		{"Gelu", 20, map[string]any{"approximate": "tanh"}, func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}},
	}
	for _, d := range kit.All() {
		sig := d.Signature()
		unary := len(sig.In) == 1 && !sig.In[0].Variadic && sig.Out[0].Pattern == sig.In[0].Pattern &&
			slices.Contains(sig.Vars["T"], tensor.TensorType(tensor.TypeFloat32))
		if unary && d.Elementwise && d.Until == 0 &&
			!slices.ContainsFunc(tests, func(tc test) bool { return tc.name == d.Name }) {
			t.Errorf("elementwise operator %s has no formula in this test", d.Name)
		}
	}
	for _, tc := range tests {
		x := []float64{0, math.Copysign(0, -1), 0.25, -0.25, 0.5, 1, -1, 1.5, 2.5, -2.5, 3, -3.5, math.NaN(),
			math.Inf(1), math.Inf(-1)}
		want := make([]float64, len(x))
		for i, v := range x {
			want[i] = tc.f(v)
			if gate := tc.name == "Gelu" || tc.name == "Mish" || tc.name == "Swish"; gate && math.IsInf(v, -1) {
				want[i] = math.Copysign(0, -1) // the limit
			}
		}
		optest.Want(t, tc.name, tc.opset, tc.attrs, optest.Tensor(want), optest.Tensor(x))
		optest.Want(t, tc.name, tc.opset, tc.attrs, narrowTest[float32](want), narrowTest[float32](x))
		for _, empty := range [][]int{{0}, {2, 0, 3}} {
			optest.Want(t, tc.name, tc.opset, tc.attrs, optest.Tensor([]float32{}, empty...),
				optest.Tensor([]float32{}, empty...))
		}
		if tc.name == "Selu" && tc.opset == 1 {
			continue
		}
		// Half results may differ by a unit in the last place: compare loosely.
		for _, d := range []tensor.DType{tensor.TypeFloat16, tensor.TypeBFloat16} {
			if !slices.Contains(kit.Registered("", tc.name).Signature().Vars["T"], tensor.TensorType(d)) {
				continue
			}
			got, err := optest.Run(t, tc.name, tc.opset, tc.attrs, halfTest(d, x))
			if err != nil {
				t.Errorf("%s of %s: %v", tc.name, d, err)
				continue
			}
			if !optest.Same(optest.Tensor(optest.Floats(got[0].(*tensor.Tensor))), optest.Tensor(want), 1e-2) {
				t.Errorf("%s of %s is %s, want %v", tc.name, d, optest.Show(got[0]), want)
			}
		}
	}
}

func narrowTest[T float32 | int32 | int64 | uint8 | int8](x []float64, shape ...int) *tensor.Tensor {
	r := make([]T, len(x))
	for i, v := range x {
		r[i] = T(v)
	}
	return optest.Tensor(r, shape...)
}

func halfTest(d tensor.DType, x []float64, shape ...int) *tensor.Tensor {
	if d == tensor.TypeFloat16 {
		r := make([]tensor.Float16, len(x))
		for i, v := range x {
			r[i] = tensor.NewFloat16FromFloat64(v)
		}
		return optest.Tensor(r, shape...)
	}
	r := make([]tensor.BFloat16, len(x))
	for i, v := range x {
		r[i] = tensor.NewBFloat16FromFloat64(v)
	}
	return optest.Tensor(r, shape...)
}

// TestSinCosKernels compares with float64 over all magnitudes.
func TestSinCosKernels(t *testing.T) {
	var x, s, c []float32
	for bits := uint32(0); bits < 0x7f800000; bits += 4999 {
		v := math.Float32frombits(bits)
		x = append(x, v, -v)
	}
	for k := range 60_000 { // one of them is almost 0
		x = append(x, float32(float64(k)*math.Pi/2))
	}
	s, c = make([]float32, len(x)), make([]float32, len(x))
	vec.SinF32(cpu.Active(), s, x)
	vec.CosF32(cpu.Active(), c, x)
	for i, v := range x {
		for _, p := range [][2]float64{{float64(s[i]), math.Sin(float64(v))}, {float64(c[i]), math.Cos(float64(v))}} {
			if math.Abs(p[0]-p[1]) > 1.5*0x1p-23*math.Abs(p[1])+0x1p-149 {
				t.Fatalf("of %g: got %g, want %g", v, p[0], p[1])
			}
		}
	}
}

func TestSwiGLU(t *testing.T) {
	inf := float32(math.Inf(-1))
	silu := func(x float64) float32 { return float32(x / (1 + math.Exp(-x))) }
	optest.Want(t, "SwiGLU", 28, nil, optest.Tensor([]float32{2 * silu(1), 3 * silu(-2), 0}),
		optest.Tensor([]float32{1, -2, inf}), optest.Tensor([]float32{2, 3, 4}))
	optest.Want(t, "SwiGLU", 28, map[string]any{"alpha": 2.0}, optest.Tensor([]float64{2 / (1 + math.Exp(-2))}),
		optest.Tensor([]float64{1}), optest.Tensor([]float64{2}))
	optest.Want(t, "SwiGLU", 28, map[string]any{"alpha": 2.0}, optest.Tensor([]float32{0}),
		optest.Tensor([]float32{inf}), optest.Tensor([]float32{2}))
	optest.Fail(t, "SwiGLU", 28, nil, "differ", optest.Tensor([]float32{1, 2}), optest.Tensor([]float32{1}))
}

func TestUnaryIntegers(t *testing.T) {
	optest.Want(t, "Abs", 13, nil, optest.Tensor([]int8{-128, 127, 0}), optest.Tensor([]int8{-128, -127, 0}))
	optest.Want(t, "Abs", 13, nil, optest.Tensor([]uint16{1, 65535}), optest.Tensor([]uint16{1, 65535}))
	optest.Want(t, "Neg", 13, nil, optest.Tensor([]int64{math.MinInt64, 5}), optest.Tensor([]int64{math.MinInt64, -5}))
	optest.Want(t, "Sign", 13, nil, optest.Tensor([]uint32{0, 1}), optest.Tensor([]uint32{0, 9}))
	optest.Want(t, "Sign", 13, nil, optest.Tensor([]int16{-1, 0, 1}), optest.Tensor([]int16{-7, 0, 9}))
	optest.Want(t, "Relu", 14, nil, optest.Tensor([]int32{0, 0, 9}), optest.Tensor([]int32{-7, 0, 9}))
	optest.Want(t, "Not", 1, nil, optest.Tensor([]bool{true, false}), optest.Tensor([]bool{false, true}))
	optest.Want(t, "BitwiseNot", 18, nil, optest.Tensor([]uint8{255, 0x5a}), optest.Tensor([]uint8{0, 0xa5}))
	optest.Want(t, "Shrink", 9, map[string]any{"lambd": 1.5, "bias": 1.0}, optest.Tensor([]int32{-2, 0, 0, 0, 2}),
		optest.Tensor([]int32{-3, -1, 0, 1, 3}))
	optest.Want(t, "Shrink", 9, map[string]any{"lambd": -0.25, "bias": 1.5}, optest.Tensor([]float32{-0.5, 1.5, -0.5}),
		optest.Tensor([]float32{-2, 0, 1}))
}

func TestNumberTests(t *testing.T) {
	inf := math.Inf(1)
	x := []float64{inf, -inf, 0, math.NaN()}
	for _, d := range []tensor.DType{tensor.TypeFloat16, tensor.TypeBFloat16} {
		optest.Want(t, "IsInf", 20, nil, optest.Tensor([]bool{true, true, false, false}), halfTest(d, x))
		optest.Want(t, "IsNaN", 20, nil, optest.Tensor([]bool{false, false, false, true}), halfTest(d, x))
	}
	optest.Want(t, "IsInf", 10, map[string]any{"detect_negative": 0}, optest.Tensor([]bool{true, false, false, false}),
		narrowTest[float32](x))
	optest.Want(t, "IsInf", 10, map[string]any{"detect_positive": 0}, optest.Tensor([]bool{false, true, false, false}),
		optest.Tensor(x))
	optest.Want(t, "IsInf", 20, nil, optest.Tensor([]bool{true, true, false, false}),
		optest.Tensor([]tensor.Float8E5M2{0x7c, 0xfc, 0, 0x7f}))
	optest.Want(t, "IsNaN", 20, nil, optest.Tensor([]bool{false, true, true, false}),
		optest.Tensor([]tensor.Float8E4M3FN{0x7e, 0x7f, 0xff, 0}))
}

func TestUnknownAttributeIsRefused(t *testing.T) {
	optest.Fail(t, "Exp", 13, map[string]any{"nonsense": 1}, "unknown attribute nonsense", optest.Tensor([]float32{1}))
	optest.Fail(t, "Exp", 6, map[string]any{"consumed_inputs": []int{0}}, "unknown attribute",
		optest.Tensor([]float32{1}))
	optest.Want(t, "Exp", 1, map[string]any{"consumed_inputs": []int{0}}, optest.Tensor([]float32{1}),
		optest.Tensor([]float32{0}))
}

func TestLegacyBroadcast(t *testing.T) {
	a := narrowTest[float32]([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 2, 3, 2)
	rows := optest.Tensor([]float32{10, 20, 30})
	want := narrowTest[float32]([]float64{10, 11, 22, 23, 34, 35, 16, 17, 28, 29, 40, 41}, 2, 3, 2)
	optest.Want(t, "Add", 1, map[string]any{"broadcast": 1, "axis": 1, "consumed_inputs": []int{0, 0}}, want, a, rows)
	optest.Want(t, "Add", 6, map[string]any{"broadcast": 1, "axis": 1}, want, a, rows)
	optest.Want(t, "Add", 6, map[string]any{"broadcast": 1, "axis": -2}, want, a, rows)
	optest.Want(t, "Mul", 6, map[string]any{"broadcast": 1},
		narrowTest[float32]([]float64{0, 2, 2, 6, 4, 10, 6, 14, 8, 18, 10, 22}, 2, 3, 2), a,
		optest.Tensor([]float32{1, 2}))
	optest.Want(t, "Sub", 6, map[string]any{"broadcast": 1}, optest.Tensor([]float32{-1, 0}),
		optest.Tensor([]float32{1, 2}), optest.Tensor([]float32{2}))
	optest.Fail(t, "Add", 6, nil, "broadcast is not set", a, rows)
	optest.Fail(t, "Add", 6, map[string]any{"broadcast": 1, "axis": 2}, "does not match", a, rows)
	optest.Fail(t, "Add", 6, map[string]any{"broadcast": 1, "axis": math.MinInt64}, "exceeds rank 3", a, rows)
	optest.Fail(t, "Less", 1, map[string]any{"broadcast": 1, "axis": 0}, "does not match", a,
		optest.Tensor([]float32{1, 2, 3}))
	optest.Fail(t, "Add", 7, map[string]any{"broadcast": 1}, "unknown attribute", a, a)
}

func TestIntegerDivision(t *testing.T) {
	optest.Want(t, "Div", 14, nil, optest.Tensor([]int32{math.MinInt32, -2, 2}),
		optest.Tensor([]int32{math.MinInt32, -7, 7}), optest.Tensor([]int32{-1, 3, 3}))
	optest.Want(t, "Mod", 13, nil, optest.Tensor([]int32{2, -2, 0}), optest.Tensor([]int32{-7, 7, math.MinInt32}),
		optest.Tensor([]int32{3, -3, -1}))
	optest.Want(t, "Mod", 13, map[string]any{"fmod": 1}, optest.Tensor([]int32{-1, 1}), optest.Tensor([]int32{-7, 7}),
		optest.Tensor([]int32{3, -3}))
	optest.Want(t, "Mod", 13, map[string]any{"fmod": 1}, optest.Tensor([]float64{-1, 1}),
		optest.Tensor([]float64{-7, 7}), optest.Tensor([]float64{3, -3}))
	optest.Fail(t, "Div", 14, nil, "division by zero", optest.Tensor([]int64{1, 2}), optest.Tensor([]int64{1, 0}))
	optest.Fail(t, "Mod", 13, nil, "division by zero", optest.Tensor([]uint8{1, 2}), optest.Tensor([]uint8{0}))
	optest.Want(t, "Div", 14, nil, optest.Tensor([]int64{}), optest.Tensor([]int64{}), optest.Tensor([]int64{0}, 1))
	optest.Want(t, "Div", 14, nil, optest.Tensor([]float32{float32(math.Inf(1))}), optest.Tensor([]float32{1}),
		optest.Tensor([]float32{0}))
}

func TestComparisons(t *testing.T) {
	nan := float32(math.NaN())
	a, b := optest.Tensor([]float32{1, 2, 3, nan}), optest.Tensor([]float32{2, 2, 2, nan})
	optest.Want(t, "Less", 13, nil, optest.Tensor([]bool{true, false, false, false}), a, b)
	optest.Want(t, "LessOrEqual", 16, nil, optest.Tensor([]bool{true, true, false, false}), a, b)
	optest.Want(t, "Greater", 13, nil, optest.Tensor([]bool{false, false, true, false}), a, b)
	optest.Want(t, "GreaterOrEqual", 16, nil, optest.Tensor([]bool{false, true, true, false}), a, b)
	optest.Want(t, "Equal", 19, nil, optest.Tensor([]bool{false, true, false, false}), a, b)
	optest.Want(t, "Equal", 19, nil, optest.Tensor([]bool{true, false, false, true}, 2, 2),
		optest.Tensor([]string{"a", "b"}, 2, 1), optest.Tensor([]string{"a", "b"}))
	optest.Want(t, "Greater", 13, nil, optest.Tensor([]bool{true}), optest.Tensor([]uint64{math.MaxUint64}),
		optest.Tensor([]uint64{1}))
	optest.Want(t, "Xor", 7, nil, optest.Tensor([]bool{false, true}), optest.Tensor([]bool{true, false}),
		optest.Tensor([]bool{true}))
	optest.Want(t, "BitShift", 11, map[string]any{"direction": "LEFT"}, optest.Tensor([]uint8{2, 0, 0x80}),
		optest.Tensor([]uint8{1, 255, 1}), optest.Tensor([]uint8{1, 8, 7}))
	optest.Fail(t, "BitShift", 11, map[string]any{"direction": "UP"}, "want one of", optest.Tensor([]uint8{1}),
		optest.Tensor([]uint8{1}))
}

func TestVariadicAndWhere(t *testing.T) {
	nan := float32(math.NaN())
	optest.Want(t, "Max", 13, nil, optest.Tensor([]float32{3, nan, 4, nan}, 2, 2), optest.Tensor([]float32{1, nan}),
		optest.Tensor([]float32{3, 4}, 2, 1), optest.Tensor([]float32{2, 0}))
	optest.Want(t, "Min", 8, nil, optest.Tensor([]float32{1, 2}), optest.Tensor([]float32{1, 2}))
	optest.Want(t, "Mean", 13, nil, optest.Tensor([]float32{2, 3}), optest.Tensor([]float32{1, 2}),
		optest.Tensor([]float32{3, 4}))
	optest.Want(t, "Mean", 13, nil, halfTest(tensor.TypeBFloat16, []float64{2, 3}),
		halfTest(tensor.TypeBFloat16, []float64{1, 2}), halfTest(tensor.TypeBFloat16, []float64{3, 4}))
	optest.Want(t, "Sum", 13, nil, optest.Tensor([]float64{6}), optest.Tensor([]float64{1}),
		optest.Tensor([]float64{2}), optest.Tensor([]float64{3}))
	optest.Fail(t, "Sum", 13, nil, "is missing")
	which := optest.Tensor([]bool{true, false}, 2, 1)
	optest.Want(t, "Where", 16, nil, optest.Tensor([]string{"a", "b", "z", "z"}, 2, 2), which,
		optest.Tensor([]string{"a", "b"}), optest.Tensor([]string{"z"}))
	optest.Want(t, "Where", 16, nil, optest.Tensor([]complex128{1i, 2}), optest.Tensor([]bool{true, false}),
		optest.Tensor([]complex128{1i}), optest.Tensor([]complex128{2}))
	optest.Fail(t, "Add", 14, nil, "cannot be broadcast", optest.Tensor([]float32{1, 2}),
		optest.Tensor([]float32{1, 2, 3}))
}

// TestBroadcastMatchesIndexArithmetic compares broadcasting in blocks with plain index
// arithmetic, over element widths, ranks and repeated dimensions.
func TestBroadcastMatchesIndexArithmetic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rank := rapid.IntRange(0, 5).Draw(rt, "rank")
		a, b, out := make([]int, rank), make([]int, rank), make([]int, rank)
		for i := range out {
			out[i] = rapid.SampledFrom([]int{1, 2, 3, 5, 33, 0, 40}).Draw(rt, "dim")
			if kit.Product(out[:i+1]) > 200_000 {
				out[i] = 1
			}
			a[i], b[i] = out[i], out[i]
			switch rapid.IntRange(0, 3).Draw(rt, "repeat") {
			case 0:
				a[i] = 1
			case 1:
				b[i] = 1
			}
			out[i] = a[i]
			if a[i] == 1 {
				out[i] = b[i]
			}
		}
		for len(b) > 0 && b[0] == 1 && rapid.Bool().Draw(rt, "shorten") {
			b = b[1:]
		}
		checkBroadcast(t, out, a, b)
	})
	// Groups of rows: short ones repeated from row to row and per matrix, with an element for each
	// row, and in parts.
	for _, tc := range [][3][]int{
		{{3, 40, 33}, {3, 40, 33}, {3, 1, 33}},
		{{3, 40, 33}, {3, 1, 33}, {3, 40, 1}},
		{{3, 40, 33}, {3, 1, 1}, {40, 33}},
		{{5, 200, 4}, {5, 1, 4}, {1, 200, 4}},
		{{3, 2, 300, 4}, {3, 1, 300, 4}, {2, 1, 4}},
		{{2, 3, 256}, {2, 1, 256}, {3, 256}},
		{{40000, 3}, {40000, 3}, {3}},
		{{3, 7, 80}, {3, 7, 80}, {3, 1, 1}},
	} {
		checkBroadcast(t, tc[0], tc[1], tc[2])
	}
}

// checkBroadcast subtracts tensors of the shapes a and b.
func checkBroadcast(t *testing.T, out, a, b []int) {
	t.Helper()
	x, y := make([]int32, kit.Product(a)), make([]int32, kit.Product(b))
	for i := range x {
		x[i] = int32(i)
	}
	for i := range y {
		y[i] = int32(1000 * i)
	}
	want := make([]int32, kit.Product(out))
	elementwise.EachBroadcastIndex(out, [][]int{a, b}, func(i int, at []int) { want[i] = x[at[0]] - y[at[1]] })
	optest.Want(t, "Sub", 14, nil, tensor.Must(tensor.New(want, out...)), tensor.Must(tensor.New(x, a...)),
		tensor.Must(tensor.New(y, b...)))
}

// TestSwishInfinities checks gates that are 0, 1 or 1/2 of finite numbers and NaN of infinite
// ones.
func TestSwishInfinities(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tc := range []struct {
		alpha       float64
		minus, plus float64 // of -Inf and Inf
	}{
		{0.5, math.Copysign(0, -1), inf},
		{-0.5, -inf, 0},
		{0, nan, nan},
	} {
		attrs := map[string]any{"alpha": tc.alpha}
		optest.Want(t, "Swish", 24, attrs, optest.Tensor([]float64{tc.minus, tc.plus, nan}),
			optest.Tensor([]float64{-inf, inf, nan}))
		optest.Want(t, "Swish", 24, attrs, narrowTest[float32]([]float64{tc.minus, tc.plus, nan}),
			narrowTest[float32]([]float64{-inf, inf, nan}))
	}
}

// TestLogOfSubnormal has results of float64 that package math's assembly on amd64 misses by 35.
func TestLogOfSubnormal(t *testing.T) {
	x, want := optest.Tensor([]float64{0x1p-1074, 0x1p-1023}, 2, 1),
		optest.Tensor([]float64{-1074 * math.Ln2, -1023 * math.Ln2}, 2, 1)
	optest.Want(t, "Log", 13, nil, want, x)
	optest.Want(t, "ReduceLogSum", 18, nil, want, x, optest.Tensor([]int64{1}))
}
