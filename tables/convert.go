package tables

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/onward-ml/onward/tensor"
)

// values holds the elements of an input for the rows of a record batch.
type values struct {
	in   *input
	data any // []float32, []float64, []int64 or []string: the elements of all rows
	// All rows have one shape, unless shapes holds those of each row. starts holds the
	// positions of the rows' elements, or is nil if rows follow each other.
	shape  []int
	shapes [][]int
	starts []int
}

// A reject notes that a row cannot be scored. The first reason of a row is kept.
type reject func(row int, reason string)

// read converts the columns of an input. Elements of rejected rows are arbitrary.
func (r *scoring) read(in *input, rec arrow.RecordBatch, bad reject) *values {
	v := &values{in: in}
	first := rec.Column(in.columns[0])
	switch in.kind {
	case images:
		r.readImages(v, first, rec.ColumnName(in.columns[0]), bad)
		return v
	case lists:
		v.readLists(first, rec.ColumnName(in.columns[0]), bad)
		return v
	}
	v.shape = in.scalarShape()
	v.data = newElements(in.dtype, int(rec.NumRows())*len(in.columns))
	for k, c := range in.columns {
		v.convert(rec.Column(c), k, len(in.columns), func(i int, why string) {
			bad(i, "column "+rec.ColumnName(c)+" "+why)
		})
	}
	return v
}

// scalarShape returns the shape of a row whose elements are in columns of their own.
func (in *input) scalarShape() []int {
	switch n := len(in.columns); {
	case in.rank1 || in.inner == nil && n == 1:
		return nil
	case len(in.inner) <= 1:
		return []int{n}
	}
	shape := slices.Clone(in.inner)
	for i, d := range shape {
		shape[i] = max(d, 1) // newInput has checked that the others hold all columns
		if d == 0 {
			shape[i] = 0
		}
	}
	return shape
}

func newElements(d tensor.DType, n int) any {
	switch {
	case d == tensor.TypeString:
		return make([]string, n)
	case d == tensor.TypeFloat64:
		return make([]float64, n)
	case d.IsFloat():
		return make([]float32, n)
	}
	return make([]int64, n)
}

// convert writes element i of a column to v.data[at+i*stride].
func (v *values) convert(a arrow.Array, at, stride int, bad reject) {
	if a.NullN() > 0 {
		for i := range a.Len() {
			if a.IsNull(i) {
				bad(i, "is null")
			}
		}
	}
	switch dst := v.data.(type) {
	case []string:
		if t, ok := a.(interface{ Value(int) string }); ok {
			for i := range a.Len() {
				if a.IsValid(i) {
					dst[at+i*stride] = strings.Clone(t.Value(i))
				}
			}
		}
	case []float32:
		convertTo(dst, at, stride, a, v.in.dtype, bad)
	case []float64:
		convertTo(dst, at, stride, a, v.in.dtype, bad)
	case []int64:
		convertTo(dst, at, stride, a, v.in.dtype, bad)
	}
}

type element interface{ float32 | float64 | int64 }

func convertTo[D element](dst []D, at, stride int, a arrow.Array, dtype tensor.DType, bad reject) {
	switch a := a.(type) {
	case *array.Float32:
		fromNumbers(dst, at, stride, a.Float32Values(), a, dtype, bad)
	case *array.Float64:
		fromNumbers(dst, at, stride, a.Float64Values(), a, dtype, bad)
	case *array.Int64:
		fromNumbers(dst, at, stride, a.Int64Values(), a, dtype, bad)
	case *array.Int32:
		fromNumbers(dst, at, stride, a.Int32Values(), a, dtype, bad)
	case *array.Int16:
		fromNumbers(dst, at, stride, a.Int16Values(), a, dtype, bad)
	case *array.Int8:
		fromNumbers(dst, at, stride, a.Int8Values(), a, dtype, bad)
	case *array.Uint64:
		fromNumbers(dst, at, stride, a.Uint64Values(), a, dtype, bad)
	case *array.Uint32:
		fromNumbers(dst, at, stride, a.Uint32Values(), a, dtype, bad)
	case *array.Uint16:
		fromNumbers(dst, at, stride, a.Uint16Values(), a, dtype, bad)
	case *array.Uint8:
		fromNumbers(dst, at, stride, a.Uint8Values(), a, dtype, bad)
	case *array.Boolean:
		for i := range a.Len() {
			if a.Value(i) {
				dst[at+i*stride] = 1
			}
		}
	case *array.Float16:
		wide := make([]float32, a.Len())
		for i := range wide {
			wide[i] = a.Value(i).Float32()
		}
		fromNumbers(dst, at, stride, wide, a, dtype, bad)
	case *array.Decimal128:
		wide := make([]float64, a.Len())
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		for i := range wide {
			wide[i] = a.Value(i).ToFloat64(scale)
		}
		fromNumbers(dst, at, stride, wide, a, dtype, bad)
	case interface{ Value(int) string }:
		fromText(dst, at, stride, a.(arrow.Array), a.Value, dtype, bad)
	}
}

type number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// fromNumbers converts numbers. Integers must be represented exactly; floating-point elements
// are rounded to the type of the input.
func fromNumbers[D element, S number](dst []D, at, stride int, src []S, a arrow.Array, dtype tensor.DType, bad reject) {
	if dtype.IsFloat() {
		for i, x := range src {
			dst[at+i*stride] = D(x)
		}
		return
	}
	least, most := integers(dtype)
	fraction := S(1)/2 != 0
	for i, x := range src {
		var v int64
		ok := false
		switch {
		case fraction:
			f := float64(x)
			// The float64 above the largest integer is exact, the largest integer may not be.
			if ok = f >= float64(least) && f < float64(most/2+1)*2 && f == math.Trunc(f); !ok {
			} else if v = int64(f); f >= 1<<63 {
				v = int64(uint64(f))
			}
		case x < 0:
			v = int64(x)
			ok = v >= least
		default: // the tensor of an uint64 has the same bits
			v = int64(uint64(x))
			ok = uint64(x) <= most
		}
		if !ok && a.IsValid(i) {
			bad(i, fmt.Sprintf("is %v, which is not of type %s", x, dtype))
		}
		dst[at+i*stride] = D(v)
	}
}

// integers returns the least and the largest value of an integer type.
func integers(d tensor.DType) (least int64, most uint64) {
	if d == tensor.TypeBool {
		return 0, 1
	}
	if d.IsSigned() {
		return -1 << (d.Bits() - 1), 1<<(d.Bits()-1) - 1
	}
	return 0, math.MaxUint64 >> (64 - d.Bits())
}

func fromText[D element](dst []D, at, stride int, a arrow.Array, text func(int) string,
	dtype tensor.DType, bad reject) {
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		s := strings.TrimSpace(text(i))
		var x D
		var err error
		switch {
		case s == "":
			bad(i, "is empty")
			continue
		case dtype.IsFloat():
			var f float64
			f, err = strconv.ParseFloat(s, 64)
			x = D(f)
		case dtype == tensor.TypeBool:
			var b bool
			if b, err = strconv.ParseBool(strings.ToLower(s)); b {
				x = 1
			}
		case dtype.IsUnsigned():
			var u uint64
			u, err = strconv.ParseUint(s, 10, dtype.Bits())
			v := int64(u)
			x = D(v)
		default:
			var v int64
			v, err = strconv.ParseInt(s, 10, dtype.Bits())
			x = D(v)
		}
		if err != nil {
			bad(i, fmt.Sprintf("is %s, which is not of type %s", quote(s), dtype))
		}
		dst[at+i*stride] = x
	}
}

// quote quotes the beginning of a text for a reason.
func quote(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return strconv.Quote(s)
}

// readLists reads a column of lists, nested or not. The rows may differ in shape.
func (v *values) readLists(column arrow.Array, name string, bad reject) {
	n := column.Len()
	v.starts, v.shapes = make([]int, n), make([][]int, n)
	ends, ok := make([]int, n), make([]bool, n)
	for i := range n {
		v.starts[i], ends[i], ok[i] = i, i+1, true
	}
	leaf := column
	for {
		l, isList := leaf.(array.ListLike)
		if !isList {
			break
		}
		// Row i holds the lists from starts[i] to ends[i] of this level.
		for i := range n {
			length := 0
			for k := v.starts[i]; ok[i] && k < ends[i]; k++ {
				lo, hi := l.ValueOffsets(k)
				switch d := int(hi - lo); {
				case leaf.IsNull(k):
					bad(i, "column "+name+" is null or holds a null")
					ok[i] = false
				case k == v.starts[i]:
					length = d
				case d != length:
					bad(i, fmt.Sprintf("column %s holds lists of %d and of %d values, want equal lengths",
						name, length, d))
					ok[i] = false
				}
			}
			if !ok[i] || v.starts[i] == ends[i] {
				v.starts[i], ends[i] = 0, 0
			} else {
				lo, _ := l.ValueOffsets(v.starts[i])
				_, hi := l.ValueOffsets(ends[i] - 1)
				v.starts[i], ends[i] = int(lo), int(hi)
			}
			v.shapes[i] = append(v.shapes[i], length)
		}
		leaf = l.ListValues()
	}
	// Convert the elements from the first to the last row at once.
	lo, hi := math.MaxInt, 0
	for i := range n {
		if v.starts[i] < ends[i] {
			lo, hi = min(lo, v.starts[i]), max(hi, ends[i])
		}
	}
	if lo > hi {
		lo = hi
	}
	for i := range n {
		if v.starts[i] < ends[i] {
			v.starts[i], ends[i] = v.starts[i]-lo, ends[i]-lo
		}
		if !ok[i] {
			continue
		}
		shape, err := v.in.shape(v.shapes[i], ends[i]-v.starts[i])
		if err != nil {
			bad(i, "column "+name+": "+err.Error())
		}
		v.shapes[i] = shape
	}
	v.data = newElements(v.in.dtype, hi-lo)
	v.convert(array.NewSlice(leaf, int64(lo), int64(hi)), 0, 1, func(k int, why string) {
		// Rows are in the order of their elements; those of rejected rows are at 0.
		for i := range n {
			if v.starts[i] <= k && k < ends[i] {
				bad(i, fmt.Sprintf("column %s: element %d %s", name, k-v.starts[i], why))
				return
			}
		}
	})
}

// rowShape returns the shape of a row.
func (v *values) rowShape(row int) []int {
	if v.shapes != nil {
		return v.shapes[row]
	}
	return v.shape
}

// tensor makes a tensor of rows of equal shape. pad more rows repeat the last one.
func (v *values) tensor(rows []int, pad int) (*tensor.Tensor, error) {
	shape := append([]int{len(rows) + pad}, v.rowShape(rows[0])...)
	size, err := tensor.Elements(shape[1:])
	if err != nil {
		return nil, err
	}
	switch d := v.data.(type) {
	case []string:
		return tensor.New(gather(v, d, rows, size, pad), shape...)
	case []float64:
		return tensor.New(gather(v, d, rows, size, pad), shape...)
	case []float32:
		t, err := tensor.New(gather(v, d, rows, size, pad), shape...)
		if err != nil || v.in.dtype == tensor.TypeFloat32 {
			return t, err
		}
		return tensor.Convert(t, v.in.dtype, &tensor.ConvertOptions{Saturate: true})
	case []int64:
		g := gather(v, d, rows, size, pad)
		if v.in.dtype == tensor.TypeUint64 {
			u := make([]uint64, len(g))
			for i, x := range g {
				u[i] = uint64(x)
			}
			return tensor.New(u, shape...)
		}
		t, err := tensor.New(g, shape...)
		if err != nil || v.in.dtype == tensor.TypeInt64 {
			return t, err
		}
		return tensor.Convert(t, v.in.dtype, nil)
	}
	panic(fmt.Sprintf("elements are of type %T", v.data))
}

// gather returns the elements of rows, of the given size each. The result aliases data if
// they follow each other.
func gather[T any](v *values, data []T, rows []int, size, pad int) []T {
	at := func(row int) int {
		if v.starts != nil {
			return v.starts[row]
		}
		return row * size
	}
	first, last := at(rows[0]), at(rows[len(rows)-1])
	if pad == 0 && last-first == (len(rows)-1)*size {
		return data[first : last+size : last+size]
	}
	out := make([]T, 0, (len(rows)+pad)*size)
	for k := range len(rows) + pad {
		i := at(rows[min(k, len(rows)-1)])
		out = append(out, data[i:i+size]...)
	}
	return out
}
