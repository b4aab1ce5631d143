package msft

import (
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestStateWindows checks that a window of states holds the states after each of the last
// tokens, which are compared with those of shorter sequences.
func TestStateWindows(t *testing.T) {
	run := func(op string, opset int, a optest.Attrs, k int, in ...tensor.Value) *tensor.Tensor {
		out, err := optest.Run(t, op, opset, a, in...)
		if err != nil {
			t.Fatal(err)
		}
		return out[k].(*tensor.Tensor)
	}
	ramp := func(from float32, shape ...int) *tensor.Tensor {
		v := make([]float32, kit.Product(shape))
		for i := range v {
			v[i] = from + float32(i%7)/8 - float32(i%3)/4
		}
		return optest.Tensor(v, shape...)
	}
	first := func(x *tensor.Tensor, n, axis int) *tensor.Tensor {
		return run("Slice", 13, nil, 0, x, optest.Tensor([]int64{0}, 1), optest.Tensor([]int64{int64(n)}, 1),
			optest.Tensor([]int64{int64(axis)}, 1))
	}
	const tokens, window = 4, 3
	past := ramp(0.5, 1, 2, 3, 5)
	q, k, v := ramp(1, 1, tokens, 6), ramp(2, 1, tokens, 6), ramp(3, 1, tokens, 10)
	decay, beta := ramp(-2, 1, tokens, 2), ramp(0.25, 1, tokens, 2)
	a := optest.Attrs{"q_num_heads": 2, "kv_num_heads": 2}
	linear := func(n int, a optest.Attrs, past *tensor.Tensor) *tensor.Tensor {
		return run("com.microsoft.LinearAttention", 1, a, 1, first(q, n, 1), first(k, n, 1), first(v, n, 1), past,
			first(decay, n, 1), first(beta, n, 1))
	}
	x, w, kept := ramp(1, 2, 3, tokens), ramp(2, 3, 1, 3), ramp(3, 2, 3, 2)
	conv := func(n int, a optest.Attrs, past *tensor.Tensor) *tensor.Tensor {
		return run("com.microsoft.CausalConvWithState", 1, a, 1, first(x, n, 2), w, nil, past)
	}
	for _, c := range []struct {
		name string
		run  func(n int, a optest.Attrs, past *tensor.Tensor) *tensor.Tensor
		a    optest.Attrs
		past *tensor.Tensor
	}{{"LinearAttention", linear, a, past}, {"CausalConvWithState", conv, optest.Attrs{}, kept}} {
		wide := optest.Attrs{"state_window": window}
		for k, v := range c.a {
			wide[k] = v
		}
		size := c.past.Len()
		states := make([]float32, window*size)
		copy(states[(window-1)*size:], tensor.MustData[float32](c.past))
		all := c.run(tokens, wide, optest.Tensor(states, append([]int{window}, c.past.Shape()...)...))
		for slot := range window {
			want := tensor.MustData[float32](c.run(tokens-window+slot+1, c.a, c.past))
			got := tensor.MustData[float32](all)[slot*size:][:size]
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: element %d of slot %d is %v, want %v", c.name, i, slot, got[i], want[i])
				}
			}
		}
		one := c.run(1, wide, all) // the states of the past shift by one slot
		if got := tensor.MustData[float32](one)[:size]; got[0] != tensor.MustData[float32](all)[size] {
			t.Errorf("%s: slot 0 is %v, want the former slot 1, %v", c.name, got[0],
				tensor.MustData[float32](all)[size])
		}
	}
}

// TestSparseAttentionLengths checks that a shorter item of a batch gives the result that
// it gives alone.
func TestSparseAttentionLengths(t *testing.T) {
	const heads, size, cap = 2, 16, 32
	ramp := func(seed, n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32((i*7+seed*5)%11)/8 - 0.5
		}
		return v
	}
	rows, cols := optest.Tensor([]int32{0, 1, 2}, 1, 3), optest.Tensor([]int32{0, 1}, 1, 2)
	run := func(lens []int32, q, k, v, pk, pv []float32) []float32 {
		b := len(lens)
		out, err := optest.Run(t, "com.microsoft.SparseAttention", 1,
			optest.Attrs{"num_heads": heads, "kv_num_heads": heads, "sparse_block_size": 16},
			optest.Tensor(q, b, 1, heads*size), optest.Tensor(k, b, 1, heads*size), optest.Tensor(v, b, 1, heads*size),
			optest.Tensor(pk, b, heads, cap, size), optest.Tensor(pv, b, heads, cap, size),
			rows, cols, optest.Tensor([]int32{20}, 1), optest.Tensor(lens, b))
		if err != nil {
			t.Fatal(err)
		}
		return tensor.MustData[float32](out[0].(*tensor.Tensor))
	}
	row, buffer := heads*size, heads*cap*size
	q, k, v, pk, pv := ramp(1, 2*row), ramp(2, 2*row), ramp(3, 2*row), ramp(4, 2*buffer), ramp(5, 2*buffer)
	both := run([]int32{20, 18}, q, k, v, pk, pv)
	for b, n := range []int32{20, 18} {
		alone := run([]int32{n}, q[b*row:][:row], k[b*row:][:row], v[b*row:][:row], pk[b*buffer:][:buffer],
			pv[b*buffer:][:buffer])
		for i, want := range alone {
			if got := both[b*row+i]; got-want > 1e-6 || want-got > 1e-6 {
				t.Fatalf("item %d: element %d is %v, want %v", b, i, got, want)
			}
		}
	}
}
