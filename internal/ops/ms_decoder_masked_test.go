package ops

import (
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// ONNX Runtime takes DecoderMaskedMultiHeadAttention only with buffers that
// inputs and outputs share, so that it is compared with MultiHeadAttention, which
// is compared with ONNX Runtime.
func TestDecoderMaskedEqualsMultiHeadAttention(t *testing.T) {
	const b, h, d, past, room = 2, 2, 4, 3, 5
	noise := func(seed int, shape ...int) *tensor.Tensor {
		v := make([]float32, product(shape))
		for i := range v {
			v[i] = float32((i*37+seed*11)%29-14) / 16
		}
		r, err := tt(v, len(v)).Reshape(shape...)
		return tensor.Must(r, err)
	}
	rows := func(x *tensor.Tensor, n int) *tensor.Tensor { // the first n tokens of a buffer
		r := make([]float32, 0, b*h*n*d)
		for i := range b * h {
			r = append(r, tensor.Of[float32](x)[i*room*d:][:n*d]...)
		}
		return tt(r, b, h, n, d)
	}
	run := func(op string, attrs map[string]any, numOut int, in ...tensor.Value) []tensor.Value {
		t.Helper()
		attrs["num_heads"] = h
		out, err := runOpN(t, numOut, msDomain+op, 1, attrs, in...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	q, k, v, bias := noise(1, b, 1, h*d), noise(2, b, 1, h*d), noise(3, b, 1, h*d), noise(4, 3*h*d)
	pk, pv := noise(5, b, h, room, d), noise(6, b, h, room, d)
	mask, add := tt([]int32{1, 0, 1, 1, 0, 1, 1, 1}, b, past+1), noise(7, 1, h, 1, past+1)
	share, length := map[string]any{"past_present_share_buffer": 1}, tt([]int32{past}, 1)

	want := run("MultiHeadAttention", map[string]any{}, 4, q, k, v, bias, mask, add, rows(pk, past), rows(pv, past))
	got := run("DecoderMaskedMultiHeadAttention", share, 4, q, k, v, mask, add, pk, pv, length, nil, nil, bias)
	for i := range want {
		x := got[i].(*tensor.Tensor)
		if i == 1 || i == 2 {
			x = rows(x, past+1)
		}
		if !sameValue(x, want[i], 1e-5) {
			t.Errorf("shared buffer: output %d is %s, want %s", i, show(x), show(want[i]))
		}
	}
	grown := run("DecoderMaskedMultiHeadAttention", map[string]any{}, 3, q, k, v, mask, add, rows(pk, past), rows(pv, past), nil, nil, nil, bias)
	for i := range grown {
		if !sameValue(grown[i], want[i], 1e-5) {
			t.Errorf("growing past: output %d is %s, want %s", i, show(grown[i]), show(want[i]))
		}
	}
	// The same beam everywhere changes nothing; swapped beams swap the pasts.
	beam := tt([]int32{2}, 1)
	same := run("DecoderMaskedMultiHeadAttention", share, 1, q, k, v, mask, add, pk, pv, length, beam, tt([]int32{0, 0, 0, 1, 1, 1}, 1, 2, past), bias)
	if !sameValue(same[0], want[0], 1e-5) {
		t.Errorf("own beams: %s, want %s", show(same[0]), show(want[0]))
	}
	swap := func(x *tensor.Tensor) *tensor.Tensor {
		s := tensor.Of[float32](x)
		n := len(s) / 2
		return tt(append(append([]float32{}, s[n:]...), s[:n]...), x.Shape()...)
	}
	want = run("MultiHeadAttention", map[string]any{}, 1, q, k, v, bias, mask, add, swap(rows(pk, past)), swap(rows(pv, past)))
	got = run("DecoderMaskedMultiHeadAttention", share, 1, q, k, v, mask, add, pk, pv, length, beam, tt([]int32{1, 1, 1, 0, 0, 0}, 1, 2, past), bias)
	if !sameValue(got[0], want[0], 1e-5) {
		t.Errorf("swapped beams: %s, want %s", show(got[0]), show(want[0]))
	}
	ck, cv, cmask := rows(pk, 4), rows(pv, 4), tt([]int32{1, 1, 0, 1, 1, 1, 1, 1}, b, 4)
	want = run("MultiHeadAttention", map[string]any{}, 1, q, ck, cv, nil, cmask)
	got = run("DecoderMaskedMultiHeadAttention", map[string]any{}, 1, q, ck, cv, cmask)
	if !sameValue(got[0], want[0], 1e-5) {
		t.Errorf("cross attention: %s, want %s", show(got[0]), show(want[0]))
	}

	share["num_heads"] = h
	failOp(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "past_sequence_length is 5", q, k, v, nil, nil, pk, pv, tt([]int32{5}, 1))
	failOp(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "past_sequence_length is missing", q, k, v, nil, nil, pk, pv)
	failOp(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "cache_indirection holds 2", q, k, v, nil, nil, pk, pv, length, beam, tt([]int32{0, 0, 2, 1, 1, 1}, 1, 2, past))
	failOp(t, msDomain+"DecoderMaskedMultiHeadAttention", 1, share, "want [batch, 1, hidden]", noise(1, b, 2, h*d))
}
