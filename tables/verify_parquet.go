package tables

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of Thrift's compact protocol, in which the footer of a Parquet file is written.
const (
	thriftTrue, thriftFalse, thriftByte = 1, 2, 3
	thriftI32, thriftI64, thriftDouble  = 5, 6, 7
	thriftBinary, thriftList, thriftSet = 8, 9, 10
	thriftMap, thriftStruct, thriftUUID = 11, 12, 13
)

// Fields of Parquet's FileMetaData and SchemaElement.
const (
	metaSchema      = 2
	elementChildren = 5
)

// verifyParquet verifies the schema in the footer of a Parquet file. Its reader calls itself for
// each level, and Go cannot recover from a stack that overflows.
func verifyParquet(r io.ReaderAt, size int64) error {
	tail := make([]byte, 8)
	if size < int64(len(tail)) {
		return fmt.Errorf("no Parquet file: it has %d bytes", size)
	}
	if _, err := r.ReadAt(tail, size-8); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != "PAR1" || n > size-8 {
		return nil // for the reader to refuse
	}
	t := &thriftReader{bufio.NewReader(io.NewSectionReader(r, size-8-n, n))}
	err := t.each(func(id, kind int) error {
		if id != metaSchema || kind != thriftList {
			return t.skip(kind, 0)
		}
		return t.schema()
	})
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return nil
}

// thriftReader reads Thrift's compact protocol.
type thriftReader struct{ *bufio.Reader }

// schema reads the list of a schema's elements, depth first.
func (t *thriftReader) schema() error {
	n, kind, err := t.list()
	if err != nil {
		return err
	}
	if n > maxFields || kind != thriftStruct {
		return fmt.Errorf("the schema has %d elements of type %d, want at most %d structs", n, kind, maxFields)
	}
	var left []int // elements to come of each group that contains the next one
	for range n {
		children := 0
		if err := t.each(func(id, kind int) error {
			if id != elementChildren || kind != thriftI32 {
				return t.skip(kind, 0)
			}
			v, err := t.i32()
			children = int(v)
			return err
		}); err != nil {
			return err
		}
		if k := len(left) - 1; k >= 0 {
			left[k]--
		}
		if left = append(left, max(0, children)); len(left) > maxFieldDepth {
			return fmt.Errorf("the schema is nested more than %d levels deep", maxFieldDepth)
		}
		for len(left) > 0 && left[len(left)-1] == 0 {
			left = left[:len(left)-1]
		}
	}
	return nil
}

// u32 reads an integer. As in Thrift, its low 32 bits count.
func (t *thriftReader) u32() (uint32, error) {
	v, err := binary.ReadUvarint(t)
	return uint32(v), err
}

// i32 reads an integer with a sign, which is its lowest bit.
func (t *thriftReader) i32() (int32, error) {
	v, err := t.u32()
	return int32(v>>1) ^ -int32(v&1), err
}

// each calls f for the fields of a struct. f reads the value.
func (t *thriftReader) each(f func(id, kind int) error) error {
	for id := int16(0); ; {
		b, err := t.ReadByte()
		if err != nil || b == 0 {
			return err
		}
		if delta := int16(b >> 4); delta != 0 {
			id += delta
		} else {
			v, err := t.i32()
			if err != nil {
				return err
			}
			id = int16(v)
		}
		if err := f(int(id), int(b&15)); err != nil {
			return err
		}
	}
}

// list reads the size of a list or a set, and the type of its elements.
func (t *thriftReader) list() (n uint32, kind int, err error) {
	b, err := t.ReadByte()
	if n = uint32(b >> 4); err == nil && n == 15 {
		n, err = t.u32()
	}
	return n, int(b & 15), err
}

// skip reads a value.
func (t *thriftReader) skip(kind, depth int) error {
	if depth > maxFieldDepth {
		return fmt.Errorf("values are nested more than %d levels deep", maxFieldDepth)
	}
	switch kind {
	case thriftTrue, thriftFalse: // the type of a field is its value
		return nil
	case thriftDouble:
		_, err := t.Discard(8)
		return err
	case thriftUUID:
		_, err := t.Discard(16)
		return err
	case thriftBinary:
		n, err := t.u32()
		if err == nil {
			_, err = io.CopyN(io.Discard, t, int64(n))
		}
		return err
	case thriftStruct:
		return t.each(func(_, kind int) error { return t.skip(kind, depth+1) })
	case thriftList, thriftSet:
		n, kind, err := t.list()
		for ; err == nil && n > 0; n-- {
			err = t.element(kind, depth)
		}
		return err
	case thriftMap:
		n, err := t.u32()
		if err != nil || n == 0 {
			return err
		}
		kinds, err := t.ReadByte()
		for ; err == nil && n > 0; n-- {
			if err = t.element(int(kinds>>4), depth); err == nil {
				err = t.element(int(kinds&15), depth)
			}
		}
		return err
	}
	if kind < thriftByte || kind > thriftI64 {
		return fmt.Errorf("type %d is unknown", kind)
	}
	if kind == thriftByte {
		_, err := t.ReadByte()
		return err
	}
	_, err := binary.ReadUvarint(t)
	return err
}

// element reads a value of a list or a map, where booleans take a byte.
func (t *thriftReader) element(kind, depth int) error {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	return t.skip(kind, depth+1)
}
