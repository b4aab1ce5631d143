package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// SpaceToDepth moves blocks of BlockSize×BlockSize pixels of an image into channels: [N, C, H·b,
// W·b] becomes [N, b²·C, H, W]. In mode DCR the position in the block is the outer part of the
// channel index, in mode CRD the inner one
// (https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html).
type SpaceToDepth struct {
	BlockSize int
	Mode      string
}

var _ = kit.Register(&kit.Def{Name: "SpaceToDepth", Since: kit.Versions{1, 13, 28},
	In: "input:T", Out: "output:T", Types: "T: " + move.Types,
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &SpaceToDepth{BlockSize: blockSize(a), Mode: "DCR"}
		if opset >= 28 {
			op.Mode = a.Enum("mode", "DCR", "DCR", "CRD")
		}
		return op
	},
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *SpaceToDepth) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 4, "input"); err != nil {
		return err
	}
	out := ir.UnknownDims(4)
	if s := c.Shape(0); s != nil {
		b := ir.Known(op.BlockSize)
		for _, d := range s[2:] {
			if n, ok := d.Value(); ok && n%op.BlockSize != 0 {
				return fail.Errorf("image of %s×%s is not a multiple of the block size %d", s[2], s[3], op.BlockSize)
			}
		}
		out = []ir.Dim{s[0], s[1].Mul(b.Mul(b)), s[2].Div(b), s[3].Div(b)}
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// Run implements ir.Operator.
func (op *SpaceToDepth) Run(c *ir.Call) error {
	x, b := c.Tensor(0), op.BlockSize
	if x.Rank() != 4 {
		return fail.Errorf("input has rank %d, want 4", x.Rank())
	}
	if x.Dim(2)%b != 0 || x.Dim(3)%b != 0 {
		return fail.Errorf("image of %d×%d is not a multiple of the block size %d", x.Dim(2), x.Dim(3), b)
	}
	n, ch, h, w := x.Dim(0), x.Dim(1), x.Dim(2)/b, x.Dim(3)/b
	s := kit.Strides(x.Shape())
	if op.Mode == "CRD" {
		return moveBlocks(c, x, []int{n, ch * b * b, h, w}, []int{n, ch, b, b, h, w},
			[]int{s[0], s[1], s[2], 1, b * s[2], b})
	}
	// The box has dimensions N, block row, block column, C, H, W.
	return moveBlocks(c, x, []int{n, ch * b * b, h, w}, []int{n, b, b, ch, h, w},
		[]int{s[0], s[2], 1, s[1], b * s[2], b})
}
