package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// QLinearConvAdd is a QLinearConv, with the channels last, and a QLinearAdd of its result and a
// residual: it adds to pixels while they are in the cache. Optimize makes it. The inputs are those
// of QLinearConv and, from 9 on, the scale and zero point of the result as QLinearAdd reads it; the
// residual, its scale and zero point; and the scale and zero point of the output.
type QLinearConvAdd struct {
	ops.QLinearConv
	w *window.ConvWeights // nil if not packed
}

// Prepare packs constant weights.
func (v *QLinearConvAdd) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, err := window.PrepareConvBytes(in, types, 3, 5, v.Group)
	if w == nil || err != nil {
		return nil, nil, err
	}
	return &QLinearConvAdd{v.QLinearConv, w}, []int{3}, nil
}

// Run adds in multiples of the output's scale, as [QLinearAdd].
func (v *QLinearConvAdd) Run(c *ir.Call) error {
	r := c.Tensor(11)
	var q [3]byteQuant
	for i, at := range []int{9, 12, 14} {
		var err error
		if q[i], err = byteQuantOf(c, []string{"the convolution", "the residual", "the sum"}[i], r.DType(),
			at, at+1); err != nil {
			return err
		}
	}
	q[0].scale /= q[2].scale
	q[1].scale /= q[2].scale
	residual := r.Bytes()
	err := v.RunThen(c, v.w, func(y []byte, at int) {
		if at+len(y) <= len(residual) {
			addBytes(y, y, residual[at:][:len(y)], &q[0], &q[1], &q[2])
		}
	})
	if y, ok := c.Out[0].(*tensor.Tensor); err == nil && ok && y.Len() != r.Len() {
		return fail.Errorf("the convolution has shape %v and the residual %v, want equal ones", y.Shape(), r.Shape())
	}
	return err
}
