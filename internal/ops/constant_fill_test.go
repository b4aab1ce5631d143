package ops

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestConstantFill(t *testing.T) {
	const op = "ConstantFill"
	x := optest.Tensor([]float32{7, 8, 9, 7, 8, 9}, 2, 3)
	run := func(attrs map[string]any, want *tensor.Tensor, in ...tensor.Value) {
		t.Helper()
		for _, opset := range []int{1, 7, 9} {
			optest.Want(t, op, opset, attrs, want, in...)
		}
	}
	run(map[string]any{"input_as_shape": 1, "value": float32(0.5)},
		optest.Tensor([]float32{0.5, 0.5, 0.5, 0.5}, 2, 1, 2), optest.Tensor([]int64{2, 1, 2}))
	run(map[string]any{"input_as_shape": 1, "dtype": 6, "value": float32(-3), "extra_shape": []int{2}},
		optest.Tensor([]int32{-3, -3, -3, -3}, 2, 2), optest.Tensor([]int32{2}, 1))
	run(map[string]any{"input_as_shape": 1}, optest.Tensor([]float32{0}), optest.Tensor([]int64{}, 0))
	run(map[string]any{"input_as_shape": 1}, optest.Tensor([]float32{}, 3, 0), optest.Tensor([]int64{3, 0}))
	run(map[string]any{"value": float32(1)}, optest.Tensor([]float32{1, 1, 1, 1, 1, 1}, 2, 3), x)
	run(map[string]any{"dtype": 9, "value": float32(1), "extra_shape": []int{1}},
		optest.Tensor([]bool{true, true, true, true, true, true}, 2, 3, 1), x)
	run(map[string]any{"dtype": 7, "value": float32(4), "shape": []int{1, 2}}, optest.Tensor([]int64{4, 4}, 1, 2))
	run(nil, optest.Tensor([]float32{0}))

	fail := func(want string, attrs map[string]any, in ...tensor.Value) {
		t.Helper()
		optest.Fail(t, op, 8, attrs, want, in...)
	}
	fail("dimension 1 of the shape is -2", map[string]any{"input_as_shape": 1}, optest.Tensor([]int64{3, -2}))
	fail("input has type float, want int32 or int64", map[string]any{"input_as_shape": 1}, optest.Tensor([]float32{3}))
	fail("attribute shape is [2], but the shape comes from an input", map[string]any{"shape": []int{2}}, x)
	fail("need an input", map[string]any{"extra_shape": []int{2}})
	fail("attribute dtype is double", map[string]any{"dtype": 11}, x)
	fail("attributes shape and extra_shape", map[string]any{"extra_shape": []int{-1}}, x)
	fail("attributes shape and extra_shape", map[string]any{"shape": []int{1 << 40, 1 << 40}})
}
