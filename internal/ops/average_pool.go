package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// AveragePool takes the mean over a sliding window.
type AveragePool struct {
	Window
	CountIncludePad bool // divide by the window's elements in the padding too
}

var _ = register(Def{Name: "AveragePool", Since: []int{1, 7, 10, 11, 19, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("kernel_shape")
		p := &AveragePool{Window: readWindow(a, opset >= 19)}
		if opset >= 7 {
			p.CountIncludePad = a.Bool("count_include_pad", false)
		}
		if opset >= 10 {
			p.Ceil = a.Bool("ceil_mode", false)
		}
		p.Crop = true
		return p
	})})

// Infer computes the windows' number.
func (p *AveragePool) Infer(c *ir.InferContext) error {
	return inferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run pools planes in parallel.
func (p *AveragePool) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return averagePool[float64](c, p)
	}
	return averagePool[float32](c, p)
}

func averagePool[T realFloat](c *ir.Call, p *AveragePool) error {
	g, shape, err := poolGeom(&p.Window, c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	x, err := realIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	err = averagePlanes(c, p.CountIncludePad, &g, x, y.data, shape[0]*shape[1])
	if err == nil {
		y.store()
	}
	return err
}

// averagePlanes pools planes of x into y; countPad counts elements in the padding.
func averagePlanes[T realFloat](c *ir.Call, countPad bool, g *windowGeom, x, y []T, planes int) error {
	n := len(g.in)
	counts := make([][]int, n)
	for d := range counts {
		counts[d] = g.counts(d, countPad)
	}
	in, out, s := product(g.in), product(g.out), g.stride[n-1]
	if floats, ok := any(x).([]float32); ok && !c.Generic {
		if whole := newSumPlane(g); whole != nil {
			// what each window is divided by
			by := make([]float32, out)
			for i, a := range counts[0] {
				for j, b := range counts[1] {
					by[i*g.out[1]+j] = float32(max(1, a*b))
				}
			}
			return poolPlanes(c, g, planes, func(m *meter, plane int) bool {
				yp := any(y).([]float32)[plane*out:][:out]
				whole.run(yp, floats[plane*in:][:in])
				vec.DivF32(cpu.Active(), yp, yp, by)
				return m.spend(out)
			})
		}
	}
	return poolPlanes(c, g, planes, func(m *meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y[plane*out:][:out]
		pos := make([]int, n)
		if c.Generic {
			return poolPlain(g, m, xp, nil, func(o int, vals []T) bool {
				num, sum := 1, 0.0
				for d, k := range pos {
					num *= counts[d][k]
				}
				for _, v := range vals {
					sum += float64(v)
				}
				yp[o] = T(sum / float64(max(1, num)))
				windowStep(pos, g.out)
				return true
			})
		}
		clear(yp)
		ok := true
		g.eachRow(func(r windowRow) bool {
			addRow(yp[r.out+r.lo:r.out+r.hi], xp, r.in, s)
			ok = m.spend(r.hi - r.lo)
			return ok
		})
		for o := 0; o < out; o += g.out[n-1] {
			outer := 1
			for d, k := range pos[:n-1] {
				outer *= counts[d][k]
			}
			row := yp[o:][:g.out[n-1]]
			for i, k := range counts[n-1] {
				row[i] /= T(max(1, outer*k))
			}
			windowStep(pos[:n-1], g.out[:n-1])
		}
		return ok
	})
}

// addRow adds x[from+i·s] to dst[i].
func addRow[T realFloat](dst, x []T, from, s int) {
	if len(dst) == 0 {
		return
	}
	if s == 1 {
		for i, v := range x[from:][:len(dst)] {
			dst[i] += v
		}
		return
	}
	src := x[from:]
	for i := range dst {
		dst[i] += src[i*s]
	}
}
