package serve

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward/serve/inference"
)

// TestAbandonedStreams checks that the data of calls counts until the goroutines that may refer to
// it have ended: after the client has reset the stream, and after it has closed the connection.
func TestAbandonedStreams(t *testing.T) {
	const total, size = 8 << 20, 3 << 20
	info := &tap.Info{FullMethodName: "/inference.GRPCInferenceService/ModelInfer"}
	for name, abandon := range map[string]func(c *rawClient){
		"reset":  func(c *rawClient) { c.frame(frameReset, 0, c.stream, make([]byte, 4)) },
		"closed": func(c *rawClient) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: total})
			held := s.memory.Used()
			client, server := net.Pipe()
			defer client.Close()
			conn, _, err := s.GRPCCredentials(insecure.NewCredentials()).ServerHandshake(server)
			if err != nil {
				t.Fatal(err)
			}
			c := &rawClient{Conn: client, t: t}
			read := func() { // as gRPC does
				b := make([]byte, 64<<10)
				for {
					if _, err := conn.Read(b); err != nil {
						conn.Close()
						return
					}
				}
			}
			var wait sync.WaitGroup
			wait.Go(read)
			client.Write([]byte(http2Preface))
			if err := c.open("ModelInfer"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(peer.NewContext(t.Context(), &peer.Peer{Addr: conn.RemoteAddr()}))
			waitFor(t, "the stream begins", func() bool {
				m := conn.(*meteredConn)
				m.mu.Lock()
				defer m.mu.Unlock()
				return len(m.streams) == 1
			})
			if ctx, err = s.tapGRPC(ctx, info); err != nil {
				t.Fatal(err)
			}
			c.frame(frameData, 0, c.stream, []byte{0, 0, size >> 16, 0, 0})
			for range size / (16 << 10) {
				c.frame(frameData, 0, c.stream, make([]byte, 16<<10))
			}
			waitFor(t, "the data arrives", func() bool { return s.memory.Used() > held+size-(1<<20) })
			abandon(c)
			waitFor(t, "the data is given back", func() bool { return s.memory.Used() < held+1<<20 })
			cancel()

			memory := &reservation{s: s}
			var e *Error
			if err := memory.grow(total - held - 1<<20); !errors.As(err, &e) || e.Code != Overloaded {
				t.Errorf("memory that the goroutine of a call refers to is reserved again: %v", err)
			}
			runtime.KeepAlive(ctx)
			if n := memory.n; n != 0 {
				t.Errorf("%d bytes are reserved after the error", n)
			}
			ctx = nil
			if err := memory.grow(total - held - 1<<20); err != nil {
				t.Errorf("memory of calls that have ended is not reserved again: %v", err)
			}
			memory.release()
			client.Close()
			wait.Wait()
		})
	}
}

// TestCollectEmptiesPools checks that the buffers of gRPC's pool do not remain besides the memory
// of all requests.
func TestCollectEmptiesPools(t *testing.T) {
	const total, size, clients = 128 << 20, 12 << 20, 4
	s := decodingServer(t, total)
	send := func(c *grpc.ClientConn, n int) {
		body := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, n))
		if err := c.Invoke(t.Context(), "/inference.GRPCInferenceService/ServerMetadata", body, new(any),
			grpc.ForceCodec(rawMessage{})); err != nil {
			t.Error(err)
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var conns []*grpc.ClientConn
	for range clients {
		conns = append(conns, dialConn(t, s))
		send(conns[len(conns)-1], 1)
	}
	runtime.GC()
	runtime.GC()
	before := heap()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection meanwhile would empty the pools
	var wait sync.WaitGroup
	for _, c := range conns {
		wait.Go(func() { send(c, size) })
	}
	wait.Wait()
	memory := &reservation{s: s}
	defer memory.release()
	if err := memory.grow(s.memory.Limit() - s.memory.Used() - 2<<20); err != nil {
		t.Fatal(err)
	}
	if n := heap() - before; n > size/4 {
		t.Errorf("%d KiB of messages remain when all memory is reserved again", n>>10)
	}
}

// TestInflatedMessages checks that the memory of a decompressed message is reserved, also of the
// buffer beyond its end.
func TestInflatedMessages(t *testing.T) {
	s := decodingServer(t, 64<<20)
	held := s.memory.Used()
	for _, n := range []int{100, 1 << 20, 1<<20 + 1} {
		b, err := decompressor{s}.Do(bytes.NewReader(compress(t, "gzip", make([]byte, n))))
		if err != nil || len(b) != n {
			t.Fatalf("%d bytes: %d bytes, %v", n, len(b), err)
		}
		if got := s.memory.Used() - held; got < int64(cap(b))*7/8 {
			t.Errorf("%d bytes: %d are reserved for a buffer of %d", n, got, cap(b))
		}
		memory := reservation{s: s, n: int64(n)}
		memory.release()
	}
}

// TestGrowingLists checks that the cost of decoding a message covers an array of a list that grows
// together with the array before it.
func TestGrowingLists(t *testing.T) {
	const values = 300_000
	raw := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), nil), values)
	m := new(inference.ModelInferRequest)
	if err := proto.Unmarshal(raw, m); err != nil || len(m.RawInputContents) != values {
		t.Fatalf("%d values, %v", len(m.RawInputContents), err)
	}
	before := append(make([][]byte, values-1), nil)[:0] // how append grows a full array
	bytes := (values + cap(before)) * int(unsafe.Sizeof(before[:1][0]))
	if got := costOf(m.ProtoReflect().Descriptor(), raw, 0, new(parts)); got < int64(bytes) {
		t.Errorf("a list of %d values costs %d bytes, and its arrays take %d", values, got, bytes)
	}
}

// TestSmallReservations checks that new connections and small requests get memory while large
// requests want more than there is: of its last part, and without waiting for the collector while
// as many others do as may.
func TestSmallReservations(t *testing.T) {
	const total, small = 64 << 20, 48 << 10
	const spare = total / spareShare
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: total})
	server, client := net.Pipe()
	defer client.Close()
	defer server.Close()
	overloaded := func(err error) bool {
		var e *Error
		return errors.As(err, &e) && e.Code == Overloaded
	}
	reserve := func(n int64) (r reservation, err error) {
		if r = (reservation{s: s}); n == small {
			r = s.connection(server, false)
		}
		return r, r.grow(n)
	}
	large, err := reserve(total - s.memory.Used() - spare)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reserve(spare / 2); !overloaded(err) {
		t.Errorf("a large request takes the memory of small ones: %v", err)
	}
	conn, err := reserve(small)
	if err != nil {
		t.Errorf("a connection beside large requests: %v", err)
	}
	var waiters []func()
	for _, c := range []*idleConn{conn.conn, nil} {
		for waited := s.wait(c); waited != nil; waited = s.wait(c) {
			waiters = append(waiters, waited)
		}
	}
	conn.release()
	large.release()

	if _, err := reserve(total / 2); !overloaded(err) {
		t.Errorf("a large request beside %d that wait for the collector: %v", len(waiters), err)
	}
	var conns []reservation
	for conn, err = reserve(small); err == nil; conn, err = reserve(small) {
		conns = append(conns, conn)
	}
	if n := len(conns) * small; n < spare || n > 3*spare || !overloaded(err) {
		t.Errorf("%d bytes of connections beside %d others that wait for the collector, then %v; want about %d", n,
			len(waiters), err, spare)
	}
	for _, waited := range waiters {
		waited()
	}
	if large, err = reserve(total / 2); err != nil {
		t.Fatal(err)
	}
	if n := s.hurried.Load(); n != 0 {
		t.Errorf("%d bytes are counted after the collector has run", n)
	}
	for _, c := range append(conns, large) {
		c.release()
	}
}
