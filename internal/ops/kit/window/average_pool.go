package window

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// AveragePlanes pools planes of x into y; countPad counts elements in the padding.
func AveragePlanes[T kit.RealFloat](c *ir.Call, countPad bool, g *Geometry, x, y []T, planes int) error {
	if floats, ok := any(x).([]float32); ok && !c.Generic {
		if whole := newSumPlane(g, countPad); whole != nil {
			return whole.Planes(c, g, any(y).([]float32), floats, planes)
		}
	}
	n := len(g.In)
	counts := make([][]int, n)
	for d := range counts {
		counts[d] = g.Counts(d, countPad)
	}
	in, out, s := kit.Product(g.In), kit.Product(g.Out), g.Stride[n-1]
	return PoolPlanes(c, g, planes, func(m *ir.Meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y[plane*out:][:out]
		pos := make([]int, n)
		if c.Generic {
			return PoolPlain(g, m, xp, nil, func(o int, vals []T) bool {
				num, sum := 1, 0.0
				for d, k := range pos {
					num *= counts[d][k]
				}
				for _, v := range vals {
					sum += float64(v)
				}
				yp[o] = T(sum / float64(max(1, num)))
				kit.NextIndex(pos, g.Out)
				return true
			})
		}
		clear(yp)
		ok := true
		g.EachRow(func(r Row) bool {
			addRow(yp[r.Out+r.Lo:r.Out+r.Hi], xp, r.In, s)
			ok = m.Spend(r.Hi - r.Lo)
			return ok
		})
		for o := 0; o < out; o += g.Out[n-1] {
			outer := 1
			for d, k := range pos[:n-1] {
				outer *= counts[d][k]
			}
			row := yp[o:][:g.Out[n-1]]
			for i, k := range counts[n-1] {
				row[i] /= T(max(1, outer*k))
			}
			kit.NextIndex(pos[:n-1], g.Out[:n-1])
		}
		return ok
	})
}

// addRow adds x[from+i·s] to dst[i].
func addRow[T kit.RealFloat](dst, x []T, from, s int) {
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
