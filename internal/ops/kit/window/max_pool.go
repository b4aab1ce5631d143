package window

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// LeastByte returns the bits of the smallest integer of a type of 8 bits.
func LeastByte(d tensor.DType) uint8 {
	if d == tensor.TypeInt8 {
		return 1 << 7
	}
	return 0
}

// MaxPoolBytes is MaxPool for integers of 8 bits, which float32 holds exactly.
func MaxPoolBytes(c *ir.Call, columnMajor bool, g *Geometry, x, y *tensor.Tensor, shape []int) error {
	least := -float32(LeastByte(x.DType()))
	wide, err := kit.ToScratch(c, x, tensor.TypeFloat32)
	if err != nil {
		return err
	}
	out, err := kit.ScratchTensor(c, tensor.TypeFloat32, shape)
	if err != nil {
		return err
	}
	results := tensor.MustData[float32](out)
	if err := MaxPool(c, columnMajor, g, tensor.MustData[float32](wide), results, shape, least); err != nil {
		return err
	}
	vec.MaxScalarF32(cpu.Active(), results, results, least) // windows without elements are -Inf in some kernels
	return kit.ConvertInto(c, y, out, tensor.ConvertOptions{})
}

// MaxPool pools planes of x into y, and into output 1 the indices of the maxima,
// where it is wanted.
func MaxPool[T kit.RealFloat](c *ir.Call, columnMajor bool, g *Geometry, x, y []T, shape []int, least T) error {
	var indices []int64
	if c.Wants(1) {
		t, err := c.Output(1, tensor.TypeInt64, shape...)
		if err != nil {
			return err
		}
		indices = tensor.MustData[int64](t)
	}
	if len(y) == 0 {
		return nil
	}
	in, out, planes := kit.Product(g.In), kit.Product(g.Out), shape[0]*shape[1]
	if err := maxPlanes(c, g, x, y, planes, least); err != nil || indices == nil {
		return err
	}
	return PoolPlanes(c, g, planes, func(m *ir.Meter, plane int) bool {
		return maxIndices(g, m, x[plane*in:][:in], y[plane*out:][:out], indices[plane*out:][:out],
			plane*in, columnMajor)
	})
}

func maxPlanes[T kit.RealFloat](c *ir.Call, g *Geometry, x, y []T, planes int, least T) error {
	if floats, ok := any(x).([]float32); ok {
		if p := NewMaxPlane(c, g); p != nil {
			return p.Planes(c, g, any(y).([]float32), floats, planes)
		}
	}
	in, out, s := kit.Product(g.In), kit.Product(g.Out), g.Stride[len(g.Stride)-1]
	return PoolPlanes(c, g, planes, func(m *ir.Meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y[plane*out:][:out]
		if c.Generic {
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
		g.EachRow(func(r Row) bool {
			maxRow(yp[r.Out+r.Lo:r.Out+r.Hi], xp, r.In, s)
			ok = m.Spend(r.Hi - r.Lo)
			return ok
		})
		return ok
	})
}

// maxRow sets dst[i] to x[from+i·s] if that is larger or NaN.
func maxRow[T kit.RealFloat](dst, x []T, from, s int) {
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

// columnMajor returns the number of element i of the input in column-major order.
func (g *Geometry) columnMajor(i int) int {
	number := 0
	for d := len(g.In) - 1; d >= 0; d-- {
		number += i % g.In[d] * kit.Product(g.In[:d])
		i /= g.In[d]
	}
	return number
}

// maxIndices finds the first of the maxima y, or the first NaN, in the windows of a plane, and adds
// base to their indices. A window without elements gets the index −1.
func maxIndices[T kit.RealFloat](g *Geometry, m *ir.Meter, x, y []T, index []int64, base int, columnMajor bool) bool {
	clear(index) // holds how many elements of the plane are left from the found one on: most from the first one
	s, ok := g.Stride[len(g.Stride)-1], true
	g.EachRow(func(r Row) bool {
		most, y, x, left := index[r.Out+r.Lo:r.Out+r.Hi], y[r.Out+r.Lo:], x[r.In:], int64(len(x)-r.In)
		for i, old := range most {
			v, found := x[i*s], int64(0)
			if v == y[i] { // without branches: which element it is cannot be predicted
				found = left
			}
			if v != v {
				found = left
			}
			most[i] = max(old, found)
			left -= int64(s)
		}
		ok = m.Spend(len(most))
		return ok
	})
	for i, left := range index {
		number := len(x) - int(left)
		switch {
		case left == 0:
			index[i] = -1
			continue
		case columnMajor:
			number = g.columnMajor(number)
		}
		index[i] = int64(base + number)
	}
	return ok
}
