package attention

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// sharedKeys is the number of keys, and of values, that stay in the second-level cache while the
// query heads that share them read them.
const sharedKeys = 512

// sharing returns the number of query heads that one item computes together, so that they read
// keys and values from memory once: those of a key-value head if there is one query. Results do
// not depend on it.
func (a *Core[T]) sharing(c *ir.Call) int {
	group := a.Heads / max(1, a.KVHeads)
	if a.QLen != 1 || group < 2 || a.KVLen <= sharedKeys || !a.fast(c) {
		return 1
	}
	for n := group; n > 1; n-- {
		if group%n == 0 && a.Batch*a.Heads/n >= c.Threads() {
			return n
		}
	}
	return 1
}

// computeShared is Compute for items of n query heads that share a key-value head.
func (a *Core[T]) computeShared(c *ir.Call, p attentionPlan, n int) error {
	items := a.Batch * a.Heads / n
	scratch, err := ir.ScratchOf[T](c, kit.WorkspaceCount(c, items)*n*p.scores)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, i int) error {
		heads := make([]attentionHead[T], n)
		length := a.visibleKeys(i*n/a.Heads, 0, 1)
		for j := range heads {
			bh := i*n + j
			heads[j] = attentionHead[T]{attentionPlan: p, most: -1, b: bh / a.Heads, h: bh % a.Heads,
				s: scratch[(ws*n+j)*p.scores:][:p.scores], ld: scoresStride(length)}
			heads[j].kv = heads[j].h * a.KVHeads / a.Heads
		}
		for from := 0; from < length; from += sharedKeys {
			if err := c.Err(); err != nil {
				return err
			}
			for j := range heads {
				a.rawScores(c, &heads[j], 0, 1, from, min(length, from+sharedKeys), true)
			}
		}
		for j := range heads {
			a.probabilities(c, &heads[j], 0, 1, length, length > 0)
		}
		if a.addValues(c, heads, length) {
			return nil
		}
		for j := range heads {
			a.product(c, &heads[j], 0, 1, length)
		}
		return nil
	})
}

// addValues writes the products of probabilities and values. It returns false, without effect, if
// there is no kernel that adds to a product of the first values.
func (a *Core[T]) addValues(c *ir.Call, heads []attentionHead[T], length int) bool {
	for from := 0; from < length; from += sharedKeys {
		to := min(length, from+sharedKeys)
		c.Check()
		for j := range heads {
			w := &heads[j]
			y := any(a.Y.At(w.b, w.h, 0)[:a.VDim]).([]float32)
			if from == 0 {
				clear(y)
			}
			if !gemm.AddRow(cpu.Active(), y, any(w.s[from:to]).([]float32), any(a.V.At(w.b, w.kv, from)).([]float32),
				a.V.Row) {
				return false
			}
		}
	}
	return length > 0
}
