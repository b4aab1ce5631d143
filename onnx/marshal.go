package onnx

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onward-ml/onward/internal/fail"
)

const (
	maxMessage    = math.MaxInt32
	maxWriteDepth = 10000 // the limit of protobuf readers; also stops at a graph that contains itself
)

// encoder encodes a message in two passes: the first computes sizes, the second writes. sizes holds
// the size of each submessage in the order of the traversal, so that nested messages are measured
// once.
type encoder struct {
	writing bool
	n       int64 // bytes so far, in both passes
	sizes   []int32
	next    int
	depth   int
	w       *bufio.Writer
	buf     [16]byte
	err     error

	// replace maps tensors that move to an external file to their replacements.
	replace map[*Tensor]*Tensor
}

// encode writes a message whose fields body writes with the encoder's methods.
func encode(w io.Writer, replace map[*Tensor]*Tensor, body func(*encoder)) error {
	e := &encoder{replace: replace}
	body(e)
	if e.err == nil && e.n > maxMessage {
		e.err = fail.Errorf("%w: it has %d bytes", ErrTooBig, e.n)
	}
	if e.err != nil {
		return e.err
	}
	if b, ok := w.(*bytes.Buffer); ok {
		b.Grow(int(e.n))
	}
	e.w = bufio.NewWriterSize(w, 64<<10)
	e.writing, e.n = true, 0
	body(e)
	if e.err != nil {
		return e.err
	}
	return e.w.Flush()
}

func marshal(body func(*encoder)) ([]byte, error) {
	var b bytes.Buffer
	if err := encode(&b, nil, body); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (e *encoder) varint(v uint64) {
	e.n += int64(protowire.SizeVarint(v))
	if e.writing && e.err == nil {
		_, e.err = e.w.Write(protowire.AppendVarint(e.buf[:0], v))
	}
}

func (e *encoder) tag(num uint64, typ uint64) { e.varint(num<<3 | typ) }

// msg writes a submessage.
func (e *encoder) msg(num uint64, body func()) {
	if e.err != nil {
		return
	}
	if e.depth++; e.depth > maxWriteDepth {
		e.err = fail.Errorf("%w: the limit is %d; does a graph contain itself?", ErrTooDeep, maxWriteDepth)
		return
	}
	e.tag(num, wBytes)
	if e.writing {
		e.varint(uint64(e.sizes[e.next]))
		e.next++
		body()
	} else {
		i := len(e.sizes)
		e.sizes = append(e.sizes, 0)
		start := e.n
		body()
		if e.n > maxMessage {
			e.err = fail.Errorf("%w: it has at least %d bytes", ErrTooBig, e.n)
			return
		}
		e.sizes[i] = int32(e.n - start)
		e.n += int64(protowire.SizeVarint(uint64(e.sizes[i])))
	}
	e.depth--
}

func (e *encoder) content(s string) {
	e.n += int64(len(s))
	if e.writing && e.err == nil {
		_, e.err = e.w.WriteString(s)
	}
}

func (e *encoder) strAlways(num uint64, s string) {
	e.tag(num, wBytes)
	e.varint(uint64(len(s)))
	e.content(s)
}

func (e *encoder) str(num uint64, s string) {
	if s != "" {
		e.strAlways(num, s)
	}
}

func (e *encoder) strs(num uint64, list []string) {
	for _, s := range list {
		e.strAlways(num, s)
	}
}

func (e *encoder) bytesAlways(num uint64, b []byte) {
	e.tag(num, wBytes)
	e.varint(uint64(len(b)))
	e.rest(b)
}

// rest writes encoded bytes, such as unknown fields.
func (e *encoder) rest(b []byte) {
	e.n += int64(len(b))
	if e.writing && e.err == nil {
		_, e.err = e.w.Write(b)
	}
}

func (e *encoder) intAlways(num uint64, v int64) {
	e.tag(num, wVarint)
	e.varint(uint64(v))
}

func (e *encoder) int(num uint64, v int64) {
	if v != 0 {
		e.intAlways(num, v)
	}
}

func (e *encoder) ints(num uint64, list []int64) {
	for _, v := range list {
		e.intAlways(num, v)
	}
}

func (e *encoder) fixed32(v uint32) {
	e.n += 4
	if e.writing && e.err == nil {
		_, e.err = e.w.Write(protowire.AppendFixed32(e.buf[:0], v))
	}
}

func (e *encoder) float(num uint64, v float32) {
	e.tag(num, wI32)
	e.fixed32(math.Float32bits(v))
}

func (e *encoder) packedFloats(num uint64, list []float32) {
	if len(list) == 0 {
		return
	}
	e.tag(num, wBytes)
	e.varint(4 * uint64(len(list)))
	if !e.writing {
		e.n += 4 * int64(len(list))
		return
	}
	for _, v := range list {
		e.fixed32(math.Float32bits(v))
	}
}

func (e *encoder) packedDoubles(num uint64, list []float64) {
	if len(list) == 0 {
		return
	}
	e.tag(num, wBytes)
	e.varint(8 * uint64(len(list)))
	e.n += 8 * int64(len(list))
	if !e.writing {
		return
	}
	for _, v := range list {
		if e.err == nil {
			_, e.err = e.w.Write(protowire.AppendFixed64(e.buf[:0], math.Float64bits(v)))
		}
	}
}

func packedVarints[T int32 | int64 | uint64](e *encoder, num uint64, list []T) {
	if len(list) == 0 {
		return
	}
	size := 0
	for _, v := range list {
		size += (bits.Len64(uint64(v)|1) + 6) / 7
	}
	e.tag(num, wBytes)
	e.varint(uint64(size))
	if !e.writing {
		e.n += int64(size)
		return
	}
	for _, v := range list {
		e.varint(uint64(v))
	}
}

func encodeOne[T any](e *encoder, num uint64, v *T, body func(*encoder, *T)) {
	if v != nil {
		e.msg(num, func() { body(e, v) })
	}
}

// encodeAll writes a repeated message. A nil element is written as an empty message.
func encodeAll[T any](e *encoder, num uint64, list []*T, body func(*encoder, *T)) {
	for _, v := range list {
		if v == nil {
			v = new(T)
		}
		e.msg(num, func() { body(e, v) })
	}
}

func encodeVals[T any](e *encoder, num uint64, list []T, body func(*encoder, *T)) {
	for i := range list {
		e.msg(num, func() { body(e, &list[i]) })
	}
}

// Marshal returns the model as a ModelProto. The encoding is deterministic: fields in the order of
// their numbers, then unknown fields.
func (m *Model) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.model(m) }) }

// Marshal returns the graph as a GraphProto.
func (g *Graph) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.graph(g) }) }

// Marshal returns the node as a NodeProto.
func (n *Node) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.node(n) }) }

// Marshal returns the function as a FunctionProto.
func (f *Function) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.function(f) }) }

// Marshal returns the tensor as a TensorProto.
func (t *Tensor) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.tensor(t) }) }

// Marshal returns the sparse tensor as a SparseTensorProto.
func (s *SparseTensor) Marshal() ([]byte, error) {
	return marshal(func(e *encoder) { e.sparseTensor(s) })
}

// Marshal returns the type as a TypeProto.
func (t *Type) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.typeProto(t) }) }

// Marshal returns the sequence as a SequenceProto.
func (s *Sequence) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.sequence(s) }) }

// Marshal returns the map as a MapProto.
func (m *Map) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.mapProto(m) }) }

// Marshal returns the optional as an OptionalProto.
func (o *Optional) Marshal() ([]byte, error) { return marshal(func(e *encoder) { e.optional(o) }) }
