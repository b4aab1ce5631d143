package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// packedAttention attends within sequences that lie one after the other without
// padding; every view has one batch item whose rows are all tokens.
type packedAttention struct {
	heads, dim, vDim int
	scale            float32
	q, k, v          headView[float32]
}

// run writes [tokens, heads·vDim]. The inputs iOffset, [batch, length] places of
// the tokens in the padded sequences, iEnds, [batch+1] ends of the sequences, and
// iBias, a bias of the scores [batch or 1, heads or 1, length, length] or nothing,
// say how the tokens belong together.
func (p *packedAttention) run(c *ir.Call, tokens int, dtype tensor.DType, iOffset, iEnds, iBias int) error {
	place, ends := c.Tensor(iOffset), ints(c.Tensor(iEnds))
	if place.Rank() != 2 || c.Tensor(iEnds).Rank() != 1 || len(ends) != place.Dim(0)+1 {
		return fmt.Errorf("token_offset and cumulative_sequence_length have shapes %v and %v, want [batch length] and [batch+1]",
			place.Shape(), c.Tensor(iEnds).Shape())
	}
	batch, length := place.Dim(0), place.Dim(1)
	for i, e := range ends {
		if i == 0 && e != 0 || i > 0 && (e < ends[i-1] || e-ends[i-1] > length) || i == batch && e != tokens {
			return fmt.Errorf("cumulative_sequence_length[%d] is %d: want it to rise from 0 to %d by at most %d", i, e, tokens, length)
		}
	}
	bias, err := msBias(c, nil, c.Tensor(iBias), batch, p.heads, length, length)
	if err != nil {
		return err
	}
	if p.vDim > 0 && p.heads > math.MaxInt/p.vDim {
		return fmt.Errorf("%d heads of size %d are too large", p.heads, p.vDim)
	}
	y, err := realOut[float32](c, 0, dtype, tokens, p.heads*p.vDim)
	if err != nil || len(y.data) == 0 {
		return err
	}
	all := headsLast(y.data, p.heads, tokens, p.vDim)
	// A row of the bias has as many elements as the padded sequence.
	for b := range batch {
		from, n := ends[b], ends[b+1]-ends[b]
		if n == 0 {
			continue
		}
		a := &attentionCore[float32]{batch: 1, heads: p.heads, kvHeads: p.heads, qLen: n, kvLen: n, dim: p.dim, vDim: p.vDim,
			scale: attentionScale(p.scale, p.dim), observe: scoresNone,
			q: rowsFrom(p.q, from), k: rowsFrom(p.k, from), v: rowsFrom(p.v, from), y: rowsFrom(all, from)}
		if bias != nil {
			a.bias = func(_, h, i int, row []float32) { bias(b, h, i, row) }
		}
		if err := a.run(c); err != nil {
			return err
		}
	}
	y.store()
	return nil
}

// rowsFrom views the rows from row i on.
func rowsFrom[T realFloat](v headView[T], i int) headView[T] {
	v.data = v.data[min(i*v.row, len(v.data)):]
	return v
}

// inferPacked sets output 0 to [tokens, size].
func inferPacked(c *ir.InferContext, tokens, size ir.Dim) {
	c.SetOut(0, ir.TensorType(c.Elem(0), tokens, size))
}
