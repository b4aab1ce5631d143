package serve

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// TestClientsThatReadNothing checks that a client is disconnected if it takes no answer to its
// frames within ReadTimeout, also without a message.
func TestClientsThatReadNothing(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}},
		ReadTimeout: 100 * time.Millisecond})
	held := s.memory.Used()
	c := newRawClient(t, s)
	c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	for c.frame(frameSettings, 0, 0, nil) == nil { // each has an answer
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
}
