package ops

import (
	"math"
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// argReduction holds the attributes of argMax and argMin.
type argReduction struct {
	Axis       int
	KeepDims   bool
	SelectLast bool
}

// readArgReduction reads the attributes of argMax and argMin.
func readArgReduction(a *kit.Attrs, opset int) argReduction {
	r := argReduction{Axis: a.Int("axis", 0), KeepDims: a.Bool("keepdims", true)}
	if opset >= 12 {
		r.SelectLast = a.Bool("select_last_index", false)
	}
	return r
}

// Infer implements [ir.Operator].
func (r *argReduction) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.UnrankedTensor(tensor.TypeInt64))
	shape := c.Shape(0)
	if shape == nil {
		return nil
	}
	axis, err := kit.NormalAxis(r.Axis, len(shape))
	if err != nil {
		return err
	}
	out := append([]ir.Dim{}, shape[:axis]...)
	if r.KeepDims {
		out = append(out, ir.Known(1))
	}
	c.SetOut(0, ir.TensorType(tensor.TypeInt64, append(out, shape[axis+1:]...)...))
	return nil
}

// argWhich selects the largest or the smallest element.
type argWhich bool

// The operators that argReduction computes.
const (
	argMax argWhich = true
	argMin argWhich = false
)

// argTypes are the types in which elements of other types are compared. Long rows of int8 and uint8
// are not converted.
var argTypes = map[tensor.DType]tensor.DType{tensor.TypeInt8: tensor.TypeFloat32, tensor.TypeUint8: tensor.TypeFloat32,
	tensor.TypeFloat16: tensor.TypeFloat32, tensor.TypeBFloat16: tensor.TypeFloat32,
	tensor.TypeInt16: tensor.TypeFloat32, tensor.TypeUint16: tensor.TypeFloat32, tensor.TypeUint32: tensor.TypeInt64}

// RunWith stores the indices of the extremes of input 0 along the axis in output 0.
func (r *argReduction) RunWith(c *ir.Call, which argWhich) error {
	x := c.Tensor(0)
	shape := x.Shape()
	axis, err := kit.NormalAxis(r.Axis, len(shape))
	if err != nil {
		return err
	}
	outShape := append([]int{}, shape[:axis]...)
	if r.KeepDims {
		outShape = append(outShape, 1)
	}
	outShape = append(outShape, shape[axis+1:]...)
	out, err := c.Output(0, tensor.TypeInt64, outShape...)
	if err != nil {
		return err
	}
	if out.Len() == 0 {
		return nil
	}
	if shape[axis] == 0 {
		return fail.Errorf("axis %d of shape %v is empty", axis, shape)
	}
	dst, s := tensor.MustData[int64](out), kit.SpanOf(shape, axis)
	longBytes := x.DType().Size() == 1 && s.Inner == 1 && s.N > argWidth && !c.Generic
	if d, ok := argTypes[x.DType()]; ok && !longBytes {
		if x, err = kit.ToScratch(c, x, d); err != nil {
			return err
		}
	}
	switch d := x.DType(); d {
	case tensor.TypeInt8:
		argFolds(c, dst, tensor.MustData[int8](x), s, which, r.SelectLast, vec.ReduceMaxI8, vec.ReduceMinI8)
		return nil
	case tensor.TypeInt32:
		return argRunFast(c, dst, tensor.MustData[int32](x), s, which, r.SelectLast, vec.ReduceMaxI32, vec.ReduceMinI32)
	case tensor.TypeInt64:
		return argRunFast(c, dst, tensor.MustData[int64](x), s, which, r.SelectLast, vec.ReduceMaxI64, vec.ReduceMinI64)
	case tensor.TypeUint8:
		argFolds(c, dst, tensor.MustData[uint8](x), s, which, r.SelectLast, vec.ReduceMaxU8, vec.ReduceMinU8)
		return nil
	case tensor.TypeUint64:
		return argRun(c, dst, tensor.MustData[uint64](x), s, which, r.SelectLast)
	case tensor.TypeFloat32:
		if s.Inner == 1 && !c.Generic {
			v := tensor.MustData[float32](x)
			kit.ParallelSpans(c, s.Outer, s.N,
				func(lo, hi int) { argRowsFast(dst[lo:hi], v, s.N, lo, which, r.SelectLast) })
			return nil
		}
		if size := s.N * s.Inner; !c.Generic && s.Inner < kit.ShortRow {
			v := tensor.MustData[float32](x)
			kit.ParallelSpans(c, s.Outer, size, func(lo, hi int) {
				const enough = 1 << 12
				rows := make([]float32, min(hi-lo, max(1, enough/size))*size)
				for lo < hi && c.Err() == nil {
					n := min(hi-lo, len(rows)/size)
					for i := range n {
						vec.TransposeF32(cpu.Active(), rows[i*size:], s.N, v[(lo+i)*size:], s.Inner, s.N, s.Inner)
					}
					argRowsFast(dst[lo*s.Inner:][:n*s.Inner], rows[:n*size], s.N, 0, which, r.SelectLast)
					lo += n
				}
			})
			return c.Err()
		}
		if !c.Generic && s.Inner >= kit.ShortRow {
			return argColumns(c, dst, s, tensor.MustData[float32](x), which, r.SelectLast, argLinesF32)
		}
		return argRun(c, dst, tensor.MustData[float32](x), s, which, r.SelectLast)
	case tensor.TypeFloat64:
		return argRunFast(c, dst, tensor.MustData[float64](x), s, which, r.SelectLast, vec.ReduceMaxF64,
			vec.ReduceMinF64)
	default:
		return fail.Errorf("elements of type %s are not supported", d)
	}
}

// argRunFast is argRun with vector kernels for the largest and smallest element of a row.
func argRunFast[T kit.RealNumber](c *ir.Call, dst []int64, src []T, s kit.AxisSpan, which argWhich, last bool,
	most, least func(cpu.Level, []T) T) error {
	if s.Inner != 1 || s.N < 2*kit.ShortRow || c.Generic {
		return argRun(c, dst, src, s, which, last)
	}
	argFolds(c, dst, src, s, which, last, most, least)
	return nil
}

// argFolds finds the value of each row with a kernel, and then its index.
func argFolds[T kit.RealNumber](c *ir.Call, dst []int64, src []T, s kit.AxisSpan, which argWhich, last bool,
	most, least func(cpu.Level, []T) T) {
	best := least
	if which == argMax {
		best = most
	}
	kit.ParallelEach(c, s.Outer, s.N, func(i int) {
		row := src[i*s.N : (i+1)*s.N]
		dst[i] = int64(argOf(row, best(cpu.Active(), row), which, last))
	})
}

func argRun[T kit.RealNumber](c *ir.Call, dst []int64, src []T, s kit.AxisSpan, which argWhich, last bool) error {
	if s.Inner == 1 {
		kit.ParallelEach(c, s.Outer, 4*s.N, func(i int) { dst[i] = int64(argRow(src[i*s.N:(i+1)*s.N], which, last)) })
		return nil
	}
	return argColumns(c, dst, s, src, which, last, argLines[T])
}

func argColumns[T kit.RealNumber](c *ir.Call, dst []int64, s kit.AxisSpan, src []T, which argWhich, last bool,
	lines func(c *ir.Call, best []int64, src []T, s kit.AxisSpan, base int, which argWhich, last bool)) error {
	return s.EachLine(c, func(base, m int) {
		outer, lo := base/(s.N*s.Inner), base%s.Inner
		lines(c, dst[outer*s.Inner+lo:][:m], src, s, base, which, last)
	})
}

// argRow is argLines for one contiguous line.
func argRow[T kit.RealNumber](x []T, which argWhich, last bool) int {
	best, at := x[0], 0
	switch {
	case last:
		for k, v := range x {
			better := v > best
			if which == argMin {
				better = v < best
			}
			if better || v == best || v != v {
				best, at = v, k
			}
		}
		return at
	case which == argMax: // without branches
		for k, v := range x {
			if v > best {
				at = k
			}
			best = max(best, v)
		}
	default:
		for k, v := range x {
			if v < best {
				at = k
			}
			best = min(best, v)
		}
	}
	if best != best {
		return slices.IndexFunc(x, func(v T) bool { return v != v })
	}
	return at
}

// argRowFast is argRow with a vector kernel that finds the value first, and then its index.
func argRowFast(x []float32, which argWhich, last bool) int {
	return argIndex(x, extreme(x, which), which, last)
}

func extreme(x []float32, which argWhich) float32 {
	if which == argMax {
		return vec.ReduceMaxF32(cpu.Active(), x)
	}
	return vec.ReduceMinF32(cpu.Active(), x)
}

// argIndex is argOf that bisects long rows: the kernel reads half of a row faster than a loop reads
// a few elements.
func argIndex(x []float32, best float32, which argWhich, last bool) int {
	const short = 64
	at := 0
	for len(x) > short && best == best {
		half := len(x) / 2
		low := extreme(x[:half], which) == best
		if last {
			low = extreme(x[half:], which) != best
		}
		if low {
			x = x[:half]
		} else {
			x, at = x[half:], at+half
		}
	}
	return at + argOf(x, best, which, last)
}

// argWidth is the most elements of the rows that argNarrowRows takes, and argRows the number of
// them that it searches together.
const (
	argWidth = 128
	argRows  = 64
)

// argBuffer holds the columns of narrow rows, and the results for them.
type argBuffer struct {
	columns [argWidth * argRows]float32
	value   [argRows]float32
	at      [argRows]int32
}

var argBuffers = sync.Pool{New: func() any { return new(argBuffer) }}

// argNarrowRows is [argRowsFast] for narrow rows. It returns false, with nothing done, if there is
// no kernel.
func argNarrowRows(dst []int64, x []float32, n, first int, which argWhich, last bool) bool {
	if n > argWidth || len(dst) < kit.ShortRow {
		return false
	}
	b, l := argBuffers.Get().(*argBuffer), cpu.Active()
	defer argBuffers.Put(b)
	for lo := 0; lo < len(dst); lo += argRows {
		lo = min(lo, len(dst)-kit.ShortRow) // the kernel takes no fewer rows
		m := min(len(dst)-lo, argRows)
		vec.TransposeF32(l, b.columns[:], m, x[(first+lo)*n:], n, m, n)
		if !vec.ArgColumnsF32(l, b.at[:m], b.value[:m], b.columns[:], m, n, which == argMin, last, func() {}) {
			return false
		}
		for i, k := range b.at[:m] {
			dst[lo+i] = int64(k)
		}
	}
	return true
}

// argRowsFast applies argRowFast to the rows of n elements of x, from row first on.
func argRowsFast(dst []int64, x []float32, n, first int, which argWhich, last bool) {
	if argNarrowRows(dst, x, n, first, which, last) {
		return
	}
	if n < kit.ShortRow/2 {
		for i := range dst {
			dst[i] = int64(argRow(x[(first+i)*n:][:n], which, last))
		}
		return
	}
	if n > vec.MostRowsF32 || len(x) < n*vec.LeastRowsF32 {
		for i := range dst {
			dst[i] = int64(argRowFast(x[(first+i)*n:][:n], which, last))
		}
		return
	}
	const near = 1 << 13 // elements that are still in the first-level cache when their index is searched
	var best [64]float32
	for len(dst) > 0 {
		b := best[:min(len(dst), len(best), max(1, near/n))]
		if which == argMax {
			vec.MaxRowsF32(cpu.Active(), b, x, n, first)
		} else {
			vec.MinRowsF32(cpu.Active(), b, x, n, first)
		}
		for i, v := range b {
			dst[i] = int64(argIndex(x[(first+i)*n:][:n], v, which, last))
		}
		dst, first = dst[len(b):], first+len(b)
	}
}

// argOf returns the index of best, which is the largest or smallest element of x, or NaN.
func argOf[T kit.RealNumber](x []T, best T, which argWhich, last bool) int {
	if best != best {
		return argRow(x, which, last)
	}
	if last {
		for k := len(x) - 1; k > 0; k-- {
			if x[k] == best {
				return k
			}
		}
		return 0
	}
	for k, v := range x {
		if v == best {
			return k
		}
	}
	return 0
}

// argLines finds the index of the largest or smallest element of each of len(best) lines. NaN
// precedes all numbers.
func argLines[T kit.RealNumber](c *ir.Call, best []int64, src []T, s kit.AxisSpan, base int,
	which argWhich, last bool) {
	var values [kit.ColumnBlock]T
	value := values[:len(best)]
	copy(value, src[base:])
	clear(best)
	meter := ir.Meter{C: c}
	for k := int64(1); k < int64(s.N); k++ {
		meter.Check(len(best))
		row := src[base+int(k)*s.Inner:][:len(best)]
		switch {
		case last:
			for j, v := range row {
				b := value[j]
				better := v > b
				if which == argMin {
					better = v < b
				}
				if better || v == b || v != v {
					value[j], best[j] = v, k
				}
			}
		case which == argMax: // without branches
			for j, v := range row {
				b, i := value[j], best[j]
				if v > b {
					i = k
				}
				value[j], best[j] = max(b, v), i
			}
		default:
			for j, v := range row {
				b, i := value[j], best[j]
				if v < b {
					i = k
				}
				value[j], best[j] = min(b, v), i
			}
		}
	}
	for j, v := range value {
		if v == v || last {
			continue
		}
		at := base + j
		for src[at] == src[at] {
			at += s.Inner
		}
		best[j] = int64((at - base) / s.Inner)
	}
}

// argLinesF32 is [argLines] with a vector kernel.
func argLinesF32(c *ir.Call, best []int64, src []float32, s kit.AxisSpan, base int, which argWhich, last bool) {
	var (
		at    [kit.ColumnBlock]int32
		value [kit.ColumnBlock]float32
	)
	meter := ir.Meter{C: c}
	check := func() { meter.Check(1 << 13) }
	if m := len(best); s.N > math.MaxInt32 || !vec.ArgColumnsF32(cpu.Active(), at[:m], value[:m], src[base:], s.Inner,
		s.N, which == argMin, last, check) {
		argLines(c, best, src, s, base, which, last)
		return
	}
	for j, i := range at[:len(best)] {
		best[j] = int64(i)
	}
}
