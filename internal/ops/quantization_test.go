package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func TestQuantizeLinear(t *testing.T) {
	x := tt([]float32{0, 2, 3, 1000, -254, -1000, float32(math.NaN()), 5})
	wantOp(t, "QuantizeLinear", 10, nil, tt([]uint8{128, 129, 130, 255, 1, 0, 0, 130}), x, tt([]float32{2}), tt([]uint8{128}))
	wantOp(t, "QuantizeLinear", 13, nil, tt([]int8{0, 1, 2, 127, -127, -128, -128, 2}), x, tt([]float32{2}), tt([]int8{0}))
	wantOp(t, "QuantizeLinear", 25, nil, tt([]uint8{0, 1, 2, 255, 0, 0, 0, 2}), x, tensor.Scalar[float32](2))
	wantOp(t, "QuantizeLinear", 25, map[string]any{"output_dtype": tensor.TypeInt16}, tt([]int16{0, 1, 2, 500, -127, -500, -32768, 2}), x, tensor.Scalar[float32](2))

	// Per axis, inner and outermost.
	m := tt([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	wantOp(t, "QuantizeLinear", 13, nil, tt([]uint8{1, 1, 6, 4, 2, 12}, 2, 3), m, tt([]float32{1, 2, .5}), tt([]uint8{0, 0, 0}))
	wantOp(t, "QuantizeLinear", 13, map[string]any{"axis": -2}, tt([]uint8{1, 2, 3, 3, 3, 4}, 2, 3), m, tt([]float32{1, 2}), tt([]uint8{0, 1}))
	// Blocks along either axis, the last one short.
	wantOp(t, "QuantizeLinear", 21, map[string]any{"block_size": 2}, tt([]uint8{1, 2, 6, 2, 2, 24}, 2, 3), m, tt([]float32{1, .5, 2, .25}, 2, 2))
	wantOp(t, "QuantizeLinear", 21, map[string]any{"block_size": 2, "axis": 0}, tt([]uint8{1, 1, 6, 4, 2, 12}, 2, 3), m, tt([]float32{1, 2, .5}, 1, 3))
	wantOp(t, "QuantizeLinear", 21, map[string]any{"block_size": math.MaxInt64}, tt([]uint8{1, 2, 3, 2, 2, 3}, 2, 3), m, tt([]float32{1, 2}, 2, 1))

	// Packed and small float types.
	four := tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{0, 1, 2, 7, -8, -8, -8, 2}))
	wantOp(t, "QuantizeLinear", 21, nil, four, x, tt([]float32{2}), tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{0}, 1)))
	two := tensor.Must(tensor.Pack(tensor.TypeUint2, []uint8{1, 2, 3, 3, 0, 0, 0, 3}))
	wantOp(t, "QuantizeLinear", 25, nil, two, x, tt([]float32{2}), tensor.Must(tensor.Pack(tensor.TypeUint2, []uint8{1}, 1)))
	wantOp(t, "QuantizeLinear", 19, map[string]any{"saturate": 1}, tt([]tensor.Float8E4M3FN{0x38, 0x7e}), tt([]float32{2, 1e9}), tt([]float32{2}), tt([]tensor.Float8E4M3FN{0}))
	wantOp(t, "QuantizeLinear", 19, map[string]any{"saturate": 0}, tt([]tensor.Float8E4M3FN{0x38, 0x7f}), tt([]float32{2, 1e9}), tt([]float32{2}), tt([]tensor.Float8E4M3FN{0}))
	e2m1 := tensor.Must(tensor.Pack(tensor.TypeFloat4E2M1, []tensor.Float4E2M1{2, 7, 15}))
	wantOp(t, "QuantizeLinear", 23, map[string]any{"output_dtype": tensor.TypeFloat4E2M1}, e2m1, tt([]float32{2, 99, -99}), tt([]float32{2}))

	// 2049/1 is 2048 in half precision.
	half := halfTest(tensor.TypeFloat16, []float64{1})
	wantOp(t, "QuantizeLinear", 21, map[string]any{"output_dtype": tensor.TypeInt16}, tt([]int16{2048}), tt([]float32{2049}), half)
	wantOp(t, "QuantizeLinear", 23, map[string]any{"output_dtype": tensor.TypeInt16, "precision": tensor.TypeFloat32}, tt([]int16{2049}), tt([]float32{2049}), half)

	failOp(t, "QuantizeLinear", 25, map[string]any{"block_size": 2}, "want [2 2]", m, tt([]float32{1, 2, 3}))
	failOp(t, "QuantizeLinear", 13, nil, "scale has shape", m, tt([]float32{1, 2}))
	failOp(t, "QuantizeLinear", 13, nil, "want the same", m, tt([]float32{1, 2, 3}), tt([]uint8{1}))
	failOp(t, "QuantizeLinear", 21, map[string]any{"output_dtype": tensor.TypeInt8}, "zero point is uint8", m, tt([]float32{1}), tt([]uint8{1}))
	failOp(t, "QuantizeLinear", 21, map[string]any{"output_dtype": tensor.TypeInt64}, "no quantized type", m, tt([]float32{1}))
	failOp(t, "QuantizeLinear", 21, map[string]any{"block_size": -1}, "block_size", m, tt([]float32{1}))
	for _, shape := range [][]int{{0, 3}, {3, 0}} {
		wantOp(t, "QuantizeLinear", 13, nil, tt([]uint8{}, shape...), tt([]float32{}, shape...), tt(make([]float32, shape[1]), shape[1]))
		wantOp(t, "QuantizeLinear", 21, map[string]any{"block_size": 2}, tt([]uint8{}, shape...), tt([]float32{}, shape...), tt([]float32{}, shape[0], (shape[1]+1)/2))
	}
}

func TestDequantizeLinear(t *testing.T) {
	wantOp(t, "DequantizeLinear", 10, nil, tt([]float32{-256, 0, 254}), tt([]uint8{0, 128, 255}), tt([]float32{2}), tt([]uint8{128}))
	wantOp(t, "DequantizeLinear", 13, map[string]any{"axis": 0}, tt([]float32{1, 2, 0, 2}, 2, 2), tt([]int8{1, 2, 3, 4}, 2, 2), tt([]float32{1, 2}), tt([]int8{0, 3}))
	wantOp(t, "DequantizeLinear", 21, map[string]any{"block_size": 2}, tt([]float32{1, 2, 30}, 1, 3), tt([]int8{1, 2, 3}, 1, 3), tt([]float32{1, 10}, 1, 2))
	wantOp(t, "DequantizeLinear", 10, nil, tt([]float32{-4294967295}), tt([]int32{math.MinInt32}), tt([]float32{1}), tt([]int32{math.MaxInt32}))
	wantOp(t, "DequantizeLinear", 21, nil, halfTest(tensor.TypeFloat16, []float64{-16, 14}), tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{-8, 7})), halfTest(tensor.TypeFloat16, []float64{2}))
	wantOp(t, "DequantizeLinear", 19, nil, tt([]float32{2}), tt([]tensor.Float8E4M3FN{0x38}), tt([]float32{2}))
	e8m0 := tt([]tensor.Float8E8M0{128}, 1)
	wantOp(t, "DequantizeLinear", 24, map[string]any{"output_dtype": tensor.TypeFloat32}, tt([]float32{2, 12}), tensor.Must(tensor.Pack(tensor.TypeFloat4E2M1, []tensor.Float4E2M1{2, 7})), e8m0)
	failOp(t, "DequantizeLinear", 24, nil, "output_dtype", tt([]int8{1}), e8m0)
	failOp(t, "DequantizeLinear", 13, map[string]any{"axis": 7}, "out of range", tt([]int8{1, 2}, 1, 2), tt([]float32{1, 2}))
}

func TestDynamicQuantizeLinear(t *testing.T) {
	x := tt([]float32{0, 2, -3, -2.5, 1.34, 0.5})
	wantOps(t, "DynamicQuantizeLinear", 11, nil, []tensor.Value{tt([]uint8{153, 255, 0, 26, 221, 179}), tensor.Scalar[float32](5. / 255), tensor.Scalar[uint8](153)}, x)
	wantOps(t, "DynamicQuantizeLinear", 11, nil, []tensor.Value{tt([]uint8{0, 0}), tensor.Scalar[float32](1. / 255), tensor.Scalar[uint8](0)}, tt([]float32{0, 0}))
	wantOps(t, "DynamicQuantizeLinear", 11, nil, []tensor.Value{tt([]uint8{}), tensor.Scalar[float32](1. / 255), tensor.Scalar[uint8](0)}, tt([]float32{}))
}
