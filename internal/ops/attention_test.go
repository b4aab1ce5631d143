package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// attentionCase has one head of size 1 with equal scores, so that the output is the mean of the
// values that a query attends to.
func attentionCase(n int) (q, k, v *tensor.Tensor) {
	z, w := make([]float32, n), make([]float32, n)
	for i := range w {
		w[i] = float32(i + 1)
	}
	return optest.Tensor(z, 1, 1, n, 1), optest.Tensor(z, 1, 1, n, 1), optest.Tensor(w, 1, 1, n, 1)
}

func TestAttentionMasks(t *testing.T) {
	q, k, v := attentionCase(4)
	mean := func(x ...float32) tensor.Value { return optest.Tensor(x, 1, 1, 4, 1) }
	optest.Want(t, "Attention", 25, nil, mean(2.5, 2.5, 2.5, 2.5), q, k, v)
	optest.Want(t, "Attention", 25, map[string]any{"is_causal": 1}, mean(1, 1.5, 2, 2.5), q, k, v)
	optest.Want(t, "Attention", 25, map[string]any{"left_window_size": 1, "right_window_size": 0},
		mean(1, 1.5, 2.5, 3.5), q, k, v)
	optest.Want(t, "Attention", 25, map[string]any{"left_window_size": 0, "right_window_size": 1},
		mean(1.5, 2.5, 3.5, 4), q, k, v)
	optest.Want(t, "Attention", 25, map[string]any{"left_window_size": 1, "right_window_size": 5, "is_causal": 1},
		mean(1, 1.5, 2.5, 3.5), q, k, v)
	// Padding, and its offset for causal masks: with 2 keys for 4 queries, the first two
	// queries attend to no key.
	pad := optest.Tensor([]int64{2}, 1)
	optest.Want(t, "Attention", 24, nil, mean(1.5, 1.5, 1.5, 1.5), q, k, v, nil, nil, nil, pad)
	optest.Want(t, "Attention", 24, map[string]any{"is_causal": 1}, mean(0, 0, 1, 1.5), q, k, v, nil, nil, nil, pad)
	// Scores that are all −Inf give zeros, those with NaN give NaN.
	ninf, nan := float32(math.Inf(-1)), float32(math.NaN())
	optest.Want(t, "Attention", 23, nil, optest.Tensor([]float32{0, nan, 0}, 1, 1, 3, 1),
		optest.Tensor([]float32{1, 0, 2}, 1, 1, 3, 1),
		optest.Tensor([]float32{ninf, ninf, ninf, ninf}, 1, 1, 4, 1), optest.Tensor([]float32{1, 2, 3, 4}, 1, 1, 4, 1))
	// A short mask is extended by −Inf. A mask that excludes all keys gives zeros.
	optest.Want(t, "Attention", 24, nil, mean(2, 2, 2, 2), q, k, v, optest.Tensor([]float32{0, 0, 0}, 3))
	optest.Want(t, "Attention", 24, nil, mean(1, 1, 1, 1), q, k, v, optest.Tensor([]bool{true}, 1))
	optest.Want(t, "Attention", 23, nil, mean(2.5, 2.5, 2.5, 2.5), q, k, v, optest.Tensor([]bool{true}, 1))
	optest.Want(t, "Attention", 23, nil, mean(0, 0, 0, 0), q, k, v, optest.Tensor([]bool{false}, 1))
	optest.Want(t, "Attention", 23, nil, mean(2.5, 2.5, 2.5, 2.5), q, k, v, optest.Tensor([]int8{3}, 1, 1, 1, 1))
	optest.Want(t, "Attention", 23, nil, optest.Tensor([]float32{}, 1, 1, 0, 1),
		optest.Tensor([]float32{}, 1, 1, 0, 1), k, v)
	e := optest.Tensor([]float32{}, 1, 1, 0, 1)
	optest.Want(t, "Attention", 23, nil, mean(0, 0, 0, 0), q, e, e)
	optest.Want(t, "Attention", 23, map[string]any{"softmax_precision": 11, "scale": 0.0},
		mean(2.5, 2.5, 2.5, 2.5), q, k, v)
}

func TestAttentionErrors(t *testing.T) {
	q, k, v := attentionCase(2)
	optest.Fail(t, "Attention", 23, map[string]any{"left_window_size": 1},
		"unknown attribute left_window_size", q, k, v)
	optest.Fail(t, "Attention", 25, map[string]any{"left_window_size": -2}, "window sizes are -2", q, k, v)
	optest.Fail(t, "Attention", 23, map[string]any{"qk_matmul_output_mode": 4}, "is 4, want 0 to 3", q, k, v)
	optest.Fail(t, "Attention", 23, map[string]any{"q_num_heads": 3}, "want 3 heads", q, k, v)
	optest.Fail(t, "Attention", 24, nil, "nonpad_kv_seqlen[0] is 3", q, k, v, nil, nil, nil,
		optest.Tensor([]int64{3}, 1))
	optest.Fail(t, "Attention", 24, nil, "must be given together", q, k, v, nil, q)
	optest.Fail(t, "Attention", 24, nil, "past_key and past_value have shapes", q, k, v, nil, q,
		optest.Tensor([]float32{1}, 1, 1, 1, 1))
	optest.Fail(t, "Attention", 24, nil, "broadcasts", q, k, v, optest.Tensor([]float32{1, 2, 3}, 3))
	optest.Fail(t, "Attention", 24, nil, "and 0 heads", optest.Tensor([]float32{1, 2}, 1, 1, 2),
		optest.Tensor([]float32{1, 2}, 1, 1, 2), optest.Tensor([]float32{1, 2}, 1, 1, 2))
	optest.Fail(t, "Attention", 24, nil, "multiple of the 2", q, optest.Tensor([]float32{1, 2}, 1, 2, 1, 1),
		optest.Tensor([]float32{1, 2}, 1, 2, 1, 1))
	optest.Fail(t, "RotaryEmbedding", 23, nil, "position_ids[0] is 7", optest.Tensor([]float32{1, 2}, 1, 1, 1, 2),
		optest.Tensor([]float32{1}, 1, 1), optest.Tensor([]float32{1}, 1, 1), optest.Tensor([]int64{7}, 1, 1))
	optest.Fail(t, "RotaryEmbedding", 23, map[string]any{"rotary_embedding_dim": 4}, "rotary dimension is 4",
		optest.Tensor([]float32{1, 2}, 1, 1, 1, 2), optest.Tensor([]float32{1, 1}, 1, 2),
		optest.Tensor([]float32{1, 1}, 1, 2), optest.Tensor([]int64{0}, 1, 1))
	optest.Fail(t, "LinearAttention", 27, map[string]any{"q_num_heads": 3, "kv_num_heads": 2},
		"want a multiple", q, k, v)
	optest.Fail(t, "CausalConvWithState", 27, nil, "k at least 1", optest.Tensor([]float32{1}, 1, 1, 1),
		optest.Tensor([]float32{}, 1, 1, 0))
}

func TestFlexAttentionCallsItsSubgraphs(t *testing.T) {
	q, k, v := attentionCase(2)
	double := func() *ir.Graph {
		g := &ir.Graph{}
		x := g.NewValue("x", ir.Type{})
		y := g.NewValue("y", ir.Type{})
		d, err := kit.Lookup("", "Add", 14)
		if err != nil {
			t.Fatal(err)
		}
		g.Nodes = []*ir.Node{{OpType: "Add", Op: d.Build(kit.NewAttrs("Add", nil, 2, 1), 14), In: []ir.ValueID{x, x},
			Out: []ir.ValueID{y}}}
		g.Inputs, g.Outputs = []ir.ValueID{x}, []ir.ValueID{y}
		return g
	}
	optest.Want(t, "ai.onnx.preview.FlexAttention", 1, map[string]any{"prob_mod": double()},
		optest.Tensor([]float32{3, 3}, 1, 1, 2, 1), q, k, v)
	one := optest.Tensor([]float32{1, 2}, 1, 1, 2, 1)
	// score_mod doubles the scores 1 and 2 of the first query.
	optest.Want(t, "ai.onnx.preview.FlexAttention", 1, map[string]any{"score_mod": double(), "scale": 1.0},
		optest.Tensor([]float32{1.880797, 1.982014}, 1, 1, 2, 1), one, one, v)
	optest.Want(t, "ai.onnx.preview.FlexAttention", 1,
		map[string]any{"score_mod": double(), "scale": 1.0, "softmax_precision": 10},
		optest.Tensor([]float32{1.880797, 1.982014}, 1, 1, 2, 1), one, one, v)
}

// TestAttentionOfVisibleKeys compares the engines where a query sees a range of the keys.
func TestAttentionOfVisibleKeys(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := optest.Drawn(t, rt)
		queries := rapid.IntRange(1, 130).Draw(rt, "queries")
		keys := rapid.SampledFrom([]int{queries, 40, 512, 513, 600}).Draw(rt, "keys")
		dim := rapid.SampledFrom([]int{4, 33}).Draw(rt, "dim")
		attrs := map[string]any{"is_causal": rapid.IntRange(0, 1).Draw(rt, "causal")}
		for _, side := range []string{"left_window_size", "right_window_size"} {
			attrs[side] = rapid.SampledFrom([]int{-1, 0, 3, 50, 300}).Draw(rt, side)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		draw := func(rows int) *tensor.Tensor {
			x := make([]float32, 2*rows*dim)
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
			return optest.Tensor(x, 1, 2, rows, dim)
		}
		if _, err := optest.RunN(t, 1, "Attention", 25, attrs, draw(queries), draw(keys), draw(keys)); err != nil {
			rt.Fatalf("%d queries, %d keys, %v: %v", queries, keys, attrs, err)
		}
	})
}
