package msft

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// NhwcMaxPool is MaxPool of 8-bit integers with channels last
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NhwcMaxPool).
type NhwcMaxPool struct{ ops.MaxPool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "NhwcMaxPool", Since: kit.Versions{1}, In: "x:T", Out: "y:T",
	Types: "T: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		p := &NhwcMaxPool{ops.MaxPool{Window: kit.ReadWindow(a, true)}}
		p.Ceil = a.Bool("ceil_mode", false)
		return p
	}})

// Infer computes the output shape.
func (p *NhwcMaxPool) Infer(c *ir.InferContext) error {
	return kit.InferPoolLast(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run processes rows in parallel: the maximum over the columns of the windows, then over their rows,
// all channels together.
func (p *NhwcMaxPool) Run(c *ir.Call) error {
	if r := c.Tensor(0).Rank(); c.Generic || r != 3 && r != 4 {
		return p.planes(c)
	}
	t := c.Tensor(0)
	g, shape, err := kit.PoolGeom(&p.Window, kit.ChannelsFirstShape(t.Shape()))
	if err != nil {
		return err
	}
	y, err := c.Output(0, t.DType(), kit.ChannelsLastShape(shape)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	ch, x, dst, last := shape[1], t.Bytes(), y.Bytes(), len(g.In)-1
	inRow, outRow, height, rows := g.In[last]*ch, g.Out[last]*ch, 1, 1
	if last == 1 {
		height, rows = g.In[0], g.Out[0]
	}
	stride, dilation := g.Stride[last], g.Dilation[last]*ch
	count := kit.WorkspaceCount(shape[0] * rows)
	scratch, err := c.Scratch(inRow * count)
	if err != nil {
		return err
	}
	l, least := cpu.Active(), kit.LeastByte(t.DType())
	return kit.InWorkspaces(c, shape[0]*rows, func(ws, row int) error {
		columns, out := scratch[ws*inRow:][:inRow], dst[row*outRow:][:outRow]
		first, end, top, lds := 0, 1, 0, 0
		if last == 1 {
			first, end = g.TapRange(0, row%rows)
			top, lds = row%rows*g.Stride[0]-g.Before[0]+first*g.Dilation[0], g.Dilation[0]*inRow
		}
		if first >= end {
			kit.RepeatOf(out, least)
			return nil
		}
		meter := kit.Meter{C: c}
		meter.Check(inRow * (end - first) / 16)
		quant.MaxWindow(l, columns, x[(row/rows*height+top)*inRow:], lds, end-first, 1, 1, least)
		for i := 0; i < g.Out[last]; {
			from, to := g.TapRange(last, i)
			n := 1
			if from == 0 && to == g.Kernel[last] { // windows that lie in the row, together
				n = max(1, min(g.Out[last], (g.In[last]-1+g.Before[last]-(to-1)*g.Dilation[last])/stride+1)-i)
			}
			if at := i*stride - g.Before[last]; from < to {
				quant.MaxRanges(l, out[i*ch:(i+n)*ch], columns[at*ch+from*dilation:], ch, stride*ch, dilation, to-from, least)
			} else {
				kit.RepeatOf(out[i*ch:(i+1)*ch], least)
			}
			meter.Check(n * ch * (to - from) / 16)
			i += n
		}
		return nil
	})
}

// planes transposes to channels first and back.
func (p *NhwcMaxPool) planes(c *ir.Call) error {
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
	if err = kit.MaxPoolBytes(c, p.ColumnMajor, &g, x, y, shape); err == nil {
		done()
	}
	return err
}
