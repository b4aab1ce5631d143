package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// contribUnique is [ops.Unique] of a vector in the order of first occurrence. It also
// returns the index of every element among the unique ones, and how often each of these
// occurs.
type contribUnique struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Unique", Since: kit.Versions{1}, In: "x:T",
	Out:   "y:T, idx:int64, counts:int64",
	Types: "T: " + move.Types,
	Build: kit.WithoutAttrs[contribUnique]})

// Infer implements [ir.Operator].
func (*contribUnique) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if s := c.Shape(0); len(s) == 1 {
		n = s[0]
	}
	kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(1))
	kit.SetShape(c, 1, kit.TensorInt64, []ir.Dim{n})
	kit.SetShape(c, 2, kit.TensorInt64, ir.UnknownDims(1))
	return kit.CheckRank(c, 0, 1, "input")
}

// Run implements [ir.Operator].
func (*contribUnique) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 1 {
		return fail.Errorf("input has shape %v, want one dimension", x.Shape())
	}
	first, group, counts, err := move.UniqueSlices(c, x, 0, false)
	if err != nil {
		return err
	}
	if err := move.GatherAxis(c, x, 0, first, []int{len(first)}); err != nil {
		return err
	}
	for i, v := range [][]int{1: group, 2: counts} {
		if i > 0 && c.Wants(i) {
			if err := kit.OutInt64s(c, i, v, len(v)); err != nil {
				return err
			}
		}
	}
	return nil
}
