package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onward-ml/onward/internal/fail"
)

// Wire types, in the low three bits of a tag.
const (
	wVarint = uint64(protowire.VarintType)
	wI64    = uint64(protowire.Fixed64Type)
	wBytes  = uint64(protowire.BytesType)
	wI32    = uint64(protowire.Fixed32Type)
)

// The errors that callers may distinguish with errors.Is.
var (
	// ErrExternalData is wrapped by every error about external data: a refused location, a
	// missing or irregular file, a wrong offset or length.
	ErrExternalData = errors.New("external data")

	// ErrMappedFile is the error for a mapped file that cannot be read any more, because it was
	// truncated while in use or its disk failed.
	ErrMappedFile = errors.New("mapped file is no longer readable")

	// ErrTooBig is the error for a message over protobuf's limit of 2 GiB. Write large tensors
	// as external data, see [WriteOptions].
	ErrTooBig = errors.New("message exceeds protobuf's limit of 2 GiB")

	// ErrTooLarge is the cause of a [ParseError] if decoding needs more memory than
	// ReadOptions.MaxMemory.
	ErrTooLarge = errors.New("memory budget exceeded")

	// ErrTooDeep is the cause of a [ParseError] if messages are nested deeper than
	// ReadOptions.MaxDepth.
	ErrTooDeep = errors.New("messages nested too deeply")
)

// ParseError is the error for bytes that are not valid protobuf or that exceed a limit.
type ParseError struct {
	Message string // name of the message type, such as "ModelProto"
	Path    string // path of the field in it, such as "graph.node[3].attribute[0].t"; empty for the message itself
	Offset  int64  // offset in bytes from the start of the input
	Err     error
}

// Error names the message, the offset and the cause.
func (e *ParseError) Error() string {
	where := e.Message
	const most = 160
	switch {
	case len(e.Path) > most: // of nested graphs
		where += "." + e.Path[:most/2] + "…" + e.Path[len(e.Path)-most/2:]
	case e.Path != "":
		where += "." + e.Path
	}
	return fmt.Sprintf("parse %s at byte %d: %v", where, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *ParseError) Unwrap() error { return e.Err }

// decoder parses messages from one buffer. It counts every allocation before making it.
type decoder struct {
	data     []byte
	mem      int64 // bytes that it may still allocate
	limit    int64
	reserve  func(bytes int64) error // nil: no further limit
	depth    int
	maxDepth int
	copies   bool // copy data that would alias the input, except raw data
	copyRaw  bool

	path []string // path of the error, innermost first
	off  int64

	nodes       slab[Node]
	attrs       slab[Attribute]
	infos       slab[ValueInfo]
	tensors     slab[Tensor]
	types       slab[Type]
	tensorTypes slab[TensorType]
	shapes      slab[Shape]
}

// slab allocates values in chunks, so that a million small messages need few allocations.
type slab[T any] struct {
	free []T
	next int
}

const maxSlab = 64

func newIn[T any](d *decoder, s *slab[T]) (*T, error) {
	if len(s.free) == 0 {
		s.next = min(max(1, s.next*2), maxSlab)
		var t T
		if err := d.charge(int64(s.next) * int64(unsafe.Sizeof(t))); err != nil {
			return nil, err
		}
		s.free = make([]T, s.next)
	}
	p := &s.free[0]
	s.free = s.free[1:]
	return p, nil
}

func newOf[T any](d *decoder) (*T, error) {
	var t T
	if err := d.charge(int64(unsafe.Sizeof(t)) + 8); err != nil {
		return nil, err
	}
	return new(T), nil
}

// add appends v and counts the memory of a new array.
func add[T any](d *decoder, s *[]T, v T) error {
	if len(*s) == cap(*s) {
		if err := grow(d, s, 1); err != nil {
			return err
		}
	}
	*s = append(*s, v)
	return nil
}

// grow reserves room for n more elements.
func grow[T any](d *decoder, s *[]T, n int) error {
	if cap(*s)-len(*s) >= n {
		return nil
	}
	c := len(*s) + n
	if len(*s) > 0 {
		c = max(c, 2*len(*s))
	}
	var t T
	if err := d.charge(int64(c) * int64(unsafe.Sizeof(t))); err != nil {
		return err
	}
	ns := make([]T, len(*s), c)
	copy(ns, *s)
	*s = ns
	return nil
}

func (d *decoder) charge(n int64) error {
	if n > d.mem {
		return d.tooLarge()
	}
	d.mem -= n
	if d.reserve != nil {
		return d.reserve(n)
	}
	return nil
}

func (d *decoder) tooLarge() error {
	return fail.Errorf("%w: the limit is %d bytes", ErrTooLarge, d.limit)
}

// push enters a submessage. pop leaves it, unless parsing failed.
func (d *decoder) push() error {
	if d.depth++; d.depth > d.maxDepth {
		return d.tooDeep()
	}
	return nil
}

func (d *decoder) tooDeep() error { return fail.Errorf("%w: the limit is %d", ErrTooDeep, d.maxDepth) }

func (d *decoder) pop() { d.depth-- }

// field is one field of a message.
type field struct {
	tag uint64 // number<<3 | wire type; a known number with a wrong wire type counts as unknown
	u   uint64 // value of varint, fixed32 and fixed64 fields
	b   []byte // value of length-delimited fields
	raw []byte // tag and value
}

// next parses the first field of b and returns the rest of b.
func (d *decoder) next(b []byte, f *field) ([]byte, error) {
	d.off = d.offset(b)
	tag, n := protowire.ConsumeVarint(b)
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	num, typ := tag>>3, protowire.Type(tag&7)
	if num < 1 || num > uint64(protowire.MaxValidNumber) {
		return nil, fail.Errorf("invalid field number %d", num)
	}
	f.tag, f.u, f.b = tag, 0, nil
	v := b[n:]
	var m int
	switch typ {
	case protowire.VarintType:
		f.u, m = protowire.ConsumeVarint(v)
	case protowire.Fixed32Type:
		var x uint32
		x, m = protowire.ConsumeFixed32(v)
		f.u = uint64(x)
	case protowire.Fixed64Type:
		f.u, m = protowire.ConsumeFixed64(v)
	case protowire.BytesType:
		f.b, m = protowire.ConsumeBytes(v)
	default: // groups are skipped; reserved types fail here
		m = protowire.ConsumeFieldValue(protowire.Number(num), typ, v)
	}
	if m < 0 {
		return nil, d.wireErr(v, m)
	}
	f.raw = b[: n+m : n+m]
	return v[m:], nil
}

// offset returns the offset of b in d.data. b must be a tail of a subslice of d.data, since
// subslices keep their capacity.
func (d *decoder) offset(b []byte) int64 { return int64(cap(d.data) - cap(b)) }

func (d *decoder) wireErr(b []byte, n int) error {
	d.off = d.offset(b)
	return protowire.ParseError(n)
}

// at adds a field to the path of an error. index is negative unless the field is repeated.
func (d *decoder) at(err error, name string, index int) error {
	if err != nil {
		if index >= 0 {
			name += "[" + strconv.Itoa(index) + "]"
		}
		d.path = append(d.path, name)
	}
	return err
}

func (d *decoder) finish(message string, err error) error {
	if err == nil {
		return nil
	}
	if message == "ModelProto" {
		if other := otherFormat(d.data); other != nil {
			return &ParseError{Message: message, Err: other}
		}
	}
	var path strings.Builder
	const most = 64 // show both ends of a deep path
	for i := len(d.path) - 1; i >= 0; i-- {
		if skipped := len(d.path) - most; skipped > 0 && i == len(d.path)-1-most/2 {
			path.WriteString(".…")
			i -= skipped - 1
			continue
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(d.path[i])
	}
	return &ParseError{Message: message, Path: path.String(), Offset: d.off, Err: err}
}

// str sets a string field. It aliases the input unless the decoder copies.
func (d *decoder) str(s *string, b []byte) error {
	if len(b) == 0 {
		*s = ""
		return nil
	}
	if d.copies {
		if err := d.charge(int64(len(b))); err != nil {
			return err
		}
		*s = string(b)
		return nil
	}
	*s = unsafe.String(&b[0], len(b))
	return nil
}

func (d *decoder) addStr(s *[]string, b []byte) error {
	var v string
	if err := d.str(&v, b); err != nil {
		return err
	}
	return add(d, s, v)
}

// raw sets a bytes field, which is never nil afterwards.
func (d *decoder) raw(s *[]byte, b []byte) error {
	if d.copyRaw {
		if err := d.charge(int64(len(b))); err != nil {
			return err
		}
		*s = append(make([]byte, 0, len(b)), b...)
		return nil
	}
	*s = b[:len(b):len(b)]
	return nil
}

// keep stores an unknown field for writing.
func (d *decoder) keep(s *[]byte, f *field) error {
	if *s == nil && !d.copies {
		*s = f.raw // the capacity is clipped, so that appending copies
		return nil
	}
	if err := grow(d, s, len(f.raw)); err != nil {
		return err
	}
	*s = append(*s, f.raw...)
	return nil
}

// varints appends the elements of a packed field.
func varints[T int32 | int64 | uint64](d *decoder, s *[]T, b []byte) error {
	n := 0
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	if err := grow(d, s, n); err != nil {
		return err
	}
	out := *s
	for len(b) > 0 {
		if c := b[0]; c < 0x80 {
			out = append(out, T(c))
			b = b[1:]
			continue
		}
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return d.wireErr(b, n)
		}
		out = append(out, T(v))
		b = b[n:]
	}
	*s = out
	return nil
}

func floats(d *decoder, s *[]float32, b []byte) error {
	if len(b)%4 != 0 {
		d.off = d.offset(b)
		return fail.Errorf("packed floats have %d bytes, want a multiple of 4", len(b))
	}
	if err := grow(d, s, len(b)/4); err != nil {
		return err
	}
	out := *s
	for ; len(b) > 0; b = b[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	*s = out
	return nil
}

func doubles(d *decoder, s *[]float64, b []byte) error {
	if len(b)%8 != 0 {
		d.off = d.offset(b)
		return fail.Errorf("packed doubles have %d bytes, want a multiple of 8", len(b))
	}
	if err := grow(d, s, len(b)/8); err != nil {
		return err
	}
	out := *s
	for ; len(b) > 0; b = b[8:] {
		out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	*s = out
	return nil
}
