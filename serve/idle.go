package serve

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// leastIdle is the least memory that a list of idle connections may take: one with the longest
// headers fits.
const leastIdle = 4 << 20

// idleConns are the connections that have no authorized request in progress: in the first list
// those that have had none yet, in the second the others. The connections of a list take a quarter
// of the memory of all requests at most; some are closed for others.
type idleConns struct {
	mu    sync.Mutex
	lists [2]idleList
	clock int64 // connections that have become idle so far

	waiting struct { // for the garbage collector
		new    int                  // connections without an authorized request
		of     map[netip.Prefix]int // those of an address
		others int                  // other connections, and requests
	}
}

type idleList struct {
	conns     []*idleConn
	bytes     int64                  // that they have reserved
	addresses map[netip.Prefix]int64 // bytes of each
}

// idleConn is the place of a connection in idleConns.
type idleConn struct {
	s       *Server
	conn    net.Conn // below TLS
	address netip.Prefix
	bytes   int64 // that the connection has reserved
	list    int
	place   int   // index in the list; -1: a request is in progress, or the connection is closed
	since   int64 // clock when it became idle
	mute    bool  // gRPC waits for the begin of what the client sends
}

// clientAddress returns what tells clients apart: an IPv4 address, or the network of an IPv6
// address, because a client can have all addresses of one.
func clientAddress(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap()
	p, _ := ip.Prefix(min(ip.BitLen(), 64)) // no error: the address has as many bits
	return p
}

// connection returns the memory of a new connection, which is idle. mute is set over gRPC.
func (s *Server) connection(conn net.Conn, mute bool) reservation {
	c := &idleConn{s: s, conn: conn, address: clientAddress(conn.RemoteAddr()), place: -1, mute: mute}
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
	if c.place < 0 {
		return nil
	}
	c.s.idle.lists[c.list].count(c.address, n)
	return c.makeRoom()
}

// idle records that the connection has no request from now on.
func (c *idleConn) idle() {
	c.s.idle.mu.Lock()
	defer c.s.idle.mu.Unlock()
	c.remove()
	l := &c.s.idle.lists[c.list]
	c.place, c.since = len(l.conns), c.s.idle.clock
	c.s.idle.clock++
	l.conns = append(l.conns, c)
	l.count(c.address, c.bytes)
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
	idle := c.place >= 0
	c.remove()
	return idle
}

// CloseMute closes the connections over gRPC whose clients have not sent their first frame: the
// method GracefulStop of grpc.Server waits for it.
func (s *Server) CloseMute() {
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	for _, c := range s.idle.lists[0].conns {
		if c.mute {
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
	if c.place < 0 {
		return
	}
	l := &c.s.idle.lists[c.list]
	last := len(l.conns) - 1
	l.conns[c.place], l.conns[last].place = l.conns[last], c.place
	l.conns[last] = nil
	l.conns, c.place = l.conns[:last], -1
	l.count(c.address, -c.bytes)
}

// count adds n bytes to what the connections of an address have reserved.
func (l *idleList) count(address netip.Prefix, n int64) {
	l.bytes += n
	if l.addresses == nil {
		l.addresses = map[netip.Prefix]int64{}
	}
	if l.addresses[address] += n; l.addresses[address] == 0 {
		delete(l.addresses, address)
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
	for l.bytes > most && len(l.conns) > 1 {
		other := c.other()
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

// other returns the connection of the list that is closed for c: of four, one whose address has the
// most memory of the list. Among those of an address, it is the longest idle if they have had an
// authorized request, and else any: with the longest idle, one client that connects again and again
// would close each connection that another has opened before its first request arrives.
func (c *idleConn) other() (other *idleConn) {
	l := &c.s.idle.lists[c.list]
	n := len(l.conns)
	samples := min(n, 4)
	for i, first := 0, rand.IntN(n); i < samples; i++ {
		x := l.conns[(first+i*n/samples)%n]
		if x == c {
			continue
		}
		if other == nil || l.addresses[x.address] > l.addresses[other.address] ||
			x.address == other.address && c.list == 1 && x.since < other.since {
			other = x
		}
	}
	return other
}

// wait counts one that waits for the garbage collector until waited is called: a connection, or a
// request if c is nil. It returns nil if too many do: with a collection for each, more would wait
// for seconds. Connections without an authorized request have places of their own, of which
// those of an address take at most half.
func (s *Server) wait(c *idleConn) (waited func()) {
	const most = 64
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	n := &s.idle.waiting
	if c == nil || c.list == 1 {
		if n.others >= most {
			return nil
		}
		n.others++
		return func() {
			s.idle.mu.Lock()
			defer s.idle.mu.Unlock()
			n.others--
		}
	}
	if n.new >= most || n.of[c.address] >= most/2 {
		return nil
	}
	if n.of == nil {
		n.of = map[netip.Prefix]int{}
	}
	n.new++
	n.of[c.address]++
	return func() {
		s.idle.mu.Lock()
		defer s.idle.mu.Unlock()
		n.new--
		if n.of[c.address]--; n.of[c.address] == 0 {
			delete(n.of, c.address)
		}
	}
}
