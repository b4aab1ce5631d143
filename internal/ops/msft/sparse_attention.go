package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/tensor"
)

// SparseAttention is causal attention with a key-value cache in which a block of queries
// attends only to some blocks of keys. Layouts, in compressed sparse row format, list the
// blocks; head h uses layout h modulo the number of layouts
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttention).
type SparseAttention struct {
	Heads, KVHeads      int
	Scale               float32
	Block               int
	Rotary, Interleaved bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "SparseAttention", Since: kit.Versions{1},
	In: "query:T, key:T?, value:T?, past_key:T, past_value:T, block_row_indices:M, block_col_indices:M, " +
		"total_sequence_length:M, " +
		"key_total_sequence_lengths:M, cos_cache:T?, sin_cache:T?",
	Out: "output:T, present_key:T, present_value:T", Types: "T: float float16 bfloat16; M: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("sparse_block_size")
		op := &SparseAttention{Heads: attention.ReadHeads(a, "num_heads"),
			KVHeads: attention.ReadHeads(a, "kv_num_heads"), Scale: a.Float("scale", 0),
			Block:  a.Int("sparse_block_size", 16),
			Rotary: a.Bool("do_rotary", false), Interleaved: a.Bool("rotary_interleaved", false)}
		if op.Heads%op.KVHeads != 0 {
			a.Errorf("num_heads is %d, want a multiple of kv_num_heads, which is %d", op.Heads, op.KVHeads)
		}
		if op.Block < 1 || op.Block > 1<<20 {
			a.Errorf("sparse_block_size is %d, want 1 to %d", op.Block, 1<<20)
		}
		return op
	}})

// Infer sets the output shape as far as the shape of the query determines it; the caches
// keep their types.
func (op *SparseAttention) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 3, "query"); err != nil {
		return err
	}
	y := ir.UnknownDims(3)
	if q := c.Shape(0); q != nil {
		copy(y, q)
		if !c.Has(1) {
			y[2] = q[2].Div(ir.Known(op.Heads + 2*op.KVHeads)).Mul(ir.Known(op.Heads))
		}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	c.SetOut(1, c.Type(3))
	c.SetOut(2, c.Type(4))
	return nil
}

// blocks returns, for every layout, row and column, whether the queries of the row's
// block attend to the keys of the column's block.
func (op *SparseAttention) blocks(c *ir.Call) (layouts, rows int, seen []bool, err error) {
	rt, ct := c.Tensor(5), c.Tensor(6)
	if rt.Rank() != 2 || ct.Rank() != 2 || rt.Dim(0) != ct.Dim(0) || rt.Dim(0) < 1 || rt.Dim(1) < 2 ||
		op.Heads%rt.Dim(0) != 0 {
		return 0, 0, nil,
			fail.Errorf("block_row_indices and block_col_indices have shapes %v and %v, want [layouts blocks+1] and "+
				"[layouts entries], with a number of layouts that divides %d heads",
				rt.Shape(), ct.Shape(), op.Heads)
	}
	layouts, rows = rt.Dim(0), rt.Dim(1)-1
	most := ct.Dim(1)
	if rows > 1<<16 {
		return 0, 0, nil, fail.Errorf("block_row_indices has %d blocks, want at most 65536", rows)
	}
	if seen, err = ir.ScratchOf[bool](c, layouts*rows*rows); err != nil {
		return 0, 0, nil, err
	}
	ir.Clear(c, seen)
	for l := range layouts {
		from, cols := tensor.MustData[int32](rt)[l*(rows+1):][:rows+1], tensor.MustData[int32](ct)[l*most:][:most]
		for r := range rows {
			lo, hi := int(from[r]), int(from[r+1])
			if lo < 0 || hi < lo || hi > most {
				return 0, 0, nil,
					fail.Errorf("row %d of layout %d has entries %d to %d, want an increasing range within %d entries",
						r, l, lo, hi, most)
			}
			for _, k := range cols[lo:hi] {
				if k < 0 || int(k) >= rows {
					return 0, 0, nil, fail.Errorf("row %d of layout %d has block %d, want 0 to %d", r, l, k, rows-1)
				}
				seen[(l*rows+r)*rows+int(k)] = true
			}
		}
	}
	return layouts, rows, seen, nil
}

// Run appends the new keys and values to the cache and computes attention in float32.
func (op *SparseAttention) Run(c *ir.Call) error {
	qt := c.Tensor(0)
	qs := qt.Shape()
	if len(qs) != 3 || c.Has(1) != c.Has(2) {
		return fail.Errorf("query has shape %v, want [batch length hidden], and key and value both "+
			"given or both missing", qs)
	}
	batch, n, width, h, kvh := qs[0], qs[1], qs[2], op.Heads, op.KVHeads
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	parts := h
	if !c.Has(1) {
		parts = h + 2*kvh
	}
	dim := width / parts
	if width%parts != 0 {
		return fail.Errorf("query has shape %v, want a last dimension divisible by %d heads", qs, parts)
	}
	part := func(head int) attention.HeadView[float32] {
		return attention.HeadView[float32]{Data: in[0][min(head*dim, len(in[0])):], Batch: n * width,
			Head: dim, Row: width}
	}
	q, k, v := part(0), part(h), part(h+kvh)
	if c.Has(1) {
		want := []int{batch, n, kvh * dim}
		if !slices.Equal(c.Tensor(1).Shape(), want) || !slices.Equal(c.Tensor(2).Shape(), want) {
			return fail.Errorf("key and value have shapes %v and %v, want %v", c.Tensor(1).Shape(),
				c.Tensor(2).Shape(), want)
		}
		k, v = attention.HeadsLast(in[1], kvh, n, dim), attention.HeadsLast(in[2], kvh, n, dim)
	}
	total, err := kit.ScalarInt(c.Tensor(7), "total_sequence_length")
	if err != nil {
		return err
	}
	lens := kit.Ints(c.Tensor(8))
	capacity := 0
	if p := c.Tensor(3); p.Rank() == 4 {
		capacity = p.Dim(2)
	}
	want := []int{batch, kvh, capacity, dim}
	if !slices.Equal(c.Tensor(3).Shape(), want) || !slices.Equal(c.Tensor(4).Shape(), want) || len(lens) != batch ||
		total < n || total > capacity {
		return fail.Errorf("past_key and past_value have shapes %v and %v, want %v, with %d lengths of up to %d",
			c.Tensor(3).Shape(), c.Tensor(4).Shape(), want, batch, total)
	}
	past := make([]int, batch)
	for b, l := range lens {
		if n != total {
			past[b] = l - n
		}
		if l < 1 || past[b] < 0 || past[b]+n > capacity {
			return fail.Errorf("key_total_sequence_lengths[%d] is %d, which is inconsistent with %d new tokens "+
				"and a cache of %d", b, l, n, capacity)
		}
	}
	layouts, rows, seen, err := op.blocks(c)
	if err != nil {
		return err
	}
	if total > rows*op.Block {
		return fail.Errorf("total_sequence_length is %d, which exceeds the layouts of %d blocks of %d",
			total, rows, op.Block)
	}
	if op.Rotary {
		if q, err = copiedHeads(c, q, batch, h, n, dim); err != nil {
			return err
		}
		if k, err = copiedHeads(c, k, batch, kvh, n, dim); err != nil {
			return err
		}
		if err := rotateCached(c, q, c.Tensor(9), c.Tensor(10), nil, op.Interleaved, batch, h, n, dim,
			past, false); err != nil {
			return err
		}
		if err := rotateCached(c, k, c.Tensor(9), c.Tensor(10), nil, op.Interleaved, batch, kvh, n, dim,
			past, false); err != nil {
			return err
		}
	}
	var outs [2]kit.RealOutput[float32]
	for i, src := range []*attention.HeadView[float32]{&k, &v} {
		if *src, outs[i], err = appendEach(c, 1+i, c.Tensor(3+i), *src, past, true, kvh, n, capacity,
			capacity, dim); err != nil {
			return err
		}
	}
	a := &attention.Core[float32]{Batch: batch, Heads: h, KVHeads: kvh, QLen: n, KVLen: total, Dim: dim,
		VDim: dim, Q: q, K: k, V: v,
		Scale: attention.Scale(op.Scale, dim), Observe: attention.ScoresNone}
	for b := range batch {
		a.KVLen = max(a.KVLen, past[b]+n)
	}
	a.Visible = func(b, i int) (int, int) { return 0, past[b] + i + 1 }
	a.Bias = &attention.Bias[float32]{Fill: func(b, h, i int, row []float32) {
		at := min((past[b]+i)/op.Block, rows-1)
		line := seen[(h%layouts*rows+at)*rows:][:rows]
		for j := range row {
			row[j] = 0
			if k := j / op.Block; k >= rows || !line[k] {
				row[j] = float32(math.Inf(-1))
			}
		}
	}}
	y, err := kit.RealOut[float32](c, 0, qt.DType(), batch, n, h*dim)
	if err != nil {
		return err
	}
	a.Y = attention.HeadsLast(y.Data, h, n, dim)
	if err := a.Compute(c); err != nil {
		return err
	}
	for _, o := range []kit.RealOutput[float32]{y, outs[0], outs[1]} {
		if o.T != nil {
			o.Store()
		}
	}
	return nil
}

// copiedHeads returns a copy of a view in scratch memory.
func copiedHeads(c *ir.Call, v attention.HeadView[float32],
	batch, heads, n, dim int) (attention.HeadView[float32], error) {
	data, err := ir.ScratchOf[float32](c, batch*heads*n*dim)
	if err != nil {
		return v, err
	}
	r := attention.HeadsFirst(data, heads, n, dim)
	attention.CopyHeads(c, r, v, batch, heads, 0, 0, n, dim)
	return r, nil
}
