package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestQuantizeLinear(t *testing.T) {
	x := optest.Tensor([]float32{0, 2, 3, 1000, -254, -1000, float32(math.NaN()), 5})
	optest.Want(t, "QuantizeLinear", 10, nil, optest.Tensor([]uint8{128, 129, 130, 255, 1, 0, 0, 130}), x,
		optest.Tensor([]float32{2}), optest.Tensor([]uint8{128}))
	optest.Want(t, "QuantizeLinear", 13, nil, optest.Tensor([]int8{0, 1, 2, 127, -127, -128, -128, 2}), x,
		optest.Tensor([]float32{2}), optest.Tensor([]int8{0}))
	optest.Want(t, "QuantizeLinear", 25, nil, optest.Tensor([]uint8{0, 1, 2, 255, 0, 0, 0, 2}), x,
		tensor.Scalar[float32](2))
	optest.Want(t, "QuantizeLinear", 25, map[string]any{"output_dtype": tensor.TypeInt16},
		optest.Tensor([]int16{0, 1, 2, 500, -127, -500, -32768, 2}), x, tensor.Scalar[float32](2))

	// Per axis, inner and outermost.
	m := optest.Tensor([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	optest.Want(t, "QuantizeLinear", 13, nil, optest.Tensor([]uint8{1, 1, 6, 4, 2, 12}, 2, 3), m,
		optest.Tensor([]float32{1, 2, .5}), optest.Tensor([]uint8{0, 0, 0}))
	optest.Want(t, "QuantizeLinear", 13, map[string]any{"axis": -2}, optest.Tensor([]uint8{1, 2, 3, 3, 3, 4}, 2, 3), m,
		optest.Tensor([]float32{1, 2}), optest.Tensor([]uint8{0, 1}))
	// Blocks along either axis, the last one short.
	optest.Want(t, "QuantizeLinear", 21, map[string]any{"block_size": 2},
		optest.Tensor([]uint8{1, 2, 6, 2, 2, 24}, 2, 3), m, optest.Tensor([]float32{1, .5, 2, .25}, 2, 2))
	optest.Want(t, "QuantizeLinear", 21, map[string]any{"block_size": 2, "axis": 0},
		optest.Tensor([]uint8{1, 1, 6, 4, 2, 12}, 2, 3), m, optest.Tensor([]float32{1, 2, .5}, 1, 3))
	optest.Want(t, "QuantizeLinear", 21, map[string]any{"block_size": math.MaxInt64},
		optest.Tensor([]uint8{1, 2, 3, 2, 2, 3}, 2, 3), m, optest.Tensor([]float32{1, 2}, 2, 1))

	// Packed and small float types.
	four := tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{0, 1, 2, 7, -8, -8, -8, 2}))
	optest.Want(t, "QuantizeLinear", 21, nil, four, x, optest.Tensor([]float32{2}),
		tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{0}, 1)))
	two := tensor.Must(tensor.Pack(tensor.TypeUint2, []uint8{1, 2, 3, 3, 0, 0, 0, 3}))
	optest.Want(t, "QuantizeLinear", 25, nil, two, x, optest.Tensor([]float32{2}),
		tensor.Must(tensor.Pack(tensor.TypeUint2, []uint8{1}, 1)))
	optest.Want(t, "QuantizeLinear", 19, map[string]any{"saturate": 1},
		optest.Tensor([]tensor.Float8E4M3FN{0x38, 0x7e}), optest.Tensor([]float32{2, 1e9}), optest.Tensor([]float32{2}),
		optest.Tensor([]tensor.Float8E4M3FN{0}))
	optest.Want(t, "QuantizeLinear", 19, map[string]any{"saturate": 0},
		optest.Tensor([]tensor.Float8E4M3FN{0x38, 0x7f}), optest.Tensor([]float32{2, 1e9}), optest.Tensor([]float32{2}),
		optest.Tensor([]tensor.Float8E4M3FN{0}))
	e2m1 := tensor.Must(tensor.Pack(tensor.TypeFloat4E2M1, []tensor.Float4E2M1{2, 7, 15}))
	optest.Want(t, "QuantizeLinear", 23, map[string]any{"output_dtype": tensor.TypeFloat4E2M1}, e2m1,
		optest.Tensor([]float32{2, 99, -99}), optest.Tensor([]float32{2}))

	// 2049/1 is 2048 in half precision.
	half := halfTest(tensor.TypeFloat16, []float64{1})
	optest.Want(t, "QuantizeLinear", 21, map[string]any{"output_dtype": tensor.TypeInt16}, optest.Tensor([]int16{2048}),
		optest.Tensor([]float32{2049}), half)
	optest.Want(t, "QuantizeLinear", 23,
		map[string]any{"output_dtype": tensor.TypeInt16, "precision": tensor.TypeFloat32}, optest.Tensor([]int16{2049}),
		optest.Tensor([]float32{2049}), half)

	optest.Fail(t, "QuantizeLinear", 25, map[string]any{"block_size": 2}, "want [2 2]", m,
		optest.Tensor([]float32{1, 2, 3}))
	optest.Fail(t, "QuantizeLinear", 13, nil, "scale has shape", m, optest.Tensor([]float32{1, 2}))
	optest.Fail(t, "QuantizeLinear", 13, nil, "want the same", m, optest.Tensor([]float32{1, 2, 3}),
		optest.Tensor([]uint8{1}))
	optest.Fail(t, "QuantizeLinear", 21, map[string]any{"output_dtype": tensor.TypeInt8}, "zero point is uint8", m,
		optest.Tensor([]float32{1}), optest.Tensor([]uint8{1}))
	optest.Fail(t, "QuantizeLinear", 21, map[string]any{"output_dtype": tensor.TypeInt64}, "want a quantized type", m,
		optest.Tensor([]float32{1}))
	optest.Fail(t, "QuantizeLinear", 21, map[string]any{"block_size": -1}, "block_size", m, optest.Tensor([]float32{1}))
	for _, shape := range [][]int{{0, 3}, {3, 0}} {
		optest.Want(t, "QuantizeLinear", 13, nil, optest.Tensor([]uint8{}, shape...),
			optest.Tensor([]float32{}, shape...), optest.Tensor(make([]float32, shape[1]), shape[1]))
		optest.Want(t, "QuantizeLinear", 21, map[string]any{"block_size": 2}, optest.Tensor([]uint8{}, shape...),
			optest.Tensor([]float32{}, shape...), optest.Tensor([]float32{}, shape[0], (shape[1]+1)/2))
	}
}

func TestDequantizeLinear(t *testing.T) {
	optest.Want(t, "DequantizeLinear", 10, nil, optest.Tensor([]float32{-256, 0, 254}),
		optest.Tensor([]uint8{0, 128, 255}), optest.Tensor([]float32{2}), optest.Tensor([]uint8{128}))
	optest.Want(t, "DequantizeLinear", 13, map[string]any{"axis": 0}, optest.Tensor([]float32{1, 2, 0, 2}, 2, 2),
		optest.Tensor([]int8{1, 2, 3, 4}, 2, 2), optest.Tensor([]float32{1, 2}), optest.Tensor([]int8{0, 3}))
	optest.Want(t, "DequantizeLinear", 21, map[string]any{"block_size": 2}, optest.Tensor([]float32{1, 2, 30}, 1, 3),
		optest.Tensor([]int8{1, 2, 3}, 1, 3), optest.Tensor([]float32{1, 10}, 1, 2))
	optest.Want(t, "DequantizeLinear", 10, nil, optest.Tensor([]float32{-4294967295}),
		optest.Tensor([]int32{math.MinInt32}), optest.Tensor([]float32{1}), optest.Tensor([]int32{math.MaxInt32}))
	optest.Want(t, "DequantizeLinear", 21, nil, halfTest(tensor.TypeFloat16, []float64{-16, 14}),
		tensor.Must(tensor.Pack(tensor.TypeInt4, []int8{-8, 7})), halfTest(tensor.TypeFloat16, []float64{2}))
	optest.Want(t, "DequantizeLinear", 19, nil, optest.Tensor([]float32{2}), optest.Tensor([]tensor.Float8E4M3FN{0x38}),
		optest.Tensor([]float32{2}))
	e8m0 := optest.Tensor([]tensor.Float8E8M0{128}, 1)
	optest.Want(t, "DequantizeLinear", 24, map[string]any{"output_dtype": tensor.TypeFloat32},
		optest.Tensor([]float32{2, 12}), tensor.Must(tensor.Pack(tensor.TypeFloat4E2M1, []tensor.Float4E2M1{2, 7})),
		e8m0)
	optest.Fail(t, "DequantizeLinear", 24, nil, "output_dtype", optest.Tensor([]int8{1}), e8m0)
	optest.Fail(t, "DequantizeLinear", 13, map[string]any{"axis": 7}, "out of range", optest.Tensor([]int8{1, 2}, 1, 2),
		optest.Tensor([]float32{1, 2}))
}

func TestDynamicQuantizeLinear(t *testing.T) {
	x := optest.Tensor([]float32{0, 2, -3, -2.5, 1.34, 0.5})
	optest.WantAll(t, "DynamicQuantizeLinear", 11, nil,
		[]tensor.Value{optest.Tensor([]uint8{153, 255, 0, 26, 221, 179}), tensor.Scalar[float32](5. / 255),
			tensor.Scalar[uint8](153)}, x)
	optest.WantAll(t, "DynamicQuantizeLinear", 11, nil,
		[]tensor.Value{optest.Tensor([]uint8{0, 0}), tensor.Scalar[float32](1. / 255), tensor.Scalar[uint8](0)},
		optest.Tensor([]float32{0, 0}))
	optest.WantAll(t, "DynamicQuantizeLinear", 11, nil,
		[]tensor.Value{optest.Tensor([]uint8{}), tensor.Scalar[float32](1. / 255), tensor.Scalar[uint8](0)},
		optest.Tensor([]float32{}))
}

// TestQuantizationAlongAxis compares vector kernels with plain loops, for scales whose runs are
// short, long, cut or of one element.
func TestQuantizationAlongAxis(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][]int{{3, 5, 4}, {40, 5, 1}, {300, 7}, {2, 3, 200}, {2, 130, 5}, {1, 1000}, {700, 3, 2},
		{0, 3}, {3, 0, 2}} {
		for axis := range shape {
			n, err := tensor.Elements(shape)
			if err != nil {
				t.Fatal(err)
			}
			k := shape[axis]
			x, y, scale := make([]float32, n), make([]int8, n), make([]float32, k)
			zero, shorts, halves := make([]int8, k), make([]int16, k), make([]tensor.Float16, n)
			for i := range n {
				x[i], y[i] = 100*float32(r.NormFloat64()), int8(r.Uint32())
				halves[i] = tensor.NewFloat16(x[i])
			}
			for i := range k {
				scale[i], zero[i], shorts[i] = 0.5+r.Float32(), int8(r.Uint32()), int16(r.Uint32())
			}
			attrs := map[string]any{"axis": axis}
			for _, z := range []tensor.Value{optest.Tensor(zero, k), optest.Tensor(shorts, k)} {
				if _, err := optest.Run(t, "QuantizeLinear", 21, attrs, optest.Tensor(x, shape...),
					optest.Tensor(scale, k), z); err != nil {
					t.Errorf("%v, axis %d: %v", shape, axis, err)
				}
			}
			half := make([]tensor.Float16, k)
			for i, v := range scale {
				half[i] = tensor.NewFloat16(v)
			}
			if _, err := optest.Run(t, "QuantizeLinear", 21, attrs, optest.Tensor(halves, shape...),
				optest.Tensor(half, k), optest.Tensor(zero, k)); err != nil {
				t.Errorf("%v of float16, axis %d: %v", shape, axis, err)
			}
			ints, wide := make([]int32, n), make([]int32, k)
			for i := range ints {
				ints[i] = int32(r.Uint32())
			}
			for i := range wide {
				wide[i] = int32(r.Uint32())
			}
			if _, err := optest.Run(t, "DequantizeLinear", 21, attrs, optest.Tensor(ints, shape...),
				optest.Tensor(scale, k), optest.Tensor(wide, k)); err != nil {
				t.Errorf("dequantizing int32 %v, axis %d: %v", shape, axis, err)
			}
			for _, z := range []tensor.Value{optest.Tensor(zero, k), nil} {
				if _, err := optest.Run(t, "DequantizeLinear", 21, attrs, optest.Tensor(y, shape...),
					optest.Tensor(scale, k), z); err != nil {
					t.Errorf("dequantizing %v, axis %d: %v", shape, axis, err)
				}
			}
		}
	}
}
