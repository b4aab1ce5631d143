package serve

import (
	"container/list"
	"net"
	"sync"
)

// leastIdle is the least memory that a list of idle connections may take: one with the longest
// headers fits.
const leastIdle = 4 << 20

// idleConns are the connections that have no authorized request in progress: in the first list
// those that have had none yet, in the second the others. The connections of a list take a quarter
// of the memory of all requests at most; the longest idle are closed for others.
type idleConns struct {
	mu    sync.Mutex
	lists [2]struct {
		conns list.List // of *idleConn, longest idle first
		bytes int64     // that they have reserved
	}
}

// idleConn is the place of a connection in idleConns.
type idleConn struct {
	s     *Server
	conn  net.Conn // below TLS
	bytes int64    // that the connection has reserved
	list  int
	place *list.Element // nil: a request is in progress, or the connection is closed
	mute  bool          // gRPC waits for the begin of what the client sends
}

// connection returns the memory of a new connection, which is idle. mute is set over gRPC.
func (s *Server) connection(conn net.Conn, mute bool) reservation {
	c := &idleConn{s: s, conn: conn, mute: mute}
	c.idle()
	return reservation{s: s, conn: c}
}

// count adds n bytes to what the connection has reserved.
func (c *idleConn) count(n int64) error {
	if c == nil {
		return nil
	}
	c.s.idle.mu.Lock()
	defer c.s.idle.mu.Unlock()
	c.bytes += n
	if c.place == nil {
		return nil
	}
	c.s.idle.lists[c.list].bytes += n
	return c.makeRoom()
}

// idle records that the connection has no request from now on.
func (c *idleConn) idle() {
	c.s.idle.mu.Lock()
	defer c.s.idle.mu.Unlock()
	c.remove()
	l := &c.s.idle.lists[c.list]
	c.place = l.conns.PushBack(c)
	l.bytes += c.bytes
	_ = c.makeRoom() // fails if the connection alone takes too much: it cannot grow then
}

// authorized records that an authorized request is in progress.
func (c *idleConn) authorized() {
	c.s.idle.mu.Lock()
	defer c.s.idle.mu.Unlock()
	c.remove()
	c.list = 1
}

// end records that the connection is not idle, or is closed. It returns whether it was idle.
func (c *idleConn) end() bool {
	c.s.idle.mu.Lock()
	defer c.s.idle.mu.Unlock()
	idle := c.place != nil
	c.remove()
	return idle
}

// CloseMute closes the connections over gRPC whose clients have not sent their first frame: the
// method GracefulStop of grpc.Server waits for it.
func (s *Server) CloseMute() {
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	for e := s.idle.lists[0].conns.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*idleConn); c.mute {
			c.conn.Close()
		}
	}
}

// begun records that the client has sent its first frame.
func (c *idleConn) begun() {
	c.s.idle.mu.Lock()
	defer c.s.idle.mu.Unlock()
	c.mute = false
}

func (c *idleConn) remove() {
	if c.place != nil {
		l := &c.s.idle.lists[c.list]
		l.conns.Remove(c.place)
		l.bytes -= c.bytes
		c.place = nil
	}
}

// makeRoom closes other connections of the list while they take too much. It returns an error if c
// alone does.
func (c *idleConn) makeRoom() error {
	limit := c.s.memory.Limit()
	if limit == 0 {
		return nil
	}
	l, most := &c.s.idle.lists[c.list], max(limit/4, leastIdle)
	for e := l.conns.Front(); e != nil && l.bytes > most; {
		other := e.Value.(*idleConn)
		if e = e.Next(); other == c {
			continue
		}
		other.remove()
		other.conn.Close()
		c.s.log.Debug("a connection is closed", "remote", other.conn.RemoteAddr().String(), "reason",
			"idle connections take too much memory")
	}
	if l.bytes > most {
		return errorf(Overloaded, "the connection takes more than %d bytes before a request", most)
	}
	return nil
}

// waiters returns how many may wait for the garbage collector, with the one that asks: for the
// connection, or for a request if c is nil. With a collection for each, more would wait for
// seconds. Connections without an authorized request leave room for others.
func (c *idleConn) waiters() int64 {
	const most = 64
	if c == nil {
		return most
	}
	c.s.idle.mu.Lock()
	defer c.s.idle.mu.Unlock()
	if c.list == 0 {
		return most / 4
	}
	return most
}
