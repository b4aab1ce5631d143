package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// Limits of the schemas in Arrow IPC streams and files. Their reader allocates what the
// lengths in a schema say, and Go cannot recover from an allocation that fails: the lengths
// are verified before.
const (
	maxFields     = 1 << 16
	maxFieldDepth = 64
)

// Positions of fields in the tables of Arrow's Schema.fbs, Message.fbs and File.fbs.
const (
	messageHeaderType, messageHeader = 1, 2
	headerSchema                     = 1
	schemaFields, schemaMetadata     = 1, 2
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
