package msft

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// NhwcMaxPool is MaxPool of 8-bit integers with channels last
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NhwcMaxPool).
type NhwcMaxPool struct{ ops.MaxPool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "NhwcMaxPool", Since: kit.Versions{1},
	In: "x:T", Out: "y:T",
	Types: "T: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		p := &NhwcMaxPool{ops.MaxPool{Window: window.Read(a, true)}}
		p.Ceil = a.Bool("ceil_mode", false)
		return p
	}})

// Infer computes the output shape.
func (p *NhwcMaxPool) Infer(c *ir.InferContext) error {
	return window.InferPoolLast(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run processes rows in parallel: the maximum over the columns of the windows, then over their
// rows, all channels together.
func (p *NhwcMaxPool) Run(c *ir.Call) error {
	if r := c.Tensor(0).Rank(); c.Generic || r != 3 && r != 4 {
		return p.planes(c)
	}
	t := c.Tensor(0)
	g, shape, err := window.PoolGeom(&p.Window, window.ChannelsFirstShape(t.Shape()))
	if err != nil {
		return err
	}
	y, err := c.Output(0, t.DType(), window.ChannelsLastShape(shape)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	r, x, dst := newPixelRows(&g, shape[1]), t.Bytes(), y.Bytes()
	rows, last := shape[0]*r.rows, len(g.In)-1
	scratch, err := c.Scratch(r.inRow * kit.WorkspaceCount(c, rows))
	if err != nil {
		return err
	}
	l, least := cpu.Active(), window.LeastByte(t.DType())
	return kit.InWorkspaces(c, rows, func(ws, row int) error {
		columns, out := scratch[ws*r.inRow:][:r.inRow], dst[row*r.outRow:][:r.outRow]
		taps, at, step := r.taps(row)
		if taps <= 0 {
			kit.RepeatOf(out, least)
			return nil
		}
		meter := ir.Meter{C: c}
		meter.Check(r.inRow * taps / 16)
		quant.MaxWindow(l, columns, x[at:], step, taps, 1, 1, least)
		r.runs(func(i, n, at, taps int) {
			if taps > 0 {
				quant.MaxRanges(l, out[i*r.ch:(i+n)*r.ch], columns[at:], r.ch, g.Stride[last]*r.ch,
					g.Dilation[last]*r.ch, taps, least)
			} else {
				kit.RepeatOf(out[i*r.ch:(i+n)*r.ch], least)
			}
			meter.Check(n * r.ch * taps / 16)
		})
		return nil
	})
}

// planes transposes to channels first and back.
func (p *NhwcMaxPool) planes(c *ir.Call) error {
	x, err := window.ChannelsFirst(c, c.Tensor(0))
	if err != nil {
		return err
	}
	g, shape, err := window.PoolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	y, done, err := window.ChannelsOutput(c, 0, x.DType(), shape, true)
	if err != nil {
		return err
	}
	if err = window.MaxPoolBytes(c, p.ColumnMajor, &g, x, y, shape); err == nil {
		done()
	}
	return err
}
