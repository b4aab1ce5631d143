package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/tensor"
)

// msMaskKind is a form of mask that the attention operators of com.microsoft accept.
type msMaskKind uint8

const (
	maskEnds    msMaskKind = iota // [batch]: keys from this index on are padding
	maskSpans                     // [2·batch]: ends, then starts
	maskKeys                      // [batch, total]: 0 hides a key
	maskPairs                     // [batch, q, total]: 0 hides the key from the query
	maskSquares                   // [batch, 1, max, max]: as maskPairs, indexed by absolute position
)

// msMask returns a function that writes the attention bias of a mask to row: filter for
// hidden keys, 0 for the others. It returns an error if the shape of t does not match a form of
// [msMaskKind].
func msMask(t *tensor.Tensor, batch, q, total, past int, filter float32) (func(b, i int, row []float32), error) {
	s := t.Shape()
	var kind msMaskKind
	side := 0
	switch {
	case slices.Equal(s, []int{batch}):
		kind = maskEnds
	case slices.Equal(s, []int{2 * batch}):
		kind = maskSpans
	case slices.Equal(s, []int{batch, total}):
		kind = maskKeys
	case slices.Equal(s, []int{batch, q, total}):
		kind = maskPairs
	case len(s) == 4 && s[0] == batch && s[1] == 1 && s[2] == s[3] && s[2] >= total:
		kind, side = maskSquares, s[2]
	default:
		return nil,
			fail.Errorf("the mask has shape %v, want [%d], [%d], [%d %d], [%d %d %d] or [%d 1 max "+
				"max] with max at least %d",
				s, batch, 2*batch, batch, total, batch, q, total, batch, total)
	}
	m := tensor.MustData[int32](t)
	return func(b, i int, row []float32) {
		var keys []int32
		switch kind {
		case maskEnds, maskSpans:
			from, to := int32(0), m[b]
			if kind == maskSpans {
				from = m[batch+b]
			}
			for j := range row {
				row[j] = 0
				if int32(j) < from || int32(j) >= to {
					row[j] = filter
				}
			}
			return
		case maskKeys:
			keys = m[b*total:]
		case maskPairs:
			keys = m[(b*q+i)*total:]
		case maskSquares:
			keys = m[(b*side+past+i)*side:]
		}
		for j := range row {
			row[j] = 0
			if keys[j] <= 0 {
				row[j] = filter
			}
		}
	}, nil
}

// msBias returns the sum of a mask and a bias [batch or 1, heads
// or 1, q, total], which is added to the scores. It returns nil if both are nil.
func msBias(c *ir.Call, mask func(b, i int, row []float32), bias *tensor.Tensor,
	batch, heads, q, total int) (*attention.Bias[float32], error) {
	return msBiasFrom(c, mask, bias, batch, heads, q, total, nil)
}

// msBiasFrom is like msBias, but row b begins at column base[b] of the bias.
func msBiasFrom(c *ir.Call, mask func(b, i int, row []float32), bias *tensor.Tensor, batch, heads, q, total int,
	base []int) (*attention.Bias[float32], error) {
	if mask == nil && bias == nil {
		return nil, nil
	}
	sum := &attention.Bias[float32]{}
	var add func(b, h, i int) []float32
	if bias != nil {
		s := bias.Shape()
		if len(s) != 4 || s[0] != batch && s[0] != 1 || s[1] != heads && s[1] != 1 || s[2] != q || s[3] < total {
			return nil, fail.Errorf("attention_bias has shape %v, want [%d or 1, %d or 1, %d, %d]", s,
				batch, heads, q, total)
		}
		data, err := kit.RealIn[float32](c, bias)
		if err != nil {
			return nil, err
		}
		if mask == nil && base == nil {
			sum.Rows = attention.HeadView[float32]{Data: data, Head: s[2] * s[3], Row: s[3]}
			if s[1] == 1 {
				sum.Rows.Head = 0
			}
			if s[0] > 1 {
				sum.Rows.Batch = s[1] * s[2] * s[3]
			}
		}
		add = func(b, h, i int) []float32 {
			row := data[((b%s[0]*s[1]+h%s[1])*s[2]+i)*s[3]:][:s[3]]
			if base != nil {
				return row[min(base[b], len(row)):]
			}
			return row
		}
	}
	sum.Fill = func(b, h, i int, row []float32) {
		if mask != nil {
			mask(b, i, row)
		} else {
			clear(row)
		}
		if add != nil {
			from := add(b, h, i)
			for j, v := range from[:min(len(row), len(from))] {
				row[j] += v
			}
		}
	}
	return sum, nil
}

// plusBias returns a copy of n rows of every batch item and head with bias, of heads·cols
// elements, added. If bias is nil, it returns v itself.
func plusBias(c *ir.Call, v attention.HeadView[float32], batch, heads, n, cols int,
	bias []float32) (attention.HeadView[float32], error) {
	if bias == nil {
		return v, nil
	}
	size, err := tensor.Elements([]int{batch, heads, n, cols})
	if err != nil {
		return v, err
	}
	data, err := ir.ScratchOf[float32](c, size)
	if err != nil {
		return v, err
	}
	width := heads * cols
	piece := cols // elements of a row that are adjacent in v
	if v.Head == cols {
		piece = width
	}
	c.Parallel(batch*n, max(1, kit.GrainCheap/max(width, 1)), func(lo, hi int) {
		for k := lo; k < hi; k++ {
			for at := 0; at < width; at += piece {
				vec.AddF32(cpu.Active(), data[k*width+at:][:piece], v.At(k/n, at/cols, k%n)[:piece], bias[at:])
			}
		}
	})
	return attention.HeadsLast(data, heads, n, cols), c.Err()
}

// appendPast concatenates past, [batch, heads, past, cols], and n new rows into output i,
// or into scratch memory. If past is nil and the output is not wanted, it returns v
// without a copy. half allows reading half precision, see [attention.Extend].
func appendPast(c *ir.Call, i int, past *tensor.Tensor, pastLen int, v attention.HeadView[float32],
	batch, heads, n, cols int, half bool) (attention.HeadView[float32], kit.RealOutput[float32], error) {
	var out kit.RealOutput[float32]
	if past == nil && !c.Wants(i) {
		return v, out, nil
	}
	total, dtype := pastLen+n, c.Tensor(0).DType()
	state, ok, err := attention.Extend(c, i, dtype, v, attention.Lengths(batch, pastLen), heads, n, total,
		total, cols, half)
	if ok || err != nil {
		return state, out, err
	}
	old, err := kit.RealIn[float32](c, past)
	if err != nil {
		return v, out, err
	}
	if out, err = kit.RealMaybe[float32](c, i, dtype, batch, heads, total, cols); err != nil {
		return v, out, err
	}
	r := attention.HeadsFirst(out.Data, heads, total, cols)
	if old != nil {
		attention.CopyHeads(c, r, attention.HeadsFirst(old, heads, pastLen, cols), batch, heads, 0, 0, pastLen, cols)
	}
	attention.CopyHeads(c, r, v, batch, heads, pastLen, 0, n, cols)
	return r, out, nil
}
