package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/tensor"
)

// MaxPool takes the maximum over a sliding window. Padding does not take part;
// NaN is the maximum of a window that holds one. The second output holds where
// in the flattened input each maximum was found first.
type MaxPool struct {
	Window
	ColumnMajor bool // number the elements of a plane first axis first
}

var _ = register(Def{Name: "MaxPool", Since: []int{1, 8, 10, 11, 12, 22}, In: "X:T", Out: "Y:T, Indices:int64?",
	Types: Types{"T": "@float int8 uint8"},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("kernel_shape")
		p := &MaxPool{Window: readWindow(a, opset >= 10)}
		if opset >= 8 {
			p.ColumnMajor = a.Bool("storage_order", false)
		}
		if opset >= 10 {
			p.Ceil = a.Bool("ceil_mode", false)
		}
		p.Crop = true
		return p
	})})

// Infer computes the windows' number.
func (p *MaxPool) Infer(c *ir.InferContext) error {
	return inferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)), ir.UnrankedTensor(tensor.TypeInt64))
}

// Run pools planes in parallel.
func (p *MaxPool) Run(c *ir.Call) error {
	x := c.Tensor(0)
	switch x.DType() {
	case tensor.TypeInt8:
		return maxPoolDirect[int8](c, p, x, math.MinInt8)
	case tensor.TypeUint8:
		return maxPoolDirect[uint8](c, p, x, 0)
	case tensor.TypeFloat64:
		return maxPoolReal[float64](c, p, x)
	}
	return maxPoolReal[float32](c, p, x)
}

func maxPoolDirect[T int8 | uint8](c *ir.Call, p *MaxPool, x *tensor.Tensor, least T) error {
	g, shape, err := poolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), shape...)
	if err != nil {
		return err
	}
	if n := len(g.in); n == 2 && g.dilation[0] == 1 && g.dilation[1] == 1 && g.stride[1] <= 2 && !c.Generic && !c.Wants(1) && y.Len() > 0 {
		return maxPoolBytes(c, &g, tensor.Of[T](x), tensor.Of[T](y), shape[0]*shape[1], least)
	}
	return maxPool(c, p.ColumnMajor, &g, tensor.Of[T](x), tensor.Of[T](y), shape, least)
}

// maxPoolBytes pools planes with windows next to each other in a vector kernel;
// those that reach beyond the rows go one by one.
func maxPoolBytes[T int8 | uint8](c *ir.Call, g *windowGeom, x, y []T, planes int, least T) error {
	in, out, s, kw := product(g.in), product(g.out), g.stride[1], g.kernel[1]
	// Windows [lo, hi) lie in the row, and so does the element behind them that
	// a stride of two reads.
	lo := min((g.before[1]+s-1)/s, g.out[1])
	hi := lo
	if room := g.in[1] + g.before[1] - kw - (s - 1); room >= 0 {
		hi = max(lo, min(room/s+1, g.out[1]))
	}
	type cut struct{ at, from, width int } // a window that the row's edges cut
	var cuts []cut
	for i := range g.out[1] {
		if i < lo || i >= hi {
			from, to := g.tapRange(1, i)
			cuts = append(cuts, cut{i, i*s - g.before[1] + from, max(0, to-from)})
		}
	}
	return poolPlanes(c, g, planes, func(m *meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y[plane*out:][:out]
		for o := range g.out[0] {
			first, end := g.tapRange(0, o)
			row := yp[o*g.out[1]:][:g.out[1]]
			top := o*g.stride[0] - g.before[0] + first
			for _, w := range cuts {
				v := least
				for ky := 0; w.width > 0 && ky < end-first; ky++ {
					for _, e := range xp[(top+ky)*g.in[1]+w.from:][:w.width] {
						v = max(v, e)
					}
				}
				row[w.at] = v
			}
			if lo < hi && first < end {
				quant.MaxWindow(cpu.Active(), row[lo:hi], xp[top*g.in[1]+lo*s-g.before[1]:], g.in[1], end-first, kw, s)
			} else {
				for i := lo; i < hi; i++ {
					row[i] = least
				}
			}
			if !m.spend(g.out[1] * min(1<<20, g.taps())) {
				return false
			}
		}
		return true
	})
}

func maxPoolReal[T realFloat](c *ir.Call, p *MaxPool, t *tensor.Tensor) error {
	g, shape, err := poolGeom(&p.Window, t.Shape())
	if err != nil {
		return err
	}
	x, err := realIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, t.DType(), shape...)
	if err != nil {
		return err
	}
	if err := maxPool(c, p.ColumnMajor, &g, x, y.data, shape, T(math.Inf(-1))); err != nil {
		return err
	}
	y.store()
	return nil
}

type maxPoolType interface {
	int8 | uint8 | float32 | float64
}

// maxPool pools planes of x into y, and into output 1 the indices of the maxima,
// where it is wanted.
func maxPool[T maxPoolType](c *ir.Call, columnMajor bool, g *windowGeom, x, y []T, shape []int, least T) error {
	var indices []int64
	if c.Wants(1) {
		t, err := c.Output(1, tensor.TypeInt64, shape...)
		if err != nil {
			return err
		}
		indices = tensor.Of[int64](t)
	}
	if len(y) == 0 {
		return nil
	}
	in, out := product(g.in), product(g.out)
	s := g.stride[len(g.stride)-1]
	var whole *poolPlane
	floats, _ := any(x).([]float32)
	if floats != nil && indices == nil && !c.Generic {
		whole = newMaxPlane(g)
	}
	return poolPlanes(c, g, shape[0]*shape[1], func(m *meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y[plane*out:][:out]
		switch {
		case whole != nil:
			whole.run(any(y).([]float32)[plane*out:][:out], floats[plane*in:][:in])
			return m.spend(out)
		case indices != nil:
			return maxPoolIndexed(g, m, xp, yp, indices[plane*out:][:out], plane*in, columnMajor, least)
		case c.Generic:
			return poolPlain(g, m, xp, nil, func(o int, vals []T) bool {
				yp[o] = least
				for _, v := range vals {
					if v > yp[o] || v != v {
						yp[o] = v
					}
				}
				return true
			})
		}
		for i := range yp {
			yp[i] = least
		}
		ok := true
		g.eachRow(func(r windowRow) bool {
			maxRow(yp[r.out+r.lo:r.out+r.hi], xp, r.in, s)
			ok = m.spend(r.hi - r.lo)
			return ok
		})
		return ok
	})
}

// maxRow raises dst[i] to x[from+i·s] where this is larger or NaN.
func maxRow[T maxPoolType](dst, x []T, from, s int) {
	if len(dst) == 0 {
		return
	}
	if s == 1 {
		for i, v := range x[from:][:len(dst)] {
			if v > dst[i] || v != v {
				dst[i] = v
			}
		}
		return
	}
	src := x[from:]
	for i := range dst {
		if v := src[i*s]; v > dst[i] || v != v {
			dst[i] = v
		}
	}
}

// maxPoolIndexed pools one plane and finds the maxima. base is added to the
// indices; a window without elements gets the least value and index −1.
func maxPoolIndexed[T maxPoolType](g *windowGeom, m *meter, x, y []T, index []int64, base int, columnMajor bool, least T) bool {
	n := len(g.in)
	pos, tap, first, end := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	step := strides(g.in)
	number := step
	if columnMajor {
		number = make([]int, n)
		for d, k := 0, 1; d < n; d++ {
			number[d] = k
			k *= g.in[d]
		}
	}
	for o := range y {
		best, at := least, int64(-1)
		for some := g.firstTap(pos, tap, first, end); some; some = nextTap(tap, first, end) {
			in, num := 0, base
			for d := range n {
				i := pos[d]*g.stride[d] - g.before[d] + tap[d]*g.dilation[d]
				in += i * step[d]
				num += i * number[d]
			}
			if v := x[in]; at < 0 || v > best || v != v && best == best {
				best, at = v, int64(num)
			}
			if !m.spend(n) {
				return false
			}
		}
		y[o], index[o] = best, at
		windowStep(pos, g.out)
	}
	return true
}
