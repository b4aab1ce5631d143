package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// QLinearSoftmax is Softmax of quantized numbers. Like ONNX Runtime it takes the
// whole part of 1/y_scale
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearSoftmax).
type QLinearSoftmax struct {
	softmaxAxis
	// Exact takes 1/y_scale as it is, as Softmax and QuantizeLinear do.
	Exact bool
}

// NewQLinearSoftmax returns the operator that computes a Softmax on quantized
// numbers and rounds as DequantizeLinear, Softmax and QuantizeLinear do.
func NewQLinearSoftmax(o *Softmax) *QLinearSoftmax {
	return &QLinearSoftmax{softmaxAxis: o.softmaxAxis, Exact: true}
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "QLinearSoftmax", Since: []int{1},
	In: "X:T, X_scale:float, x_zero_point:T?, y_scale:float, y_zero_point:T", Out: "Y:T", Types: Types{"T": byteTypes},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("opset")
		version := a.Int("opset", 13)
		o := &QLinearSoftmax{softmaxAxis: softmaxAxis{Axis: a.Int("axis", -1), Flatten: version < 13}}
		return o
	})})

// Run sums exponentials from a table.
func (o *QLinearSoftmax) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s, err := o.span(x.Shape())
	if err != nil {
		return err
	}
	in, err := byteQuantOf(c, "X", x.DType(), 1, 2)
	if err != nil {
		return err
	}
	out, err := byteQuantOf(c, "Y", x.DType(), 3, 4)
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	if o.Exact && s.inner == 1 && !c.Generic {
		return o.rows(c, x.Bytes(), y.Bytes(), s, &in, &out)
	}
	// exps[d] belongs to a number that is d steps below the greatest one.
	var exps [256]float64
	for i := range exps {
		exps[i] = math.Exp(-float64(i) * float64(in.scale))
	}
	whole := math.Floor(float64(1 / out.scale))
	if o.Exact {
		whole = 1 / float64(out.scale)
	}
	src, dst := x.Bytes(), y.Bytes()
	return s.eachLine(c, func(base, m int) {
		for j := range m {
			top, sum := int32(math.MinInt32), 0.0
			for k := range s.n {
				top = max(top, in.int(src[base+k*s.inner+j]))
			}
			for k := range s.n {
				sum += exps[top-in.int(src[base+k*s.inner+j])]
			}
			for k := range s.n {
				at := base + k*s.inner + j
				v := [1]float32{float32(exps[top-in.int(src[at])] * whole / sum)}
				out.quantize(dst[at:at+1], v[:])
			}
		}
	})
}

// rows takes each row to floats and back while it is in the cache.
func (o *QLinearSoftmax) rows(c *ir.Call, src, dst []byte, s axisSpan, in, out *byteQuant) error {
	if s.n == 0 {
		return nil
	}
	n := len(src) / s.n
	x, err := ir.ScratchOf[float32](c, len(src))
	if err != nil {
		return err
	}
	l := cpu.Active()
	block := max(1, 2048/s.n) // rows that are converted together
	return eachRange(c, n, max(1, grainCheap/s.n), func(lo, hi int) {
		for ; lo < hi; lo += block {
			from, to := lo*s.n, min(lo+block, hi)*s.n
			in.widen(l, x[from:to], src[from:to])
			for at := from; at < to; at += s.n {
				vec.SoftmaxF32(l, x[at:at+s.n], x[at:at+s.n])
			}
			out.narrow(l, dst[from:to], x[from:to], out.scale)
		}
	})
}
