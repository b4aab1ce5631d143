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
	if a.QLen != 1 || group < 2 || a.KVLen <= sharedKeys && !a.halves() || !a.fast(c) {
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
	per, step := n*p.scores, sharedKeys
	if a.halves() {
		per, step = per+halfKeys*max(a.Dim, a.VDim), halfKeys
	}
	scratch, err := ir.ScratchOf[T](c, kit.WorkspaceCount(c, items)*per)
	if err != nil {
		return err
	}
	all, halves := keptHeads[T](c, kit.WorkspaceCount(c, items)*n), make([]halfRows[T], kit.WorkspaceCount(c, items))
	return kit.InWorkspaces(c, items, func(ws, i int) error {
		heads, s := all[ws*n:][:n], scratch[ws*per:][:per]
		half := &halves[ws]
		*half = halfRows[T]{buf: s[n*p.scores:]}
		length := a.visibleKeys(i*n/a.Heads, 0, 1)
		for j := range heads {
			bh := i*n + j
			heads[j] = attentionHead[T]{attentionPlan: p, most: -1, b: bh / a.Heads, h: bh % a.Heads,
				s: s[j*p.scores:][:p.scores], half: half, ld: scoresStride(length)}
			heads[j].kv = heads[j].h * a.KVHeads / a.Heads
		}
		for from := 0; from < length; from += step {
			if err := c.Err(); err != nil {
				return err
			}
			for j := range heads {
				a.rawScores(c, &heads[j], 0, 1, from, min(length, from+step), true)
			}
		}
		for j := range heads {
			a.probabilities(c, &heads[j], 0, 1, length, length > 0)
		}
		if a.addValues(c, heads, length, step) {
			return nil
		}
		for j := range heads {
			a.product(c, &heads[j], 0, 1, length)
		}
		return nil
	})
}

// addValues writes the products of probabilities and values, step at a time. It returns false,
// without effect, if there is no kernel that adds to a product of the first values.
func (a *Core[T]) addValues(c *ir.Call, heads []attentionHead[T], length, step int) bool {
	for from := 0; from < length; from += step {
		to := min(length, from+step)
		c.Check()
		for j := range heads {
			w := &heads[j]
			y := any(a.Y.At(w.b, w.h, 0)[:a.VDim]).([]float32)
			if from == 0 {
				clear(y)
			}
			v, ldv := w.half.rows(&a.V, w.b, w.kv, from, to)
			if !gemm.AddRow(cpu.Active(), y, any(w.s[from:to]).([]float32), any(v).([]float32), ldv) {
				return false
			}
		}
	}
	return length > 0
}
