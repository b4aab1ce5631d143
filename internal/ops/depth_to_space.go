package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// DepthToSpace moves channels of an image into blocks of BlockSize×BlockSize pixels: [N, C·b², H,
// W] becomes [N, C, H·b, W·b]. In mode DCR the position in the block is the outer part of the
// channel index, in mode CRD the inner one
// (https://onnx.ai/onnx/operators/onnx__DepthToSpace.html).
type DepthToSpace struct {
	BlockSize int
	Mode      string
}

var _ = kit.Register(&kit.Def{Name: "DepthToSpace", Since: kit.Versions{1, 11, 13, 28},
	In: "input:T", Out: "output:T", Types: "T: " + move.Types,
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &DepthToSpace{BlockSize: blockSize(a), Mode: "DCR"}
		if opset >= 11 {
			op.Mode = a.Enum("mode", "DCR", "DCR", "CRD")
		}
		return op
	},
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *DepthToSpace) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 4, "input"); err != nil {
		return err
	}
	out := ir.UnknownDims(4)
	if s := c.Shape(0); s != nil {
		b := ir.Known(op.BlockSize)
		if n, ok := s[1].Value(); ok && n%(op.BlockSize*op.BlockSize) != 0 {
			return fail.Errorf("%d channels are not a multiple of %d", n, op.BlockSize*op.BlockSize)
		}
		out = []ir.Dim{s[0], s[1].Div(b.Mul(b)), s[2].Mul(b), s[3].Mul(b)}
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// Run implements ir.Operator.
func (op *DepthToSpace) Run(c *ir.Call) error {
	x, b := c.Tensor(0), op.BlockSize
	if x.Rank() != 4 {
		return fail.Errorf("input has rank %d, want 4", x.Rank())
	}
	if x.Dim(1)%(b*b) != 0 {
		return fail.Errorf("%d channels are not a multiple of %d", x.Dim(1), b*b)
	}
	n, ch, h, w := x.Dim(0), x.Dim(1)/(b*b), x.Dim(2), x.Dim(3)
	s := kit.Strides(x.Shape())
	// The box has dimensions N, C, H, block row, W, block column. Rows and columns of a block are
	// strides of the channel.
	rowStep, colStep, chStep := b*ch*s[1], ch*s[1], s[1]
	if op.Mode == "CRD" {
		rowStep, colStep, chStep = b*s[1], s[1], b*b*s[1]
	}
	return moveBlocks(c, x, []int{n, ch, h * b, w * b}, []int{n, ch, h, b, w, b},
		[]int{s[0], chStep, s[2], rowStep, 1, colStep})
}
