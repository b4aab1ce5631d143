package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// CumSum adds up the elements along an axis and stores every sum on the way
// (https://onnx.ai/onnx/operators/onnx__CumSum.html).
type CumSum struct{ cumulative }

var _ = register(Def{Name: "CumSum", Since: []int{11, 14}, In: "x:T, axis:T2", Out: "y:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float", "T2": "int32 int64"},
	Build: simple(func(a *Attrs, opset int) Operator { return &CumSum{readCumulative(a)} })})

var cumSumTable = map[tensor.DType]cumulativeKernel{
	tensor.TypeInt32:   cumSum[int32],
	tensor.TypeInt64:   cumSum[int64],
	tensor.TypeUint32:  cumSum[uint32],
	tensor.TypeUint64:  cumSum[uint64],
	tensor.TypeFloat32: cumSumFloats,
	tensor.TypeFloat64: cumSum[float64],
}

// Run implements [ir.Operator].
func (o *CumSum) Run(c *ir.Call) error { return o.run(c, cumSumTable) }

func cumSumLines[T realNumber](dst, src []T, l cumulativeLines) {
	var acc [columnBlock]T
	for k := range l.n {
		at := l.at(k)
		x, y, a := src[at:at+l.m], dst[at:at+l.m], acc[:l.m]
		if l.exclusive {
			for j := range y {
				y[j] = a[j]
				a[j] += x[j]
			}
			continue
		}
		for j := range y {
			a[j] += x[j]
			y[j] = a[j]
		}
	}
}

// cumSum adds up single lines four at a time: one sum waits for the last.
func cumSum[T realNumber](c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error {
	if c.Generic || l.inner != 1 {
		return cumulativeOf(cumSumLines[T])(c, out, x, l)
	}
	dst, src := tensor.Of[T](out), tensor.Of[T](x)
	if len(dst) == 0 {
		return nil
	}
	return reduceSpans(c, l.outer, l.n, func(lo, hi int) {
		for ; lo+4 <= hi; lo += 4 {
			cumSumFour(dst[lo*l.n:(lo+4)*l.n], src[lo*l.n:(lo+4)*l.n], l)
		}
		for ; lo < hi; lo++ {
			y, x := dst[lo*l.n:][:l.n], src[lo*l.n:][:l.n]
			var sum T
			for k := range x {
				if l.reverse {
					k = l.n - 1 - k
				}
				v := sum + x[k]
				if l.exclusive {
					y[k] = sum
				} else {
					y[k] = v
				}
				sum = v
			}
		}
	})
}

// cumSumFour adds up four lines that follow each other.
func cumSumFour[T realNumber](dst, src []T, l cumulativeLines) {
	n := l.n
	x0, x1, x2, x3 := src[:n], src[n:][:n], src[2*n:][:n], src[3*n:][:n]
	y0, y1, y2, y3 := dst[:n], dst[n:][:n], dst[2*n:][:n], dst[3*n:][:n]
	var s0, s1, s2, s3 T
	for k := range n {
		if l.reverse {
			k = n - 1 - k
		}
		v0, v1, v2, v3 := s0+x0[k], s1+x1[k], s2+x2[k], s3+x3[k]
		if l.exclusive {
			y0[k], y1[k], y2[k], y3[k] = s0, s1, s2, s3
		} else {
			y0[k], y1[k], y2[k], y3[k] = v0, v1, v2, v3
		}
		s0, s1, s2, s3 = v0, v1, v2, v3
	}
}

// cumSumFloats adds whole rows of neighbouring lines in vector kernels.
func cumSumFloats(c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error {
	if c.Generic || l.exclusive || l.inner < shortRow {
		return cumSum[float32](c, out, x, l)
	}
	return cumulativeOf(func(dst, src []float32, l cumulativeLines) {
		for k := range l.n {
			at := l.at(k)
			if k == 0 {
				copy(dst[at:at+l.m], src[at:at+l.m])
				continue
			}
			before := l.at(k - 1)
			vec.AddF32(cpu.Active(), dst[at:at+l.m], dst[before:before+l.m], src[at:at+l.m])
		}
	})(c, out, x, l)
}

// cumulative holds what CumSum and CumProd share. The axis is input 1.
type cumulative struct {
	Exclusive bool // leave an element out of its own result
	Reverse   bool // go from the end to the beginning
}

func readCumulative(a *Attrs) cumulative {
	return cumulative{Exclusive: a.Bool("exclusive", false), Reverse: a.Bool("reverse", false)}
}

// cumulativeLines is a group of m neighbouring lines along the axis.
type cumulativeLines struct {
	axisSpan
	base, m            int
	exclusive, reverse bool
}

// at returns the position of step k of the first line.
func (l cumulativeLines) at(k int) int {
	if l.reverse {
		k = l.n - 1 - k
	}
	return l.base + k*l.inner
}

type cumulativeKernel func(c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error

func cumulativeOf[T tensor.Element](lines func(dst, src []T, l cumulativeLines)) cumulativeKernel {
	return func(c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error {
		dst, src := tensor.Of[T](out), tensor.Of[T](x)
		return l.eachLine(c, func(base, m int) {
			part := l
			part.base, part.m = base, m
			lines(dst, src, part)
		})
	}
}

// Infer implements [ir.Operator].
func (*cumulative) Infer(c *ir.InferContext) error {
	if t, s := c.Const(1), c.Shape(0); t != nil && s != nil {
		axis, err := scalarInt(t, "axis")
		if err != nil {
			return err
		}
		if _, err := normalAxis(axis, len(s)); err != nil {
			return err
		}
	}
	return sameAsInput(c)
}

func (o *cumulative) run(c *ir.Call, t map[tensor.DType]cumulativeKernel) error {
	x := c.Tensor(0)
	axis, err := scalarInt(c.Tensor(1), "axis")
	if err != nil {
		return err
	}
	if axis, err = normalAxis(axis, x.Rank()); err != nil {
		return err
	}
	l := cumulativeLines{axisSpan: spanOf(x.Shape(), axis), exclusive: o.Exclusive, reverse: o.Reverse}
	if d := x.DType(); d.IsFloat() {
		return runWide(c,
			func(dst, src []float32) error {
				return t[tensor.TypeFloat32](c, tensor.Must(tensor.New(dst, len(dst))), tensor.Must(tensor.New(src, len(src))), l)
			},
			func(dst, src []float64) error {
				return t[tensor.TypeFloat64](c, tensor.Must(tensor.New(dst, len(dst))), tensor.Must(tensor.New(src, len(src))), l)
			})
	}
	k := t[x.DType()]
	if k == nil {
		return fmt.Errorf("elements of type %s are not supported", x.DType())
	}
	out, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	return k(c, out, x, l)
}
