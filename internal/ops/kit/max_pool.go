package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
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
func MaxPoolBytes(c *ir.Call, columnMajor bool, g *WindowGeom, x, y *tensor.Tensor, shape []int) error {
	least := -float32(LeastByte(x.DType()))
	wide, err := ToScratch(c, x, tensor.TypeFloat32)
	if err != nil {
		return err
	}
	out, err := ScratchTensor(c, tensor.TypeFloat32, shape)
	if err != nil {
		return err
	}
	results := tensor.Of[float32](out)
	if err := MaxPool(c, columnMajor, g, tensor.Of[float32](wide), results, shape, least); err != nil {
		return err
	}
	vec.MaxScalarF32(cpu.Active(), results, results, least) // windows without elements are -Inf in some kernels
	return ConvertInto(c, y, out, tensor.ConvertOptions{})
}

// MaxPool pools planes of x into y, and into output 1 the indices of the maxima,
// where it is wanted.
func MaxPool[T RealFloat](c *ir.Call, columnMajor bool, g *WindowGeom, x, y []T, shape []int, least T) error {
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
			index := indices[plane*out:][:out]
			if x, ok := any(xp).([]float32); ok {
				return maxPoolKeyed(g, m, x, any(yp).([]float32), index, plane*in, columnMajor, float32(least))
			}
			return maxPoolIndexed(g, m, any(xp).([]float64), any(yp).([]float64), index, plane*in, columnMajor, float64(least))
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
func maxRow[T RealFloat](dst, x []T, from, s int) {
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
func maxPoolIndexed(g *WindowGeom, m *Meter, x, y []float64, index []int64, base int, columnMajor bool, least float64) bool {
	for i := range y {
		y[i], index[i] = least, -1
	}
	s := g.Stride[len(g.Stride)-1]
	ok := true
	g.EachRow(func(r WindowRow) bool {
		first, step := g.number(r.In, s, columnMajor)
		dst, at, x := y[r.Out+r.Lo:r.Out+r.Hi], index[r.Out+r.Lo:], x[r.In:]
		for i, old := range dst {
			// the first element of the window, a larger one, or the first NaN
			if v := x[i*s]; v > old || at[i] < 0 || v != v && old == old {
				dst[i], at[i] = v, int64(base+first+i*step)
			}
		}
		ok = m.Spend(len(dst))
		return ok
	})
	return ok
}

// number returns the number of element i of the input, in column-major order if that is set, and the distance to the number of the
// element that is s further along the last axis.
func (g *WindowGeom) number(i, s int, columnMajor bool) (first, step int) {
	if !columnMajor {
		return i, s
	}
	for d := len(g.In) - 1; d >= 0; d-- {
		n := Product(g.In[:d])
		if first += i % g.In[d] * n; d == len(g.In)-1 {
			step = s * n
		}
		i /= g.In[d]
	}
	return first, step
}

// maxPoolKeyed is maxPoolIndexed for float32, without branches that depend on the elements: the maxima are those of numbers that consist of an
// element's order and, in the lower half, its tap, of which the first has the largest.
func maxPoolKeyed(g *WindowGeom, m *Meter, x, y []float32, index []int64, base int, columnMajor bool, least float32) bool {
	const none = math.MinInt64
	RepeatOf(index, none)
	n := len(g.In) - 1
	s, last, ok := g.Stride[n], g.Taps()-1, true
	g.EachRow(func(r WindowRow) bool {
		keys, x, order := index[r.Out+r.Lo:r.Out+r.Hi], x[r.In:], int64(last-r.Tap)
		for i, old := range keys {
			keys[i] = max(old, OrderF32(x[i*s])<<32|order)
		}
		ok = m.Spend(len(keys))
		return ok
	})
	if !ok {
		return false
	}
	// the distances of the taps from the beginning of the window
	step := Strides(g.In)
	taps, tap := make([]int, last+1), make([]int, n+1)
	for t := range taps {
		for d, k := range tap {
			taps[t] += k * g.Dilation[d] * step[d]
		}
		WindowStep(tap, g.Kernel)
	}
	pos := make([]int, n)
	for row := 0; row < len(y); row += g.Out[n] {
		at := -g.Before[n]
		for d, o := range pos {
			at += (o*g.Stride[d] - g.Before[d]) * step[d]
		}
		for i := row; i < row+g.Out[n]; i++ {
			y[i] = least
			if key := index[i]; key == none {
				index[i] = -1
			} else {
				in := at + taps[last-int(uint32(key))]
				number, _ := g.number(in, 1, columnMajor)
				y[i], index[i] = x[in], int64(base+number)
			}
			at += s
		}
		WindowStep(pos, g.Out[:n])
	}
	return true
}
