package msft

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// Recorded cases compare the operators of com.microsoft with ONNX Runtime. These tests
// cover inputs that ONNX Runtime does not accept: omitted zero points, sparse inputs,
// empty tensors, and invalid input.

func TestSparseToDenseMatMul(t *testing.T) {
	const op = "com.microsoft.SparseToDenseMatMul"
	// [[0 2 0] [3 0 -1]]
	values := optest.Tensor([]float32{2, 3, -1}, 3)
	flat, err := tensor.NewSparse(values, optest.Tensor([]int64{1, 3, 5}, 3), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := tensor.NewSparse(values, optest.Tensor([]int64{0, 1, 1, 0, 1, 2}, 3, 2), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	b := optest.Tensor([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	for _, a := range []*tensor.Sparse{flat, pairs} {
		optest.Want(t, op, 1, nil, optest.Tensor([]float32{6, 8, -2, 0}, 2, 2), a, b)
		optest.Want(t, op, 1, optest.Attrs{"alpha": 0.5, "transB": 1}, optest.Tensor([]float32{2, 5, 0, 3}, 2, 2), a,
			optest.Tensor([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
		optest.Want(t, op, 1, optest.Attrs{"transA": 1}, optest.Tensor([]float32{9, 12, 2, 4, -3, -4}, 3, 2), a,
			optest.Tensor([]float32{1, 2, 3, 4}, 2, 2))
	}
	ints, err := tensor.NewSparse(optest.Tensor([]int64{7}, 1), optest.Tensor([]int64{2}, 1), 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	optest.Want(t, op, 1, nil, optest.Tensor([]int64{0, 0, 0, 7, 14, 21}, 2, 3), ints,
		optest.Tensor([]int64{1, 2, 3, 4, 5, 6}, 2, 3))
	optest.Fail(t, op, 1, nil, "want the same", ints, b)
	optest.Fail(t, op, 1, nil, "inner dimensions", flat, optest.Tensor([]float32{1, 2}, 2, 1))
}

func TestQLinearWithoutZeroPoints(t *testing.T) {
	s := func(v float32) *tensor.Tensor { return tensor.Scalar(v) }
	u := func(v ...uint8) *tensor.Tensor { return optest.Tensor(v, len(v)) }
	optest.Want(t, "com.microsoft.QLinearAdd", 1, nil, u(3, 6, 250), u(1, 2, 200), s(1), nil,
		u(4, 8, 100), s(0.5), nil, s(1))
	optest.Want(t, "com.microsoft.QLinearMul", 1, nil, u(2, 8, 255), u(1, 2, 200), s(1), nil,
		u(4, 8, 100), s(0.5), nil, s(1))
	optest.Want(t, "com.microsoft.QLinearSigmoid", 1, nil, u(100, 100), u(0, 0), s(1), nil, s(0.005))
	optest.Want(t, "com.microsoft.QLinearLeakyRelu", 1, optest.Attrs{"alpha": 0.5}, optest.Tensor([]int8{-4, 10}, 2),
		optest.Tensor([]int8{-8, 10}, 2), s(1), nil, s(1))
	optest.Want(t, "com.microsoft.QLinearSoftmax", 1, optest.Attrs{"opset": 13}, u(50, 50), u(9, 9), s(1), nil, s(0.01),
		tensor.Scalar(uint8(0)))
	optest.Want(t, "com.microsoft.QLinearAveragePool", 1, optest.Attrs{"kernel_shape": []int{2}},
		optest.Tensor([]uint8{3, 5}, 1, 1, 2), optest.Tensor([]uint8{2, 4, 6}, 1, 1, 3), s(1), nil, s(1))
	// Like ONNX Runtime, the result 128 wraps around to −128.
	optest.Want(t, "com.microsoft.QLinearSoftmax", 1, optest.Attrs{"opset": 13}, optest.Tensor([]int8{127}, 1),
		optest.Tensor([]int8{3}, 1), s(1), nil, s(1.0/256), tensor.Scalar(int8(-128)))
	optest.Fail(t, "com.microsoft.QLinearAdd", 1, nil, "want one element", u(1), optest.Tensor([]float32{1, 2}, 2),
		nil, u(1), s(1), nil, s(1))
	optest.Fail(t, "com.microsoft.QLinearMul", 1, nil, "cannot be broadcast", u(1, 2), s(1), nil,
		u(1, 2, 3), s(1), nil, s(1))
	optest.Fail(t, "com.microsoft.QLinearConcat", 1, optest.Attrs{"axis": 0}, "want three for each part", s(1),
		tensor.Scalar(uint8(0)), u(1), s(1))
	optest.Fail(t, "com.microsoft.QLinearConcat", 1, optest.Attrs{"axis": 0}, "want a tensor of uint8", s(1),
		tensor.Scalar(uint8(0)), s(1), s(1), tensor.Scalar(uint8(0)))
}

func TestContribEmpty(t *testing.T) {
	none := optest.Tensor([]float32{}, 0, 3)
	u := optest.Tensor([]uint8{}, 0, 3)
	s, z := tensor.Scalar(float32(1)), tensor.Scalar(uint8(0))
	optest.Want(t, "com.microsoft.QLinearAdd", 1, nil, u, u, s, z, u, s, z, s, z)
	optest.Want(t, "com.microsoft.QLinearSigmoid", 1, nil, u, u, s, z, s, z)
	optest.Want(t, "com.microsoft.MatMulIntegerToFloat", 1, nil, optest.Tensor([]float32{}, 0, 2), u,
		optest.Tensor(make([]uint8, 6), 3, 2), s, s)
	optest.Want(t, "com.microsoft.DynamicQuantizeMatMul", 1, nil, optest.Tensor([]float32{}, 0, 2), none,
		optest.Tensor(make([]uint8, 6), 3, 2), s)
	optest.Want(t, "com.microsoft.QGemm", 1, nil, optest.Tensor([]float32{5, 10}, 1, 2), optest.Tensor([]uint8{}, 1, 0),
		s, z, optest.Tensor([]uint8{}, 0, 2), s, z, optest.Tensor([]int32{5, 10}, 2))
	optest.Want(t, "com.microsoft.TransposeMatMul", 1, optest.Attrs{"transA": 1},
		optest.Tensor([]float32{0, 0, 0, 0, 0, 0}, 3, 2), none, optest.Tensor([]float32{}, 0, 2))
	optest.WantAll(t, "com.microsoft.Unique", 1, nil,
		[]tensor.Value{optest.Tensor([]float32{}, 0), optest.Tensor([]int64{}, 0), optest.Tensor([]int64{}, 0)},
		optest.Tensor([]float32{}, 0))
	optest.Want(t, "com.microsoft.Inverse", 1, nil, optest.Tensor([]float32{}, 2, 0, 0),
		optest.Tensor([]float32{}, 2, 0, 0))
	optest.Want(t, "com.microsoft.CropAndResize", 1, nil, optest.Tensor([]float32{}, 0, 1, 2, 2),
		optest.Tensor([]float32{1}, 1, 1, 1, 1), optest.Tensor([]float32{}, 0, 4), optest.Tensor([]int32{}, 0),
		optest.Tensor([]int32{2, 2}, 2))
	optest.Want(t, "com.microsoft.MurmurHash3", 1, nil, optest.Tensor([]uint32{}, 0), optest.Tensor([]string{}, 0))
	optest.Want(t, "com.microsoft.IsAllFinite", 1, nil, tensor.Scalar(true), none)
	optest.Want(t, "com.microsoft.BiasAdd", 1, nil, optest.Tensor([]float32{}, 1, 0, 3),
		optest.Tensor([]float32{}, 1, 0, 3), optest.Tensor([]float32{1, 2, 3}, 3), optest.Tensor([]float32{}, 1, 0, 3))
}

func TestContribErrors(t *testing.T) {
	inf := float32(math.Inf(1))
	x := optest.Tensor([]float32{1, inf, 2, 3}, 1, 1, 2, 2)
	optest.Fail(t, "com.microsoft.CropAndResize", 1, nil, "batch_indices[0] is 1", x,
		optest.Tensor([]float32{0, 0, 1, 1}, 1, 4), optest.Tensor([]int32{1}, 1), optest.Tensor([]int32{2, 2}, 2))
	optest.Fail(t, "com.microsoft.CropAndResize", 1, nil, "want two positive numbers", x,
		optest.Tensor([]float32{0, 0, 1, 1}, 1, 4), optest.Tensor([]int32{0}, 1), optest.Tensor([]int32{2, 0}, 2))
	optest.Want(t, "com.microsoft.CropAndResize", 1, optest.Attrs{"extrapolation_value": 9.0},
		optest.Tensor([]float32{9}, 1, 1, 1, 1), x, optest.Tensor([]float32{inf, 0, 1, -inf}, 1, 4),
		optest.Tensor([]int32{0}, 1), optest.Tensor([]int32{1, 1}, 2))
	optest.Fail(t, "com.microsoft.Inverse", 1, nil, "want square matrices", optest.Tensor([]float32{1, 2}, 1, 2))
	optest.Fail(t, "com.microsoft.ExpandDims", 1, nil, "axis is 3", optest.Tensor([]float32{1}, 1),
		tensor.Scalar(int32(3)))
	optest.Fail(t, "com.microsoft.Tokenizer", 1, optest.Attrs{"mark": 0, "pad_value": "", "mincharnum": 1},
		"want exactly one of the attributes", optest.Tensor([]string{"a"}, 1))
	optest.Fail(t, "com.microsoft.Tokenizer", 1, optest.Attrs{"mark": 0, "pad_value": "", "mincharnum": 1,
		"tokenexp": "("}, "missing closing", optest.Tensor([]string{"a"}, 1))
	optest.Fail(t, "com.microsoft.Tokenizer", 1, optest.Attrs{"mark": 0, "pad_value": "", "mincharnum": 1,
		"tokenexp": "a"}, "not valid UTF-8", optest.Tensor([]string{"\xff"}, 1))
	optest.Fail(t, "com.microsoft.NGramRepeatBlock", 1, optest.Attrs{"ngram_size": 1}, "out of range, the vocabulary",
		optest.Tensor([]int64{5}, 1, 1), optest.Tensor([]float32{1}, 1, 1))
	optest.Fail(t, "com.microsoft.WordConvEmbedding", 1, nil, "want 0 to 1", optest.Tensor([]int32{2}, 1, 1),
		optest.Tensor([]float32{1}, 1, 1, 1, 1), optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{1, 2}, 2, 1))
	optest.Fail(t, "com.microsoft.GroupNorm", 1, optest.Attrs{"groups": 3, "activation": 0},
		"not divisible by 3 groups", x, optest.Tensor([]float32{1, 1}, 2), optest.Tensor([]float32{1, 1}, 2))
	optest.Fail(t, "com.microsoft.GroupNorm", 1, optest.Attrs{"groups": 0, "activation": 7}, "want at least 1", x,
		optest.Tensor([]float32{1, 1}, 2), optest.Tensor([]float32{1, 1}, 2))
	optest.Fail(t, "com.microsoft.Rfft", 1, optest.Attrs{"signal_ndim": 2}, "signal_ndim is 2", x)
	optest.Fail(t, "com.microsoft.QGemm", 1, nil, "no y_scale", optest.Tensor([]uint8{1}, 1, 1), tensor.Scalar(inf),
		tensor.Scalar(uint8(0)), optest.Tensor([]uint8{1}, 1, 1), tensor.Scalar(inf), tensor.Scalar(uint8(0)), nil, nil,
		tensor.Scalar(uint8(0)))
}

func TestGreedySearchErrors(t *testing.T) {
	const op = "com.microsoft.GreedySearch"
	g := func(past ir.Type, values int) *ir.Graph {
		r := &ir.Graph{}
		for range 3 {
			r.Inputs = append(r.Inputs, r.NewValue("", ir.TensorType(tensor.TypeInt32, ir.UnknownDims(2)...)))
		}
		r.Inputs = append(r.Inputs, r.NewValue("", past))
		for i := range values {
			r.Outputs = append(r.Outputs, r.Inputs[3-i])
		}
		return r
	}
	five := ir.TensorType(tensor.TypeFloat32, ir.Known(2), ir.Unknown, ir.Known(1), ir.Unknown, ir.Known(1))
	with := func(d *ir.Graph) map[string]any {
		return map[string]any{"decoder": d, "eos_token_id": 1, "pad_token_id": 0}
	}
	ids, most := optest.Tensor([]int32{1, 2}, 1, 2), optest.Tensor([]int32{4}, 1)
	optest.Fail(t, op, 1, with(g(ir.TensorType(tensor.TypeFloat32, ir.UnknownDims(3)...), 2)),
		"want [2 batch heads length size]", ids, most)
	optest.Fail(t, op, 1, with(g(five, 1)), "want logits and 1 pasts", ids, most)
	optest.Fail(t, op, 1, with(g(five, 2)), "the decoder returns scores", ids, most)
	optest.Fail(t, op, 1, with(g(five, 2)), "max_length is 2", ids, optest.Tensor([]int32{2}, 1))
	optest.Fail(t, op, 1, with(g(five, 2)), "not empty", optest.Tensor([]int32{}, 0, 2), most)
	bad := with(g(five, 2))
	bad["model_type"] = 3
	optest.Fail(t, op, 1, bad, "model_type is 3", ids, most)
	bad["model_type"] = 1
	optest.Fail(t, op, 1, bad, "encoder", ids, most)
	bad["encoder"] = g(five, 2)
	optest.Fail(t, op, 1, bad, "the decoder has 4 inputs", ids, most)

	const beams = "com.microsoft.BeamSearch"
	one := func(v int32) *tensor.Tensor { return optest.Tensor([]int32{v}, 1) }
	optest.Fail(t, beams, 1, with(g(five, 2)), "num_beams is 0", ids, most, nil, one(0), one(1))
	optest.Fail(t, beams, 1, with(g(five, 2)), "num_return_sequences 3", ids, most, nil, one(2), one(3))
	optest.Fail(t, beams, 1, with(g(five, 2)), "min_length is 4", ids, most, one(4), one(2), one(1))
	optest.Fail(t, "com.microsoft.WhisperBeamSearch", 1, with(g(five, 2)), "encoder", ids, most, nil, one(2), one(1))
	optest.Fail(t, "com.microsoft.Sampling", 1, with(g(five, 2)), "the decoder returns scores", ids, most)
}
