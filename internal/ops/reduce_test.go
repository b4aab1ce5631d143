package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// TestReductionsMatchPlainLoops compares every reduction over random shapes and
// axes with a loop over indices.
func TestReductionsMatchPlainLoops(t *testing.T) {
	sum := func(x []float64, f func(float64) float64) float64 {
		s := 0.0
		for _, v := range x {
			s += f(v)
		}
		return s
	}
	id := func(v float64) float64 { return v }
	square := func(v float64) float64 { return v * v }
	ops := map[string]func(x []float64) float64{
		"ReduceSum":       func(x []float64) float64 { return sum(x, id) },
		"ReduceMean":      func(x []float64) float64 { return sum(x, id) / float64(len(x)) },
		"ReduceSumSquare": func(x []float64) float64 { return sum(x, square) },
		"ReduceL1":        func(x []float64) float64 { return sum(x, math.Abs) },
		"ReduceL2":        func(x []float64) float64 { return math.Sqrt(sum(x, square)) },
		"ReduceLogSum":    func(x []float64) float64 { return math.Log(sum(x, id)) },
		"ReduceLogSumExp": func(x []float64) float64 { return math.Log(sum(x, math.Exp)) },
		"ReduceProd": func(x []float64) float64 {
			p := 1.0
			for _, v := range x {
				p *= v
			}
			return p
		},
		"ReduceMax": func(x []float64) float64 {
			m := math.Inf(-1)
			for _, v := range x {
				m = max(m, v)
			}
			return m
		},
		"ReduceMin": func(x []float64) float64 {
			m := math.Inf(1)
			for _, v := range x {
				m = min(m, v)
			}
			return m
		},
	}
	names := []string{"ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum",
		"ReduceLogSumExp", "ReduceProd", "ReduceMax", "ReduceMin"}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(names).Draw(rt, "op")
		shape := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 0, 7}), 0, 5).Draw(rt, "shape")
		keep := rapid.Bool().Draw(rt, "keepdims")
		noop := rapid.Bool().Draw(rt, "noop")
		var axes []int64
		reduced := make([]bool, len(shape))
		for i := range shape {
			if rapid.Bool().Draw(rt, "axis") {
				axes = append(axes, int64(i-len(shape)*rapid.IntRange(0, 1).Draw(rt, "negative")))
				reduced[i] = true
			}
		}
		if len(axes) == 0 {
			for i := range reduced {
				reduced[i] = !noop
			}
		}
		x := make([]float64, kit.Product(shape))
		for i := range x {
			x[i] = rapid.Float64Range(0.1, 2).Draw(rt, "x")
		}
		var keptShape, outShape []int
		for i, d := range shape {
			if reduced[i] {
				keptShape = append(keptShape, 1)
				if keep {
					outShape = append(outShape, 1)
				}
				continue
			}
			keptShape, outShape = append(keptShape, d), append(outShape, d)
		}
		groups := make([][]float64, kit.Product(keptShape))
		if len(x) > 0 {
			elementwise.EachBroadcastIndex(shape, [][]int{keptShape},
				func(i int, at []int) { groups[at[0]] = append(groups[at[0]], x[i]) })
		}
		want := make([]float64, len(groups))
		for i, g := range groups {
			want[i] = ops[name](g)
		}
		in := []tensor.Value{tensor.Must(tensor.New(x, shape...))}
		if axes != nil {
			in = append(in, optest.Tensor(axes, len(axes)))
		}
		attrs := map[string]any{"keepdims": keep, "noop_with_empty_axes": noop}
		optest.Want(t, name, 20, attrs, tensor.Must(tensor.New(want, outShape...)), in...)
		in[0] = narrowScalar(x, shape)
		optest.Want(t, name, 20, attrs, narrowScalar(want, outShape), in...)
	})
}

// narrowScalar makes a float32 tensor whose shape may be that of a scalar.
func narrowScalar(x []float64, shape []int) *tensor.Tensor {
	r := make([]float32, len(x))
	for i, v := range x {
		r[i] = float32(v)
	}
	return tensor.Must(tensor.New(r, shape...))
}

func TestReduceTypesAndForms(t *testing.T) {
	m := optest.Tensor([]int32{1, -2, 3, 4}, 2, 2)
	optest.Want(t, "ReduceSum", 1, map[string]any{"axes": []int{1}, "keepdims": 0}, optest.Tensor([]int32{-1, 7}), m)
	optest.Want(t, "ReduceSum", 11, map[string]any{"axes": []int{-1}}, optest.Tensor([]int32{-1, 7}, 2, 1), m)
	optest.Want(t, "ReduceMax", 11, nil, optest.Tensor([]int32{4}, 1, 1), m)
	optest.Want(t, "ReduceMean", 13, map[string]any{"axes": []int{0}, "keepdims": 0}, optest.Tensor([]int32{2, 1}), m)
	optest.Want(t, "ReduceL2", 18, map[string]any{"keepdims": 0}, optest.Tensor([]int32{5}),
		optest.Tensor([]int32{3, 4}))
	optest.Want(t, "ReduceProd", 18, map[string]any{"keepdims": 0}, optest.Tensor([]uint64{1 << 63}),
		optest.Tensor([]uint64{1 << 62, 2}))
	optest.Want(t, "ReduceMin", 20, map[string]any{"keepdims": 0}, optest.Tensor([]bool{false}),
		optest.Tensor([]bool{true, false}))
	optest.Want(t, "ReduceMax", 20, map[string]any{"keepdims": 0}, optest.Tensor([]bool{true}),
		optest.Tensor([]bool{true, false}))
	optest.Want(t, "ReduceMax", 20, map[string]any{"keepdims": 0}, optest.Tensor([]int8{-128}), optest.Tensor([]int8{}))
	optest.Want(t, "ReduceMin", 20, map[string]any{"keepdims": 0}, optest.Tensor([]uint8{255}),
		optest.Tensor([]uint8{}))
	optest.Want(t, "ReduceMean", 18, map[string]any{"keepdims": 0}, halfTest(tensor.TypeFloat16, []float64{2}),
		halfTest(tensor.TypeFloat16, []float64{1, 3}))
	for name, want := range map[string]uint32{"ReduceMin": math.MaxUint32, "ReduceMax": 0, "ReduceMean": 0} {
		// computed in int64
		optest.Want(t, name, 18, map[string]any{"keepdims": 0}, optest.Tensor([]uint32{want}),
			optest.Tensor([]uint32{}))
	}
	optest.Want(t, "ReduceMean", 18, map[string]any{"keepdims": 0}, optest.Tensor([]uint32{math.MaxUint32 - 1}),
		optest.Tensor([]uint32{math.MaxUint32, math.MaxUint32 - 2}))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	optest.Want(t, "ReduceMax", 20, map[string]any{"keepdims": 0}, optest.Tensor([]float32{nan}),
		optest.Tensor([]float32{1, nan, 3}))
	for _, tc := range []struct{ x, want []float32 }{
		{[]float32{inf, 1, inf}, []float32{inf}}, {[]float32{-inf, -inf}, []float32{-inf}},
		{[]float32{1, nan, inf}, []float32{nan}}, {[]float32{inf, nan}, []float32{nan}},
		{[]float32{-inf, 0}, []float32{0}}, {[]float32{1000, 1000}, []float32{1000.6931}},
	} {
		optest.Want(t, "ReduceLogSumExp", 18, map[string]any{"keepdims": 0}, optest.Tensor(tc.want),
			optest.Tensor(tc.x))
	}
	long := make([]float32, 3*reduce.Chunk+5)
	for i := range long {
		long[i] = 1
	}
	optest.Want(t, "ReduceSum", 13, map[string]any{"keepdims": 0}, optest.Tensor([]float32{float32(len(long))}),
		optest.Tensor(long))
	optest.Want(t, "ReduceLogSumExp", 18, map[string]any{"keepdims": 0},
		optest.Tensor([]float32{float32(1 + math.Log(float64(len(long))))}), optest.Tensor(long))

	optest.Fail(t, "ReduceSum", 13, nil, "out of range", m, optest.Tensor([]int64{2}, 1))
	optest.Fail(t, "ReduceSum", 13, nil, "twice", m, optest.Tensor([]int64{1, -1}))
	optest.Fail(t, "ReduceSum", 11, map[string]any{"axes": []int{math.MinInt64}}, "out of range", m)
}

func TestArgReductions(t *testing.T) {
	nan := float32(math.NaN())
	x := optest.Tensor([]float32{1, 3, 3, 2, nan, nan, 0, 0, 5}, 3, 3)
	optest.Want(t, "ArgMax", 13, map[string]any{"axis": 1, "keepdims": 0}, optest.Tensor([]int64{1, 1, 2}), x)
	optest.Want(t, "ArgMax", 13, map[string]any{"axis": -1, "keepdims": 0, "select_last_index": 1},
		optest.Tensor([]int64{2, 2, 2}), x)
	optest.Want(t, "ArgMin", 13, map[string]any{"axis": -1, "select_last_index": 1},
		optest.Tensor([]int64{0, 2, 1}, 3, 1), x)
	optest.Want(t, "ArgMax", 13, nil, optest.Tensor([]int64{1, 1, 1}, 1, 3), x)
	optest.Want(t, "ArgMin", 11, nil, optest.Tensor([]int64{2, 1, 1}, 1, 3), x)
	optest.Want(t, "ArgMax", 13, nil, optest.Tensor([]int64{0}, 1), halfTest(tensor.TypeFloat16, []float64{2, 1, 2}))
	optest.Want(t, "ArgMax", 13, nil, optest.Tensor([]int64{}, 1, 0), optest.Tensor([]int8{}, 3, 0))
	optest.Fail(t, "ArgMax", 13, nil, "is empty", optest.Tensor([]int8{}, 0, 3))
	optest.Fail(t, "ArgMax", 13, map[string]any{"axis": 2}, "out of range", x)
	optest.Fail(t, "ArgMax", 11, map[string]any{"select_last_index": 1}, "unknown attribute", x)
}

func TestSoftmaxForms(t *testing.T) {
	ln := func(v ...float64) *tensor.Tensor {
		for i := range v {
			v[i] = math.Log(v[i])
		}
		return narrowTest[float32](v, 2, 2, 2)
	}
	x := ln(1, 3, 2, 2, 5, 5, 5, 5)
	optest.Want(t, "Softmax", 13, nil, optest.Tensor([]float32{.25, .75, .5, .5, .5, .5, .5, .5}, 2, 2, 2), x)
	optest.Want(t, "Softmax", 13, map[string]any{"axis": 1},
		optest.Tensor([]float32{1. / 3, .6, 2. / 3, .4, .5, .5, .5, .5}, 2, 2, 2), x)
	optest.Want(t, "Softmax", 11, nil, optest.Tensor([]float32{.125, .375, .25, .25, .25, .25, .25, .25}, 2, 2, 2), x)
	optest.Want(t, "Softmax", 1, map[string]any{"axis": 0},
		optest.Tensor([]float32{1. / 28, 3. / 28, 2. / 28, 2. / 28, 5. / 28, 5. / 28, 5. / 28, 5. / 28}, 2, 2, 2), x)
	optest.Want(t, "LogSoftmax", 13, map[string]any{"axis": 1}, ln(1./3, .6, 2./3, .4, .5, .5, .5, .5), x)
	optest.Want(t, "LogSoftmax", 11, nil, ln(.125, .375, .25, .25, .25, .25, .25, .25), x)
	optest.Want(t, "Hardmax", 13, map[string]any{"axis": 1},
		optest.Tensor([]float32{0, 1, 1, 0, 1, 1, 0, 0}, 2, 2, 2), x)
	optest.Want(t, "Hardmax", 11, nil, optest.Tensor([]float32{0, 1, 0, 0, 1, 0, 0, 0}, 2, 2, 2), x)
	optest.Want(t, "Softmax", 13, nil, optest.Tensor([]float32{}, 3, 0), optest.Tensor([]float32{}, 3, 0))
	optest.Want(t, "Softmax", 13, nil, halfTest(tensor.TypeBFloat16, []float64{.5, .5}),
		halfTest(tensor.TypeBFloat16, []float64{1, 1}))
	optest.Fail(t, "Softmax", 13, map[string]any{"axis": 3}, "out of range", x)
	optest.Fail(t, "Softmax", 13, nil, "out of range", tensor.Scalar(float32(1)))
}

func TestCumulative(t *testing.T) {
	x := optest.Tensor([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	ax := func(a int32) *tensor.Tensor { return tensor.Scalar(a) }
	optest.Want(t, "CumSum", 14, nil, optest.Tensor([]int32{1, 3, 6, 4, 9, 15}, 2, 3), x, ax(1))
	optest.Want(t, "CumSum", 14, nil, optest.Tensor([]int32{1, 2, 3, 5, 7, 9}, 2, 3), x, ax(-2))
	optest.Want(t, "CumSum", 11, map[string]any{"exclusive": 1, "reverse": 1},
		optest.Tensor([]int32{5, 3, 0, 11, 6, 0}, 2, 3), x, ax(1))
	// Of five rows, four are summed together and one separately.
	five := optest.Tensor([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5, 2)
	optest.Want(t, "CumSum", 14, nil, optest.Tensor([]int32{1, 3, 3, 7, 5, 11, 7, 15, 9, 19}, 5, 2), five, ax(1))
	optest.Want(t, "CumSum", 14, map[string]any{"exclusive": 1},
		optest.Tensor([]int32{0, 1, 0, 3, 0, 5, 0, 7, 0, 9}, 5, 2), five, ax(1))
	optest.Want(t, "CumSum", 14, map[string]any{"reverse": 1},
		optest.Tensor([]int32{3, 2, 7, 4, 11, 6, 15, 8, 19, 10}, 5, 2), five, ax(1))
	const long = 70_000 // more than the elements between checks of the context
	line, up, down := make([]int32, long), make([]int32, long), make([]int32, long)
	for i, sum := 0, int32(0); i < long; i++ {
		line[i], up[i] = int32(i%1000), sum
		sum += line[i]
	}
	for i, sum := long-1, int32(0); i >= 0; i-- {
		sum += line[i]
		down[i] = sum
	}
	optest.Want(t, "CumSum", 14, map[string]any{"exclusive": 1}, optest.Tensor(up), optest.Tensor(line), ax(0))
	optest.Want(t, "CumSum", 14, map[string]any{"reverse": 1}, optest.Tensor(down), optest.Tensor(line), ax(0))
	optest.Want(t, "CumProd", 26, map[string]any{"exclusive": 1}, optest.Tensor([]int32{1, 1, 2, 1, 4, 20}, 2, 3),
		x, ax(1))
	optest.Want(t, "CumProd", 26, nil, halfTest(tensor.TypeFloat16, []float64{2, 6}),
		halfTest(tensor.TypeFloat16, []float64{2, 3}), ax(0))
	optest.Want(t, "CumSum", 14, nil, optest.Tensor([]float64{}, 0, 3), optest.Tensor([]float64{}, 0, 3), ax(0))
	optest.Fail(t, "CumSum", 14, nil, "out of range", x, ax(2))
	optest.Fail(t, "CumSum", 14, nil, "want one integer", x, optest.Tensor([]int64{0, 1}))
}

// TestReduceLongColumns reduces pieces that are too long to be added all at once, with an
// incomplete group at the end.
func TestReduceLongColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"} {
		for _, shape := range [][]int{{9, 300}, {71, 600}, {2, 34, 1100}, {1, 2, 513}} {
			axis := optest.Int64s(int64(len(shape) - 2))
			if _, err := optest.Run(t, op, 18, nil, uniformTensor(r, 1, shape...), axis); err != nil {
				t.Error(err)
			}
		}
	}
}
