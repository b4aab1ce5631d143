package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestBatchNormalization(t *testing.T) {
	x := iota32(2, 2, 2)
	one, zero := optest.Tensor([]float32{1, 2}, 2), optest.Tensor([]float32{0, 1}, 2)
	given := []tensor.Value{x, one, zero, optest.Tensor([]float32{1, 3}, 2), optest.Tensor([]float32{1, 4}, 2)}
	eps := map[string]any{"epsilon": 0.0}
	want := optest.Tensor([]float32{0, 1, 1, 2, 4, 5, 5, 6}, 2, 2, 2)
	for _, opset := range []int{7, 9, 14, 15} {
		optest.Want(t, "BatchNormalization", opset, eps, want, given...)
	}
	optest.Want(t, "BatchNormalization", 6, map[string]any{"epsilon": 0.0, "is_test": 1}, want, given...)
	optest.Want(t, "BatchNormalization", 1,
		map[string]any{"epsilon": 0.0, "is_test": 1, "consumed_inputs": []int{0, 0}}, want, given...)
	// The batch: channel 0 is 1 2 5 6, channel 1 is 3 4 7 8.
	m := []tensor.Value{optest.Tensor([]float32{3.5, 5.5}, 2), optest.Tensor([]float32{4.25, 4.25}, 2)}
	r := float32(1 / math.Sqrt(4.25))
	y := optest.Tensor([]float32{-2.5 * r, -1.5 * r, -5*r + 1, -3*r + 1, 1.5 * r, 2.5 * r, 3*r + 1, 5*r + 1}, 2, 2, 2)
	half := map[string]any{"epsilon": 0.0, "momentum": 0.5, "training_mode": 1}
	running := []tensor.Value{optest.Tensor([]float32{2.25, 4.25}, 2), optest.Tensor([]float32{2.625, 4.125}, 2)}
	optest.WantAll(t, "BatchNormalization", 15, half, []tensor.Value{y, running[0], running[1]}, given...)
	delete(half, "training_mode")
	optest.WantAll(t, "BatchNormalization", 9, half, []tensor.Value{y, running[0], running[1], m[0], m[1]}, given...)
	optest.WantAll(t, "BatchNormalization", 6, half, []tensor.Value{y, running[0], running[1], m[0], m[1]}, given...)
	// Statistics per element of an instance.
	optest.Want(t, "BatchNormalization", 7, map[string]any{"epsilon": 0.0, "spatial": 0},
		optest.Tensor([]float32{0, 0, 4, 2}, 2, 1, 2),
		optest.Tensor([]float32{1, 2, 5, 6}, 2, 1, 2), optest.Tensor([]float32{1, 1}, 1, 2),
		optest.Tensor([]float32{0, 0}, 1, 2), optest.Tensor([]float32{1, 2}, 1, 2),
		optest.Tensor([]float32{1, 4}, 1, 2))
	optest.Want(t, "BatchNormalization", 15, eps, optest.Tensor(half16(-1, 0), 2), optest.Tensor(half16(1, 2), 2),
		optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{0}, 1), optest.Tensor([]float64{2}, 1),
		optest.Tensor([]float64{1}, 1))
	optest.Want(t, "BatchNormalization", 15, eps, optest.Tensor([]float32{}, 0, 2, 2),
		optest.Tensor([]float32{}, 0, 2, 2), given[1], given[2], given[3], given[4])
	optest.Fail(t, "BatchNormalization", 15, nil, "want", given[0], given[1], given[2], given[3], iota32(3))
	optest.Fail(t, "BatchNormalization", 15, map[string]any{"training_mode": 1}, "empty",
		optest.Tensor([]float32{}, 0, 2), given[1], given[2], given[3], given[4])
	if _, err := optest.RunN(t, 2, "BatchNormalization", 15, nil, given...); err == nil {
		t.Error("statistics without training_mode: no error")
	}
}

func TestNormalizations(t *testing.T) {
	x := optest.Tensor([]float32{1, 3, 2, 6, 0, 8}, 1, 3, 2)
	g, b := optest.Tensor([]float32{1, 2, 3}, 3), optest.Tensor([]float32{0, 1, 0}, 3)
	eps := map[string]any{"epsilon": 0.0}
	for _, opset := range []int{1, 6, 22} {
		optest.Want(t, "InstanceNormalization", opset, eps, optest.Tensor([]float32{-1, 1, -1, 3, -3, 3}, 1, 3, 2),
			x, g, b)
	}
	optest.Fail(t, "InstanceNormalization", 22, nil, "scale has shape", x, iota32(2), b)
	optest.Fail(t, "InstanceNormalization", 22, nil, "rank", iota32(3), g, b)

	y := optest.Tensor([]float32{1, 3, 1, 3, 0, 8, 0, 8}, 1, 4, 2)
	two := map[string]any{"epsilon": 0.0, "num_groups": 2}
	optest.Want(t, "GroupNormalization", 18, two, optest.Tensor([]float32{-1, 1, -1, 1, -1, 3, -1, 3}, 1, 4, 2), y,
		optest.Tensor([]float32{1, 2}, 2), optest.Tensor([]float32{0, 1}, 2))
	optest.Want(t, "GroupNormalization", 21, two, optest.Tensor([]float32{-1, 1, -2, 2, -2, 4, -3, 5}, 1, 4, 2), y,
		iota32(4), optest.Tensor([]float32{0, 0, 1, 1}, 4))
	optest.Fail(t, "GroupNormalization", 21, map[string]any{"num_groups": 3}, "divisible", y, iota32(4), iota32(4))
	optest.Fail(t, "GroupNormalization", 21, map[string]any{"num_groups": 0}, "num_groups is 0",
		y, iota32(4), iota32(4))

	rows := optest.Tensor([]float32{1, 3, 4, 8}, 2, 2)
	optest.WantAll(t, "LayerNormalization", 17, eps, []tensor.Value{optest.Tensor([]float32{-1, 3, -1, 3}, 2, 2),
		optest.Tensor([]float32{2, 6}, 2, 1), optest.Tensor([]float32{1, 0.5}, 2, 1)},
		rows, optest.Tensor([]float32{1, 2}, 2), optest.Tensor([]float32{0, 1}, 2))
	optest.Want(t, "LayerNormalization", 17, eps, optest.Tensor([]float32{-1, 1, -2, 2}, 2, 2), rows,
		optest.Tensor([]float32{1, 2}, 2, 1))
	optest.WantAll(t, "LayerNormalization", 17,
		map[string]any{"epsilon": 0.0, "axis": 0, "stash_type": tensor.TypeBFloat16},
		[]tensor.Value{optest.Tensor(half16(-3, -1, 0, 4), 2, 2),
			optest.Tensor([]tensor.BFloat16{tensor.NewBFloat16(4)}, 1, 1)}, optest.Tensor(half16(1, 3, 4, 8), 2, 2), optest.Tensor(half16(2.5495098)))
	optest.Want(t, "LayerNormalization", 17, nil, optest.Tensor([]float64{}, 0, 2), optest.Tensor([]float64{}, 0, 2),
		optest.Tensor([]float64{1, 2}, 2))
	optest.Fail(t, "LayerNormalization", 17, map[string]any{"axis": math.MinInt64}, "out of range", rows, iota32(2))
	optest.Fail(t, "LayerNormalization", 17, nil, "cannot be broadcast", rows, iota32(3))
	optest.Fail(t, "LayerNormalization", 17, nil, "cannot be broadcast", rows, iota32(1, 2, 2))

	optest.Want(t, "RMSNormalization", 23, eps, optest.Tensor([]float64{0.6 * math.Sqrt2, 0.8 * math.Sqrt2 * 2}, 1, 2),
		optest.Tensor([]float32{3, 4}, 1, 2), optest.Tensor([]float64{1, 2}, 2))
	optest.Want(t, "RMSNormalization", 23, map[string]any{"epsilon": 0.0, "axis": 0},
		optest.Tensor([]float32{1, -1}, 2), optest.Tensor([]float32{3, -3}, 2), optest.Tensor([]float32{1}))

	optest.Want(t, "LpNormalization", 1, nil, optest.Tensor([]float32{0.6, -0.8, 0, 0}, 2, 2),
		optest.Tensor([]float32{3, -4, 0, 0}, 2, 2))
	optest.Want(t, "LpNormalization", 22, map[string]any{"p": 1, "axis": 0},
		optest.Tensor([]float32{0.25, 0.5, -0.75, 0.5}, 2, 2), optest.Tensor([]float32{1, 1, -3, 1}, 2, 2))
	optest.Fail(t, "LpNormalization", 22, map[string]any{"p": 3}, "p is 3", rows)

	mvn := optest.Tensor([]float32{1, 2, 3, 6}, 2, 2, 1, 1)
	optest.Want(t, "MeanVarianceNormalization", 9, nil, optest.Tensor([]float32{-1, -1, 1, 1}, 2, 2, 1, 1), mvn)
	optest.Want(t, "MeanVarianceNormalization", 13, map[string]any{"axes": []int{-3}},
		optest.Tensor([]float32{-1, 1, -1, 1}, 2, 2, 1, 1), mvn)
	optest.Fail(t, "MeanVarianceNormalization", 13, nil, "out of range", rows)

	lrn := map[string]any{"size": 3, "alpha": 3.0, "beta": 1.0, "bias": 1.0}
	optest.Want(t, "LRN", 1, lrn, optest.Tensor([]float32{1. / 6, 2. / 15, 3. / 14}, 1, 3, 1), iota32(1, 3, 1))
	lrn["size"], lrn["alpha"], lrn["beta"] = 2, 2.0, 0.75
	optest.Want(t, "LRN", 13, lrn,
		optest.Tensor([]float64{1 / math.Pow(6, .75), 2 / math.Pow(14, .75), 3 / math.Pow(10, .75)}, 1, 3, 1),
		optest.Tensor([]float64{1, 2, 3}, 1, 3, 1))
	lrn["size"] = math.MaxInt64
	optest.Want(t, "LRN", 13, lrn, optest.Tensor([]float32{1, 2, 3}, 1, 3), iota32(1, 3))
	optest.Fail(t, "LRN", 13, map[string]any{"size": 0}, "size is 0", rows)
}

// TestNormalizationOfExtremes normalizes elements whose squares overflow or vanish in float32, in
// rows for each kernel, and with a root of a negative number.
func TestNormalizationOfExtremes(t *testing.T) {
	for _, cols := range []int{8, 100, 5000} {
		for _, size := range []float32{3e-30, 2e25, 2e38} {
			x, y := make([]float32, 2*cols), make([]float32, 2*cols)
			for i := range x {
				y[i] = float32(1 - 2*(i&1))
				x[i] = size * y[i]
			}
			gain := make([]float32, cols)
			for i := range gain {
				gain[i] = 1
			}
			optest.Want(t, "LayerNormalization", 17, map[string]any{"epsilon": 0.0}, optest.Tensor(y, 2, cols),
				optest.Tensor(x, 2, cols), optest.Tensor(gain, cols))
			one, zero := optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{0}, 1)
			optest.Want(t, "InstanceNormalization", 6, map[string]any{"epsilon": 0.0}, optest.Tensor(y, 2, 1, cols),
				optest.Tensor(x, 2, 1, cols), one, zero)
		}
		x, nan := make([]float32, 2*cols), make([]float32, 2*cols)
		for i := range nan {
			nan[i] = float32(math.NaN())
		}
		optest.Want(t, "LayerNormalization", 17, map[string]any{"epsilon": -1.0}, optest.Tensor(nan, 2, cols),
			optest.Tensor(x, 2, cols), optest.Tensor(make([]float32, cols), cols))
		one, zero := optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{0}, 1)
		optest.Want(t, "InstanceNormalization", 6, map[string]any{"epsilon": -1.0}, optest.Tensor(nan, 2, 1, cols),
			optest.Tensor(x, 2, 1, cols), one, zero)
	}
}
