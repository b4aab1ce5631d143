package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// NGramHashMapping hashes the n-grams that end at each token, for n from 2 to Most. A
// hash is the exclusive or of tokens times multipliers, modulo the size of each of Heads
// vocabularies. past_ids holds the tokens before the first one
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NGramHashMapping).
type NGramHashMapping struct {
	Most, Heads, Pad int
	Reset            bool // ignore tokens up to the last eos_token_id
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "NGramHashMapping", Since: kit.Versions{1},
	Class: kit.ClassOther,
	In: "input_ids:M, multipliers:M, vocab_sizes:M, past_ids:M?, head_offsets:M?, eos_token_id:M?, " +
		"segment_ids:int32?",
	Out: "hash_ids:M, present_ids:M?", Types: "M: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return readNGramHashes(a) }})

func readNGramHashes(a *kit.Attrs) *NGramHashMapping {
	a.Require("max_ngram_size", "n_head_per_ngram", "pad_id")
	op := &NGramHashMapping{a.Int("max_ngram_size", 2), a.Int("n_head_per_ngram", 1), a.Int("pad_id", 0),
		a.Int("reset_on_eos", 0) != 0}
	if op.Most < 2 || op.Heads < 1 || op.Most > 1<<16 || op.Heads > 1<<16 {
		a.Errorf("max_ngram_size is %d, want 2 to %d, and n_head_per_ngram %d, want 1 to %[2]d",
			op.Most, 1<<16, op.Heads)
	}
	return op
}

// Infer sets the shapes.
func (op *NGramHashMapping) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 2, "input_ids"); err != nil {
		return err
	}
	batch, n := ir.Unknown, ir.Unknown
	if s := c.Shape(0); s != nil {
		batch, n = s[0], s[1]
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), batch, n, ir.Known((op.Most-1)*op.Heads)))
	c.SetOut(1, ir.TensorType(c.Elem(0), batch, ir.Known(op.Most-1)))
	return nil
}

// Run computes in the type of the tokens, so that products wrap around.
func (op *NGramHashMapping) Run(c *ir.Call) error {
	t := c.Tensor(0)
	if t.Rank() != 2 {
		return fail.Errorf("input_ids has shape %v, want [batch length]", t.Shape())
	}
	batch, n, past, outs := t.Dim(0), t.Dim(1), op.Most-1, (op.Most-1)*op.Heads
	w := wideInts{c: c}
	tokens, mult, sizes, before, offsets, eos := w.in(0), w.in(1), w.in(2), w.in(3), w.in(4), w.in(5)
	if w.err != nil {
		return w.err
	}
	if len(mult) < op.Most || len(sizes) != outs || len(sizes) > 0 && slices.Min(sizes) < 1 {
		return fail.Errorf("multipliers and vocab_sizes have shapes %v and %v, want at least %d multipliers and %d "+
			"positive sizes", c.Tensor(1).Shape(), c.Tensor(2).Shape(), op.Most, outs)
	}
	for i, want := range [][]int{3: {batch, past}, 4: {outs}, 6: {batch, n}} {
		if v := c.Tensor(i); want != nil && v != nil && !slices.Equal(v.Shape(), want) {
			return fail.Errorf("input %d has shape %v, want %v", i, v.Shape(), want)
		}
	}
	blank, end, ends := int64(op.Pad), int64(0), false
	if e := c.Tensor(5); e != nil {
		if e.Len() != 1 {
			return fail.Errorf("eos_token_id has shape %v, want one element", e.Shape())
		}
		end, ends = eos[0], op.Reset
		blank = end
	}
	dst, present := w.out(0, batch, n, outs), w.out(1, batch, past)
	line := w.scratch(past + n) // the past and the new tokens
	if w.err != nil {
		return w.err
	}
	hashes := gramHashes{op.Most, op.Heads, w.narrow(), blank, mult, sizes, offsets}
	if n == 0 && present == nil {
		batch = 0 // of any size, without results
	}
	for b := range batch {
		if c.Err() != nil {
			return c.Err()
		}
		kit.RepeatOf(line[:past], blank)
		if before != nil {
			copy(line, before[b*past:][:past])
		}
		copy(line[past:], tokens[b*n:][:n])
		since := 0 // index of the first token that is not ignored
		for i := range n {
			if i%ir.GrainWatch == 0 && c.Err() != nil {
				return c.Err()
			}
			if i > 0 && c.Has(6) {
				if ids := tensor.MustData[int32](c.Tensor(6))[b*n:]; ids[i] != ids[i-1] {
					since = past + i
				}
			}
			if ends {
				for j := past + i - 1; j >= max(since, i); j-- {
					if line[j] == end {
						since = j + 1
						break
					}
				}
			}
			hashes.hash(dst[(b*n+i)*outs:][:outs], line, past+i, since)
		}
		if present != nil {
			copy(present[b*past:][:past], line[n:])
		}
	}
	w.store()
	return nil
}

// gramHashes hashes the n-grams that end at one token.
type gramHashes struct {
	most, heads          int
	narrow               bool  // in 32 bits
	blank                int64 // replaces ignored tokens
	mult, sizes, offsets []int64
}

// hash writes the hashes of the n-grams that end at index at of line. Tokens before index
// since are ignored.
func (g *gramHashes) hash(dst, line []int64, at, since int) {
	mix := line[at] * g.mult[0]
	for k := 1; k < g.most; k++ {
		v := g.blank
		if at-k >= since {
			v = line[at-k]
		}
		mix ^= v * g.mult[k]
		for h := range g.heads {
			o := (k-1)*g.heads + h
			m := mix
			if g.narrow {
				m = int64(int32(mix))
			}
			r := m % g.sizes[o]
			if r < 0 {
				r += g.sizes[o]
			}
			if g.offsets != nil {
				r += g.offsets[o]
			}
			dst[o] = r
		}
	}
}

// wideInts reads and writes tensors of int32 and int64 as int64.
type wideInts struct {
	c    *ir.Call
	err  error
	outs []wideOut
}

type wideOut struct {
	to   *tensor.Tensor // of int32
	from []int64
}

func (w *wideInts) narrow() bool { return w.c.Tensor(0).DType() == tensor.TypeInt32 }

func (w *wideInts) scratch(n int) (v []int64) {
	if w.err == nil {
		v, w.err = ir.ScratchOf[int64](w.c, n)
	}
	return v
}

// in returns the elements of an input, nil if it is missing.
func (w *wideInts) in(i int) []int64 {
	t := w.c.Tensor(i)
	if t == nil || w.err != nil {
		return nil
	}
	if !w.narrow() {
		return tensor.MustData[int64](t)
	}
	v := w.scratch(t.Len())
	if w.err == nil {
		for k, x := range tensor.MustData[int32](t) {
			v[k] = int64(x)
		}
	}
	return v
}

// out returns memory for an output, nil if it is an unused one after the first. store completes it.
func (w *wideInts) out(i int, shape ...int) []int64 {
	if w.err != nil || i > 0 && !w.c.Wants(i) {
		return nil
	}
	t, err := w.c.Output(i, w.c.Tensor(0).DType(), shape...)
	if err != nil {
		w.err = err
		return nil
	}
	if !w.narrow() {
		return tensor.MustData[int64](t)
	}
	v := w.scratch(t.Len())
	w.outs = append(w.outs, wideOut{t, v})
	return v
}

func (w *wideInts) store() {
	for _, o := range w.outs {
		dst := tensor.MustData[int32](o.to)
		for i, x := range o.from {
			dst[i] = int32(x)
		}
	}
}
