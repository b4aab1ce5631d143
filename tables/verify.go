package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// Limits of schemas. The reader of Arrow IPC streams and files allocates what the lengths in a
// schema say, and Go cannot recover from an allocation that fails: the lengths are verified before.
const (
	maxFields     = 1 << 16
	maxFieldDepth = 64
)

// Positions of fields in the tables of Arrow's Schema.fbs, Message.fbs and File.fbs.
const (
	messageHeaderType, messageHeader = 1, 2
	messageBodyLength                = 3
	headerSchema, headerDictionary   = 1, 2
	dictionaryData                   = 1
	schemaFields, schemaMetadata     = 1, 2
	fieldType                        = 3
	fieldChildren, fieldMetadata     = 5, 6
	footerSchema                     = 1
)

// schemaVerifier counts the fields of a schema, which may refer to one part several times.
type schemaVerifier struct{ count int }

// subtable returns the table that a field of t refers to.
func subtable(t flatbuffers.Table, field int) (flatbuffers.Table, bool) {
	o := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*field)))
	if o == 0 {
		return flatbuffers.Table{}, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(o + t.Pos)}, true
}

// each calls fn for the tables of a vector.
func (v *schemaVerifier) each(t flatbuffers.Table, field int, fn func(flatbuffers.Table) error) error {
	o := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*field)))
	if o == 0 {
		return nil
	}
	n := t.VectorLen(o)
	if v.count += n; n < 0 || v.count > maxFields {
		return fmt.Errorf("the schema has more than %d fields and metadata entries", maxFields)
	}
	at := t.Vector(o)
	for i := range n {
		if err := fn(flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at + flatbuffers.UOffsetT(4*i))}); err != nil {
			return err
		}
	}
	return nil
}

func ignore(flatbuffers.Table) error { return nil }

func (v *schemaVerifier) schema(t flatbuffers.Table) error {
	if err := v.each(t, schemaMetadata, ignore); err != nil {
		return err
	}
	return v.each(t, schemaFields, func(f flatbuffers.Table) error { return v.field(f, 0) })
}

func (v *schemaVerifier) field(t flatbuffers.Table, depth int) error {
	if depth > maxFieldDepth {
		return fmt.Errorf("the schema is nested more than %d levels deep", maxFieldDepth)
	}
	if err := v.each(t, fieldMetadata, ignore); err != nil {
		return err
	}
	return v.each(t, fieldChildren, func(c flatbuffers.Table) error { return v.field(c, depth+1) })
}

func root(b []byte) flatbuffers.Table {
	return flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}
}

// verifyStream verifies the schema at the beginning of a stream, and returns a reader of the whole.
func verifyStream(r io.Reader) (_ io.Reader, err error) {
	defer damaged(&err)
	head := make([]byte, 8) // a marker, which old streams lack, and the length
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return nil, fmt.Errorf("no Arrow stream: %w", err)
	}
	prefix := head[:4]
	if binary.LittleEndian.Uint32(head) == 0xffffffff {
		prefix = head
		if _, err := io.ReadFull(r, head[4:]); err != nil {
			return nil, fmt.Errorf("no Arrow stream: %w", err)
		}
	}
	n := int32(binary.LittleEndian.Uint32(prefix[len(prefix)-4:]))
	if n < 8 || n > maxMetadata {
		return nil, fmt.Errorf("no Arrow stream: the schema has %d bytes, want 8 to %d", n, maxMetadata)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(n)); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	m := root(body.Bytes())
	if m.GetByteSlot(4+2*messageHeaderType, 0) != headerSchema {
		return nil, errors.New("no Arrow stream: the first message is not a schema")
	}
	if n := m.GetInt64Slot(4+2*messageBodyLength, 0); n != 0 {
		return nil, fmt.Errorf("the message of the schema has a body of %d bytes, want none", n)
	}
	s, ok := subtable(m, messageHeader)
	if !ok {
		return nil, errors.New("the schema is missing")
	}
	if err := new(schemaVerifier).schema(s); err != nil {
		return nil, err
	}
	return io.MultiReader(bytes.NewReader(prefix), &body, r), nil
}

// verifyFooter verifies the schema at the end of an Arrow IPC file.
func verifyFooter(r io.ReaderAt, size int64) (err error) {
	defer damaged(&err)
	tail := make([]byte, 4+len(ipc.Magic))
	if size < int64(2*len(ipc.Magic)+4) {
		return fmt.Errorf("no Arrow file: it has %d bytes", size)
	}
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if !bytes.Equal(tail[4:], ipc.Magic) || n < 8 || n > min(maxMetadata, size-int64(len(tail))) {
		return fmt.Errorf("no Arrow file, or a part of one: its end says that the footer has %d bytes", n)
	}
	footer := make([]byte, n)
	if _, err := r.ReadAt(footer, size-int64(len(tail))-n); err != nil {
		return err
	}
	s, ok := subtable(root(footer), footerSchema)
	if !ok {
		return errors.New("the schema is missing")
	}
	return new(schemaVerifier).schema(s)
}

// maxRecordRows is the largest number of rows of a record batch. Columns of nulls have no buffers
// that would bound it.
const maxRecordRows = 1 << 26

// verifyRecord returns an error if the buffers of a record batch are too small for its rows: the
// lengths in a damaged batch would make later steps take memory for rows that are not there.
func verifyRecord(rec arrow.RecordBatch) (err error) {
	defer damaged(&err)
	if n := rec.NumRows(); n < 0 || n > maxRecordRows {
		return fmt.Errorf("a record batch has %d rows, want 0 to %d", n, maxRecordRows)
	}
	for i, a := range rec.Columns() {
		if err := verifyArray(a); err != nil {
			return fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
		}
	}
	return nil
}

func verifyArray(a arrow.Array) error {
	if e, ok := a.(array.ExtensionArray); ok {
		return verifyArray(e.Storage())
	}
	d := a.Data()
	n := int64(d.Offset()) + int64(d.Len())
	if d.Offset() < 0 || d.Len() < 0 || n > maxBody {
		return fmt.Errorf("%d elements at %d", d.Len(), d.Offset())
	}
	holds := func(k int, bytes int64) error {
		have := int64(0)
		if b := d.Buffers(); k < len(b) && b[k] != nil {
			have = int64(b[k].Len())
		}
		if have < bytes {
			return fmt.Errorf("a buffer has %d bytes, %d elements of type %s need %d", have, n, d.DataType(), bytes)
		}
		return nil
	}
	var err error
	switch t := d.DataType().(type) {
	case *arrow.NullType:
		return nil
	case *arrow.FixedSizeListType:
		if c := d.Children(); t.Len() < 0 || len(c) != 1 || int64(c[0].Len()) < n*int64(t.Len()) {
			err = fmt.Errorf("%d lists of %d elements have too few", n, t.Len())
		}
	case arrow.FixedWidthDataType: // a dictionary has the width of its indices
		if t.BitWidth() < 0 {
			return fmt.Errorf("an element of type %s has %d bits", t, t.BitWidth())
		}
		err = holds(1, (n*int64(t.BitWidth())+7)/8)
	case *arrow.ListViewType, *arrow.LargeListViewType, *arrow.DenseUnionType: // ValidateFull counts their offsets
	case arrow.OffsetsDataType:
		if n > 0 {
			err = holds(1, (n+1)*int64(t.OffsetTypeTraits().BytesRequired(1)))
		}
	}
	if b := d.Buffers(); err == nil && len(b) > 0 && b[0] != nil && b[0].Len() > 0 {
		err = holds(0, (n+7)/8)
	}
	if v, ok := a.(interface{ ValidateFull() error }); ok && err == nil && d.Len() > 0 {
		err = v.ValidateFull()
	}
	if err != nil {
		return err
	}
	if v, ok := d.Dictionary().(*array.Data); ok && v != nil {
		v, t := a.(*array.Dictionary), d.DataType().(*arrow.DictionaryType)
		if err := verifyArray(v.Dictionary()); err != nil {
			return fmt.Errorf("dictionary: %w", err)
		}
		if _, err := array.NewValidatedDictionaryArray(t, v.Indices(), v.Dictionary()); err != nil {
			return fmt.Errorf("indices of a dictionary: %w", err)
		}
	}
	for _, c := range d.Children() {
		child := array.MakeFromData(c)
		err := verifyArray(child)
		child.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
