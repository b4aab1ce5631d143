package onward

import (
	"context"
	"sync"
)

// sessionLock is a read-write lock whose waiting ends with a context. Runs hold it for reading;
// Close and SetProviders hold it for writing.
type sessionLock struct {
	mu      sync.Mutex
	readers int
	writing bool
	waiting int           // writers; readers wait for them
	ended   bool          // end was called: rlock fails at once
	changed chan struct{} // closed at the next change; nil without waiters
}

// rlock locks for reading. It fails if ctx is done before, or after end.
func (l *sessionLock) rlock(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.ended && (l.writing || l.waiting > 0) {
		if err := l.wait(ctx); err != nil {
			return runStatus(err)
		}
	}
	if l.ended {
		return errClosed()
	}
	l.readers++
	return nil
}

// RLock locks for reading, also after end.
func (l *sessionLock) RLock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing {
		l.wait(context.Background())
	}
	l.readers++
}

// RUnlock ends RLock and rlock.
func (l *sessionLock) RUnlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers == 0 {
		l.wake()
	}
}

// lock locks for writing. It fails if ctx is done before.
func (l *sessionLock) lock(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting++
	defer func() { l.waiting-- }()
	for l.writing || l.readers > 0 {
		if err := l.wait(ctx); err != nil {
			l.wake() // readers that waited for this writer
			return err
		}
	}
	l.writing = true
	return nil
}

// Lock locks for writing.
func (l *sessionLock) Lock() { l.lock(context.Background()) }

// Unlock ends Lock and lock.
func (l *sessionLock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = false
	l.wake()
}

// end makes rlock fail.
func (l *sessionLock) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

// wait waits for a change. l.mu is held before and after.
func (l *sessionLock) wait(ctx context.Context) error {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	c := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wake ends the waiting of all. l.mu is held.
func (l *sessionLock) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
