package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// DepthToSpace moves channels of an image into blocks of BlockSize×BlockSize
// pixels: [N, C·b², H, W] becomes [N, C, H·b, W·b]. In mode DCR the place in the
// block is the outer part of the channel number, in CRD the inner one
// (https://onnx.ai/onnx/operators/onnx__DepthToSpace.html).
type DepthToSpace struct {
	BlockSize int
	Mode      string
}

var _ = register(Def{Name: "DepthToSpace", Since: []int{1, 11, 13, 28},
	In: "input:T", Out: "output:T", Types: Types{"T": moveTypes},
	Build: simple(func(a *Attrs, opset int) Operator {
		op := &DepthToSpace{BlockSize: blockSize(a), Mode: "DCR"}
		if opset >= 11 {
			op.Mode = a.Enum("mode", "DCR", "DCR", "CRD")
		}
		return op
	})})

// blockSize reads the attribute of DepthToSpace and SpaceToDepth.
func blockSize(a *Attrs) int {
	a.Require("blocksize")
	b := a.Int("blocksize", 1)
	if b < 1 || b > 1<<20 {
		a.Errorf("attribute blocksize is %d, want it in [1, %d]", b, 1<<20)
		return 1
	}
	return b
}

// Infer implements ir.Operator.
func (op *DepthToSpace) Infer(c *ir.InferContext) error {
	if err := checkRank(c, 0, 4, "input"); err != nil {
		return err
	}
	out := ir.UnknownDims(4)
	if s := c.Shape(0); s != nil {
		b := ir.Known(op.BlockSize)
		if n, ok := s[1].Value(); ok && n%(op.BlockSize*op.BlockSize) != 0 {
			return fmt.Errorf("%d channels are no multiple of %d", n, op.BlockSize*op.BlockSize)
		}
		out = []ir.Dim{s[0], s[1].Div(b.Mul(b)), s[2].Mul(b), s[3].Mul(b)}
	}
	setShape(c, 0, c.Elem(0), out)
	return nil
}

// Run implements ir.Operator.
func (op *DepthToSpace) Run(c *ir.Call) error {
	x, b := c.Tensor(0), op.BlockSize
	if x.Rank() != 4 {
		return fmt.Errorf("input has rank %d, want 4", x.Rank())
	}
	if x.Dim(1)%(b*b) != 0 {
		return fmt.Errorf("%d channels are no multiple of %d", x.Dim(1), b*b)
	}
	n, ch, h, w := x.Dim(0), x.Dim(1)/(b*b), x.Dim(2), x.Dim(3)
	s := strides(x.Shape())
	// The box is N, C, H, block row, W, block column; rows and columns of a block
	// are strides of the channel.
	rowStep, colStep, chStep := b*ch*s[1], ch*s[1], s[1]
	if op.Mode == "CRD" {
		rowStep, colStep, chStep = b*s[1], s[1], b*b*s[1]
	}
	return moveBlocks(c, x, []int{n, ch, h * b, w * b}, []int{n, ch, h, b, w, b}, []int{s[0], chStep, s[2], rowStep, 1, colStep})
}

// moveBlocks writes output 0 of the given shape: a dense box read with strides.
func moveBlocks(c *ir.Call, x *tensor.Tensor, shape, box, from []int) error {
	dst, err := moveOut(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := moveIn(c, x)
	if err != nil {
		return err
	}
	moveStrided(c, dst, src, box, strides(box), 0, from, 0)
	dst.done()
	return nil
}
