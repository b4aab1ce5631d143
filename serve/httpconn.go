package serve

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	maxHeaders     = 16 << 10  // bytes of the headers of a request
	maxHello       = 64 << 10  // bytes of a message of a TLS handshake, the most that crypto/tls reads
	restCost       = 48 << 10  // bytes of the buffers and goroutines of a connection, with TLS
	restBodyCost   = 256 << 10 // bytes of bodies that HTTP/2 receives before a handler reads them
	restQueueCost  = 1 << 20   // bytes of the 10,000 answers to frames that HTTP/2 queues at most
	restStreams    = 100       // requests of a connection of HTTP/2 at once
	restStreamCost = 16 << 10  // bytes of a request of HTTP/2, without its headers
	trailerCost    = 96 << 10  // bytes of maxHeaders of trailers of HTTP/2, each a name of three bytes
	headerCost     = 24        // bytes of memory for a byte of headers: names of three bytes are entries of a map
	maxFrame       = 16 << 10  // bytes of a frame of HTTP/2, which a connection has a buffer for
	writePiece     = 256 << 10 // bytes of a response that a client takes within ReadTimeout

	restHTTP2Cost = restBodyCost + restQueueCost + restStreams*restStreamCost
)

// HTTPServer returns an http.Server for a handler with timeouts against slow clients and a limit
// for headers. A request may take as long as timeout to arrive.
func HTTPServer(h http.Handler, timeout time.Duration) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: min(timeout, 10*time.Second), ReadTimeout: timeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaders,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: restBodyCost,
			MaxReceiveBufferPerStream: restBodyCost, MaxReadFrameSize: maxFrame, WriteByteTimeout: timeout,
			MaxConcurrentStreams: restStreams},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, rawConn(c))
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			r, ok := rawConn(c).(*restConn)
			switch {
			case state == http.StateIdle:
				c.SetWriteDeadline(time.Time{}) // that of the last response
				if ok {
					r.idle()
				}
			case state == http.StateActive && ok:
				t, ok := c.(*tls.Conn)
				if ok && t.ConnectionState().NegotiatedProtocol == "h2" && r.countHTTP2() != nil {
					c.Close()
				}
			}
		}}
}

// rawConn returns the connection below TLS.
func rawConn(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// connKey is the key of the net.Conn in the context of a request.
type connKey struct{}

// Listener returns a listener for an http.Server of [HTTPServer] whose connections count in the
// memory of all requests, with the headers of requests that have not arrived completely. A
// connection for which there is no memory is closed.
func (s *Server) Listener(l net.Listener) net.Listener { return meteredListener{l, s} }

type meteredListener struct {
	net.Listener
	s *Server
}

// Accept implements net.Listener.
func (l meteredListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &restConn{Conn: conn, memory: l.s.connection(conn, false)}
		if err = c.memory.grow(restCost); err == nil {
			return c, nil
		}
		c.Close()
		l.s.metrics.refused.Inc()
		l.s.log.Debug("a connection is closed", "remote", conn.RemoteAddr().String(), "reason", err.Error())
	}
}

// restConn is a connection of REST.
type restConn struct {
	net.Conn

	mu       sync.Mutex
	memory   reservation
	received int64 // bytes since the connection was idle, until a handler has begun
	headers  int64 // bytes of memory for them, or for the headers of the handler, until it is idle
	begun    bool  // whether a handler has begun since it was idle
	http2    bool
	tls      bool // whether the buffers that its handshake leaves are counted
	closed   bool
}

// Read implements net.Conn.
func (c *restConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun || c.closed {
		return n, err // handlers reserve the memory of bodies
	}
	if k := min(int64(n), maxHello-c.received); k > 0 {
		if err := c.memory.grow(headerCost * k); err != nil {
			c.Conn.Close()
			return 0, err
		}
		c.received += k
		c.headers += headerCost * k
	}
	return n, err
}

// Close implements net.Conn.
func (c *restConn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.memory.release()
		c.memory.conn.end()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets http.Server end a connection so that the client still reads the last response.
func (c *restConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// begin counts the headers of a request that a handler gets. HTTP/1 has them until the connection
// is idle: the server reads the rest of the body after the handler has ended.
func (c *restConn) begin(r *http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if r.TLS != nil && !c.tls {
		if err := c.memory.grow(2 * c.received); err != nil {
			return err
		}
		c.tls = true
	}
	c.begun = true
	if r.ProtoMajor == 2 {
		return c.setHeaders(0) // each handler reserves its own
	}
	return c.setHeaders(headerSize(r))
}

// countHTTP2 counts what HTTP/2 takes outside of our handlers, from the handshake on: net/http
// answers requests itself whose headers are too long, and keeps all until their response is sent.
func (c *restConn) countHTTP2() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http2 || c.closed {
		return nil
	}
	c.http2 = true
	return c.memory.grow(restHTTP2Cost)
}

func (c *restConn) setHeaders(n int64) error {
	if err := c.memory.become(c.memory.n - c.headers + n); err != nil {
		return err
	}
	c.received, c.headers = 0, n
	return nil
}

// idle is called when the connection has no request.
func (c *restConn) idle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun = false; !c.closed {
		c.setHeaders(0)
		c.memory.conn.idle()
	}
}

// authorized is called when the connection has an authorized request.
func (c *restConn) authorized() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.memory.conn.authorized()
	}
}

// metered reserves the memory of the handlers of HTTP/2, and ends the responses of clients that do
// not take them.
func (s *Server) metered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*restConn); ok {
			memory := reservation{s: s}
			defer memory.release()
			err := c.begin(r)
			if err == nil && r.ProtoMajor == 2 {
				err = memory.grow(restStreamCost + headerSize(r))
			}
			if err != nil {
				s.serveHTTP(w, r, func(http.ResponseWriter, *http.Request) error { return err }, plainError)
				return
			}
		}
		h.ServeHTTP(&patientWriter{w, http.NewResponseController(w), s.opts.ReadTimeout}, r)
	})
}

// headerSize returns about what the path and the headers of a request take, and the most that the
// trailers take which it announces. HTTP/1 has at most 4 KiB of these.
func headerSize(r *http.Request) int64 {
	n := int64(3*len(r.RequestURI) + len(r.Host))
	if r.ProtoMajor == 2 && r.Trailer != nil {
		n += trailerCost
	}
	for k, l := range r.Header {
		n += mapEntry + int64(len(k))
		for _, v := range l {
			n += 16 + int64(len(v))
		}
	}
	return n
}

// patientWriter writes a response to a client that must take each piece of it in time.
type patientWriter struct {
	http.ResponseWriter
	conn    *http.ResponseController
	timeout time.Duration
}

// Write implements io.Writer.
func (w *patientWriter) Write(b []byte) (n int, err error) {
	for first := true; first || len(b) > 0; first = false {
		w.conn.SetWriteDeadline(time.Now().Add(w.timeout)) // fails for writers of tests
		k := min(len(b), writePiece)
		if k, err = w.ResponseWriter.Write(b[:k]); err != nil {
			return n + k, err
		}
		n, b = n+k, b[k:]
	}
	return n, nil
}

// Unwrap lets http.ResponseController find the connection.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
