package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

func TestClipForms(t *testing.T) {
	x := tt([]float32{-5, 0, 5, float32(math.NaN())})
	nan := float32(math.NaN())
	wantOp(t, "Clip", 13, nil, tt([]float32{-1, 0, 2, nan}), x, tt([]float32{-1}), tt([]float32{2}))
	wantOp(t, "Clip", 13, nil, tt([]float32{2, 2, 2, nan}), x, tt([]float32{3}), tt([]float32{2}))
	wantOp(t, "Clip", 12, nil, tt([]float32{-5, 0, 2, nan}), x, nil, tt([]float32{2}))
	wantOp(t, "Clip", 11, nil, x, x)
	wantOp(t, "Clip", 6, map[string]any{"max": 2.0}, tt([]float32{-5, 0, 2, nan}), x)
	wantOp(t, "Clip", 1, map[string]any{"min": -1.0, "consumed_inputs": []int{0}}, tt([]float32{-1, 0, 5, nan}), x)
	inf := math.Inf(1)
	wantOp(t, "Clip", 1, nil, tt([]float32{float32(inf)}), tt([]float32{float32(inf)}))
	wantOp(t, "Clip", 6, nil, tt([]float32{math.MaxFloat32}), tt([]float32{float32(inf)}))
	wantOp(t, "Clip", 13, nil, halfTest(tensor.TypeFloat16, []float64{1, 2}), halfTest(tensor.TypeFloat16, []float64{-3, 2}), halfTest(tensor.TypeFloat16, []float64{1}))
	wantOp(t, "Clip", 13, nil, tt([]uint8{3, 4}), tt([]uint8{0, 4}), tt([]uint8{3}))
	failOp(t, "Clip", 13, nil, "want a scalar", x, tt([]float32{1, 2}))
}

func TestPow(t *testing.T) {
	wantOp(t, "Pow", 15, nil, tt([]float32{4, 9}), tt([]float32{-2, 3}), tt([]int64{2}))
	wantOp(t, "Pow", 15, nil, tt([]float32{8, -1}, 2, 1), tt([]float32{2, -1}, 2, 1), tt([]float32{3}))
	wantOp(t, "Pow", 15, nil, tt([]int32{8, 0, 1, -1}), tt([]int32{2, 2, 1, -1}), tt([]int64{3, -1, -1, -3}))
	wantOp(t, "Pow", 15, nil, tt([]int64{1 << 40, 1}), tt([]int64{2, 7}), tt([]int64{40, 0}))
	wantOp(t, "Pow", 15, nil, tt([]int32{1, 2}), tt([]int32{2, 4}), tt([]float32{0.5}))
	wantOp(t, "Pow", 15, nil, halfTest(tensor.TypeFloat16, []float64{4, 9}), halfTest(tensor.TypeFloat16, []float64{2, 3}), tt([]float64{2}))
	wantOp(t, "Pow", 15, nil, halfTest(tensor.TypeBFloat16, []float64{4, 9}), halfTest(tensor.TypeBFloat16, []float64{2, 3}), halfTest(tensor.TypeBFloat16, []float64{2}))
	wantOp(t, "Pow", 1, map[string]any{"broadcast": 1, "axis": 0}, tt([]float32{1, 2, 9, 16}, 2, 2), tt([]float32{1, 2, 3, 4}, 2, 2), tt([]float32{1, 2}))
	wantOp(t, "Pow", 7, nil, tt([]float64{1, 2, 4}), tt([]float64{2}), tt([]float64{0, 1, 2}))
}

func TestPRelu(t *testing.T) {
	x := tt([]float32{-1, 2, -3, 4}, 1, 2, 2)
	wantOp(t, "PRelu", 16, nil, tt([]float32{-.5, 2, -6, 4}, 1, 2, 2), x, tt([]float32{.5, 2}, 2, 1))
	wantOp(t, "PRelu", 16, nil, tt([]float32{0, 2}), tt([]float32{0, 2}), tt([]float32{float32(math.Inf(-1)), float32(math.NaN())})) // the slope of what is not below 0 does not count
	wantOp(t, "PRelu", 6, nil, tt([]float32{-.5, 2, -6, 4}, 1, 2, 2), x, tt([]float32{.5, 2}))
	wantOp(t, "PRelu", 1, map[string]any{"consumed_inputs": []int{0, 0}}, tt([]float32{-.5, 2, -1.5, 4}, 1, 2, 2), x, tt([]float32{.5}, 1))
	failOp(t, "PRelu", 16, nil, "does not broadcast", tt([]float32{1}), tt([]float32{1, 2}))
}

func TestCast(t *testing.T) {
	wantOp(t, "Cast", 1, map[string]any{"to": "INT64"}, tt([]int64{1, -2}), tt([]float32{1.9, -2.9}))
	wantOp(t, "Cast", 6, map[string]any{"to": tensor.TypeFloat64}, tt([]float64{1, 0}), tt([]bool{true, false}))
	wantOp(t, "Cast", 9, map[string]any{"to": tensor.TypeInt32}, tt([]int32{7}), tt([]string{"7"}))
	wantOp(t, "Cast", 19, map[string]any{"to": tensor.TypeFloat8E4M3FN, "saturate": 0}, tt([]tensor.Float8E4M3FN{0x7f}), tt([]float32{1e6}))
	wantOp(t, "CastLike", 25, nil, tt([]float32{1}), tt([]int8{1}), tt([]float32{}))
	wantOp(t, "BitCast", 26, map[string]any{"to": tensor.TypeInt32}, tt([]int32{0x3f800000}), tt([]float32{1}))
	wantOp(t, "BitCast", 26, map[string]any{"to": tensor.TypeBool}, tt([]bool{true, false}), tt([]uint8{7, 0}))
	failOp(t, "BitCast", 26, map[string]any{"to": tensor.TypeInt64}, "same width", tt([]float32{1}))
	failOp(t, "Cast", 13, map[string]any{"to": 99}, "no element type", tt([]float32{1}))
	failOp(t, "Cast", 13, nil, "to is missing", tt([]float32{1}))
	failOp(t, "Cast", 13, map[string]any{"to": tensor.TypeInt32}, "cannot convert", tt([]string{"seven"}))

	// Ranges of packed elements are cut at whole bytes.
	n := 3*grainCheap + 5
	wide, narrow := make([]float32, n), make([]int8, n)
	for i := range wide {
		narrow[i] = int8(i%16) - 8
		wide[i] = float32(narrow[i])
	}
	packed := tensor.Must(tensor.Pack(tensor.TypeInt4, narrow))
	wantOp(t, "Cast", 21, map[string]any{"to": tensor.TypeInt4}, packed, tt(wide))
	wantOp(t, "Cast", 21, map[string]any{"to": tensor.TypeFloat32}, tt(wide), packed)
}

func TestRange(t *testing.T) {
	wantOp(t, "Range", 11, nil, tt([]int64{3, 6}), tensor.Scalar[int64](3), tensor.Scalar[int64](9), tensor.Scalar[int64](3))
	wantOp(t, "Range", 11, nil, tt([]int32{10, 8, 6}), tensor.Scalar[int32](10), tensor.Scalar[int32](4), tensor.Scalar[int32](-2))
	wantOp(t, "Range", 11, nil, tt([]float32{1, 1.5}), tensor.Scalar[float32](1), tensor.Scalar[float32](2), tensor.Scalar[float32](.5))
	wantOp(t, "Range", 11, nil, tt([]int16{}), tensor.Scalar[int16](1), tensor.Scalar[int16](1), tensor.Scalar[int16](1))
	h := func(v float64) *tensor.Tensor { return halfTest(tensor.TypeBFloat16, []float64{v}) }
	wantOp(t, "Range", 27, map[string]any{"stash_type": 11}, halfTest(tensor.TypeBFloat16, []float64{1, 2, 3}), h(1), h(4), h(1))
	failOp(t, "Range", 11, nil, "delta is 0", tensor.Scalar[int64](3), tensor.Scalar[int64](9), tensor.Scalar[int64](0))
	failOp(t, "Range", 11, nil, "memory limit", tensor.Scalar[int64](0), tensor.Scalar[int64](1<<40), tensor.Scalar[int64](8))
	failOp(t, "Range", 11, nil, "too many", tensor.Scalar[int64](math.MinInt64), tensor.Scalar[int64](math.MaxInt64), tensor.Scalar[int64](1))
	failOp(t, "Range", 11, nil, "too many", tensor.Scalar(math.Inf(-1)), tensor.Scalar(1.), tensor.Scalar(1.))

	n := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Contents: []ir.Dim{ir.Symbol("N")}}
	zero := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](0)}
	one := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](1)}
	got, err := inferOp(t, "Range", 11, nil, zero, n, one)
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
		got, err := inferOp(t, op, 14, nil, n, two)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !got[0].Contents[i].Same(want[i]) {
				t.Errorf("%s: element %d is %s, want %s", op, i, got[0].Contents[i], want[i])
			}
		}
	}
	got, err := inferOp(t, "ReduceProd", 18, map[string]any{"keepdims": 0}, n)
	if err != nil || !got[0].Contents[0].Same(ir.Symbol("N").Mul(ir.Known(-7))) {
		t.Errorf("ReduceProd: %v, %v", got, err)
	}
}

// Exporters write Expand's shape as Where(shape == −1, ones, shape).
func TestWhereOfShapeIsInferred(t *testing.T) {
	shape := &ir.Value{Type: ir.TensorType(tensor.TypeInt64, ir.Known(3)), Contents: []ir.Dim{ir.Symbol("N"), ir.Known(-1), ir.Known(4)}}
	minus := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](-1)}
	one := &ir.Value{Type: ir.TensorType(tensor.TypeInt64), Const: tensor.Scalar[int64](1)}
	equal, err := inferOp(t, "Equal", 19, nil, shape, minus)
	if err != nil {
		t.Fatal(err)
	}
	got, err := inferOp(t, "Where", 16, nil, &equal[0], one, shape)
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
