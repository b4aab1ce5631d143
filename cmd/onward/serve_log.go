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
// the shutdown do not wait for it: if too many records wait, further ones are dropped. A record
// with their number follows.
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
	for range q.wake {
		q.mu.Lock()
		records, dropped, closed := bytes.Clone(q.waiting), q.dropped, q.closed
		q.waiting, q.dropped = q.waiting[:0], 0
		q.mu.Unlock()
		if dropped > 0 {
			records = fmt.Appendf(records, `{"time":%q,"level":"WARN","msg":"log records were dropped because `+
				`earlier ones could not be written in time","records":%d}`+"\n",
				time.Now().Format(time.RFC3339Nano), dropped)
		}
		q.out.Write(records)
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
