package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"google.golang.org/grpc/tap"
	"google.golang.org/grpc/test/bufconn"
)

// TestClientsThatReadNothing checks that a client is disconnected if it takes no answer to its
// frames within ReadTimeout, also without a message.
func TestClientsThatReadNothing(t *testing.T) {
	t.Run("gRPC", testGRPCClientThatReadsNothing)
	t.Run("REST over HTTP/2", testHTTP2ClientThatReadsNothing)
}

func testGRPCClientThatReadsNothing(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}},
		ReadTimeout: 100 * time.Millisecond})
	held := s.memory.Used()
	c := newRawClient(t, s)
	c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	for c.frame(frameSettings, 0, 0, nil) == nil { // each has an answer
	}
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
}

func testHTTP2ClientThatReadsNothing(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	held := s.memory.Used()
	l := bufconn.Listen(64) // bytes
	srv := httptest.NewUnstartedServer(nil)
	srv.Listener.Close()
	srv.Config, srv.EnableHTTP2 = HTTPServer(s.Handler(), 200*time.Millisecond), true
	srv.Listener = s.Listener(l)
	srv.StartTLS()
	defer srv.Close()
	client, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := tls.Client(client, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the connection counts", func() bool { return s.memory.Used() > held })
	startHTTP2(t, c)
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
}

// TestFramesThatGRPCKeeps checks that a connection is closed at the beginning of a frame whose
// memory nothing counts.
func TestFramesThatGRPCKeeps(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	t.Run("trailers", func(t *testing.T) {
		c := newRawClient(t, s)
		c.open("ModelInfer")
		c.frame(frameHeaders, 0, c.stream, bytes.Repeat([]byte{0, 1, 'a', 0}, 4000))
		c.closed()
	})
	t.Run("settings", func(t *testing.T) {
		c := newRawClient(t, s)
		settings := bytes.Repeat([]byte{0, 4, 0, 0, 255, 255}, 101)
		c.frame(frameSettings, 0, 0, settings[6:])
		const answers = 27 + 2*frameHeader // the server's settings, and acknowledgements
		if _, err := io.CopyN(io.Discard, c, answers); err != nil {
			t.Fatalf("after 100 settings: %v", err)
		}
		c.frame(frameSettings, 0, 0, settings)
		c.closed()
	})
	t.Run("many settings", func(t *testing.T) {
		c := newRawClient(t, s)
		time.Sleep(settingsTime + 100*time.Millisecond) // those of the client's preface count no more
		for range settingsMost {
			c.frame(frameSettings, 0, 0, nil)
		}
		const answers = 27 + (1+settingsMost)*frameHeader // the server's settings, and acknowledgements
		if _, err := io.CopyN(io.Discard, c, answers); err != nil {
			t.Fatalf("after %d SETTINGS frames within %v: %v", settingsMost, settingsTime, err)
		}
		time.Sleep(settingsTime + 100*time.Millisecond)
		for range settingsMost + 1 {
			c.frame(frameSettings, 0, 0, nil)
		}
		c.closed()
	})
}

// TestFieldsOfTheTable checks that calls count what their header fields take, also if a byte stands
// for each, and that nothing holds the fields of a call that has ended.
func TestFieldsOfTheTable(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}})
	for name, value := range map[string]string{"x-bin": strings.Repeat("A", 124), "x": ""} {
		c := newRawClient(t, s)
		waitFor(t, "the connection counts", func() bool { return s.memory.Used() >= connectionCost })
		c.open("ModelInfer")
		waitFor(t, "the call counts", func() bool { return s.calls.Load() == 1 })
		held := s.memory.Used()
		const n = 80
		block := append(append([]byte{0x40, byte(len(name))}, name...), byte(len(value)))
		block = append(append(block, value...), bytes.Repeat([]byte{0x80 | 62}, n-1)...)
		c.openBlock("ModelInfer", block)
		waitFor(t, "the second call counts", func() bool { return s.calls.Load() == 2 })
		field := mapEntry + len(name) + len(value)/4*3 // of base64
		got, want := s.memory.Used()-held, int64(streamCost+headerCost*len(block)+n*field)
		if got < want {
			t.Errorf("a call with %d fields of %d bytes takes %d bytes, want at least %d", n, len(value), got, want)
		}
		c.Close()
		waitFor(t, "the calls end", func() bool { return s.calls.Load() == 0 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	type key struct{}
	fields := new([1 << 20]byte)
	held := weak.Make(fields)
	if _, err := s.tapGRPC(context.WithValue(ctx, key{}, fields), &tap.Info{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	waitFor(t, "the fields of a call that has ended are garbage", func() bool {
		runtime.GC()
		return held.Value() == nil
	})
}
