package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// WordConvEmbedding computes a vector for each word, a row of character ids padded with
// 0. It looks the characters up in C, convolves the rows with W and B, and takes the tanh
// of the maximum of each filter. The vector of an empty word is 0
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.WordConvEmbedding).
type WordConvEmbedding struct {
	Embedding, Window, CharEmbedding int // −1: taken from the shapes of the inputs
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "WordConvEmbedding", Since: kit.Versions{1},
	In: "Sequence:T, W:T1, B:T1, C:T1", Out: "Y:T1",
	Types: "T: int32; T1: float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &WordConvEmbedding{a.Int("embedding_size", -1), a.Int("conv_window_size", -1),
			a.Int("char_embedding_size", -1)}
	}})

// Infer implements [ir.Operator].
func (o *WordConvEmbedding) Infer(c *ir.InferContext) error {
	out := ir.UnknownDims(2)
	kit.SetShape(c, 0, tensor.TypeFloat32, out)
	for i, want := range []int{2, 4, 1, 2} {
		if err := kit.CheckRank(c, i, want, []string{"Sequence", "W", "B", "C"}[i]); err != nil {
			return err
		}
	}
	if s := c.Shape(0); s != nil {
		out[0] = s[0]
	}
	if w := c.Shape(1); w != nil {
		out[1] = w[0]
	}
	kit.SetShape(c, 0, tensor.TypeFloat32, out)
	return nil
}

// Run implements [ir.Operator].
func (o *WordConvEmbedding) Run(c *ir.Call) error {
	seq, w, b, table := c.Tensor(0), c.Tensor(1), c.Tensor(2), c.Tensor(3)
	if seq.Rank() != 2 || w.Rank() != 4 || table.Rank() != 2 || w.Dim(1) != 1 || w.Dim(3) != table.Dim(1) ||
		b.Len() != w.Dim(0) {
		return fail.Errorf("Sequence, W, B and C have shapes %v, %v, %v and %v, want [words length], [filters 1 "+
			"window size], [filters] and [characters size]",
			seq.Shape(), w.Shape(), b.Shape(), table.Shape())
	}
	words, length := seq.Dim(0), seq.Dim(1)
	filters, window, size := w.Dim(0), w.Dim(2), w.Dim(3)
	for _, p := range []struct {
		name      string
		want, got int
	}{{"embedding_size", o.Embedding, filters}, {"conv_window_size", o.Window, window},
		{"char_embedding_size", o.CharEmbedding, size}} {
		if p.want != -1 && p.want != p.got {
			return fail.Errorf("attribute %s is %d, but the inputs have %d", p.name, p.want, p.got)
		}
	}
	if window < 1 || window > length {
		return fail.Errorf("the window has %d characters, want 1 to the word length, %d", window, length)
	}
	ids := tensor.MustData[int32](seq)
	for i, v := range ids {
		if v < 0 || int(v) >= table.Dim(0) {
			return fail.Errorf("character %d is %d, want 0 to %d", i, v, table.Dim(0)-1)
		}
	}
	y, err := c.Output(0, tensor.TypeFloat32, words, filters)
	if err != nil || y.Len() == 0 {
		return err
	}
	chars := tensor.MustData[float32](table)
	depth := window * size
	rows, err := ir.ScratchOf[float32](c, (length-window+1)*depth)
	if err != nil {
		return err
	}
	sums, err := ir.ScratchOf[float32](c, (length-window+1)*filters)
	if err != nil {
		return err
	}
	bias := tensor.MustData[float32](b)
	for i := range words {
		word, out := ids[i*length:][:length], tensor.MustData[float32](y)[i*filters:][:filters]
		n := 0
		for _, v := range word {
			if v > 0 && word[0] > 0 {
				n++
			}
		}
		if n == 0 {
			clear(out)
			continue
		}
		windows := max(n, window) - window + 1
		for p := range windows {
			for k := range window {
				copy(rows[p*depth+k*size:][:size], chars[int(word[p+k])*size:])
			}
		}
		g := gemm.Args[float32]{M: windows, N: filters, K: depth, A: rows, LdA: depth, B: tensor.MustData[float32](w),
			LdB: depth, TransB: true, C: sums, LdC: filters}
		if err := matmul.One(c, &g); err != nil {
			return err
		}
		for j := range out {
			best := float32(math.Inf(-1))
			for p := range windows {
				best = max(best, sums[p*filters+j])
			}
			out[j] = float32(math.Tanh(float64(best + bias[j])))
		}
	}
	return nil
}
