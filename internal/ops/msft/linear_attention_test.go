package msft

import (
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestLinearAttentionSharesKeys checks that key may have fewer heads than value, each for
// consecutive heads of value, as in ONNX Runtime: repeated keys give the same.
func TestLinearAttentionSharesKeys(t *testing.T) {
	const tokens, keys, heads, size = 3, 2, 4, 2
	ramp := func(n int, from float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = from + float32(i%7)/8 - float32(i%3)/4
		}
		return v
	}
	q, k := ramp(tokens*2*size, 1), ramp(tokens*keys*size, 0.5)
	v, decay := ramp(tokens*heads*3, 2), ramp(tokens*heads, -2)
	var repeated []float32
	for head := range slices.Chunk(k, size) {
		repeated = append(append(repeated, head...), head...)
	}
	var out [2][]tensor.Value
	for i, key := range [][]float32{k, repeated} {
		var err error
		out[i], err = optest.Run(t, "com.microsoft.LinearAttention", 1,
			optest.Attrs{"q_num_heads": 2, "kv_num_heads": heads, "update_rule": "gated"},
			optest.Tensor(q, 1, tokens, 2*size), optest.Tensor(key, 1, tokens, len(key)/tokens),
			optest.Tensor(v, 1, tokens, heads*3), nil, optest.Tensor(decay, 1, tokens, heads))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range out[1] {
		got := tensor.MustData[float32](out[0][i].(*tensor.Tensor))
		if want := tensor.MustData[float32](want.(*tensor.Tensor)); !slices.Equal(got, want) {
			t.Errorf("output %d is %v, with repeated keys %v", i, got, want)
		}
	}
	optest.Fail(t, "com.microsoft.LinearAttention", 1, optest.Attrs{"q_num_heads": 2, "kv_num_heads": heads,
		"update_rule": "linear"}, "do not match", optest.Tensor(q, 1, tokens, 2*size),
		optest.Tensor(ramp(tokens*3*size, 0), 1, tokens, 3*size), optest.Tensor(v, 1, tokens, heads*3))
}
