package serve

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec keeps a received message as it is, in the message's unknown fields, until decode has
// reserved memory for its content. gRPC decodes before it calls interceptors.
type codec struct {
	encoding.CodecV2 // of protobuf
	s                *Server
}

func newCodec(s *Server) encoding.CodecV2 { return codec{encoding.GetCodecV2(grpcproto.Name), s} }

// Texts in place of messages that were refused. No message is one of them: their wire
// types do not exist.
const (
	tooMuchNow = "\x07" // the memory of all requests is in use
	tooMuch    = "\x0f" // the message takes more than that
)

// Unmarshal implements encoding.CodecV2. It reserves the memory of the message, which decode
// takes over.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	c.s.drop(m) // gRPC receives twice where it expects one message
	var raw []byte
	if n := data.Len(); n > 0 {
		if raw = c.inflated(data); raw == nil {
			memory := reservation{s: c.s}
			if err := memory.grow(int64(n)); err != nil {
				raw = refusal(err)
			} else if raw = data.Materialize(); n == 1 { // no message has one byte
				memory.release()
				return protowire.ParseError(-1)
			}
		}
	}
	m.ProtoReflect().SetUnknown(raw)
	return nil
}

// inflated returns what decompressor has returned, which has reserved its memory,
// and nil for others.
func (c codec) inflated(data mem.BufferSlice) []byte {
	if len(data) != 1 {
		return nil
	}
	b := data[0].ReadOnlyData()
	if _, ok := c.s.inflated.LoadAndDelete(&b[0]); ok {
		return b
	}
	return nil
}

func refusal(err error) []byte {
	if classify(err).Code == TooLarge {
		return []byte(tooMuch)
	}
	return []byte(tooMuchNow)
}

// drop gives back what codec has reserved for a message that is not decoded.
func (s *Server) drop(m proto.Message) {
	if raw := m.ProtoReflect().GetUnknown(); string(raw) != tooMuch && string(raw) != tooMuchNow {
		memory := reservation{s: s, n: int64(len(raw))}
		memory.release()
	}
	m.ProtoReflect().SetUnknown(nil)
}

// decode decodes a message that codec has kept. The reservation takes over what codec has reserved.
func (s *Server) decode(m proto.Message, memory *reservation) error {
	raw := []byte(m.ProtoReflect().GetUnknown())
	m.ProtoReflect().SetUnknown(nil)
	switch string(raw[:min(len(raw), 2)]) {
	case "":
		return nil
	case tooMuchNow:
		return errorf(Overloaded, "the memory of all requests is in use")
	case tooMuch:
		return errorf(TooLarge, "the message takes more than the memory of all requests, %d bytes", s.memory.Limit())
	}
	memory.n += int64(len(raw))
	// Short messages are not worth a look: the longest that a byte becomes is
	// half an empty message.
	const short = 512
	cost := int64(len(raw)) * messageCost
	if len(raw) > short {
		cost = costOf(m.ProtoReflect().Descriptor(), raw, 0, new(parts))
	}
	if err := memory.grow(cost); err != nil {
		return err
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		return errorf(InvalidArgument, "the message cannot be decoded: %w", err)
	}
	memory.shrink(int64(len(raw)))
	return nil
}

const (
	messageCost = 256 // bytes of memory of a message without its fields, and its part of a list
	// bytes of memory of a value in a list, without the contents of a string: a slice in an array
	// and in the array before it, which is copied when it is full
	valueCost = 64
)

// parts is what decoding a message has allocated for packed fields and messages that may occur in
// several parts. Different fields may share a place.
type parts struct {
	packed   [16]int64 // bytes
	messages [16]*parts
	list     *parts // of the current message of a list
}

// message returns the parts of a message in another one.
func (p *parts) message(f protoreflect.FieldDescriptor) *parts {
	m := &p.messages[f.Number()%16]
	if f.Cardinality() == protoreflect.Repeated {
		m = &p.list
		(*m).reset()
	}
	if *m == nil {
		*m = new(parts)
	}
	return *m
}

func (p *parts) reset() {
	if p == nil {
		return
	}
	clear(p.packed[:])
	for _, m := range p.messages {
		m.reset()
	}
}

// costOf returns about what decoding a message allocates. Decoding fails for what it cannot follow.
// Each part of a packed field moves those before to an array that is just long enough, so that many
// short ones take memory and time by their square.
func costOf(d protoreflect.MessageDescriptor, b []byte, depth int, before *parts) (n int64) {
	n = messageCost
	if depth > protowire.DefaultRecursionLimit {
		return n
	}
	for len(b) > 0 {
		num, kind, k := protowire.ConsumeTag(b)
		if k < 0 {
			return n
		}
		b = b[k:]
		if k = protowire.ConsumeFieldValue(num, kind, b); k < 0 {
			return n
		}
		value := b[:k]
		b = b[k:]
		f := d.Fields().ByNumber(num)
		n += valueCost
		if f == nil || kind != protowire.BytesType {
			n += int64(k)
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		size := int64(len(value))
		switch f.Kind() {
		case protoreflect.MessageKind:
			n += costOf(f.Message(), value, depth+1, before.message(f))
			continue
		case protoreflect.StringKind, protoreflect.BytesKind:
			n += size
			continue
		case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind: // packed, a byte or more each
			size *= 8
		case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
			size *= 4
		}
		packed := &before.packed[num%16]
		*packed += size
		n += *packed
	}
	return n
}

// decompressor reserves memory for what it decompresses. codec takes the reservation over.
type decompressor struct{ s *Server }

// Type implements grpc.Decompressor.
func (decompressor) Type() string { return "gzip" }

var gzipReaders sync.Pool // of *gzip.Reader

// Do implements grpc.Decompressor.
func (d decompressor) Do(r io.Reader) ([]byte, error) {
	memory := &reservation{s: d.s}
	most := d.s.opts.MaxBody
	err := memory.grow(inflateCost)
	var data []byte
	if err == nil {
		z, _ := gzipReaders.Get().(*gzip.Reader)
		if z == nil {
			z, err = gzip.NewReader(r)
		} else {
			err = z.Reset(r)
		}
		if err == nil {
			data, err = readReserved(io.LimitReader(z, most+1), -1, memory)
			gzipReaders.Put(z)
		}
	}
	if err == nil && int64(len(data)) > most {
		err = errorf(TooLarge, "the message has more than %d bytes", most)
	}
	if err == nil && len(data) == 0 {
		memory.release()
		return nil, nil
	}
	if err == nil && len(data) == 1 { // no message has one byte
		err = protowire.ParseError(-1)
	}
	if err == nil && cap(data)-len(data) > len(data)/8 { // the buffer is up to twice as long
		if err = memory.grow(int64(len(data))); err == nil {
			data = bytes.Clone(data)
		}
	}
	if err == nil {
		memory.shrink(memory.n - int64(len(data)))
		d.s.inflated.Store(&data[0], true)
		return data, nil
	}
	memory.release()
	if errors.As(err, new(*Error)) {
		b := refusal(err)
		d.s.inflated.Store(&b[0], true)
		return b, nil
	}
	return nil, err
}
