package msft

import (
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestDecoderMaskedEqualsMultiHeadAttention compares with MultiHeadAttention, which other
// tests compare with ONNX Runtime. ONNX Runtime accepts DecoderMaskedMultiHeadAttention
// only with buffers shared between inputs and outputs, so that a direct comparison is not
// possible.
func TestDecoderMaskedEqualsMultiHeadAttention(t *testing.T) {
	const b, h, d, past, room = 2, 2, 4, 3, 5
	noise := func(seed int, shape ...int) *tensor.Tensor {
		v := make([]float32, kit.Product(shape))
		for i := range v {
			v[i] = float32((i*37+seed*11)%29-14) / 16
		}
		r, err := optest.Tensor(v, len(v)).Reshape(shape...)
		return tensor.Must(r, err)
	}
	rows := func(x *tensor.Tensor, n int) *tensor.Tensor { // the first n tokens of a buffer
		r := make([]float32, 0, b*h*n*d)
		for i := range b * h {
			r = append(r, tensor.MustData[float32](x)[i*room*d:][:n*d]...)
		}
		return optest.Tensor(r, b, h, n, d)
	}
	run := func(op string, attrs map[string]any, numOut int, in ...tensor.Value) []tensor.Value {
		t.Helper()
		attrs["num_heads"] = h
		out, err := optest.RunN(t, numOut, msDomain+op, 1, attrs, in...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	q, k, v, bias := noise(1, b, 1, h*d), noise(2, b, 1, h*d), noise(3, b, 1, h*d), noise(4, 3*h*d)
	pk, pv := noise(5, b, h, room, d), noise(6, b, h, room, d)
	mask, add := optest.Tensor([]int32{1, 0, 1, 1, 0, 1, 1, 1}, b, past+1), noise(7, 1, h, 1, past+1)
	share, length := map[string]any{"past_present_share_buffer": 1}, optest.Tensor([]int32{past}, 1)

	want := run("MultiHeadAttention", map[string]any{}, 4, q, k, v, bias, mask, add, rows(pk, past), rows(pv, past))
	got := run("DecoderMaskedMultiHeadAttention", share, 4, q, k, v, mask, add, pk, pv, length, nil, nil, bias)
	for i := range want {
		x := got[i].(*tensor.Tensor)
		if i == 1 || i == 2 {
			x = rows(x, past+1)
		}
		if !optest.Same(x, want[i], 1e-5) {
			t.Errorf("shared buffer: output %d is %s, want %s", i, optest.Show(x), optest.Show(want[i]))
		}
	}
	grown := run("DecoderMaskedMultiHeadAttention", map[string]any{}, 3, q, k, v, mask, add, rows(pk, past),
		rows(pv, past), nil, nil, nil, bias)
	for i := range grown {
		if !optest.Same(grown[i], want[i], 1e-5) {
			t.Errorf("growing past: output %d is %s, want %s", i, optest.Show(grown[i]), optest.Show(want[i]))
		}
	}
	// The same beam everywhere changes nothing; swapped beams swap the pasts.
	beam := optest.Tensor([]int32{2}, 1)
	same := run("DecoderMaskedMultiHeadAttention", share, 1, q, k, v, mask, add, pk, pv, length, beam,
		optest.Tensor([]int32{0, 0, 0, 1, 1, 1}, 1, 2, past), bias)
	if !optest.Same(same[0], want[0], 1e-5) {
		t.Errorf("own beams: %s, want %s", optest.Show(same[0]), optest.Show(want[0]))
	}
	swap := func(x *tensor.Tensor) *tensor.Tensor {
		s := tensor.MustData[float32](x)
		n := len(s) / 2
		return optest.Tensor(append(append([]float32{}, s[n:]...), s[:n]...), x.Shape()...)
	}
	want = run("MultiHeadAttention", map[string]any{}, 1, q, k, v, bias, mask, add, swap(rows(pk, past)),
		swap(rows(pv, past)))
	got = run("DecoderMaskedMultiHeadAttention", share, 1, q, k, v, mask, add, pk, pv, length, beam,
		optest.Tensor([]int32{1, 1, 1, 0, 0, 0}, 1, 2, past), bias)
	if !optest.Same(got[0], want[0], 1e-5) {
		t.Errorf("swapped beams: %s, want %s", optest.Show(got[0]), optest.Show(want[0]))
	}
	ck, cv, cmask := rows(pk, 4), rows(pv, 4), optest.Tensor([]int32{1, 1, 0, 1, 1, 1, 1, 1}, b, 4)
	want = run("MultiHeadAttention", map[string]any{}, 1, q, ck, cv, nil, cmask)
	got = run("DecoderMaskedMultiHeadAttention", map[string]any{}, 1, q, ck, cv, cmask)
	if !optest.Same(got[0], want[0], 1e-5) {
		t.Errorf("cross attention: %s, want %s", optest.Show(got[0]), optest.Show(want[0]))
	}

	share["num_heads"] = h
	optest.Fail(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "past_sequence_length is 5", q, k, v, nil, nil,
		pk, pv, optest.Tensor([]int32{5}, 1))
	optest.Fail(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "past_sequence_length is missing", q,
		k, v, nil, nil, pk, pv)
	optest.Fail(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "cache_indirection holds 2", q, k, v, nil, nil,
		pk, pv, length, beam, optest.Tensor([]int32{0, 0, 2, 1, 1, 1}, 1, 2, past))
	optest.Fail(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "want [batch, 1, hidden]", noise(1, b, 2, h*d))
}
