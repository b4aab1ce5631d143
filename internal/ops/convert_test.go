package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestClipForms(t *testing.T) {
	x := optest.Tensor([]float32{-5, 0, 5, float32(math.NaN())})
	nan := float32(math.NaN())
	optest.Want(t, "Clip", 13, nil, optest.Tensor([]float32{-1, 0, 2, nan}), x, optest.Tensor([]float32{-1}),
		optest.Tensor([]float32{2}))
	optest.Want(t, "Clip", 13, nil, optest.Tensor([]float32{2, 2, 2, nan}), x, optest.Tensor([]float32{3}),
		optest.Tensor([]float32{2}))
	optest.Want(t, "Clip", 12, nil, optest.Tensor([]float32{-5, 0, 2, nan}), x, nil, optest.Tensor([]float32{2}))
	optest.Want(t, "Clip", 11, nil, x, x)
	optest.Want(t, "Clip", 6, map[string]any{"max": 2.0}, optest.Tensor([]float32{-5, 0, 2, nan}), x)
	optest.Want(t, "Clip", 1, map[string]any{"min": -1.0, "consumed_inputs": []int{0}},
		optest.Tensor([]float32{-1, 0, 5, nan}), x)
	inf := math.Inf(1)
	optest.Want(t, "Clip", 1, nil, optest.Tensor([]float32{float32(inf)}), optest.Tensor([]float32{float32(inf)}))
	optest.Want(t, "Clip", 6, nil, optest.Tensor([]float32{math.MaxFloat32}), optest.Tensor([]float32{float32(inf)}))
	optest.Want(t, "Clip", 13, nil, halfTest(tensor.TypeFloat16, []float64{1, 2}),
		halfTest(tensor.TypeFloat16, []float64{-3, 2}), halfTest(tensor.TypeFloat16, []float64{1}))
	optest.Want(t, "Clip", 13, nil, optest.Tensor([]uint8{3, 4}), optest.Tensor([]uint8{0, 4}),
		optest.Tensor([]uint8{3}))
	optest.Fail(t, "Clip", 13, nil, "want a scalar", x, optest.Tensor([]float32{1, 2}))
}

func TestPow(t *testing.T) {
	optest.Want(t, "Pow", 15, nil, optest.Tensor([]float32{4, 9}), optest.Tensor([]float32{-2, 3}),
		optest.Tensor([]int64{2}))
	optest.Want(t, "Pow", 15, nil, optest.Tensor([]float32{8, -1}, 2, 1), optest.Tensor([]float32{2, -1}, 2, 1),
		optest.Tensor([]float32{3}))
	optest.Want(t, "Pow", 15, nil, optest.Tensor([]int32{8, 0, 1, -1}), optest.Tensor([]int32{2, 2, 1, -1}),
		optest.Tensor([]int64{3, -1, -1, -3}))
	optest.Want(t, "Pow", 15, nil, optest.Tensor([]int64{1 << 40, 1}), optest.Tensor([]int64{2, 7}),
		optest.Tensor([]int64{40, 0}))
	optest.Want(t, "Pow", 15, nil, optest.Tensor([]int32{1, 2}), optest.Tensor([]int32{2, 4}),
		optest.Tensor([]float32{0.5}))
	optest.Want(t, "Pow", 15, nil, halfTest(tensor.TypeFloat16, []float64{4, 9}),
		halfTest(tensor.TypeFloat16, []float64{2, 3}), optest.Tensor([]float64{2}))
	optest.Want(t, "Pow", 15, nil, halfTest(tensor.TypeBFloat16, []float64{4, 9}),
		halfTest(tensor.TypeBFloat16, []float64{2, 3}), halfTest(tensor.TypeBFloat16, []float64{2}))
	optest.Want(t, "Pow", 1, map[string]any{"broadcast": 1, "axis": 0}, optest.Tensor([]float32{1, 2, 9, 16}, 2, 2),
		optest.Tensor([]float32{1, 2, 3, 4}, 2, 2), optest.Tensor([]float32{1, 2}))
	optest.Want(t, "Pow", 7, nil, optest.Tensor([]float64{1, 2, 4}), optest.Tensor([]float64{2}),
		optest.Tensor([]float64{0, 1, 2}))
}

func TestPRelu(t *testing.T) {
	x := optest.Tensor([]float32{-1, 2, -3, 4}, 1, 2, 2)
	optest.Want(t, "PRelu", 16, nil, optest.Tensor([]float32{-.5, 2, -6, 4}, 1, 2, 2), x,
		optest.Tensor([]float32{.5, 2}, 2, 1))
	// the slope of elements that are not below 0 is not used
	optest.Want(t, "PRelu", 16, nil, optest.Tensor([]float32{0, 2}), optest.Tensor([]float32{0, 2}),
		optest.Tensor([]float32{float32(math.Inf(-1)), float32(math.NaN())}))
	negative0, inf := float32(math.Copysign(0, -1)), float32(math.Inf(1))
	for _, slope := range []*tensor.Tensor{optest.Tensor([]float32{inf}, 1), optest.Tensor([]float32{inf, inf}),
		optest.Tensor([]float32{inf, inf, inf, inf}, 2, 2)} {
		optest.Want(t, "PRelu", 16, nil, optest.Tensor([]float32{negative0, 2, 0, -inf}, 2, 2),
			optest.Tensor([]float32{negative0, 2, 0, -3}, 2, 2), slope)
	}
	optest.Want(t, "PRelu", 6, nil, optest.Tensor([]float32{-.5, 2, -6, 4}, 1, 2, 2), x,
		optest.Tensor([]float32{.5, 2}))
	optest.Want(t, "PRelu", 1, map[string]any{"consumed_inputs": []int{0, 0}},
		optest.Tensor([]float32{-.5, 2, -1.5, 4}, 1, 2, 2), x, optest.Tensor([]float32{.5}, 1))
	optest.Fail(t, "PRelu", 16, nil, "does not broadcast", optest.Tensor([]float32{1}), optest.Tensor([]float32{1, 2}))
}

func TestCast(t *testing.T) {
	optest.Want(t, "Cast", 1, map[string]any{"to": "INT64"}, optest.Tensor([]int64{1, -2}),
		optest.Tensor([]float32{1.9, -2.9}))
	optest.Want(t, "Cast", 6, map[string]any{"to": tensor.TypeFloat64}, optest.Tensor([]float64{1, 0}),
		optest.Tensor([]bool{true, false}))
	optest.Want(t, "Cast", 9, map[string]any{"to": tensor.TypeInt32}, optest.Tensor([]int32{7}),
		optest.Tensor([]string{"7"}))
	optest.Want(t, "Cast", 19, map[string]any{"to": tensor.TypeFloat8E4M3FN, "saturate": 0},
		optest.Tensor([]tensor.Float8E4M3FN{0x7f}), optest.Tensor([]float32{1e6}))
	optest.Want(t, "CastLike", 25, nil, optest.Tensor([]float32{1}), optest.Tensor([]int8{1}),
		optest.Tensor([]float32{}))
	optest.Want(t, "BitCast", 26, map[string]any{"to": tensor.TypeInt32}, optest.Tensor([]int32{0x3f800000}),
		optest.Tensor([]float32{1}))
	optest.Want(t, "BitCast", 26, map[string]any{"to": tensor.TypeBool}, optest.Tensor([]bool{true, false}),
		optest.Tensor([]uint8{7, 0}))
	optest.Fail(t, "BitCast", 26, map[string]any{"to": tensor.TypeInt64}, "same width", optest.Tensor([]float32{1}))
	optest.Fail(t, "Cast", 13, map[string]any{"to": 99}, "want an element type", optest.Tensor([]float32{1}))
	optest.Fail(t, "Cast", 13, nil, "to is missing", optest.Tensor([]float32{1}))
	optest.Fail(t, "Cast", 13, map[string]any{"to": tensor.TypeInt32}, "cannot convert",
		optest.Tensor([]string{"seven"}))

	// Ranges of packed elements are cut at whole bytes.
	n := 3*kit.GrainCheap + 5
	wide, narrow := make([]float32, n), make([]int8, n)
	for i := range wide {
		narrow[i] = int8(i%16) - 8
		wide[i] = float32(narrow[i])
	}
	packed := tensor.Must(tensor.Pack(tensor.TypeInt4, narrow))
	optest.Want(t, "Cast", 21, map[string]any{"to": tensor.TypeInt4}, packed, optest.Tensor(wide))
	optest.Want(t, "Cast", 21, map[string]any{"to": tensor.TypeFloat32}, optest.Tensor(wide), packed)
}

func TestRange(t *testing.T) {
	optest.Want(t, "Range", 11, nil, optest.Tensor([]int64{3, 6}), tensor.Scalar[int64](3), tensor.Scalar[int64](9),
		tensor.Scalar[int64](3))
	optest.Want(t, "Range", 11, nil, optest.Tensor([]int32{10, 8, 6}), tensor.Scalar[int32](10),
		tensor.Scalar[int32](4), tensor.Scalar[int32](-2))
	optest.Want(t, "Range", 11, nil, optest.Tensor([]float32{1, 1.5}), tensor.Scalar[float32](1),
		tensor.Scalar[float32](2), tensor.Scalar[float32](.5))
	optest.Want(t, "Range", 11, nil, optest.Tensor([]int16{}), tensor.Scalar[int16](1), tensor.Scalar[int16](1),
		tensor.Scalar[int16](1))
	h := func(v float64) *tensor.Tensor { return halfTest(tensor.TypeBFloat16, []float64{v}) }
	optest.Want(t, "Range", 27, map[string]any{"stash_type": 11}, halfTest(tensor.TypeBFloat16, []float64{1, 2, 3}),
		h(1), h(4), h(1))
	optest.Fail(t, "Range", 11, nil, "delta must not be 0", tensor.Scalar[int64](3), tensor.Scalar[int64](9),
		tensor.Scalar[int64](0))
	optest.Fail(t, "Range", 11, nil, "memory limit", tensor.Scalar[int64](0), tensor.Scalar[int64](1<<40),
		tensor.Scalar[int64](8))
	optest.Fail(t, "Range", 11, nil, "more than", tensor.Scalar[int64](math.MinInt64),
		tensor.Scalar[int64](math.MaxInt64), tensor.Scalar[int64](1))
	optest.Fail(t, "Range", 11, nil, "more than", tensor.Scalar(math.Inf(-1)), tensor.Scalar(1.), tensor.Scalar(1.))

	n := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Contents: []ir.Dim{ir.Symbol("N")}}
	zero := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](0)}
	one := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](1)}
	got, err := optest.Infer(t, "Range", 11, nil, zero, n, one)
	if err != nil || !got[0].Type.Shape[0].Same(ir.Symbol("N")) {
		t.Errorf("range(0, N) is inferred as %v, %v", got, err)
	}
}

func TestShapeArithmeticIsInferred(t *testing.T) {
	n := &ir.Value{Type: ir.TensorType(tensor.TypeInt64, ir.Known(2)), Contents: []ir.Dim{ir.Symbol("N"), ir.Known(-7)}}
	two := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](2)}
	for op, want := range map[string][]ir.Dim{
		"Add": {ir.Symbol("N").Add(ir.Known(2)), ir.Known(-5)},
		"Sub": {ir.Symbol("N").Sub(ir.Known(2)), ir.Known(-9)},
		"Mul": {ir.Symbol("N").Mul(ir.Known(2)), ir.Known(-14)},
		"Div": {ir.Symbol("N").Div(ir.Known(2)), ir.Known(-3)},
	} {
		got, err := optest.Infer(t, op, 14, nil, n, two)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !got[0].Contents[i].Same(want[i]) {
				t.Errorf("%s: element %d is %s, want %s", op, i, got[0].Contents[i], want[i])
			}
		}
	}
	got, err := optest.Infer(t, "ReduceProd", 18, map[string]any{"keepdims": 0}, n)
	if err != nil || !got[0].Contents[0].Same(ir.Symbol("N").Mul(ir.Known(-7))) {
		t.Errorf("ReduceProd: %v, %v", got, err)
	}
}

// Exporters write Expand's shape as Where(shape == −1, ones, shape).
func TestWhereOfShapeIsInferred(t *testing.T) {
	shape := &ir.Value{Type: ir.TensorType(tensor.TypeInt64, ir.Known(3)),
		Contents: []ir.Dim{ir.Symbol("N"), ir.Known(-1), ir.Known(4)}}
	minus := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](-1)}
	one := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](1)}
	equal, err := optest.Infer(t, "Equal", 19, nil, shape, minus)
	if err != nil {
		t.Fatal(err)
	}
	got, err := optest.Infer(t, "Where", 16, nil, &equal[0], one, shape)
	if err != nil {
		t.Fatal(err)
	}
	want := []ir.Dim{ir.Symbol("N"), ir.Known(1), ir.Known(4)}
	for i := range want {
		if !got[0].Contents[i].Same(want[i]) {
			t.Errorf("element %d is %s, want %s", i, got[0].Contents[i], want[i])
		}
	}
}
