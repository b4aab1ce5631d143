package serve

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// compressLeast is the size of the shortest responses that are compressed.
const compressLeast = 1 << 10

// nestedCost is the memory of a message in another one, besides its encoding: most have a few
// numbers.
const nestedCost = 128

// nested returns the number of messages in a message.
func nested(m protoreflect.Message) (n int64) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				n += 1 + nested(v.Message())
				return true
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				n += 1 + nested(v.List().Get(i).Message())
			}
		default:
			n += 1 + nested(v.Message())
		}
		return true
	})
	return n
}

// hold reserves memory for a message that a call sends, until the client has taken it or the call
// has ended. The message counts as it is, and encoded or compressed. The first message of a
// call decides whether its messages are compressed: if it is long enough and there is memory for
// it.
func hold(ctx context.Context, v any) error {
	m, ok := v.(proto.Message)
	call, _ := ctx.Value(callKey{}).(*callState)
	if !ok || call == nil || call.conn == nil {
		return nil
	}
	n := int64(proto.Size(m))
	cost := 2*n + nestedCost*nested(m.ProtoReflect())
	c := call.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.streams[call.stream]
	if x == nil {
		return context.Canceled // gRPC encodes the message before it drops it
	}
	if err := c.memory.grow(cost); err != nil {
		return err
	}
	if x.unread = append(x.unread, cost); len(x.unread) == 1 {
		x.taken, x.piece = time.Now(), 0
	}
	c.watch()
	st, _ := grpc.ServerTransportStreamFromContext(ctx).(interface{ SendCompress() string })
	if x.compressor > 0 || st == nil || st.SendCompress() == "" || st.SendCompress() == encoding.Identity {
		return nil
	}
	if n >= compressLeast && c.memory.grow(deflateCost) == nil {
		x.compressor = deflateCost
		return nil
	}
	return grpc.SetSendCompressor(ctx, encoding.Identity)
}

// sent handles data that the server sends on a stream, which the client's window allows.
func (c *meteredConn) sent(b []byte) error {
	x := c.streams[c.out.stream]
	if x == nil {
		return nil
	}
	if x.piece += len(b); x.piece >= writePiece {
		x.taken, x.piece = time.Now(), 0
	}
	for len(b) > 0 {
		var complete bool
		if b, complete = x.out.feed(b); complete && len(x.unread) > 0 {
			c.s.pooled.Add(x.unread[0])
			c.memory.shrink(x.unread[0])
			x.unread = x.unread[1:]
			x.taken, x.piece = time.Now(), 0
		}
	}
	return nil
}
