// Package flatbuf reads FlatBuffers (https://flatbuffers.dev/internals) from untrusted bytes. It
// checks all bounds; the accessors of the official library panic on invalid offsets.
package flatbuf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Reader reads one buffer. Tables and vectors may overlap, so that a small buffer could
// describe much more than its size. Therefore, vectors may have at most four times the bytes of
// the buffer in total.
type Reader struct {
	data   []byte
	budget int
}

// NewReader returns a reader of data, which must not change while it is used.
func NewReader(data []byte) *Reader { return &Reader{data: data, budget: 4*len(data) + 1024} }

// Identifier returns the four bytes that identify the schema, "" if the buffer is shorter.
func (r *Reader) Identifier() string {
	if !r.has(4, 4) {
		return ""
	}
	return string(r.data[4:8])
}

var errOutside = errors.New("offset points outside the data")

// has reports whether the data contains n bytes at an offset.
func (r *Reader) has(at, n int) bool {
	return at >= 0 && n >= 0 && at <= len(r.data) && n <= len(r.data)-at
}

// Root returns the table at the root.
func (r *Reader) Root() (int, error) { return r.indirect(0) }

// indirect returns the target of a relative offset.
func (r *Reader) indirect(at int) (int, error) {
	if !r.has(at, 4) {
		return 0, errOutside
	}
	to := int64(at) + int64(binary.LittleEndian.Uint32(r.data[at:]))
	if to > int64(len(r.data)-4) {
		return 0, errOutside
	}
	return int(to), nil
}

// field returns the offset of a table's field, or -1 if the field is missing.
func (r *Reader) field(table, index int) (int, error) {
	if !r.has(table, 4) {
		return 0, errOutside
	}
	vtable := int64(table) - int64(int32(binary.LittleEndian.Uint32(r.data[table:])))
	if vtable < 0 || vtable > int64(len(r.data)-4) {
		return 0, errOutside
	}
	size, slot := int(binary.LittleEndian.Uint16(r.data[vtable:])), 4+2*index
	if !r.has(int(vtable), size) {
		return 0, errOutside
	}
	if slot+2 > size {
		return -1, nil
	}
	offset := int(binary.LittleEndian.Uint16(r.data[int(vtable)+slot:]))
	if offset == 0 {
		return -1, nil
	}
	return table + offset, nil
}

// Int32 returns a field of 4 bytes, 0 if it is missing.
func (r *Reader) Int32(table, index int) (int32, error) {
	at, err := r.field(table, index)
	if err != nil || at < 0 {
		return 0, err
	}
	if !r.has(at, 4) {
		return 0, errOutside
	}
	return int32(binary.LittleEndian.Uint32(r.data[at:])), nil
}

// vector returns the length of a field that is a vector of elements of the given width, and the
// offset of the first one. The offset is 0 if the field is missing.
func (r *Reader) vector(table, index, width int) (n, first int, err error) {
	at, err := r.field(table, index)
	if err != nil || at < 0 {
		return 0, 0, err
	}
	if at, err = r.indirect(at); err != nil {
		return 0, 0, err
	}
	count := int64(binary.LittleEndian.Uint32(r.data[at:]))
	if count > int64(len(r.data)-at-4)/int64(width) {
		return 0, 0, fmt.Errorf("vector of %d elements exceeds the data", count)
	}
	n = int(count)
	if r.budget -= n*width + 8; r.budget < 0 {
		return 0, 0, errors.New("vectors overlap")
	}
	return n, at + 4, nil
}

// Vector returns the bytes of a field that is a vector of elements of the given width, without
// copying them. It returns nil if the field is missing.
func (r *Reader) Vector(table, index, width int) ([]byte, error) {
	n, first, err := r.vector(table, index, width)
	if err != nil || first == 0 {
		return nil, err
	}
	end := first + n*width
	return r.data[first:end:end], nil
}

// Text returns a field that is a string. An error is returned if it is missing.
func (r *Reader) Text(table, index int) (string, error) {
	b, err := r.Vector(table, index, 1)
	if err == nil && b == nil {
		err = errors.New("the field is missing")
	}
	return string(b), err
}

// Tables returns the tables of a field that is a vector of them.
func (r *Reader) Tables(table, index int) ([]int, error) {
	n, first, err := r.vector(table, index, 4)
	if err != nil {
		return nil, err
	}
	t := make([]int, n)
	for i := range t {
		if t[i], err = r.indirect(first + 4*i); err != nil {
			return nil, fmt.Errorf("table %d: %w", i, err)
		}
	}
	return t, nil
}
