package serve

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// GRPCCredentials returns credentials whose connections count the messages that they receive in the
// server's memory, before gRPC collects them. [Server.GRPCOptions] has them without TLS.
func (s *Server) GRPCCredentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return meteredCredentials{c, s}
}

type meteredCredentials struct {
	credentials.TransportCredentials
	s *Server
}

// ServerHandshake implements credentials.TransportCredentials.
func (c meteredCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	memory := c.s.connection(raw, true)
	if err := memory.grow(connectionCost); err != nil {
		memory.release()
		memory.conn.end()
		raw.Close()
		return nil, nil, err
	}
	hello := &helloConn{raw, &memory}
	conn, auth, err := c.TransportCredentials.ServerHandshake(hello)
	hello.memory = nil
	if !memory.conn.end() && err == nil {
		err = net.ErrClosed // for others; until it reads, gRPC would not close what is returned here
	}
	if err != nil {
		memory.release()
		return conn, auth, err
	}
	return &meteredConn{Conn: conn, r: bufio.NewReaderSize(conn, 32<<10), s: c.s, memory: memory,
		streams: map[uint32]*stream{}, preface: len(http2Preface)}, auth, nil
}

// helloConn counts what a client sends during its handshake: lists of names of a byte, which take
// 16 bytes each, and buffers that TLS keeps for the connection.
type helloConn struct {
	net.Conn
	memory *reservation // nil after the handshake
}

// Read implements net.Conn.
func (c *helloConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if e := c.memory.grow(headerCost * int64(n)); e != nil {
		return 0, e
	}
	return n, err
}

// Clone implements credentials.TransportCredentials.
func (c meteredCredentials) Clone() credentials.TransportCredentials {
	return meteredCredentials{c.TransportCredentials.Clone(), c.s}
}

const (
	http2Preface   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	connectionCost = 128 << 10 // bytes of the buffers of gRPC and TLS for a connection
	streamCost     = 16 << 10  // bytes of a stream and its goroutine
	frameCost      = 128       // bytes of gRPC's own for a frame of data
)

// Types and flags of HTTP/2 frames (RFC 9113, 6).
const (
	frameData      = 0
	frameHeaders   = 1
	frameReset     = 3
	frameSettings  = 4
	frameContinued = 9
	flagEndStream  = 1
	flagEndHeaders = 4
	flagPadded     = 8
	frameHeader    = 9
	messagePrefix  = 5 // bytes before a message of gRPC: flags and length
	maxGRPCStreams = 250
	maxSettings    = 600 // bytes of a SETTINGS frame: 100 settings, as net/http accepts
	settingsMost   = 100 // SETTINGS frames within settingsTime
	settingsTime   = time.Second
	probeMessage   = 4 << 10 // most bytes of the message of a call without a token
	hastyTime      = time.Second
	hastyLeast     = 250      // calls that a client may cancel within hastyTime
	abandonedLeast = 32 << 10 // bytes of a stream for which it matters when its goroutine ends
)

// meteredConn is an HTTP/2 connection that follows the frames it passes on. It reserves memory for
// the data of each stream until the server ends the stream, for streams with several messages until
// the next message is complete, and for each message that it sends until the client has taken it.
// gRPC has no limit for the data of unfinished and unread messages. A connection is closed if it
// exceeds the memory, if its message, headers or frame take longer than ReadTimeout to arrive, if
// its client takes nothing of a message or of a write for that long, if it cancels most of its
// calls at once: a stream costs the server more than the client (CVE-2023-44487), and if it sends
// many SETTINGS frames at once: each leaves several times its bytes as garbage (CVE-2019-9515).
type meteredConn struct {
	net.Conn
	r *bufio.Reader // gRPC reads frame by frame, so that the last one is the one that it handles
	s *Server

	mu            sync.Mutex
	memory        reservation
	closed        bool
	reading       bool // whether gRPC has begun to read: before, it closes only raw after an error
	streams       map[uint32]*stream
	last          uint32 // highest id of a stream
	opened        int    // streams
	hasty         int    // streams that the client reset within hastyTime
	settings      int    // SETTINGS frames of the client since settingsSince
	active        int    // streams with an authorized call
	preface       int    // bytes of the client's preface that are still to come
	frames        int    // of the client until the first one has ended
	begun         bool
	in, out       frames
	settingsSince time.Time   // when the count of SETTINGS frames began
	headers       time.Time   // when unfinished headers began; zero if all are complete
	writing       time.Time   // when the write in progress began; zero between writes
	timer         *time.Timer // gRPC sets deadlines of its own
	watched       bool        // whether the timer is set
}

// stream is what a stream has received, and what it sends.
type stream struct {
	in       messageSequence
	cost     int64     // reserved for the stream and its headers
	held     int64     // reserved for the current message
	complete int64     // reserved for the message before
	since    time.Time // when the current message began
	opened   time.Time
	allowed  bool // an authorized call
	probe    bool // a call that needs no token, whose messages are short
	call     *callState

	out    messageSequence
	unread []int64   // reserved for each message that is not sent completely
	taken  time.Time // when the client last took a piece of them, of writePiece bytes
	piece  int       // bytes that it has taken since

	compressor int64 // reserved for what compresses its messages, which gRPC keeps in a pool
}

// messageSequence follows the messages of one direction of a stream.
type messageSequence struct {
	prefix [messagePrefix]byte
	have   int   // bytes of prefix
	left   int64 // bytes of the current message that are missing
}

func (m *messageSequence) unfinished() bool { return m.have > 0 }

// feed takes what belongs to the current message from b. It returns the rest, and whether the
// message is complete.
func (m *messageSequence) feed(b []byte) (rest []byte, complete bool) {
	if m.have < messagePrefix {
		n := copy(m.prefix[m.have:], b)
		b = b[n:]
		if m.have += n; m.have < messagePrefix {
			return nil, false
		}
		m.left = int64(binary.BigEndian.Uint32(m.prefix[1:]))
	}
	n := min(int64(len(b)), m.left)
	if m.left -= n; m.left > 0 {
		return nil, false
	}
	m.have = 0
	return b[n:], true
}

// frames follows a sequence of frames.
type frames struct {
	head   [frameHeader]byte
	have   int // bytes of head
	left   int // bytes of the payload that are still to come
	pad    int // of them at its end; -1: their number comes first
	kind   byte
	flags  byte
	stream uint32
	since  time.Time // when the frame began
}

func (f *frames) unfinished() bool { return f.have > 0 || f.left > 0 }

// feed calls frame for each frame's header, and data for the data of the frames of that kind.
func (f *frames) feed(b []byte, frame func() error, data func(b []byte) error) error {
	for len(b) > 0 {
		if f.left == 0 {
			if f.have == 0 {
				f.since = time.Now()
			}
			n := copy(f.head[f.have:], b)
			b = b[n:]
			if f.have += n; f.have < frameHeader {
				return nil
			}
			f.have, f.left = 0, int(f.head[0])<<16|int(f.head[1])<<8|int(f.head[2])
			f.kind, f.flags, f.pad = f.head[3], f.head[4], 0
			f.stream = binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1)
			if f.kind == frameData && f.flags&flagPadded != 0 {
				f.pad = -1
			}
			if err := frame(); err != nil {
				return err
			}
			continue
		}
		if f.pad < 0 {
			f.pad = int(b[0])
			f.left--
			b = b[1:]
			continue
		}
		n := min(len(b), f.left)
		if text := min(n, f.left-f.pad); f.kind == frameData && text > 0 && data != nil {
			if err := data(b[:text]); err != nil {
				return err
			}
		}
		f.left -= n
		b = b[n:]
	}
	return nil
}

var (
	errSlow  = errors.New("a message of gRPC did not arrive in time, or the client did not read one in time")
	errHasty = fmt.Errorf("more than half of the calls were cancelled within %v", hastyTime)
)

// meteredAddr is the address of a client with its connection, which gRPC hands to [Server.tapGRPC].
type meteredAddr struct {
	net.Addr
	conn *meteredConn
}

// RemoteAddr implements net.Conn.
func (c *meteredConn) RemoteAddr() net.Addr { return meteredAddr{c.Conn.RemoteAddr(), c} }

// fields reserves memory for the header fields of the stream whose headers gRPC has just read. They
// may be much larger than the frame: a byte can stand for a field of 4 KiB that an earlier one has
// entered into the connection's table (RFC 7541, 6.1). gRPC copies binary values, and makes a map
// with room for as many names as fields. A connection that is not metered is nil.
func (c *meteredConn) fields(h map[string][]string) error {
	if c == nil {
		return nil
	}
	var cost int64
	for name, values := range h {
		for _, v := range values {
			cost += mapEntry + int64(len(name)+len(v))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.streams[c.in.stream]
	if x == nil {
		return nil
	}
	if err := c.reserve(cost); err != nil {
		return err
	}
	x.cost += cost
	return nil
}

// begin sets the call of the stream whose headers gRPC has just read.
func (c *meteredConn) begin(call *callState, allowed, probe bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.streams[c.in.stream]; x != nil {
		x.call, x.allowed, x.probe = call, allowed, probe
		call.conn, call.stream = c, c.in.stream
		if allowed {
			c.active++
			c.memory.conn.authorized()
		}
	}
}

// Read implements net.Conn.
func (c *meteredConn) Read(b []byte) (int, error) {
	if !c.reading { // by one goroutine
		c.mu.Lock()
		if c.reading = true; !c.closed {
			c.memory.conn.idle()
		}
		c.mu.Unlock()
	}
	n, err := c.r.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	data := b[:n]
	if c.preface > 0 {
		k := min(n, c.preface)
		c.preface -= k
		data = data[k:]
	}
	e := c.in.feed(data, c.received, c.message)
	if !c.begun && (c.frames > 1 || c.frames == 1 && c.in.left == 0) {
		c.begun = true
		c.memory.conn.begun()
	}
	c.watch()
	if e != nil {
		return 0, c.fail(e)
	}
	return n, err
}

// fail closes the connection because of an error.
func (c *meteredConn) fail(err error) error {
	c.s.log.Debug("a connection of gRPC is closed", "remote", c.RemoteAddr().String(), "reason", err.Error())
	c.Conn.Close()
	return err
}

// received handles the header of a frame of the client.
func (c *meteredConn) received() error {
	if !c.begun {
		c.frames++
	}
	if c.in.kind == frameHeaders || c.in.kind == frameContinued {
		if c.in.flags&flagEndHeaders != 0 {
			c.headers = time.Time{}
		} else if c.headers.IsZero() {
			c.headers = c.in.since
		}
	}
	switch c.in.kind {
	case frameHeaders:
		if c.in.stream <= c.last { // trailers: gRPC refuses them when they are complete
			return fmt.Errorf("a second block of headers for stream %d", c.in.stream)
		}
		c.last = c.in.stream
		cost := streamCost + headerCost*int64(c.in.left)
		if err := c.reserve(cost); err != nil {
			return err
		}
		c.streams[c.in.stream] = &stream{opened: c.in.since, cost: cost}
		c.opened++
	case frameContinued:
		if x := c.streams[c.in.stream]; x != nil {
			cost := headerCost * int64(c.in.left)
			if err := c.reserve(cost); err != nil {
				return err
			}
			x.cost += cost
		}
	case frameData:
		if x := c.streams[c.in.stream]; x != nil {
			if err := c.reserve(frameCost); err != nil {
				return err
			}
			x.held += frameCost
		}
	case frameReset:
		if x := c.streams[c.in.stream]; x != nil && c.in.since.Sub(x.opened) < hastyTime {
			if c.hasty++; c.hasty > max(hastyLeast, c.opened/2) {
				return errHasty
			}
		}
		c.end(c.in.stream)
	case frameSettings: // gRPC queues up to 50 of them
		if c.in.left > maxSettings {
			return fmt.Errorf("a SETTINGS frame has %d bytes, want at most %d", c.in.left, maxSettings)
		}
		if c.in.since.Sub(c.settingsSince) > settingsTime {
			c.settingsSince, c.settings = c.in.since, 0
		}
		if c.settings++; c.settings > settingsMost {
			return fmt.Errorf("more than %d SETTINGS frames within %v", settingsMost, settingsTime)
		}
	}
	return nil
}

// message handles data of a stream.
func (c *meteredConn) message(b []byte) error {
	x := c.streams[c.in.stream]
	if x == nil {
		return nil // refused by the server, or ended: gRPC drops it
	}
	if err := c.reserve(int64(len(b))); err != nil {
		return err
	}
	x.held += int64(len(b))
	for len(b) > 0 {
		if x.in.have == 0 {
			x.since = time.Now()
		}
		missing := messagePrefix - x.in.have
		prefix := b[:max(0, min(len(b), missing))]
		var complete bool
		b, complete = x.in.feed(b)
		if x.probe && missing > 0 && len(prefix) == missing {
			if n := binary.BigEndian.Uint32(x.in.prefix[1:]); x.in.prefix[0] != 0 || n > probeMessage {
				// A length over every limit makes gRPC refuse the message unread.
				if copy(prefix[max(0, missing-4):], "\xff\xff\xff\xff") < 4 {
					return fmt.Errorf("the message of a probe is compressed or has more than %d bytes", probeMessage)
				}
			}
		}
		if complete {
			c.s.pooled.Add(x.complete)
			c.memory.shrink(x.complete)
			x.complete, x.held = x.held, 0
		}
	}
	return nil
}

// reserve reserves memory of the connection, which may hold a quarter of all.
func (c *meteredConn) reserve(n int64) error {
	if c.closed {
		return net.ErrClosed
	}
	if limit := c.s.memory.Limit(); limit > 0 {
		if most := max(limit/4, 2*c.s.opts.MaxBody+1<<20); c.memory.n+n > most {
			return fmt.Errorf("the messages of the connection take more than %d bytes", most)
		}
	}
	return c.memory.grow(n)
}

// end gives back the memory of a stream. The goroutine of a call refers to its data until it ends,
// which can be after the stream and the connection.
func (c *meteredConn) end(stream uint32) {
	x := c.streams[stream]
	if x == nil {
		return
	}
	delete(c.streams, stream)
	x.complete += x.compressor
	for _, n := range x.unread {
		x.complete += n
	}
	c.s.pooled.Add(x.held + x.complete)
	if n := x.cost + x.held + x.complete; x.call != nil && n > abandonedLeast {
		c.memory.abandon(x.call, n)
	} else {
		c.memory.shrink(n)
	}
	if x.allowed {
		if c.active--; c.active == 0 && !c.closed {
			c.memory.conn.idle()
		}
	}
}

// watch sets the timer that closes the connection if a part of it takes longer than ReadTimeout.
// What begins while the timer runs is due after it, which then looks again.
func (c *meteredConn) watch() {
	if c.watched || c.closed {
		return
	}
	oldest := c.oldest()
	if oldest.IsZero() {
		return
	}
	c.watched = true
	due := time.Until(oldest.Add(c.s.opts.ReadTimeout))
	if c.timer == nil {
		c.timer = time.AfterFunc(due, c.look)
	} else {
		c.timer.Reset(due)
	}
}

// look closes the connection if a part of it takes too long, and else sets the timer again.
func (c *meteredConn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
	if oldest := c.oldest(); !oldest.IsZero() && time.Since(oldest) >= c.s.opts.ReadTimeout && !c.closed {
		c.fail(errSlow)
		return
	}
	c.watch()
}

// oldest returns when the oldest unfinished message, headers, frame or write began, or the client
// last took a part of a message. It is zero if everything is complete and taken.
func (c *meteredConn) oldest() time.Time {
	oldest := c.headers
	if c.in.unfinished() && oldest.IsZero() {
		oldest = c.in.since
	}
	if !c.writing.IsZero() && (oldest.IsZero() || c.writing.Before(oldest)) {
		oldest = c.writing
	}
	for _, x := range c.streams {
		if x.in.unfinished() && (oldest.IsZero() || x.since.Before(oldest)) {
			oldest = x.since
		}
		if len(x.unread) > 0 && (oldest.IsZero() || x.taken.Before(oldest)) {
			oldest = x.taken
		}
	}
	return oldest
}

// Write implements net.Conn.
func (c *meteredConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.out.feed(b, func() error {
		if c.out.kind == frameReset || c.out.kind == frameHeaders && c.out.flags&flagEndStream != 0 {
			c.end(c.out.stream)
		}
		return nil
	}, c.sent)
	c.writing = time.Now()
	c.watch()
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	c.mu.Lock()
	c.writing = time.Time{}
	c.mu.Unlock()
	return n, err
}

// Close implements net.Conn.
func (c *meteredConn) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for stream := range c.streams {
		c.end(stream)
	}
	c.memory.release()
	c.memory.conn.end()
	c.mu.Unlock()
	return c.Conn.Close()
}
