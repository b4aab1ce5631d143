package msft

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

const msDomain = "com.microsoft."

func ramp(shape ...int) *tensor.Tensor {
	v := make([]float32, kit.Product(shape))
	for i := range v {
		v[i] = float32(i%7) / 4
	}
	t, err := optest.Tensor(v, len(v)).Reshape(shape...)
	return tensor.Must(t, err)
}

func TestTransformerErrors(t *testing.T) {
	mha := map[string]any{"num_heads": 2}
	q := ramp(1, 2, 4)
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, nil, "required attribute num_heads", q)
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, map[string]any{"num_heads": 0}, "num_heads is 0", q)
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, map[string]any{"num_heads": 3}, "3 heads", q, q, q)
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, mha, "not a supported combination", q)
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, mha, "inconsistent for 2 heads", q, ramp(1, 3, 6), ramp(1, 3, 4))
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, mha, "bias has shape [3]", q, q, q, ramp(3))
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, mha, "the mask has shape [3]", q, q, q, nil,
		optest.Tensor([]int32{1, 1, 1}))
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, mha, "attention_bias has shape", q, q, q,
		nil, nil, ramp(1, 2, 2, 1))
	optest.Fail(t, msDomain+"MultiHeadAttention", 1, mha, "past_key and past_value have shapes", q, q, q, nil, nil, nil,
		ramp(1, 2, 1, 3), ramp(1, 2, 1, 2))
	optest.Fail(t, msDomain+"Attention", 1, mha, "want [batch, length, hidden]", q, ramp(3, 12))
	optest.Fail(t, msDomain+"Attention", 1, mha, "three times a multiple", q, ramp(4, 9))
	optest.Fail(t, msDomain+"Attention", 1, map[string]any{"num_heads": 2, "qkv_hidden_sizes": []int{4, 4, 3}},
		"qkv_hidden_sizes", q, ramp(4, 11))
	optest.Fail(t, msDomain+"Attention", 1, map[string]any{"num_heads": 2, "do_rotary": 1},
		"not supported", q, ramp(4, 12))

	gqa := map[string]any{"num_heads": 2, "kv_num_heads": 1}
	k, total := ramp(1, 2, 2), optest.Tensor([]int32{2}, 1)
	last := func(n int32) *tensor.Tensor { return optest.Tensor([]int32{n}, 1) }
	optest.Fail(t, msDomain+"GroupQueryAttention", 1, gqa, "seqlens_k[0] is 2", q, k, k, nil, nil, last(2), total)
	optest.Fail(t, msDomain+"GroupQueryAttention", 1, gqa, "seqlens_k[0] is -1", q, k, k, nil, nil, last(-1), total)
	optest.Fail(t, msDomain+"GroupQueryAttention", 1, gqa, "seqlens_k[0] is 2147483647", q, k, k, nil, nil,
		last(math.MaxInt32), total)
	optest.Fail(t, msDomain+"GroupQueryAttention", 1, gqa, "inconsistent with 2 new tokens and a cache of 0", q, k, k,
		nil, nil, last(2), optest.Tensor([]int32{5}, 1))
	optest.Fail(t, msDomain+"GroupQueryAttention", 1, map[string]any{"num_heads": 3, "kv_num_heads": 2},
		"want a multiple of kv_num_heads", q, k, k, nil, nil, last(1), total)
	optest.Fail(t, msDomain+"GroupQueryAttention", 1, map[string]any{"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1},
		"cos_cache and sin_cache", q, k, k, nil, nil, last(1), total)
	optest.Fail(t, msDomain+"GroupQueryAttention", 1, map[string]any{"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1},
		"position 1 is out of range", q, k, k, nil, nil, last(1), total, ramp(1, 1), ramp(1, 1))

	nbits := map[string]any{"N": 2, "K": 16, "block_size": 16}
	w := optest.Tensor(make([]uint8, 16), 2, 1, 8)
	optest.Fail(t, msDomain+"MatMulNBits", 1, nbits, "last dimension of 16", ramp(1, 15), w, ramp(2))
	optest.Fail(t, msDomain+"MatMulNBits", 1, nbits, "B has shape [15]", ramp(1, 16),
		optest.Tensor(make([]uint8, 15)), ramp(2))
	optest.Fail(t, msDomain+"MatMulNBits", 1, nbits, "scales has shape [3]", ramp(1, 16), w, ramp(3))
	optest.Fail(t, msDomain+"MatMulNBits", 1, nbits, "zero_points has shape [3]", ramp(1, 16), w, ramp(2),
		optest.Tensor([]uint8{1, 2, 3}))
	optest.Fail(t, msDomain+"MatMulNBits", 1, nbits, "g_idx[0] is 1", ramp(1, 16), w, ramp(2), nil,
		optest.Tensor([]int32{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}))
	optest.Fail(t, msDomain+"MatMulNBits", 1, map[string]any{"N": 2, "K": 16, "block_size": 17}, "block_size is 17",
		ramp(1, 16), w, ramp(2))
	optest.Fail(t, msDomain+"MatMulNBits", 1, map[string]any{"N": 2, "K": 16, "block_size": 16, "bits": 3}, "bits is 3",
		ramp(1, 16), w, ramp(2))

	ids := optest.Tensor([]int32{0, 5}, 1, 2)
	optest.Fail(t, msDomain+"EmbedLayerNormalization", 1, nil, "input_ids holds 5", ids, nil, ramp(3, 4), ramp(2, 4),
		nil, ramp(4), ramp(4))
	optest.Fail(t, msDomain+"EmbedLayerNormalization", 1, nil, "embedding 1 has shape", ids, nil, ramp(3, 4),
		ramp(2, 3), nil, ramp(4), ramp(4))
	optest.Fail(t, msDomain+"SkipLayerNormalization", 1, nil, "skip has shape [4]", ramp(1, 2, 4), ramp(4), ramp(4))
	optest.Fail(t, msDomain+"SkipLayerNormalization", 1, nil, "gamma has shape [3]", ramp(1, 2, 4),
		ramp(1, 2, 4), ramp(3))
	optest.Fail(t, msDomain+"FusedGemm", 1, map[string]any{"activation": "Cube"}, `activation "Cube"`,
		ramp(2, 2), ramp(2, 2))
	optest.Fail(t, msDomain+"BiasGelu", 1, nil, "bias has shape [3]", ramp(2, 2), ramp(3))
	optest.Fail(t, msDomain+"RotaryEmbedding", 1, nil, "position_ids is -1", ramp(1, 2, 4),
		optest.Tensor([]int64{-1}, 1), ramp(2, 2), ramp(2, 2))
}

// TestMatMulNBitsGroups checks g_idx that assigns weights to other groups than their
// blocks.
func TestMatMulNBitsGroups(t *testing.T) {
	group := make([]int32, 32)
	for i := range group {
		group[i] = int32(1 - i/16)
	}
	w := make([]uint8, 16)
	for i := range w {
		w[i] = 0x99 // 9 − 8 = 1
	}
	one := make([]float32, 32)
	one[0], one[31] = 1, 1
	optest.Want(t, msDomain+"MatMulNBits", 1, map[string]any{"N": 1, "K": 32, "block_size": 16},
		optest.Tensor([]float32{102}, 1, 1),
		optest.Tensor(one, 1, 32), optest.Tensor(w, 1, 2, 8), optest.Tensor([]float32{2, 100}),
		nil, optest.Tensor(group))
}

// TestMaskFilterValueIsAdded checks that the filter value is added to the scores: if it
// is added to all keys of a query, their proportions do not change.
func TestMaskFilterValueIsAdded(t *testing.T) {
	q, v := optest.Tensor([]float32{0, 0}, 1, 1, 2), optest.Tensor([]float32{1, 2, 3, 4}, 1, 2, 2)
	optest.Want(t, msDomain+"MultiHeadAttention", 1, map[string]any{"num_heads": 1},
		optest.Tensor([]float32{2, 3}, 1, 1, 2), q, v, v, nil, optest.Tensor([]int32{0, 0}, 1, 2))
}

// TestMatMulNBitsPrepared checks that weights packed when the model is loaded give the
// results of the plain loops.
func TestMatMulNBitsPrepared(t *testing.T) {
	const n, k, block = 70, 100, 32
	blocks := (k + block - 1) / block
	for _, bits := range []int{4, 8} {
		w := make([]uint8, n*blocks*block*bits/8)
		for i := range w {
			w[i] = uint8(i * 151 >> 2)
		}
		scales := make([]float32, n*blocks)
		for i := range scales {
			scales[i] = float32(i%13+1) / 512
		}
		zeros := make([]uint8, n*((blocks*bits+7)/8))
		for i := range zeros {
			zeros[i] = uint8(i * 77)
		}
		for _, zero := range []tensor.Value{nil, optest.Tensor(zeros, len(zeros)), optest.Tensor(scales, n, blocks)} {
			for _, rows := range []int{0, 1, 3, 7} {
				for _, level := range []int{0, 4} {
					x := make([]float32, rows*k)
					for i := range x {
						x[i] = float32(i*7%31-15) / 16
					}
					attrs := map[string]any{"N": n, "K": k, "block_size": block, "bits": bits, "accuracy_level": level}
					bias := optest.Tensor(scales[:n], n)
					in := []tensor.Value{optest.Tensor(x, rows, k), optest.Tensor(w, n, blocks, block*bits/8),
						optest.Tensor(scales, n*blocks), zero, nil, bias}
					if zero == nil && rows == 3 {
						in = in[:3]
					}
					want, err := optest.Run(t, msDomain+"MatMulNBits", 1, attrs, in...)
					if err != nil {
						t.Fatal(err)
					}
					got := tensor.MustData[float32](optest.PreparedAt(t, msDomain+"MatMulNBits", 1, attrs,
						[]int{1, 2, 3}[:min(len(in), 4)-1], in...))
					for i, v := range tensor.MustData[float32](want[0].(*tensor.Tensor)) {
						// The limit is the sum of |a|·|b| times the quantization error of A, which
						// is 2⁻⁸ of its largest element.
						limit := 1e-4
						if level == 4 {
							limit = float64(k) * float64(scales[12]) * float64(int(1)<<bits) / 256
						}
						if d := math.Abs(float64(v - got[i])); !(d <= limit) {
							t.Fatalf("%d bits, %d rows, level %d, zero points %v: element %d is %v, want %v within %v",
								bits, rows, level, zero != nil, i, got[i], v, limit)
						}
					}
				}
			}
		}
	}
}

// TestFirstPromptTakesTheFirstPosition checks the rotation of a first prompt: only the
// first element of position_ids is used, for every batch item.
func TestFirstPromptTakesTheFirstPosition(t *testing.T) {
	const batch, n, heads, dim = 2, 3, 1, 16
	data := func(size int, by float32) []float32 {
		d := make([]float32, size)
		for i := range d {
			d[i] = float32(i%11)*by - 0.4
		}
		return d
	}
	x := optest.Tensor(data(batch*n*heads*dim, 0.1), batch, n, heads*dim)
	cache := optest.Tensor(data(8*dim/2, 0.09), 8, dim/2)
	run := func(pos []int64) tensor.Value {
		out, err := optest.RunN(t, 3, msDomain+"GroupQueryAttention", 1,
			map[string]any{"num_heads": heads, "kv_num_heads": heads, "do_rotary": 1}, x, x, x, nil, nil,
			optest.Tensor([]int32{n - 1, n - 1}), optest.Tensor([]int32{n}, 1), cache, cache,
			optest.Tensor(pos, batch, n))
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	if got, want := run([]int64{3, 4, 3, 6, 0, 1}), run([]int64{3, 4, 5, 3, 4, 5}); !optest.Same(got, want, 1e-6) {
		t.Errorf("got %s, want %s", optest.Show(got), optest.Show(want))
	}
}
