//go:build !core

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestLogsThatBlock checks that a server answers and ends while nothing reads its log, as of a pipe
// that is full.
func TestLogsThatBlock(t *testing.T) {
	logs := &records{c: make(chan map[string]any, 1000)}
	addresses, stop, code := startServeLogs(t, logs, "mul_1.onnx", "--verbose")
	stuck := make(chan struct{})
	defer close(stuck)
	logs.stuck.Store(&stuck)
	r, err := http.Get("http://" + addresses["http"] + "/v2/models/mul_1")
	if err != nil || r.StatusCode != 200 {
		t.Errorf("a request while the log blocks: %v %v", r, err)
	}
	if err == nil {
		r.Body.Close()
	}
	stop()
	select {
	case c := <-code:
		if c != exitOK {
			t.Errorf("exit code %d, want 0", c)
		}
	case <-time.After(20 * time.Second):
		t.Error("the server has not ended within 20 s")
	}
}

// gatedWriter waits in each write until it is open.
type gatedWriter struct {
	bytes.Buffer
	open chan struct{}
}

func (w *gatedWriter) Write(b []byte) (int, error) {
	<-w.open
	return w.Buffer.Write(b)
}

// TestLogQueueCountsDroppedRecords writes more records than the queue holds.
func TestLogQueueCountsDroppedRecords(t *testing.T) {
	w := &gatedWriter{open: make(chan struct{})}
	q := newLogQueue(w)
	const size = 1 << 10
	record := strings.Repeat("x", size-1) + "\n"
	const n = 600
	for range n {
		q.Write([]byte(record))
	}
	close(w.open)
	q.close()
	<-q.ended
	var m struct{ Records int }
	text, kept := w.String(), strings.Count(w.String(), record)
	last := text[min(len(text), kept*size):]
	if err := json.Unmarshal([]byte(last), &m); err != nil || m.Records != n-kept || kept < maxLogQueue/size {
		t.Errorf("%d of %d records are kept, and the last one is %q: %v", kept, n, last, err)
	}
}
