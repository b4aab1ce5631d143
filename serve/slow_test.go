package serve

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/onward-ml/onward/serve/inference"
)

// rawClient is an HTTP/2 client that writes frames as a test says.
type rawClient struct {
	net.Conn
	t      *testing.T
	calls  uint32
	stream uint32 // of the last call
}

func newRawClient(t *testing.T, s *Server) *rawClient {
	t.Helper()
	l := bufconn.Listen(64 << 10)
	g := grpc.NewServer(s.GRPCOptions()...)
	s.Register(g)
	go g.Serve(l)
	conn, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); g.Stop() })
	return startHTTP2(t, conn)
}

// startHTTP2 sends the preface of HTTP/2 and an empty SETTINGS frame.
func startHTTP2(t *testing.T, conn net.Conn) *rawClient {
	t.Helper()
	c := &rawClient{Conn: conn, t: t}
	if _, err := io.WriteString(conn, http2Preface); err != nil {
		t.Fatal(err)
	}
	c.frame(frameSettings, 0, 0, nil)
	return c
}

// frame writes a frame. A failure says that the server has closed the connection.
func (c *rawClient) frame(kind, flags byte, stream uint32, payload []byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	_, err := c.Write(append(b, payload...))
	return err
}

// open begins a call, with more headers.
func (c *rawClient) open(method string, more ...[2]string) error {
	var block []byte
	for _, h := range more {
		block = append(append(block, 0, byte(len(h[0]))), h[0]...)
		block = append(append(block, byte(len(h[1]))), h[1]...)
	}
	return c.openBlock(method, block)
}

// openBlock begins a call, with more fields that are encoded.
func (c *rawClient) openBlock(method string, more []byte) error {
	c.stream = 2*c.calls + 1 // clients have odd numbers
	c.calls++
	var block []byte
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"},
		{":path", "/inference.GRPCInferenceService/" + method},
		{":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		block = append(append(block, 0, byte(len(h[0]))), h[0]...)
		block = append(append(block, byte(len(h[1]))), h[1]...)
	}
	return c.frame(frameHeaders, flagEndHeaders, c.stream, append(block, more...))
}

// closed waits until the server closes the connection.
func (c *rawClient) closed() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, c); err != nil {
		c.t.Errorf("the connection is not closed: %v", err)
	}
}

// begin is the prefix of a message of 1 MiB.
var begin = []byte{0, 0, 16, 0, 0}

// TestUnfinishedMessages checks that messages that are never finished take no more than the memory
// of all requests, and end with ReadTimeout.
func TestUnfinishedMessages(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: 2 << 20})
		held := s.memory.Used()
		c := newRawClient(t, s)
		go io.Copy(io.Discard, c.Conn)
		sent := 0
		for range 100 { // streams, each within its window of 64 KiB
			if c.open("ModelInfer") != nil || c.frame(frameData, 0, c.stream, begin) != nil ||
				c.frame(frameData, 0, c.stream, make([]byte, 16000)) != nil {
				break
			}
			sent++
		}
		if sent == 100 {
			t.Error("100 unfinished messages of 16 kB are accepted, with 2 MiB for all requests")
		}
		waitFor(t, "the connection gives its memory back", func() bool { return s.memory.Used() == held })
	})
	t.Run("small frames", func(t *testing.T) {
		s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: 1 << 20})
		c := newRawClient(t, s)
		go io.Copy(io.Discard, c.Conn)
		c.open("ModelInfer")
		c.frame(frameData, 0, c.stream, begin)
		sent := 0
		for ; sent < 20_000 && c.frame(frameData, 0, c.stream, []byte{0}) == nil; sent++ {
		}
		if sent == 20_000 {
			t.Error("20000 frames of a byte are accepted, with 1 MiB for all requests")
		}
	})
	t.Run("time", func(t *testing.T) {
		s := newServer(t, "",
			&Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, ReadTimeout: 50 * time.Millisecond})
		held := s.memory.Used()
		c := newRawClient(t, s)
		if c.open("ModelInfer") != nil ||
			c.frame(frameData, flagPadded, c.stream, append([]byte{3}, 0, 0, 16, 0, 0, 'p', 'a', 'd')) != nil {
			t.Fatal("the connection is closed before the time")
		}
		// The call ends, or the connection with it: what is later by the clock finds nothing.
		waitFor(t, "the message gives its memory back",
			func() bool { return s.memory.Used() <= held+connectionCost && s.calls.Load() == 0 })
	})
	for name, part := range map[string][]byte{
		"frame":   {0, 4, 0, 0},
		"headers": {0, 0, 1, frameHeaders, 0, 0, 0, 0, 1, 0x83}, // :method POST, and no END_HEADERS
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "",
				&Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, ReadTimeout: 50 * time.Millisecond})
			c := newRawClient(t, s)
			if _, err := c.Write(part); err != nil {
				t.Fatal(err)
			}
			c.closed()
		})
	}
	t.Run("no message", func(t *testing.T) {
		s := newServer(t, "",
			&Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, ReadTimeout: 50 * time.Millisecond})
		st, err := dialConn(t, s).
			NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/inference.GRPCInferenceService/ModelInfer")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.RecvMsg(new(inference.ModelInferResponse)); status.Code(err) != codes.Canceled {
			t.Errorf("a call without a message: %v, want CANCELLED", err)
		}
		waitFor(t, "the call ends", func() bool { return s.calls.Load() == 0 })
	})
}

// TestCancelledMessagesGiveMemoryBack checks the memory of complete messages whose call is
// cancelled before the request ends.
func TestCancelledMessagesGiveMemoryBack(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	held := s.memory.Used()
	c := newRawClient(t, s)
	go io.Copy(io.Discard, c.Conn)
	const size = 8 << 10
	message := append([]byte{0, 0, 0, size >> 8, 0}, make([]byte, size)...)
	for range 100 {
		c.open("ModelInfer")
		if err := c.frame(frameData, 0, c.stream, message); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the messages are received twice", func() bool { return s.memory.Used()-held > 150*size })
	c.Close()
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
}

// TestTimeoutBeginsWithTheRequest checks that the time that a body takes to arrive counts.
func TestTimeoutBeginsWithTheRequest(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, Timeout: 50 * time.Millisecond})
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = HTTPServer(s.Handler(), time.Minute)
	srv.Start()
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := fp32("[1,2]", "[1,2]")
	io.WriteString(c, "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"+body)
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(text), "in time") {
		t.Errorf("a body that does not arrive: %d %s, want 504", r.StatusCode, text)
	}
}

// TestCancelledCalls checks that a connection is closed if it cancels most of its calls at once,
// and only then.
func TestCancelledCalls(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	const calls = 100 * hastyLeast
	for name, finished := range map[string]bool{"all": false, "half": true} {
		t.Run(name, func(t *testing.T) {
			c := newRawClient(t, s)
			go io.Copy(io.Discard, c.Conn)
			n := 0
			for ; n < calls; n++ {
				if finished &&
					(c.open("ModelInfer") != nil ||
						c.frame(frameData, flagEndStream, c.stream, make([]byte, 5)) != nil) {
					break
				}
				if c.open("ModelInfer") != nil || c.frame(frameReset, 0, c.stream, []byte{0, 0, 0, 8}) != nil {
					break
				}
			}
			if n < hastyLeast || finished != (n == calls) {
				t.Errorf("the connection is closed after %d cancelled calls of %d", n, calls)
			}
		})
	}
}

// TestHeadersOfCallsCount checks that the headers of calls count with what they take in memory, and
// that connections count from their beginning.
func TestHeadersOfCallsCount(t *testing.T) {
	const total = 4 << 20
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: total})
	held := s.memory.Used()
	c := newRawClient(t, s)
	var block []byte
	for i := range 400 {
		block = append(block, 0, 3, byte('a'+i/100), byte('a'+i/10%10), byte('a'+i%10), 0)
	}
	c.frame(frameHeaders, 0, 1, block[:len(block)/2])
	c.frame(frameContinued, 0, 1, block[len(block)/2:])
	waitFor(t, "the headers count", func() bool { return s.memory.Used()-held > headerCost*2400 })
	c.Close()
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })

	client, server := net.Pipe()
	defer client.Close()
	ended := make(chan error)
	creds := s.GRPCCredentials(credentials.NewTLS(&tls.Config{}))
	go func() { _, _, err := creds.ServerHandshake(server); ended <- err }()
	waitFor(t, "a handshake counts", func() bool { return s.memory.Used() == held+connectionCost })
	hello := append([]byte{22, 3, 1, 16000 >> 8, 16000 & 255, 1, 0, 255, 255}, make([]byte, 15996)...)
	client.Write(hello) // a quarter of the message
	waitFor(t, "what has arrived counts", func() bool {
		return s.memory.Used() == held+connectionCost+headerCost*int64(len(hello))
	})
	client.Close()
	if err := <-ended; err == nil || s.memory.Used() != held {
		t.Errorf("%v; %d bytes are reserved after the handshake, want %d", err, s.memory.Used(), held)
	}
}
