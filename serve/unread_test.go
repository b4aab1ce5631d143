package serve

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/serve/inference"
)

// widening returns a model whose result has n floats.
func widening(t testing.TB, n int64) []byte {
	b := onnx.NewModel("widening").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, int(n))
	b.Initializer("shape", []int64{n})
	b.Node("Expand", []string{"x", "shape"}, []string{"y"})
	return modelBytes(t, b)
}

// noWindow is a SETTINGS frame's payload: clients take no data, INITIAL_WINDOW_SIZE is 0.
var noWindow = []byte{0, 4, 0, 0, 0, 0}

// infer sends requests to the widening model on a new call, with more headers.
func (c *rawClient) infer(method string, requests int, more ...[2]string) error {
	m, err := proto.Marshal(&inference.ModelInferRequest{ModelName: "m",
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1}}},
		RawInputContents: [][]byte{make([]byte, 4)}})
	if err != nil {
		c.t.Fatal(err)
	}
	message := append([]byte{0, 0, 0, 0, byte(len(m))}, m...)
	if err := c.open(method, more...); err != nil {
		return err
	}
	for range requests - 1 {
		if err := c.frame(frameData, 0, c.stream, message); err != nil {
			return err
		}
	}
	return c.frame(frameData, flagEndStream, c.stream, message)
}

// TestUnreadMessages checks that responses of gRPC count in the memory of all requests until the
// client has taken them, and that a client which takes none is disconnected.
func TestUnreadMessages(t *testing.T) {
	const total, size = 64 << 20, 1 << 20
	options := func(timeout time.Duration) *Options {
		return &Options{Models: []Model{{Name: "m", Data: widening(t, size/4)}}, TotalMemory: total,
			ReadTimeout: timeout}
	}
	for _, x := range []struct {
		method          string
		calls, requests int
	}{{"ModelInfer", 40, 1}, {"ModelStreamInfer", 1, 40}} {
		t.Run(x.method, func(t *testing.T) {
			s := newServer(t, "", options(0))
			held := s.memory.Used()
			c := newRawClient(t, s)
			go io.Copy(io.Discard, c.Conn)
			c.frame(4, 0, 0, noWindow)
			for range x.calls {
				if err := c.infer(x.method, x.requests); err != nil {
					t.Fatal(err)
				}
			}
			waitFor(t, "the responses count", func() bool { return s.memory.Used()-held > total/3 })
			c.Close()
			waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
		})
		t.Run(x.method+" slowly", func(t *testing.T) {
			s := newServer(t, "", options(200*time.Millisecond))
			held := s.memory.Used()
			c := newRawClient(t, s)
			c.frame(4, 0, 0, noWindow)
			if err := c.infer(x.method, 1); err != nil {
				t.Fatal(err)
			}
			go func() { // the client takes a byte at a time
				for c.frame(8, 0, c.stream, []byte{0, 0, 0, 1}) == nil {
					time.Sleep(10 * time.Millisecond)
				}
			}()
			c.closed()
			waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
		})
		t.Run(x.method+" in time", func(t *testing.T) {
			s := newServer(t, "", options(100*time.Millisecond))
			held := s.memory.Used()
			c := newRawClient(t, s)
			c.frame(4, 0, 0, noWindow)
			if err := c.infer(x.method, 1); err != nil {
				t.Fatal(err)
			}
			c.closed()
			waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
		})
	}
}

// writeWatcher calls a function when a handler writes.
type writeWatcher struct {
	*httptest.ResponseRecorder
	wrote func(n int)
}

func (w writeWatcher) Write(b []byte) (int, error) {
	w.wrote(len(b))
	return w.ResponseRecorder.Write(b)
}

// TestDescriptionsCount checks that responses which describe models and metrics count in the memory
// of all requests while they are written, over REST and gRPC.
func TestDescriptionsCount(t *testing.T) {
	const models = 40
	o := &Options{TotalMemory: 16 << 20}
	for i := range models {
		o.Models = append(o.Models, Model{Name: fmt.Sprint("m", i), Data: scaled(t, 1)})
	}
	s := newServer(t, "", o)
	s.errors.add("m1", errors.New("a cause"))
	held := s.memory.Used()
	for request, h := range map[string]http.Handler{
		"GET /v2/models/m1":         s.Handler(),
		"GET /v2/models/m1/config":  s.Handler(),
		"GET /v2/models/m1/stats":   s.Handler(),
		"GET /v2/models/stats":      s.Handler(),
		"POST /v2/repository/index": s.Handler(),
		"GET /status/errors":        s.Handler(),
		"GET /v1/models":            s.Handler(),
		"GET /metrics":              s.MetricsHandler(),
	} {
		method, path, _ := strings.Cut(request, " ")
		wrote := 0
		w := writeWatcher{httptest.NewRecorder(), func(n int) {
			wrote += n
			if used := s.memory.Used() - held; used < int64(n) {
				t.Errorf("%s: %d bytes are reserved while %d are written", request, used, n)
			}
		}}
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != http.StatusOK || wrote == 0 || s.memory.Used() != held {
			t.Errorf("%s: status %d, %d bytes written, %d reserved afterwards", request, w.Code, wrote,
				s.memory.Used()-held)
		}
	}
	// Without memory for them, descriptions are refused, and metrics except for one request.
	rest := s.memory.Limit() - held - 100
	if err := s.memory.Reserve(rest); err != nil {
		t.Fatal(err)
	}
	if w := call(s, "GET", "/v2/models/stats", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without memory: status %d, want 503", w.Code)
	}
	scrape := func(wrote func(int)) int {
		w := writeWatcher{httptest.NewRecorder(), wrote}
		s.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Code
	}
	meanwhile := 0
	if code := scrape(func(int) {
		if meanwhile == 0 {
			meanwhile = scrape(func(int) {})
		}
	}); code != http.StatusOK || meanwhile != http.StatusServiceUnavailable {
		t.Errorf("metrics without memory: status %d, want 200, and %d for a second request, want 503", code, meanwhile)
	}
	s.memory.Release(rest)
	c := newRawClient(t, s)
	go io.Copy(io.Discard, c.Conn)
	c.frame(4, 0, 0, noWindow)
	for _, method := range []string{"ModelStatistics", "RepositoryIndex"} {
		if err := c.open(method); err != nil {
			t.Fatal(err)
		}
		before := s.memory.Used()
		if err := c.frame(frameData, flagEndStream, c.stream, make([]byte, messagePrefix)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, method+" counts", func() bool { return s.memory.Used()-before > models*nestedCost })
	}
	c.Close()
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
}

// TestReadMessagesGiveMemoryBack checks that a stream whose client reads holds no memory for what
// it has read.
func TestReadMessagesGiveMemoryBack(t *testing.T) {
	const total, size = 16 << 20, 1 << 20
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: widening(t, size/4)}}, TotalMemory: total})
	st, err := inference.NewGRPCInferenceServiceClient(dialConn(t, s)).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	request := &inference.ModelInferRequest{ModelName: "m",
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1}}},
		RawInputContents: [][]byte{make([]byte, 4)}}
	for i := range 2 * total / size {
		if err := st.Send(request); err != nil {
			t.Fatal(err)
		}
		r, err := st.Recv()
		if err != nil || r.ErrorMessage != "" {
			t.Fatalf("message %d: %v %s", i, err, r.GetErrorMessage())
		}
	}
}

// listenREST serves REST on a new address whose connections are metered.
func listenREST(t *testing.T, s *Server, timeout time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := HTTPServer(s.Handler(), timeout)
	go srv.Serve(s.Listener(l))
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

func dialTCP(t *testing.T, address string) *net.TCPConn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// TestUnreadResponses checks that a client of REST which does not read its response is
// disconnected.
func TestUnreadResponses(t *testing.T) {
	const size = 64 << 20 // more than the buffers of the connection
	s := newServer(t, "",
		&Options{Models: []Model{{Name: "m", Data: widening(t, size/4)}}, ReadTimeout: 100 * time.Millisecond})
	held := s.memory.Used()
	c := dialTCP(t, listenREST(t, s, time.Minute))
	c.SetReadBuffer(4 << 10)
	body := `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],` +
		`"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`
	fmt.Fprintf(c, "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	waitFor(t, "the response counts", func() bool { return s.memory.Used()-held > size })
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
	c.SetReadDeadline(time.Now().Add(time.Second)) // what the kernel has arrives slowly
	if n, err := io.Copy(io.Discard, c); err == nil && n >= size {
		t.Errorf("%d bytes arrive after the time", n)
	}
}

// TestRESTConnectionsCount checks that the connections of REST and their unfinished headers take no
// more than the memory of all requests, and give it back.
func TestRESTConnectionsCount(t *testing.T) {
	const total = 4 << 20
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: total})
	held := s.memory.Used()
	address := listenREST(t, s, time.Minute)
	header := "GET / HTTP/1.1\r\nX-A: " + strings.Repeat("a", 60<<10)
	var conns []*net.TCPConn
	for range 100 {
		c := dialTCP(t, address)
		io.WriteString(c, header) // fails if the server has closed the connection
		conns = append(conns, c)
	}
	waitFor(t, "the connections count", func() bool { return s.memory.Used()-held > total/2 })
	closed := 0
	for _, c := range conns {
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed < 40 {
		t.Errorf("%d of 100 connections are closed", closed)
	}
	for _, c := range conns {
		c.Close()
	}
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })

	c := &http.Client{Transport: &http.Transport{}}
	for range 3 { // on one connection
		r, err := c.Post("http://"+address+"/v2/models/m/infer", "", strings.NewReader(fp32("[1,2]", "[1,2]")))
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", r.StatusCode, text)
		}
		r.Body.Close()
	}
	waitFor(t, "a request gives its memory back", func() bool { return s.memory.Used() == held+restCost })
	c.CloseIdleConnections()
	waitFor(t, "the connection gives its memory back", func() bool { return s.memory.Used() == held })
}

// TestShortHeadersCount checks that headers count with what they take in memory: while they arrive,
// and until the body of a refused request has arrived.
func TestShortHeadersCount(t *testing.T) {
	s := newServer(t, "",
		&Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: 64 << 20, Tokens: []string{"secret"}})
	held := s.memory.Used()
	var head strings.Builder
	head.WriteString("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n")
	for i := range 2500 {
		fmt.Fprintf(&head, "%x:\n", 4096+i)
	}
	for name, end := range map[string]string{"unfinished": "", "without body": "\r\n"} {
		c := dialTCP(t, listenREST(t, s, time.Minute))
		io.WriteString(c, head.String()+end)
		waitFor(t, name+" headers count", func() bool { return s.memory.Used()-held > 300<<10 })
		if end != "" {
			time.Sleep(10 * time.Millisecond) // the handler ends
			if n := s.memory.Used() - held; n < 300<<10 {
				t.Errorf("%d bytes are reserved while the body arrives", n)
			}
			c.Write([]byte("a"))
			b := make([]byte, len("HTTP/1.1 401"))
			if io.ReadFull(c, b); string(b) != "HTTP/1.1 401" {
				t.Errorf("%s, want status 401", b)
			}
			waitFor(t, "the headers give their memory back", func() bool { return s.memory.Used() == held+restCost })
		}
		c.Close()
		waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
	}
}

// TestRESTOverHTTP2Counts checks the memory of connections of HTTP/2 over TLS.
func TestRESTOverHTTP2Counts(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: 4 << 20})
	held := s.memory.Used()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config, srv.Listener, srv.EnableHTTP2 = HTTPServer(s.Handler(), time.Minute), s.Listener(srv.Listener), true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	disconnect := func() {
		waitFor(t, "the connection gives its memory back", func() bool {
			client.CloseIdleConnections() // the client may see the end of a request later than the server
			return s.memory.Used() == held
		})
	}
	for range 3 {
		r, err := client.Post(srv.URL+"/v2/models/m/infer", "", strings.NewReader(fp32("[1,2]", "[1,2]")))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		if r.Body.Close(); r.StatusCode != http.StatusOK || r.ProtoMajor != 2 {
			t.Fatalf("%s %s %s", r.Proto, r.Status, text)
		}
		waitFor(t, "the request gives its memory back",
			func() bool {
				n := s.memory.Used() - held
				return n >= restCost+restHTTP2Cost && n < restCost+restHTTP2Cost+restStreamCost
			})
	}
	disconnect()
	body, more := io.Pipe()
	r, err := http.NewRequest(http.MethodPost, srv.URL+"/v2/models/m/infer", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"A": nil}
	go client.Do(r) // fails when the body ends
	waitFor(t, "announced trailers count", func() bool { return s.memory.Used()-held >= restHTTP2Cost+trailerCost })
	more.CloseWithError(io.ErrUnexpectedEOF)
	waitFor(t, "they give their memory back", func() bool { return s.memory.Used()-held < restHTTP2Cost+trailerCost })
	disconnect()
	conn, err := tls.Dial("tcp", srv.Listener.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	long := startHTTP2(t, conn) // http.Client refuses to send what the server's SETTINGS exclude
	const fieldSize = 32        // of an empty field without a name (RFC 9113, section 6.5.2)
	fields := bytes.Repeat([]byte{0x80 | 62}, maxHeaders/fieldSize)
	long.openBlock("ModelInfer", append([]byte{0x40, 1, 'a', 0}, fields...))
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	var got bytes.Buffer
	for !strings.Contains(got.String(), "HTTP Error 431") { // by net/http, not by the handler
		if _, err := io.CopyN(&got, conn, 1); err != nil {
			t.Fatalf("long headers: %v after %q, want status 431", err, got.String())
		}
	}
	if n := s.memory.Used() - held; n < restHTTP2Cost {
		t.Errorf("after long headers %d bytes are reserved, want at least %d", n, restHTTP2Cost)
	}
	conn.Close()
	waitFor(t, "the connection gives its memory back", func() bool { return s.memory.Used() == held })
}

// TestDecompressionCounts checks that what decompresses an unfinished body counts.
func TestDecompressionCounts(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	held := s.memory.Used()
	c := dialTCP(t, listenREST(t, s, time.Minute))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, fp32("[1,2]", "[1,2]"))
	z.Flush()
	fmt.Fprintf(c, "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"+
		"Content-Length: %d\r\n\r\n%s", b.Len()+1, b.Bytes())
	waitFor(t, "the decompressor counts", func() bool { return s.memory.Used()-held >= restCost+inflateCost })
	c.Close()
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
}

// TestHandshakesCount checks that the buffers which a long handshake leaves count until the end of
// the connection.
func TestHandshakesCount(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	held := s.memory.Used()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config, srv.Listener = HTTPServer(s.Handler(), time.Minute), s.Listener(srv.Listener)
	srv.StartTLS()
	defer srv.Close()
	const protocols = 20_000 // of two bytes each
	c, err := tls.Dial("tcp", srv.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true,
		NextProtos: append(slices.Repeat([]string{"a"}, protocols), "http/1.1")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		fmt.Fprint(c, "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", r, err)
		}
		waitFor(t, "the connection is idle with its buffers", func() bool {
			n := s.memory.Used() - held - restCost
			return n > 4*protocols && n < 6*protocols
		})
	}
	c.Close()
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
}
