package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Scaler computes (X − offset) · scale. There is one offset and scale per feature, the
// last dimension of X, or one for all
// (https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html).
type Scaler struct{ offset, scale []float32 }

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "Scaler", Since: kit.Versions{1}, In: "X:T", Out: "Y:float",
	Types: "T: " + mlNumbers,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &Scaler{a.Floats("offset"), a.Floats("scale")}
		if len(op.offset) == 0 {
			op.offset = []float32{0}
		}
		if len(op.scale) == 0 {
			op.scale = []float32{1}
		}
		if o, s := len(op.offset), len(op.scale); o != s && o != 1 && s != 1 {
			a.Errorf("%d offsets and %d scales, want equal numbers, or one of either", o, s)
		}
		return op
	}})

// Infer sets Y to the shape of X.
func (op *Scaler) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeFloat32, Shape: c.Shape(0)})
	return nil
}

// Run scales row by row.
func (op *Scaler) Run(c *ir.Call) error {
	x := c.Tensor(0)
	k := max(len(op.offset), len(op.scale))
	cols := 1
	if x.Rank() > 0 {
		cols = x.Dim(x.Rank() - 1)
	}
	if k != 1 && k != cols {
		return fail.Errorf("%d offsets and scales for X of shape %v, want 1 or %d", k, x.Shape(), cols)
	}
	t, err := c.Output(0, tensor.TypeFloat32, x.Shape()...)
	if err != nil || x.Len() == 0 {
		return err
	}
	y := tensor.MustData[float32](t)
	rows, grain := len(y)/cols, 1+1<<15/cols
	if x.DType() == tensor.TypeFloat64 {
		s := tensor.MustData[float64](x)
		c.Parallel(rows, grain, func(lo, hi int) { scaleRows(op, s[lo*cols:hi*cols], y[lo*cols:hi*cols], cols) })
		return nil
	}
	s, err := mlNumbersAs[float32](c, x)
	if err != nil {
		return err
	}
	c.Parallel(rows, grain, func(lo, hi int) { scaleRows(op, s[lo*cols:hi*cols], y[lo*cols:hi*cols], cols) })
	return nil
}

// scaleRows computes in the type T: float32, also for integers, or float64 for doubles. ONNX
// Runtime does the same, so that both agree in every bit, and trees after a Scaler take the same
// branches.
func scaleRows[T mlFloat](op *Scaler, x []T, y []float32, cols int) {
	if len(op.offset) == 1 && len(op.scale) == 1 {
		o, s := T(op.offset[0]), T(op.scale[0])
		y = y[:len(x)]
		for i, v := range x {
			y[i] = float32((v - o) * s)
		}
		return
	}
	offset, scale := repeated(op.offset, cols), repeated(op.scale, cols)
	for len(x) > 0 {
		row, out := x[:cols], y[:cols]
		o, s := offset[:cols], scale[:cols]
		for k, v := range row {
			out[k] = float32((v - T(o[k])) * T(s[k]))
		}
		x, y = x[cols:], y[cols:]
	}
}

// repeated returns v if it has n elements, or n copies of its only element.
func repeated(v []float32, n int) []float32 {
	if len(v) == n {
		return v
	}
	r := make([]float32, n)
	for i := range r {
		r[i] = v[0]
	}
	return r
}
