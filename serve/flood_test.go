package serve

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http/httptest"
	"testing"
	"time"

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
	if _, err := io.WriteString(c, http2Preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
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
