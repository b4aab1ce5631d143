//go:build !core

package main

import (
	"bytes"
	"encoding/json"
	"io"
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

// fullWriter has room for a number of bytes, as a disk has, and sends on wrote after each write.
type fullWriter struct {
	bytes.Buffer
	room  int
	wrote chan struct{}
}

func (w *fullWriter) Write(b []byte) (n int, err error) {
	if n = min(len(b), w.room); n < len(b) {
		err = io.ErrShortWrite
	}
	w.room -= n
	w.Buffer.Write(b[:n])
	w.wrote <- struct{}{}
	return n, err
}

// TestLogQueueOnAFullDisk: after writes that fail, the records that are lost are counted, and the
// next ones begin a line.
func TestLogQueueOnAFullDisk(t *testing.T) {
	w := &fullWriter{wrote: make(chan struct{}, 100)}
	q := newLogQueue(w)
	const record = `{"level":"INFO"}` + "\n"
	for _, room := range []int{100, len(record) / 2, 0, 0, 400, 0, 2*len(record) - 1, 1, 400, 400} {
		w.room = room
		q.Write([]byte(record))
		<-w.wrote
	}
	q.close()
	var kept, lost, torn int
	for line := range strings.Lines(w.String()) {
		var m struct{ Records int }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			torn++
		} else if lost += m.Records; m.Records == 0 {
			kept++
		}
	}
	if kept != 5 || lost != 5 || torn != 2 {
		t.Errorf("%d of 10 records are written, %d reported as lost, and %d lines are not JSON, want 5, 5 and 2:\n%s",
			kept, lost, torn, w.String())
	}
}
