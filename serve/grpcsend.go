package serve

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
)

// hold reserves memory for a message that a call sends, until the client has taken it or the call
// has ended. The message counts twice: as it is, and encoded or compressed.
func hold(ctx context.Context, v any) error {
	m, ok := v.(proto.Message)
	call, _ := ctx.Value(callKey{}).(*callState)
	if !ok || call == nil || call.conn == nil {
		return nil
	}
	return call.conn.hold(call.stream, 2*int64(proto.Size(m)))
}

func (c *meteredConn) hold(stream uint32, n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.streams[stream]
	if x == nil {
		return nil // ended: gRPC drops the message
	}
	if err := c.memory.grow(n); err != nil {
		return err
	}
	if x.unread = append(x.unread, n); len(x.unread) == 1 {
		x.taken, x.piece = time.Now(), 0
	}
	c.watch()
	return nil
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
