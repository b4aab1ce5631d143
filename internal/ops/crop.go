package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Crop removes a border from N×C×H×W images. If Size is set, it returns that many rows and columns
// after the left and upper border. It is an experimental operator that ONNX removed with opset 10
// (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#Crop).
type Crop struct {
	Border [4]int // left, top, right, bottom
	Size   []int  // rows, columns
}

var _ = kit.Register(&kit.Def{Name: "Crop", Since: kit.Versions{1}, Until: 9, Successor: "Slice", In: "input:T",
	Out: "output:T", Types: "T: float16 float double",
	Class: kit.ClassShape,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("border")
		op, border := &Crop{Size: a.Ints("scale")}, a.Ints("border")
		if len(border) != 4 {
			a.Errorf("border has %d elements, want left, top, right, bottom", len(border))
		}
		if len(op.Size) != 0 && len(op.Size) != 2 {
			a.Errorf("scale has %d elements, want a height and a width", len(op.Size))
		}
		for _, v := range append(border, op.Size...) {
			if v < 0 || int64(v) > 1<<40 {
				a.Errorf("border is %v and scale %v, want numbers from 0 to 2^40", border, op.Size)
				break
			}
		}
		copy(op.Border[:], border)
		return op
	}})

// sizes returns the remaining height and width of an image.
func (op *Crop) sizes(h, w int) ([2]int, error) {
	b := op.Border
	r := [2]int{h - b[1] - b[3], w - b[0] - b[2]}
	if len(op.Size) == 2 {
		r = [2]int(op.Size)
		if b[1]+r[0] > h || b[0]+r[1] > w {
			r[0] = -1
		}
	}
	if min(r[0], r[1]) < 0 {
		return r, fail.Errorf("images of %d×%d are too small for border %v and scale %v", h, w, b, op.Size)
	}
	return r, nil
}

// Infer computes the sizes of the images.
func (op *Crop) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 4, "input"); err != nil {
		return err
	}
	dims := ir.UnknownDims(4)
	if s := c.Shape(0); s != nil {
		dims[0], dims[1] = s[0], s[1]
		h, known := s[2].Value()
		w, known2 := s[3].Value()
		if known && known2 {
			size, err := op.sizes(h, w)
			if err != nil {
				return err
			}
			dims[2], dims[3] = ir.Known(size[0]), ir.Known(size[1])
		}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), dims...))
	return nil
}

// Run copies rows.
func (op *Crop) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 4 {
		return fail.Errorf("input has shape %v, want [N C H W]", x.Shape())
	}
	h, w := x.Dim(2), x.Dim(3)
	size, err := op.sizes(h, w)
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), x.Dim(0), x.Dim(1), size[0], size[1])
	if err != nil || y.Len() == 0 {
		return err
	}
	from, to, wide := x.Bytes(), y.Bytes(), x.DType().Size()
	n := size[1] * wide
	c.Parallel(x.Dim(0)*x.Dim(1), kit.GrainFor(size[0]*size[1]), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for r := range size[0] {
				copy(to[(i*size[0]+r)*n:][:n], from[((i*h+op.Border[1]+r)*w+op.Border[0])*wide:])
			}
		}
	})
	return nil
}
