package msft

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestHashesWithoutTokens has a batch of 2⁴⁸ rows without tokens, which has no elements to loop
// over.
func TestHashesWithoutTokens(t *testing.T) {
	const n = 1 << 48
	ids := tensor.Must(tensor.Zeros(tensor.TypeInt64, n, 0))
	hashes := tensor.Must(tensor.Zeros(tensor.TypeInt64, n, 0, 1))
	attrs := map[string]any{"max_ngram_size": 2, "n_head_per_ngram": 1, "pad_id": 0}
	mult, size := optest.Tensor([]int64{1, 2}, 2), optest.Tensor([]int64{5}, 1)
	optest.Want(t, "com.microsoft.NGramHashMapping", 1, attrs, hashes, ids, mult, size)
}

func TestRareOperatorErrors(t *testing.T) {
	img := optest.Tensor(make([]float32, 40), 1, 2, 4, 5)
	optest.Fail(t, "Crop", 1, map[string]any{"border": []int{3, 0, 3, 0}}, "too small for border [3 0 3 0]", img)
	optest.Fail(t, "Crop", 1, map[string]any{"border": []int{1, 0, 0, 0}, "scale": []int{4, 5}},
		"too small for border", img)
	optest.Fail(t, "Crop", 1, map[string]any{"border": []int{-1, 0, 0, 0}}, "want numbers from 0", img)
	optest.Fail(t, "ImageScaler", 1, map[string]any{"bias": []float32{1}}, "bias has 1 elements, want 2", img)

	ids, mult, size := optest.Tensor([]int64{1, 2, 3}, 3), optest.Tensor([]int64{1, 2}, 2), optest.Tensor([]int64{5}, 1)
	attrs := map[string]any{"max_ngram_size": 2, "n_head_per_ngram": 1, "pad_id": 0}
	for _, ends := range [][]int32{{0, 2}, {0, 2, 2, 3}, {1, 3}, {0, 9}, {0, -1, 3}} {
		if _, err := optest.RunN(t, 1, "com.microsoft.VarlenNGramHashMapping", 1, attrs, ids, mult, size,
			optest.Tensor(ends, len(ends))); err == nil {
			t.Errorf("cumulative_sequence_length %v was accepted, want an error", ends)
		}
	}

	z := func(shape ...int) *tensor.Tensor {
		n, _ := tensor.Elements(shape)
		return optest.Tensor(make([]float32, n), shape...)
	}
	none := tensor.Value(nil)
	x, w, r := z(1, 2, 3), z(1, 8, 7), z(1, 8, 2) // input 3, attention 4, hidden 2
	lstm := map[string]any{"hidden_size": 2}
	tail := []tensor.Value{z(1, 2, 3), z(1, 4, 3), z(1, 3), z(2, 5, 4)}
	run := func(more ...tensor.Value) error {
		in := append([]tensor.Value{x, w, r, none, none, none, none, none}, tail...)
		_, err := optest.Run(t, "com.microsoft.AttnLSTM", 1, lstm, append(in, more...)...)
		return err
	}
	if err := run(); err != nil {
		t.Error(err)
	}
	if err := run(optest.Tensor([]int32{0, 5}, 2)); err == nil {
		t.Error("memory_seq_lens 0 was accepted, want an error")
	}
	if err := run(none, z(1, 6, 5)); err == nil {
		t.Error("an attention size that W has no columns for was accepted, want an error")
	}
}

// The time steps after the end of the longest sequence do not enter the range with which
// DynamicQuantizeLSTM quantizes its input: a large number there changes no result.
func TestDynamicQuantizeLSTMIgnoresPadding(t *testing.T) {
	w, r := make([]int8, 2*8), make([]int8, 2*8)
	for i := range w {
		w[i], r[i] = int8(17*i%60-30), int8(23*i%50-25)
	}
	scale, zero := optest.Tensor([]float32{0.01}, 1), optest.Tensor([]int8{0}, 1)
	run := func(last float32) []tensor.Value {
		x := optest.Tensor([]float32{0.3, -0.7, 0.5, 0.1, last, -last}, 3, 1, 2)
		y, err := optest.RunN(t, 3, "com.microsoft.DynamicQuantizeLSTM", 1, map[string]any{"hidden_size": 2}, x,
			optest.Tensor(w, 1, 2, 8), optest.Tensor(r, 1, 2, 8), nil, optest.Tensor([]int32{2}, 1), nil, nil, nil,
			scale, zero, scale, zero)
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	want := run(0)
	for i, got := range run(1000) {
		if !optest.Same(got, want[i], 0) {
			t.Errorf("output %d is %v with 1000 in the padding, want %v as with 0", i, got, want[i])
		}
	}
}

// The default epsilon of GatedRMSNorm is 1e-5, as ONNX Runtime computes with it.
func TestGatedRMSNormEpsilon(t *testing.T) {
	y, err := optest.Run(t, "com.microsoft.GatedRMSNorm", 1, map[string]any{"activation": "sigmoid"},
		optest.Tensor([]float32{0.01}, 1, 1), optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{0}, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	want := optest.Tensor([]float32{0.5 * 0.01 / float32(math.Sqrt(1e-4+1e-5))}, 1, 1)
	if !optest.Same(y[0], want, 1e-6) {
		t.Errorf("got %v, want %v", optest.Floats(y[0].(*tensor.Tensor)), optest.Floats(want))
	}
}

// ONNX Runtime subtracts zero points from weights as bytes, so zero points that are not those of
// 4-bit numbers wrap.
func TestMatMulFpQ4WrapsZeroPoints(t *testing.T) {
	const in = 32
	for zero, want := range map[byte]float32{3: in * (5 - 3), 200: in * (5 - 200 + 256), 130: in * (5 - 130)} {
		block := make([]byte, 4+1+in/2)
		binary.LittleEndian.PutUint32(block, math.Float32bits(1))
		block[4] = zero
		x := make([]float32, in)
		for i := range x {
			x[i], block[5+i/2] = 1, 0x55
		}
		optest.Want(t, "com.microsoft.MatMulFpQ4", 1, map[string]any{"blk_quant_type": 1},
			optest.Tensor([]float32{want}, 1, 1),
			optest.Tensor(x, 1, in), optest.Tensor(block, len(block)), optest.Tensor([]int64{in, 1}, 2))
	}
}

// TestNGramHashesWrap checks that hashes of int32 tokens have 32 bits: 65537·65539 is 262147
// modulo 2³².
func TestNGramHashesWrap(t *testing.T) {
	attrs := map[string]any{"max_ngram_size": 2, "n_head_per_ngram": 1, "pad_id": 0}
	const token, mult, offset = 65537, 65539, math.MaxInt32
	narrow := func(v ...int32) *tensor.Tensor { return optest.Tensor(v, len(v)) }
	wide := func(v ...int64) *tensor.Tensor { return optest.Tensor(v, len(v)) }
	for _, c := range []struct {
		in   []tensor.Value
		want tensor.Value
	}{
		{[]tensor.Value{narrow(token), narrow(mult, 0), narrow(1 << 30), narrow(0, 1), nil, narrow(0)}, optest.Tensor([]int32{262147}, 1, 1)},
		{[]tensor.Value{narrow(token), narrow(mult, 0), narrow(1 << 30), narrow(0, 1), nil, narrow(offset)}, optest.Tensor([]int32{math.MinInt32 + 262146}, 1, 1)},
		{[]tensor.Value{wide(token), wide(mult, 0), wide(1 << 40), narrow(0, 1), nil, wide(0)}, optest.Tensor([]int64{token * mult}, 1, 1)},
	} {
		out, err := optest.RunN(t, 1, "com.microsoft.VarlenNGramHashMapping", 1, attrs, c.in...)
		if err != nil {
			t.Fatal(err)
		}
		if !optest.Same(out[0], c.want, 0) {
			t.Errorf("%s, want %s", optest.Show(out[0]), optest.Show(c.want))
		}
	}
}

// TestDynamicQuantizeLSTMRuns checks that runs return the same bits, whether they read the weights
// forwards or backwards.
func TestDynamicQuantizeLSTMRuns(t *testing.T) {
	const h = 200
	r := rand.New(rand.NewPCG(1, 2))
	x, bias := make([]float32, 3*h), make([]float32, 8*h)
	for _, s := range [][]float32{x, bias} {
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
	}
	w, scale, zero := optest.BenchBytes(1, h, 4*h), optest.Tensor([]float32{0.0005}, 1), optest.Tensor([]uint8{128}, 1)
	in := []tensor.Value{optest.Tensor(x, 3, 1, h), w, w, optest.Tensor(bias, 1, 8*h), nil, nil, nil, nil, scale, zero,
		scale, zero}
	for _, steps := range []int{1, 3} {
		in[0] = optest.Tensor(x[:steps*h], steps, 1, h)
		name, attrs := msDomain+"DynamicQuantizeLSTM", map[string]any{"hidden_size": h}
		want := optest.PreparedAt(t, name, 1, attrs, quantizedInputs, in...)
		b, err := optest.Build(name, 1, attrs, len(in), 1)
		if err != nil {
			t.Fatal(err)
		}
		op, _, err := b.Node.Op.(ir.Preparer).Prepare(in, []ir.Type{ir.TypeOf(in[0])})
		if err != nil {
			t.Fatal(err)
		}
		for run := range 3 {
			c := &ir.Call{Node: b.Node, Env: &optest.Env{Ctx: t.Context(), Two: run == 2, Limit: optest.MemoryLimit},
				In: in, Out: make([]tensor.Value, 1)}
			if err := op.Run(c); err != nil {
				t.Fatal(err)
			}
			if !optest.Same(want, c.Out[0], 0) {
				t.Errorf("%d steps, run %d: got %s, want %s", steps, run, optest.Show(c.Out[0]), optest.Show(want))
			}
		}
	}
}
