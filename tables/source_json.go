package tables

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

const maxDepth = 16 // of nested lists in a column

// rawJSON marks string columns that hold JSON texts of any kind.
var rawJSON = arrow.NewMetadata([]string{"onward.encoding"}, []string{"json"})

func isRaw(f arrow.Field) bool {
	i := f.Metadata.FindKey("onward.encoding")
	return i >= 0 && f.Metadata.Values()[i] == "json"
}

// jsonDecoder decodes one JSON object per line. The types of the columns are those of the
// values at the beginning of the text: numbers, strings, booleans and lists of them. Others,
// and mixed ones, are columns of JSON texts.
type jsonDecoder struct {
	floats []string // columns of numbers that may have a fraction
	types  *arrow.Schema
	index  map[string]int
}

func newJSON(floats []string) func() decoder {
	return func() decoder { return &jsonDecoder{floats: floats} }
}

func (*jsonDecoder) quotes() bool { return false }

func (d *jsonDecoder) open(head []byte) (*arrow.Schema, int, error) {
	if len(head) == textHead { // the last line may be cut
		i := bytes.LastIndexByte(head, '\n')
		if i < 0 {
			return nil, 0, fmt.Errorf("the first line is longer than %d bytes", textHead)
		}
		head = head[:i]
	}
	var order []string
	found := map[string]arrow.DataType{}
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		// A decoder keeps the order of the keys.
		dec := json.NewDecoder(bytes.NewReader(line))
		if t, err := dec.Token(); err != nil || t != json.Delim('{') {
			continue // the row is rejected when it is read
		}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				break
			}
			var v json.RawMessage
			if err := dec.Decode(&v); err != nil {
				break
			}
			name := key.(string)
			if _, seen := found[name]; !seen {
				order = append(order, name)
				found[name] = arrow.Null
			}
			found[name] = union(found[name], typeOf(v, 0))
		}
	}
	if len(order) == 0 {
		return nil, 0, errors.New("the first lines hold no JSON object")
	}
	if len(order) > maxFields {
		return nil, 0, fmt.Errorf("the first lines have %d columns, want at most %d", len(order), maxFields)
	}
	var list []arrow.Field
	d.index = map[string]int{}
	for i, name := range order {
		f := arrow.Field{Name: name, Type: found[name], Nullable: true}
		if slices.Contains(d.floats, name) {
			f.Type = withFraction(f.Type)
		}
		if hasNull(f.Type) {
			f.Type, f.Metadata = arrow.BinaryTypes.String, rawJSON
		}
		list, d.index[name] = append(list, f), i
	}
	d.types = arrow.NewSchema(list, nil)
	return d.types, 0, nil
}

// typeOf returns the type of a JSON value: Null stands for null and for values without a type.
func typeOf(v []byte, depth int) arrow.DataType {
	v = bytes.TrimSpace(v)
	switch {
	case len(v) == 0 || depth > maxDepth:
		return jsonText
	case v[0] == '"':
		return arrow.BinaryTypes.String
	case v[0] == 't' || v[0] == 'f':
		return arrow.FixedWidthTypes.Boolean
	case v[0] == 'n':
		return arrow.Null
	case v[0] == '[':
		var elem arrow.DataType = arrow.Null
		for x := range parts(v) {
			elem = union(elem, typeOf(x, depth+1))
		}
		if elem == jsonText {
			return jsonText
		}
		return arrow.ListOf(elem)
	case v[0] == '{':
		return jsonText
	}
	if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return arrow.PrimitiveTypes.Int64
	}
	return arrow.PrimitiveTypes.Float64
}

// jsonText is the type of values that have no common type.
var jsonText arrow.DataType = &arrow.StructType{}

// union returns the type of a column that holds values of two types.
func union(a, b arrow.DataType) arrow.DataType {
	la, okA := a.(*arrow.ListType)
	lb, okB := b.(*arrow.ListType)
	switch {
	case a == arrow.Null:
		return b
	case b == arrow.Null:
		return a
	case a == jsonText || b == jsonText:
		return jsonText
	case okA && okB:
		e := union(la.Elem(), lb.Elem())
		if e == jsonText {
			return jsonText
		}
		return arrow.ListOf(e)
	case a.ID() == b.ID():
		return a
	case arrow.IsInteger(a.ID()) && arrow.IsFloating(b.ID()), arrow.IsFloating(a.ID()) && arrow.IsInteger(b.ID()):
		return arrow.PrimitiveTypes.Float64
	}
	return jsonText
}

func withFraction(t arrow.DataType) arrow.DataType {
	if l, ok := t.(*arrow.ListType); ok {
		return arrow.ListOf(withFraction(l.Elem()))
	}
	if arrow.IsInteger(t.ID()) || t == arrow.Null {
		return arrow.PrimitiveTypes.Float64
	}
	return t
}

func hasNull(t arrow.DataType) bool {
	if l, ok := t.(*arrow.ListType); ok {
		return hasNull(l.Elem())
	}
	return t == arrow.Null || t == jsonText
}

func (d *jsonDecoder) decode(in io.Reader, line int64, columns []int,
	yield func(arrow.RecordBatch, []string, []int64) error) error {
	r := bufio.NewReaderSize(in, 1<<20)
	b := newRows(projectSchema(d.types, columns), yield)
	row := make([][]byte, d.types.NumFields())
	for {
		raw, err := readLine(r)
		if err == io.EOF {
			return b.flush()
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line+1, err)
		}
		line++
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		why := d.split(raw, row)
		for k, c := range columns {
			f, v := d.types.Field(c), row[c]
			b.bytes += len(v)
			if isRaw(f) && v != nil {
				b.builder.Field(k).(*array.StringBuilder).BinaryBuilder.Append(v)
			} else if err := appendJSON(b.builder.Field(k), v); err != nil && why == "" {
				why = fmt.Sprintf("column %s is %s, want %s", f.Name, quote(string(v)), f.Type)
			}
		}
		if err := b.end(line, why); err != nil {
			return err
		}
	}
}

// object is a JSON object whose members are left out.
type object struct{}

// split sets the texts of the columns that a line has, and the others to nil. It returns why the
// line is not a row, or "". It copies nothing: a long line can have millions of values.
func (d *jsonDecoder) split(line []byte, row [][]byte) (why string) {
	clear(row)
	if !utf8.Valid(line) { // else the decoder replaces what is not by U+FFFD
		return fmt.Sprintf("the line %s is not valid UTF-8", quote(string(line)))
	}
	if err := json.Unmarshal(line, new(object)); err != nil {
		return fmt.Sprintf("the line %s is not a JSON object: %v", quote(string(line)), err)
	}
	if line[0] != '{' {
		return "" // null
	}
	column, known, key := 0, false, true
	for x := range parts(line) {
		switch {
		case key:
			name := unquoted(x)
			if column, known = d.index[string(name)]; !known && why == "" {
				why = fmt.Sprintf("the object has the key %s, which is not in the first lines", quote(string(name)))
			}
		case known:
			row[column] = x
		}
		key = !key
	}
	return why
}

// unquoted returns the text of a JSON string, and other values as they are. v is valid.
func unquoted(v []byte) []byte {
	if v[0] != '"' {
		return v
	}
	if text := v[1 : len(v)-1]; bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	var s string
	_ = json.Unmarshal(v, &s)
	return []byte(s)
}

// parts returns the elements of a JSON array, or the keys and values of an object in turn. The text
// v is valid and has no space around it.
func parts(v []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		v := v[1 : len(v)-1]
		begin, depth := 0, 0
		for i := 0; i < len(v); i++ {
			switch v[i] {
			case '"':
				for i++; v[i] != '"'; i++ {
					if v[i] == '\\' {
						i++
					}
				}
			case '[', '{':
				depth++
			case ']', '}':
				depth--
			case ',', ':':
				if depth > 0 {
					continue
				}
				if !yield(bytes.TrimSpace(v[begin:i])) {
					return
				}
				begin = i + 1
			}
		}
		if last := bytes.TrimSpace(v[begin:]); len(last) > 0 {
			yield(last)
		}
	}
}

var errType = errors.New("value is of another type")

// appendJSON appends a JSON value to a column. It appends null for null, for an absent value
// and if it fails.
func appendJSON(b array.Builder, v []byte) error {
	if len(v) == 0 || string(v) == "null" {
		b.AppendNull()
		return nil
	}
	if b, ok := b.(*array.ListBuilder); ok && v[0] == '[' {
		var err error
		b.Append(true)
		for x := range parts(v) {
			if e := appendJSON(b.ValueBuilder(), x); e != nil {
				err = e
			}
		}
		return err
	}
	if v[0] == '[' || v[0] == '{' {
		b.AppendNull()
		return errType
	}
	var err error
	text := unquoted(v)
	switch b := b.(type) {
	case *array.StringBuilder:
		if v[0] == '"' {
			b.BinaryBuilder.Append(text)
			return nil
		}
		err = errType
	case *array.BooleanBuilder:
		if string(text) == "true" || string(text) == "false" {
			b.Append(text[0] == 't')
			return nil
		}
		err = errType
	case *array.Int64Builder:
		var n int64
		if n, err = strconv.ParseInt(string(v), 10, 64); err == nil {
			b.Append(n)
			return nil
		}
	case *array.Float64Builder:
		// The numbers that JSON has not are written as strings.
		if v[0] != '"' || string(bytes.TrimLeft(text, "-")) == "Infinity" || string(text) == "NaN" {
			var x float64
			if x, err = strconv.ParseFloat(string(text), 64); err == nil {
				b.Append(x)
				return nil
			}
		}
		err = errType
	default: // a list
		err = errType
	}
	b.AppendNull()
	return err
}
