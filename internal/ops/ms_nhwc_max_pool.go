package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// NhwcMaxPool is MaxPool of 8-bit integers with channels last
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NhwcMaxPool).
type NhwcMaxPool struct{ MaxPool }

var _ = register(Def{Domain: DomainMicrosoft, Name: "NhwcMaxPool", Since: []int{1}, In: "x:T", Out: "y:T",
	Types: Types{"T": byteTypes},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("kernel_shape")
		p := &NhwcMaxPool{MaxPool{Window: readWindow(a, true)}}
		p.Ceil = a.Bool("ceil_mode", false)
		return p
	})})

// Infer computes the windows' number.
func (p *NhwcMaxPool) Infer(c *ir.InferContext) error {
	return inferPoolLast(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run pools planes in parallel.
func (p *NhwcMaxPool) Run(c *ir.Call) error {
	x, err := channelsFirst(c, c.Tensor(0))
	if err != nil {
		return err
	}
	g, shape, err := poolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	y, done, err := channelsOutput(c, 0, x.DType(), shape, true)
	if err != nil {
		return err
	}
	if x.DType() == tensor.TypeInt8 {
		err = maxPool(c, p.ColumnMajor, &g, tensor.Of[int8](x), tensor.Of[int8](y), shape, math.MinInt8)
	} else {
		err = maxPool(c, p.ColumnMajor, &g, tensor.Of[uint8](x), tensor.Of[uint8](y), shape, 0)
	}
	if err == nil {
		done()
	}
	return err
}
