package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
)

// Limits of messages. The reader of Arrow IPC streams and files allocates what the lengths in a
// message say, and Go cannot recover from an allocation that fails: they are verified before.
const (
	maxFields     = 1 << 16
	maxFieldDepth = 64
)

// Positions of fields in the tables of Arrow's Schema.fbs, Message.fbs and File.fbs.
const (
	messageHeaderType, messageHeader                = 1, 2
	messageBodyLength, messageMetadata              = 3, 4
	headerSchema, headerDictionary, headerRecord    = 1, 2, 3
	dictionaryID, dictionaryData                    = 0, 1
	recordBuffers, recordVariadics                  = 2, 4
	schemaFields, schemaMetadata                    = 1, 2
	fieldName, fieldTypeType, fieldType             = 0, 2, 3
	fieldChildren, fieldMetadata                    = 5, 6
	fieldDictionary                                 = 4
	typeTimestamp, timestampZone                    = 10, 1
	typeBinaryView, typeTextView                    = 23, 24
	footerSchema, footerDictionaries, footerRecords = 1, 2, 3
)

// messageVerifier verifies the messages of a stream or file. It counts the fields of a schema and
// the entries of metadata, and the bytes of their names and texts: they may refer to one part of
// the message several times, and it is copied each time.
type messageVerifier struct {
	count, bytes int
	// views are the numbers of arrays of views in dictionaries, and of ofRecords in record batches.
	views map[int64]int
}

// ofRecords is not a number of a dictionary: schemas that have it are refused.
const ofRecords = math.MinInt64

// subtable returns the table that a field of t refers to.
func subtable(t flatbuffers.Table, field int) (flatbuffers.Table, bool) {
	o := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*field)))
	if o == 0 {
		return flatbuffers.Table{}, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(o + t.Pos)}, true
}

// vector returns the position and the length of a vector, whose elements have a size in bytes.
func vector(t flatbuffers.Table, field, size int) (at flatbuffers.UOffsetT, n int, err error) {
	o := flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*field)))
	if o == 0 {
		return 0, 0, nil
	}
	at, n = t.Vector(o), t.VectorLen(o)
	if n < 0 || n > len(t.Bytes[at:])/size {
		return 0, 0, fmt.Errorf("a list of %d elements is in a message of %d bytes", n, len(t.Bytes))
	}
	return at, n, nil
}

// each calls fn for the tables of a vector.
func (v *messageVerifier) each(t flatbuffers.Table, field int, fn func(flatbuffers.Table) error) error {
	at, n, err := vector(t, field, 4)
	if err != nil {
		return err
	}
	if v.count += n; v.count > maxFields {
		return fmt.Errorf("a message has more than %d fields and metadata entries", maxFields)
	}
	for i := range n {
		if err := fn(flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at + flatbuffers.UOffsetT(4*i))}); err != nil {
			return err
		}
	}
	return nil
}

// texts verifies fields of t that are strings.
func (v *messageVerifier) texts(t flatbuffers.Table, fields ...int) error {
	for _, f := range fields {
		_, n, err := vector(t, f, 1)
		if err != nil {
			return err
		}
		if v.bytes += n; v.bytes > maxMetadata {
			return fmt.Errorf("the names and texts of a message have more than %d bytes", maxMetadata)
		}
	}
	return nil
}

// pairs verifies the entries of metadata.
func (v *messageVerifier) pairs(t flatbuffers.Table, field int) error {
	return v.each(t, field, func(p flatbuffers.Table) error { return v.texts(p, 0, 1) })
}

func (v *messageVerifier) schema(t flatbuffers.Table) error {
	if err := v.pairs(t, schemaMetadata); err != nil {
		return err
	}
	v.views = map[int64]int{}
	return v.each(t, schemaFields, func(f flatbuffers.Table) error { return v.field(f, 0, ofRecords) })
}

// field verifies a field in record batches or a dictionary.
func (v *messageVerifier) field(t flatbuffers.Table, depth int, in int64) error {
	if depth > maxFieldDepth {
		return fmt.Errorf("the schema is nested more than %d levels deep", maxFieldDepth)
	}
	if err := v.texts(t, fieldName); err != nil {
		return err
	}
	if d, ok := subtable(t, fieldDictionary); ok {
		if in = d.GetInt64Slot(4+2*dictionaryID, 0); in == ofRecords {
			return fmt.Errorf("a dictionary has the number %d", in)
		}
		v.views[in] = 0 // fields may share a dictionary
	}
	typ, ok := subtable(t, fieldType)
	switch t.GetByteSlot(4+2*fieldTypeType, 0) {
	case typeBinaryView, typeTextView:
		v.views[in]++
	case typeTimestamp:
		if !ok {
			break
		}
		if err := v.texts(typ, timestampZone); err != nil {
			return err
		}
	}
	if err := v.pairs(t, fieldMetadata); err != nil {
		return err
	}
	return v.each(t, fieldChildren, func(c flatbuffers.Table) error { return v.field(c, depth+1, in) })
}

// batch verifies a record batch, or the one in a dictionary.
func (v *messageVerifier) batch(t flatbuffers.Table, in int64) error {
	_, left, err := vector(t, recordBuffers, 16)
	if err != nil {
		return err
	}
	at, n, err := vector(t, recordVariadics, 8)
	if err != nil {
		return err
	}
	if at > 0 && n < v.views[in] { // Arrow's reader does not look at the length of the list
		return fmt.Errorf("a record batch has %d numbers of buffers of views, want %d", n, v.views[in])
	}
	for i := range n {
		count := binary.LittleEndian.Uint64(t.Bytes[int(at)+8*i:])
		if count > uint64(left) {
			return fmt.Errorf("column of views %d has %d buffers of values, and the record batch has %d left for it",
				i+1, count, left)
		}
		left -= int(count)
	}
	return nil
}

func root(b []byte) flatbuffers.Table {
	return flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}
}

// message verifies the metadata of a message. It returns the number of bytes of its body.
func (v *messageVerifier) message(meta []byte) (body int64, err error) {
	defer damaged(&err)
	v.count, v.bytes = 0, 0
	m := root(meta)
	kind := m.GetByteSlot(4+2*messageHeaderType, 0)
	if body = m.GetInt64Slot(4+2*messageBodyLength, 0); body < 0 || body > maxBody {
		return 0, fmt.Errorf("a message has a body of %d bytes, want 0 to %d", body, maxBody)
	}
	h, ok := subtable(m, messageHeader)
	if err := v.pairs(m, messageMetadata); err != nil {
		return 0, err
	}
	switch {
	case !ok:
		err = errors.New("a message has no header")
	case kind == headerSchema && body != 0:
		err = fmt.Errorf("the message of the schema has a body of %d bytes, want none", body)
	case kind == headerSchema:
		err = v.schema(h)
	case kind == headerRecord:
		err = v.batch(h, ofRecords)
	case kind == headerDictionary:
		data, ok := subtable(h, dictionaryData)
		if !ok {
			return 0, errors.New("a dictionary has no values")
		}
		err = v.batch(data, h.GetInt64Slot(4+2*dictionaryID, 0))
	default:
		err = fmt.Errorf("a message is of type %d, want a schema, a dictionary or a record batch", kind)
	}
	return body, err
}

// readMetadata reads the metadata of a message. It returns io.EOF at the end of the stream.
func readMetadata(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	_, err := io.ReadFull(r, head)
	if err == nil && binary.LittleEndian.Uint32(head) == 0xffffffff { // a marker, which old streams lack
		if _, err = io.ReadFull(r, head); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	n := int32(binary.LittleEndian.Uint32(head))
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	case n < 8 || n > maxMetadata:
		return nil, fmt.Errorf("the metadata of a message have %d bytes, want 8 to %d", n, maxMetadata)
	}
	var meta bytes.Buffer
	if _, err := io.CopyN(&meta, r, int64(n)); err != nil {
		return nil, fmt.Errorf("metadata of a message: %w", io.ErrUnexpectedEOF)
	}
	return meta.Bytes(), nil
}

// messages reads and verifies the messages of an Arrow IPC stream. It implements
// [ipc.MessageReader].
type messages struct {
	ctx   context.Context // of the current read
	r     io.Reader
	mem   *budget
	v     messageVerifier
	first *ipc.Message // if it is not yet returned
}

// verifyStream reads and verifies the schema at the beginning of a stream.
func verifyStream(r io.Reader) (*messages, error) {
	m := &messages{ctx: context.Background(), r: r, mem: new(budget)}
	first, err := m.Message()
	if err == nil && first.Type() != ipc.MessageSchema {
		err = errors.New("the first message is not a schema")
	}
	if err != nil {
		return nil, fmt.Errorf("no Arrow stream: %w", err)
	}
	m.first = first
	return m, nil
}

// Message implements [ipc.MessageReader].
func (m *messages) Message() (*ipc.Message, error) {
	if first := m.first; first != nil {
		m.first = nil
		return first, nil
	}
	if m.ctx.Err() != nil {
		return nil, context.Cause(m.ctx)
	}
	meta, err := readMetadata(m.r)
	if err != nil {
		return nil, err
	}
	n, err := m.v.message(meta)
	if err != nil {
		return nil, err
	}
	body := m.mem.Allocate(int(n))
	if _, err := io.ReadFull(m.r, body); err != nil {
		return nil, fmt.Errorf("a message has a body of %d bytes: %w", n, io.ErrUnexpectedEOF)
	}
	return ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body)), nil
}

// Retain implements [ipc.MessageReader].
func (m *messages) Retain() {}

// Release implements [ipc.MessageReader].
func (m *messages) Release() {}

// footer verifies the schema and the dictionaries of an Arrow IPC file, which its end names.
// It returns the positions of the record batches in the file, which block verifies.
func (v *messageVerifier) footer(r io.ReaderAt, size int64) (records []int64, err error) {
	defer damaged(&err)
	tail := make([]byte, 4+len(ipc.Magic))
	if size < int64(2*len(ipc.Magic)+4) {
		return nil, fmt.Errorf("no Arrow file: it has %d bytes", size)
	}
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if !bytes.Equal(tail[4:], ipc.Magic) || n < 8 || n > min(maxMetadata, size-int64(len(tail))) {
		return nil, fmt.Errorf("no Arrow file, or a part of one: its end says that the footer has %d bytes", n)
	}
	footer := make([]byte, n)
	if _, err := r.ReadAt(footer, size-int64(len(tail))-n); err != nil {
		return nil, err
	}
	f := root(footer)
	s, ok := subtable(f, footerSchema)
	if !ok {
		return nil, errors.New("the schema is missing")
	}
	if err := v.schema(s); err != nil {
		return nil, err
	}
	dictionaries, err := blocks(f, footerDictionaries)
	if err != nil {
		return nil, err
	}
	for i, at := range dictionaries {
		if err := v.block(r, at); err != nil {
			return nil, fmt.Errorf("dictionary %d: %w", i+1, err)
		}
	}
	return blocks(f, footerRecords)
}

// blocks returns the positions in a vector of blocks.
func blocks(footer flatbuffers.Table, field int) ([]int64, error) {
	at, n, err := vector(footer, field, 24)
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(binary.LittleEndian.Uint64(footer.Bytes[int(at)+24*i:]))
	}
	return list, err
}

// block verifies the message at a position of an Arrow IPC file.
func (v *messageVerifier) block(r io.ReaderAt, at int64) error {
	meta, err := readMetadata(io.NewSectionReader(r, at, maxMetadata+8))
	if err == nil {
		_, err = v.message(meta)
	}
	return err
}

// maxRecordRows is the largest number of rows of a record batch. Columns of nulls have no buffers
// that would bound it.
const maxRecordRows = 1 << 26

// verifyRecord returns an error if the buffers of a record batch are too small for its rows: the
// lengths in a damaged batch would make later steps take memory for rows that are not there.
func verifyRecord(ctx context.Context, rec arrow.RecordBatch) (err error) {
	defer damaged(&err)
	if n := rec.NumRows(); n < 0 || n > maxRecordRows {
		return fmt.Errorf("a record batch has %d rows, want 0 to %d", n, maxRecordRows)
	}
	for i, a := range rec.Columns() {
		if err := verifyArray(ctx, a); err != nil {
			return fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
		}
	}
	return nil
}

func verifyArray(ctx context.Context, a arrow.Array) error {
	if e, ok := a.(array.ExtensionArray); ok {
		return verifyArray(ctx, e.Storage())
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
	if v, ok := a.(array.ViewLike); ok && err == nil {
		err = verifyViews(ctx, v)
	} else if v, ok := a.(interface{ ValidateFull() error }); ok && err == nil && d.Len() > 0 {
		err = v.ValidateFull()
	}
	if err != nil {
		return err
	}
	if v, ok := d.Dictionary().(*array.Data); ok && v != nil {
		v, t := a.(*array.Dictionary), d.DataType().(*arrow.DictionaryType)
		if err := verifyArray(ctx, v.Dictionary()); err != nil {
			return fmt.Errorf("dictionary: %w", err)
		}
		if _, err := array.NewValidatedDictionaryArray(t, v.Indices(), v.Dictionary()); err != nil {
			return fmt.Errorf("indices of a dictionary: %w", err)
		}
	}
	for _, c := range d.Children() {
		child := array.MakeFromData(c)
		err := verifyArray(ctx, child)
		child.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyViews verifies views part by part, until the context ends: they may share their bytes,
// which are read for each of them.
func verifyViews(ctx context.Context, a arrow.Array) error {
	size := func(lo, hi int64) int64 { return valueBytes(array.NewSlice(a, lo, hi)) }
	return byBytes(size, 0, int64(a.Len()), func(lo, hi int64) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return array.NewSlice(a, lo, hi).(interface{ ValidateFull() error }).ValidateFull()
	})
}
