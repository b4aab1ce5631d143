package msft

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/ops/kit/quant"
	"github.com/onward-ml/onward/tensor"
)

// quantizedProduct holds the integer MatMul of two quantized tensors and the parameters that
// dequantize it.
type quantizedProduct struct {
	shape  *matmul.Shape
	sums   []int32
	aScale float32
	bScale *tensor.Tensor // one element, or one per column
	bShape []int
	bias   *tensor.Tensor // one element per column, or nil
}

// reals writes sums·aScale·bScale + bias to y.
func (p *quantizedProduct) reals(c *ir.Call, y []float32) error {
	q, err := matmul.NewQuantParam("scale of B", p.bScale, p.bShape, true)
	if err != nil {
		return err
	}
	scales, err := kit.RealIn[float32](c, p.bScale)
	if err != nil {
		return err
	}
	var bias []float32
	if p.bias != nil {
		if p.bias.Len() != q.Cols {
			return fail.Errorf("bias has shape %v, want [%d]", p.bias.Shape(), q.Cols)
		}
		if bias, err = kit.RealIn[float32](c, p.bias); err != nil {
			return err
		}
	}
	cols := q.Cols
	if len(y) == 0 {
		return nil
	}
	// Short lines that share their scales are computed several at a time, with repeated factors and
	// biases.
	rows, lines := 1, len(y)/cols
	if !c.Generic && (len(scales) == 1 || len(scales) == cols) {
		rows = min(lines, max(1, kit.LoopBlock/cols))
	}
	factors, err := ir.ScratchOf[float32](c, len(scales)*rows)
	if err != nil {
		return err
	}
	for i, s := range scales {
		factors[i] = p.aScale * s
	}
	if rows > 1 {
		if bias != nil {
			one := bias
			if bias, err = ir.ScratchOf[float32](c, cols*rows); err != nil {
				return err
			}
			copy(bias, one)
			quant.Repeat(bias, cols)
		}
		if len(scales) == 1 {
			factors = factors[:1]
		}
		quant.Repeat(factors, len(scales))
		kit.ParallelEach(c, (lines+rows-1)/rows, cols*rows, func(i int) {
			p.scaleLines(y, i*rows*cols, min(lines*cols, (i+1)*rows*cols), factors, bias)
		})
		return nil
	}
	kit.ParallelEach(c, lines, cols, func(line int) {
		_, mb := p.shape.At(min(line/max(1, p.shape.M), p.shape.Count()-1))
		at, step := q.Line(mb, 0)
		row, sums := y[line*cols:][:cols], p.sums[line*cols:][:cols]
		if !c.Generic {
			p.scaleLines(y, line*cols, (line+1)*cols, factors[at:][:1+step*(cols-1)], bias)
			return
		}
		for j, s := range sums {
			row[j] = float32(s) * factors[at+j*step]
		}
		for j, b := range bias {
			row[j] += b
		}
	})
	return nil
}

// scaleLines stores the sums [lo, hi) times one factor or one each, plus biases.
func (p *quantizedProduct) scaleLines(y []float32, lo, hi int, factors, bias []float32) {
	l, v := cpu.Active(), y[lo:hi]
	vec.I32ToF32(l, v, p.sums[lo:hi])
	if len(factors) == 1 {
		vec.MulScalarF32(l, v, v, factors[0])
	} else {
		vec.MulF32(l, v, v, factors[:len(v)])
	}
	if bias != nil {
		vec.AddF32(l, v, v, bias[:len(v)])
	}
}

// oneScale reads a scale that must have exactly one element.
func oneScale(c *ir.Call, name string, t *tensor.Tensor) (float32, error) {
	if t.Len() != 1 {
		return 0, fail.Errorf("%s has shape %v, want one element", name, t.Shape())
	}
	v, err := kit.RealIn[float32](c, t)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// checkQuantizedBias returns an error if the known length of input i differs from the
// number of columns of input b.
func checkQuantizedBias(c *ir.InferContext, i, b int) error {
	s, m := c.Shape(i), c.Shape(b)
	if len(s) == 1 && len(m) >= 2 && s[0].Differs(m[len(m)-1]) {
		return fail.Errorf("bias has shape %v, want one element per column of a matrix with shape %v", s, m)
	}
	return nil
}
