package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// NhwcMaxPool is MaxPool of 8-bit integers with channels last
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NhwcMaxPool).
type NhwcMaxPool struct{ ops.MaxPool }

var _ = kit.Register(kit.Def{Domain: kit.DomainMicrosoft, Name: "NhwcMaxPool", Since: []int{1}, In: "x:T", Out: "y:T",
	Types: kit.Types{"T": byteTypes},
	Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		p := &NhwcMaxPool{ops.MaxPool{Window: kit.ReadWindow(a, true)}}
		p.Ceil = a.Bool("ceil_mode", false)
		return p
	})})

// Infer computes the output shape.
func (p *NhwcMaxPool) Infer(c *ir.InferContext) error {
	return kit.InferPoolLast(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run processes planes in parallel.
func (p *NhwcMaxPool) Run(c *ir.Call) error {
	x, err := kit.ChannelsFirst(c, c.Tensor(0))
	if err != nil {
		return err
	}
	g, shape, err := kit.PoolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	y, done, err := kit.ChannelsOutput(c, 0, x.DType(), shape, true)
	if err != nil {
		return err
	}
	if x.DType() == tensor.TypeInt8 {
		err = kit.MaxPool(c, p.ColumnMajor, &g, tensor.Of[int8](x), tensor.Of[int8](y), shape, math.MinInt8)
	} else {
		err = kit.MaxPool(c, p.ColumnMajor, &g, tensor.Of[uint8](x), tensor.Of[uint8](y), shape, 0)
	}
	if err == nil {
		done()
	}
	return err
}
