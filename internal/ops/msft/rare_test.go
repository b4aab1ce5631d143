package msft

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestRareOperatorErrors(t *testing.T) {
	img := optest.Tensor(make([]float32, 40), 1, 2, 4, 5)
	optest.Fail(t, "Crop", 1, map[string]any{"border": []int{3, 0, 3, 0}}, "too small for border [3 0 3 0]", img)
	optest.Fail(t, "Crop", 1, map[string]any{"border": []int{1, 0, 0, 0}, "scale": []int{4, 5}}, "too small for border", img)
	optest.Fail(t, "Crop", 1, map[string]any{"border": []int{-1, 0, 0, 0}}, "want numbers from 0", img)
	optest.Fail(t, "ImageScaler", 1, map[string]any{"bias": []float32{1}}, "bias has 1 elements, want 2", img)

	ids, mult, size := optest.Tensor([]int64{1, 2, 3}, 3), optest.Tensor([]int64{1, 2}, 2), optest.Tensor([]int64{5}, 1)
	attrs := map[string]any{"max_ngram_size": 2, "n_head_per_ngram": 1, "pad_id": 0}
	for _, ends := range [][]int32{{0, 2}, {0, 2, 2, 3}, {1, 3}, {0, 9}, {0, -1, 3}} {
		if _, err := optest.RunN(t, 1, "com.microsoft.VarlenNGramHashMapping", 1, attrs, ids, mult, size, optest.Tensor(ends, len(ends))); err == nil {
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
