package kit

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

type maxPoolType interface {
	int8 | uint8 | float32 | float64
}

// MaxPool pools planes of x into y, and into output 1 the indices of the maxima,
// where it is wanted.
func MaxPool[T maxPoolType](c *ir.Call, columnMajor bool, g *WindowGeom, x, y []T, shape []int, least T) error {
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
	in, out := Product(g.In), Product(g.Out)
	s := g.Stride[len(g.Stride)-1]
	if floats, _ := any(x).([]float32); floats != nil && indices == nil {
		if p := NewMaxPlane(c, g); p != nil {
			return p.Planes(c, g, any(y).([]float32), floats, shape[0]*shape[1])
		}
	}
	return PoolPlanes(c, g, shape[0]*shape[1], func(m *Meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y[plane*out:][:out]
		switch {
		case indices != nil:
			return maxPoolIndexed(g, m, xp, yp, indices[plane*out:][:out], plane*in, columnMajor, least)
		case c.Generic:
			return PoolPlain(g, m, xp, nil, func(o int, vals []T) bool {
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
		g.EachRow(func(r WindowRow) bool {
			maxRow(yp[r.Out+r.Lo:r.Out+r.Hi], xp, r.In, s)
			ok = m.Spend(r.Hi - r.Lo)
			return ok
		})
		return ok
	})
}

// maxRow sets dst[i] to x[from+i·s] if that is larger or NaN.
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

// maxPoolIndexed pools one plane and finds the indices of the maxima, to which it adds base. A
// window without elements gets the least value and index −1.
func maxPoolIndexed[T maxPoolType](g *WindowGeom, m *Meter, x, y []T, index []int64, base int, columnMajor bool, least T) bool {
	n := len(g.In)
	pos, tap, first, end := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	step := Strides(g.In)
	number := step
	if columnMajor {
		number = make([]int, n)
		for d, k := 0, 1; d < n; d++ {
			number[d] = k
			k *= g.In[d]
		}
	}
	for o := range y {
		best, at := least, int64(-1)
		for some := g.firstTap(pos, tap, first, end); some; some = nextTap(tap, first, end) {
			in, num := 0, base
			for d := range n {
				i := pos[d]*g.Stride[d] - g.Before[d] + tap[d]*g.Dilation[d]
				in += i * step[d]
				num += i * number[d]
			}
			if v := x[in]; at < 0 || v > best || v != v && best == best {
				best, at = v, int64(num)
			}
			if !m.Spend(n) {
				return false
			}
		}
		y[o], index[o] = best, at
		WindowStep(pos, g.Out)
	}
	return true
}
