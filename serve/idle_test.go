package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/onward-ml/onward/serve/inference"
)

// listenGRPC serves gRPC on a port and returns its address.
func listenGRPC(t *testing.T, s *Server, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(append(s.GRPCOptions(), opts...)...)
	s.Register(g)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// idleClient sends requests over one connection of REST and one of gRPC.
type idleClient struct {
	rest  string
	http  *http.Client
	conn  *grpc.ClientConn
	dials int // connections of gRPC
}

func newIdleClient(t *testing.T, rest, address string) *idleClient {
	c := &idleClient{rest: rest, http: &http.Client{Transport: &http.Transport{}}}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			c.dials++ // by one goroutine
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); c.http.CloseIdleConnections() })
	c.conn = conn
	return c
}

// infer sends a request over REST and one over gRPC, and reports whether REST uses its connection
// again.
func (c *idleClient) infer() (reused bool, err error) {
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.rest+"/v2/models/m/infer",
		strings.NewReader(fp32("[1,2]", "[1,2]")))
	if err != nil {
		return false, err
	}
	r.Header.Set("Authorization", "Bearer secret")
	w, err := c.http.Do(r)
	if err != nil {
		return false, err
	}
	defer w.Body.Close()
	if text, _ := io.ReadAll(w.Body); w.StatusCode != http.StatusOK {
		return false, fmt.Errorf("REST: %d %s", w.StatusCode, text)
	}
	ctx = metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer secret")
	_, err = inference.NewGRPCInferenceServiceClient(c.conn).ServerMetadata(ctx, &inference.ServerMetadataRequest{},
		grpc.WaitForReady(true))
	return reused, err
}

// open reports whether the server has not closed the connection.
func open(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := io.Copy(io.Discard, c)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestIdleConnections checks that connections without an authorized request take a quarter of the
// memory of all requests at most, so that clients with a token have new connections and keep those
// that they have.
func TestIdleConnections(t *testing.T) {
	const (
		total = 32 << 20
		probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
		wrong = "GET /v2 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n"
	)
	const settings = http2Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		protocol string
		conns    int
		send     string
	}{
		"gRPC silent":            {"gRPC", 400, ""},
		"gRPC after settings":    {"gRPC", 400, settings},
		"gRPC without handshake": {"TLS", 400, "\x16\x03\x01"},
		"REST silent":            {"REST", 1000, ""},
		"REST after a probe":     {"REST", 1000, probe},
		"REST wrong token":       {"REST", 1000, wrong},
		"REST headers":           {"REST", 40, "GET / HTTP/1.1\r\nX-A: " + strings.Repeat("a", 60<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: total,
				Tokens: []string{"secret"}})
			held := s.memory.Used()
			addresses := map[string]string{"REST": listenREST(t, s, time.Minute), "gRPC": listenGRPC(t, s),
				"TLS": listenGRPC(t, s, grpc.Creds(s.GRPCCredentials(credentials.NewTLS(&tls.Config{}))))}
			early := newIdleClient(t, addresses["REST"], addresses["gRPC"])
			if _, err := early.infer(); err != nil {
				t.Fatal(err)
			}
			var conns []net.Conn
			for range c.conns {
				conn := dialTCP(t, addresses[c.protocol])
				io.WriteString(conn, c.send) // fails if the server has closed the connection
				conns = append(conns, conn)
			}
			// The server need not take them in the order in which they were opened.
			waitFor(t, "the longest idle connections are closed", func() bool {
				return slices.ContainsFunc(conns[:len(conns)/4], func(c net.Conn) bool { return !open(c) })
			})
			waitFor(t, "connections take a quarter at most", func() bool {
				return s.memory.Used()-held <= total/4+restCost+connectionCost
			})
			late := newIdleClient(t, addresses["REST"], addresses["gRPC"])
			waitFor(t, "a new client is served", func() bool { _, err := late.infer(); return err == nil })
			for name, client := range map[string]*idleClient{"an earlier": early, "the new": late} {
				dials := client.dials
				if reused, err := client.infer(); err != nil || !reused || client.dials != dials {
					t.Errorf("%s client: connection kept %v, %d by gRPC; %v", name, reused, client.dials, err)
				}
			}
			if early.dials != 1 {
				t.Errorf("the earlier client has had %d connections of gRPC", early.dials)
			}
		})
	}
}

// TestIdleConnectionsWithoutTokens checks that a server without tokens closes the connections that
// are longest idle, and none with a request in progress.
func TestIdleConnectionsWithoutTokens(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: 16 << 20})
	rest, address := listenREST(t, s, time.Minute), listenGRPC(t, s)
	active := dialTCP(t, rest)
	body := fp32("[1,2]", "[1,2]")
	head := fmt.Sprintf("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(body))
	io.WriteString(active, head)
	waitFor(t, "the request is in progress", func() bool { return s.active.Load() == 1 })
	var conns []net.Conn
	for range 300 {
		c := dialTCP(t, rest)
		io.WriteString(c, head+body)
		if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
			t.Fatalf("connection %d: %v", len(conns), err)
		}
		conns = append(conns, c)
	}
	var left [3]int // of each hundred: a goroutine of the server can be late
	for i, c := range conns {
		if open(c) {
			left[i/100]++
		}
	}
	if left[0] > 10 || left[2] < 60 || left[0]+left[1]+left[2] > 100 { // 85 have room
		t.Errorf("%d connections of each hundred are open", left)
	}
	for range 5 {
		if _, err := newIdleClient(t, rest, address).infer(); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(active, body)
	status := make([]byte, len("HTTP/1.1 200"))
	if io.ReadFull(active, status); string(status) != "HTTP/1.1 200" {
		t.Errorf("the request in progress: %q", status)
	}
}

// addressedConn is a connection of a client address.
type addressedConn struct {
	net.Conn
	remote net.Addr
	closed func()
}

func (c addressedConn) RemoteAddr() net.Addr { return c.remote }
func (c addressedConn) Close() error         { c.closed(); return nil }

// TestNewConnectionsOutlastFloods checks that a client has its first request authorized although
// many connections without one follow its own: always if they are of another address, and in a few
// tries else.
func TestNewConnectionsOutlastFloods(t *testing.T) {
	const room = leastIdle / restCost // connections
	for name, c := range map[string]struct {
		client, flood string
		conns, tries  int
	}{
		"other address": {"192.0.2.1", "192.0.2.2", 100 * room, 1},
		"other network": {"2001:db8:0:1::1", "2001:db8:0:2::1", 100 * room, 1},
		"same address":  {"192.0.2.1", "192.0.2.1", room, 40}, // each outlasts with a probability of 0.37
		"same network":  {"2001:db8::1", "2001:db8::2", room, 40},
	} {
		s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: 4 * leastIdle})
		var closed []*reservation
		dial := func(address string) *reservation {
			m := new(reservation)
			*m = s.connection(addressedConn{remote: &net.TCPAddr{IP: net.ParseIP(address), Port: 1},
				closed: func() { closed = append(closed, m) }}, false)
			if err := m.grow(restCost); err != nil {
				t.Fatal(err)
			}
			for _, m := range closed {
				m.release()
			}
			closed = nil
			return m
		}
		for range room {
			dial(c.flood)
		}
		outlasted := 0
		for range c.tries {
			client := dial(c.client)
			for range c.conns {
				dial(c.flood)
			}
			if client.n > 0 {
				outlasted++
			}
		}
		if outlasted == 0 {
			t.Errorf("%s: %d connections are closed for others before a request, want fewer", name, c.tries)
		}
	}
}

// TestWaitersOfOtherAddresses checks that the connections of one address leave room for those of
// others that wait for the garbage collector, and that requests have places of their own.
func TestWaitersOfOtherAddresses(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	conn := func(last byte) *idleConn {
		return &idleConn{s: s, address: clientAddress(&net.TCPAddr{IP: net.IPv4(192, 0, 2, last)})}
	}
	all := func(c *idleConn) (waiters []func()) {
		for waited := s.wait(c); waited != nil; waited = s.wait(c) {
			waiters = append(waiters, waited)
		}
		return waiters
	}
	requests := all(nil)
	flood, clients := all(conn(1)), all(conn(2))
	if len(flood) != 32 || len(clients) != 32 || len(requests) != 64 {
		t.Errorf("%d connections of one address wait, %d of another, and %d requests, want 32, 32 and 64", len(flood),
			len(clients), len(requests))
	}
	if others := all(conn(3)); others != nil {
		t.Errorf("%d connections of a third address wait, want 0", len(others))
	}
	for _, waited := range append(flood, requests...) {
		waited()
	}
	if flood, others := all(conn(3)), all(nil); len(flood) != 32 || len(others) != 64 {
		t.Errorf("%d connections and %d requests wait after others, want 32 and 64", len(flood), len(others))
	}
}

// TestCloseMute checks that gRPC's graceful stop does not wait for connections that have not sent a
// frame, with TLS and without.
func TestCloseMute(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	encrypted := []grpc.ServerOption{grpc.Creds(s.GRPCCredentials(credentials.NewTLS(&tls.Config{})))}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for name, c := range map[string]struct {
		options []grpc.ServerOption
		sent    string
	}{
		"nothing": {}, "TLS": {options: encrypted}, "preface": {sent: preface},
		"half a frame": {sent: preface + "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		g := grpc.NewServer(append(s.GRPCOptions(), c.options...)...)
		s.Register(g)
		read := new(atomic.Int64)
		go g.Serve(countingListener{l, read})
		mutes := func() (n int) {
			s.idle.mu.Lock()
			defer s.idle.mu.Unlock()
			for _, c := range s.idle.lists[0].conns {
				if c.mute {
					n++
				}
			}
			return n
		}
		conn := dialTCP(t, l.Addr().String())
		waitFor(t, "the connection is accepted", func() bool { return mutes() == 1 })
		if _, err := conn.Write([]byte(c.sent)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the bytes are read", func() bool { return read.Load() == int64(len(c.sent)) })
		stopped := make(chan struct{})
		go func() { g.GracefulStop(); close(stopped) }()
		s.CloseMute()
		waitFor(t, name+": the connection is closed", func() bool { return !open(conn) })
		<-stopped
	}
}

// countingListener counts the bytes that its connections read.
type countingListener struct {
	net.Listener
	n *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countingConn{c, l.n}, err
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}
