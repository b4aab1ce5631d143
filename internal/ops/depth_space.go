package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// blockSize reads the attribute of DepthToSpace and SpaceToDepth.
func blockSize(a *kit.Attrs) int {
	a.Require("blocksize")
	b := a.Int("blocksize", 1)
	if b < 1 || b > 1<<20 {
		a.Errorf("attribute blocksize is %d, want it in [1, %d]", b, 1<<20)
		return 1
	}
	return b
}

// moveBlocks writes output 0 of the given shape: it reads a dense box with strides.
func moveBlocks(c *ir.Call, x *tensor.Tensor, shape, box, from []int) error {
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	move.Strided(c, dst, src, box, kit.Strides(box), 0, from, 0)
	dst.Done()
	return nil
}
