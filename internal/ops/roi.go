package ops

import (
	"errors"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// inferRois infers one image of the given size per region.
func inferRois(c *ir.InferContext, height, width int) error {
	out := ir.TensorType(c.Elem(0), ir.Unknown, ir.Unknown, ir.Known(height), ir.Known(width))
	defer func() { c.SetOut(0, out) }()
	if err := errors.Join(kit.CheckRank(c, 0, 4, "input"), kit.CheckRank(c, 1, 2, "rois")); err != nil {
		return err
	}
	if s := c.Shape(0); s != nil {
		out.Shape[1] = s[1]
	}
	if s := c.Shape(1); s != nil {
		out.Shape[0] = s[0]
	}
	return nil
}
