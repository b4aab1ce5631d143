//go:build !core

package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	maxLogQueue = 256 << 10              // bytes of records that wait
	logFlush    = 500 * time.Millisecond // longest time that close waits for them
)

// logQueue passes records to a writer that can block, such as a pipe that is not read. Requests and
// the shutdown do not wait for it: if too many records wait, further ones are dropped, as are those
// that cannot be written, such as on a full disk. A record with their number follows.
type logQueue struct {
	out   io.Writer
	wake  chan struct{} // of capacity 1
	ended chan struct{}

	mu      sync.Mutex
	waiting []byte
	dropped int
	closed  bool
}

func newLogQueue(out io.Writer) *logQueue {
	q := &logQueue{out: out, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go q.run()
	return q
}

// Write implements io.Writer.
func (q *logQueue) Write(record []byte) (int, error) {
	q.mu.Lock()
	if q.closed || len(q.waiting)+len(record) > maxLogQueue {
		q.dropped++
	} else {
		q.waiting = append(q.waiting, record...)
	}
	q.mu.Unlock()
	q.notify()
	return len(record), nil
}

func (q *logQueue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run writes what waits until close has been called.
func (q *logQueue) run() {
	defer close(q.ended)
	lead := "" // ends the part of a record that a write has left
	for range q.wake {
		q.mu.Lock()
		records, dropped, closed := append([]byte(lead), q.waiting...), q.dropped, q.closed
		q.waiting, q.dropped = q.waiting[:0], 0
		q.mu.Unlock()
		if dropped > 0 {
			records = fmt.Appendf(records, `{"time":%q,"level":"WARN","msg":"log records were dropped because `+
				`they could not be written, or not in time","records":%d}`+"\n",
				time.Now().Format(time.RFC3339Nano), dropped)
		}
		n, _ := q.out.Write(records)
		if n < len(records) {
			lost := bytes.Count(records[max(n, len(lead)):], []byte("\n"))
			if dropped > 0 {
				lost += dropped - 1 // the last record is the one with their number
			}
			q.mu.Lock()
			q.dropped += lost
			q.mu.Unlock()
		}
		if n > 0 {
			lead = ""
			if records[n-1] != '\n' {
				lead = "\n"
			}
		}
		if closed {
			return
		}
	}
}

// close writes the last records, unless that takes longer than logFlush.
func (q *logQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.notify()
	select {
	case <-q.ended:
	case <-time.After(logFlush):
	}
}
