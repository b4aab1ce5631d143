package tables

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// An output is an output of the model that becomes a column.
type output struct {
	name  string
	field arrow.Field
	depth int      // of nested lists
	one   bool     // a row has one element, and the column no lists
	keys  []string // of the maps in a sequence of maps, or nil
}

// newOutput returns the column for an output. sample is the result of a run of sampleRows
// rows, or nil: it is needed for sequences and for tensors of unknown rank.
func newOutput(a onward.NodeArg, prefix string, sample tensor.Value, sampleRows int) (*output, error) {
	o := &output{name: a.Name, field: arrow.Field{Name: prefix + a.Name, Nullable: true}}
	switch t := a.ElementType(); t.Kind {
	case tensor.KindTensor:
		elem := arrowType(t.Elem)
		if elem == nil {
			return nil, fmt.Errorf("output %s: element type %s cannot become a column", a, t.Elem)
		}
		inner := make([]int, max(0, len(a.Shape)-1))
		for i := range inner {
			inner[i] = int(a.Shape[i+1].Value)
		}
		if s, ok := sample.(*tensor.Tensor); ok && a.Shape == nil {
			if s.Rank() == 0 || s.Dim(0) != sampleRows {
				return nil, rowsError(a.Name, s, sampleRows)
			}
			inner = s.Shape()[1:]
		}
		o.one = len(inner) == 0 || slices.Equal(inner, []int{1})
		o.field.Type = elem
		if !o.one {
			for range inner {
				o.depth++
				o.field.Type = arrow.ListOf(o.field.Type)
			}
		}
		return o, nil
	case tensor.KindSequence:
		s, ok := sample.(*tensor.Sequence)
		if !ok || len(s.Items) != sampleRows {
			return nil, fmt.Errorf("output %s has %d items for %d rows, want one per row", a, len(s.Items), sampleRows)
		}
		m, ok := s.Items[0].(*tensor.Map)
		if !ok {
			break
		}
		values, ok := m.Values.(*tensor.Tensor)
		if !ok || arrowType(values.DType()) == nil {
			break
		}
		o.keys = keys(m)
		var members []arrow.Field
		for _, k := range o.keys {
			members = append(members, arrow.Field{Name: k, Type: arrowType(values.DType()), Nullable: true})
		}
		o.field.Type = arrow.StructOf(members...)
		return o, nil
	}
	return nil, fmt.Errorf(
		"output %s cannot become a column: want a tensor or a sequence of maps of numbers or strings", a)
}

// needsSample reports whether the column of an output depends on a result.
func needsSample(a onward.NodeArg) bool {
	return a.ElementType().Kind != tensor.KindTensor || a.Shape == nil
}

// keys returns the keys of a map as the names of columns.
func keys(m *tensor.Map) []string {
	if s, err := tensor.Data[string](m.Keys); err == nil {
		return s
	}
	var s []string
	for _, f := range tensor.MustData[int64](tensor.Must(tensor.Convert(m.Keys, tensor.TypeInt64, nil))) {
		s = append(s, fmt.Sprint(f))
	}
	return s
}

func rowsError(name string, t *tensor.Tensor, rows int) error {
	return fmt.Errorf(
		"output %s has the shape %v, want %d rows along the first axis; leave it out by naming the outputs to add",
		name, t.Shape(), rows)
}

// arrowType returns the type of a column for elements of a type, or nil.
func arrowType(d tensor.DType) arrow.DataType {
	switch d {
	case tensor.TypeString:
		return arrow.BinaryTypes.String
	case tensor.TypeBool:
		return arrow.FixedWidthTypes.Boolean
	case tensor.TypeFloat16:
		return arrow.FixedWidthTypes.Float16
	case tensor.TypeFloat32:
		return arrow.PrimitiveTypes.Float32
	case tensor.TypeFloat64:
		return arrow.PrimitiveTypes.Float64
	case tensor.TypeInt8, tensor.TypeInt2, tensor.TypeInt4:
		return arrow.PrimitiveTypes.Int8
	case tensor.TypeInt16:
		return arrow.PrimitiveTypes.Int16
	case tensor.TypeInt32:
		return arrow.PrimitiveTypes.Int32
	case tensor.TypeInt64:
		return arrow.PrimitiveTypes.Int64
	case tensor.TypeUint8, tensor.TypeUint2, tensor.TypeUint4:
		return arrow.PrimitiveTypes.Uint8
	case tensor.TypeUint16:
		return arrow.PrimitiveTypes.Uint16
	case tensor.TypeUint32:
		return arrow.PrimitiveTypes.Uint32
	case tensor.TypeUint64:
		return arrow.PrimitiveTypes.Uint64
	}
	if d.IsFloat() { // bfloat16 and the types of 8 bits and less
		return arrow.PrimitiveTypes.Float32
	}
	return nil
}

// array makes the column of rows rows from a result. A result of more rows, which padding
// made, is cut. bad rejects a row.
func (o *output) array(v tensor.Value, rows, ran int, bad reject) (arrow.Array, error) {
	if o.keys != nil {
		return o.structs(v, rows, bad)
	}
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("output %s is a %s, want a tensor", o.name, v.Type())
	}
	if t.Rank() == 0 || t.Dim(0) != ran {
		return nil, rowsError(o.name, t, ran)
	}
	shape := t.Shape()[1:]
	if o.one && t.Len() != ran || !o.one && len(shape) != o.depth {
		return nil, fmt.Errorf("output %s has the shape %v, which the column of type %s cannot hold", o.name,
			t.Shape(), o.field.Type)
	}
	per := t.Len() / max(1, ran)
	if t.DType() == tensor.TypeString {
		for i, text := range tensor.MustData[string](t)[:rows*per] {
			if !utf8.ValidString(text) {
				bad(i/per, fmt.Sprintf("output %s is not valid UTF-8: %s", o.name, quote(text)))
			}
		}
	}
	data, err := elements(t, rows*per)
	if err != nil {
		return nil, fmt.Errorf("output %s: %w", o.name, err)
	}
	if o.one {
		return array.MakeFromData(data), nil
	}
	types := make([]arrow.DataType, o.depth) // of the levels of lists, the outermost first
	at := o.field.Type
	for i := range types {
		types[i] = at
		at = at.(*arrow.ListType).Elem()
	}
	for level := o.depth - 1; level >= 0; level-- {
		n := rows
		for _, d := range shape[:level] {
			n *= d
		}
		if n*shape[level] > math.MaxInt32 {
			return nil, fmt.Errorf("output %s has %d elements in one batch, want at most %d: use smaller batches",
				o.name, n*shape[level], math.MaxInt32)
		}
		offsets := make([]int32, n+1)
		for i := range offsets {
			offsets[i] = int32(i * shape[level])
		}
		data = array.NewData(types[level], n,
			[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))},
			[]arrow.ArrayData{data}, 0, 0)
	}
	return array.MakeFromData(data), nil
}

// elements copies the first n elements of a tensor to the data of a column.
func elements(t *tensor.Tensor, n int) (arrow.ArrayData, error) {
	typ := arrowType(t.DType())
	switch t.DType() {
	case tensor.TypeString:
		b := array.NewStringBuilder(memory.DefaultAllocator)
		b.AppendValues(tensor.MustData[string](t)[:n], nil)
		return b.NewStringArray().Data(), nil
	case tensor.TypeBool:
		bits := make([]byte, bitutil.BytesForBits(int64(n)))
		for i, x := range tensor.MustData[bool](t)[:n] {
			if x {
				bitutil.SetBit(bits, i)
			}
		}
		return array.NewData(typ, n, []*memory.Buffer{nil, memory.NewBufferBytes(bits)}, nil, 0, 0), nil
	case tensor.TypeInt2, tensor.TypeInt4:
		t = tensor.Must(tensor.Convert(t, tensor.TypeInt8, nil))
	case tensor.TypeUint2, tensor.TypeUint4:
		t = tensor.Must(tensor.Convert(t, tensor.TypeUint8, nil))
	default:
		if t.DType().IsFloat() && typ.ID() == arrow.FLOAT32 && t.DType() != tensor.TypeFloat32 {
			t = tensor.Must(tensor.Convert(t, tensor.TypeFloat32, nil))
		}
	}
	// The engine may reuse the memory of a tensor that is not referenced, hence the copy.
	raw := slices.Clone(t.Bytes()[:n*t.DType().Size()])
	return array.NewData(typ, n, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0), nil
}

// structs makes a column of structs from a sequence with a map per row.
func (o *output) structs(v tensor.Value, rows int, bad reject) (arrow.Array, error) {
	s, ok := v.(*tensor.Sequence)
	if !ok || len(s.Items) < rows {
		return nil, fmt.Errorf("output %s is not a sequence with one item for each of %d rows", o.name, rows)
	}
	typ := o.field.Type.(*arrow.StructType)
	place := make(map[string]int, len(o.keys))
	for i, k := range o.keys {
		place[k] = i
	}
	at := make([]int, len(o.keys)) // positions of the keys in the map of a row
	b := make([]array.Builder, len(o.keys))
	for i := range b {
		b[i] = array.NewBuilder(memory.DefaultAllocator, typ.Field(i).Type)
	}
	for r, item := range s.Items[:rows] {
		m, ok := item.(*tensor.Map)
		if !ok {
			return nil, fmt.Errorf("output %s: item %d is a %s, want a map", o.name, r, item.Type())
		}
		t, ok := m.Values.(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("output %s: the values of item %d are a %s, want a tensor", o.name, r,
				m.Values.Type())
		}
		data, err := elements(t, t.Len())
		if err != nil {
			return nil, err
		}
		values := array.MakeFromData(data)
		for i := range at {
			at[i] = -1
		}
		for k, key := range keys(m) {
			i, known := place[key]
			if !known {
				bad(r, fmt.Sprintf("output %s has the key %s, which the first rows have not", o.name, quote(key)))
				continue
			}
			at[i] = k
		}
		for i := range b {
			if k := at[i]; k < 0 {
				b[i].AppendNull()
			} else if err := appendElement(b[i], values, k); err != nil {
				return nil, fmt.Errorf("output %s: %w", o.name, err)
			}
		}
	}
	columns := make([]arrow.Array, len(b))
	for i := range b {
		columns[i] = b[i].NewArray()
	}
	return array.NewStructArrayWithFields(columns, typ.Fields())
}

func appendElement(b array.Builder, values arrow.Array, k int) error {
	switch v := values.(type) {
	case *array.Float32:
		b.(*array.Float32Builder).Append(v.Value(k))
	case *array.Float64:
		b.(*array.Float64Builder).Append(v.Value(k))
	case *array.Int64:
		b.(*array.Int64Builder).Append(v.Value(k))
	case *array.String:
		b.(*array.StringBuilder).Append(v.Value(k))
	default:
		return fmt.Errorf("maps with values of type %s cannot become a column", values.DataType())
	}
	return nil
}
