package onward

import (
	"errors"
	"sync/atomic"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// compiled is a model in the form in which a provider runs it. Its session and each call that
// uses it hold a reference. The release of the last one closes it, so that no call waits for Close
// or SetProviders.
type compiled struct {
	engine   driver.Engine
	provider ProviderConfig
	next     []ProviderConfig // providers that have not been tried yet
	model    *onnx.Model      // closed with the engine; nil if the caller owns it
	held     *held            // memory of the model's data

	session *Session
	users   atomic.Int64  // references
	ended   chan struct{} // closed after the engine
	err     error         // of closing, set before ended is closed
}

// install makes c the model that later calls use, and releases the one before. The caller holds
// s.mu.
func (s *Session) install(c *compiled) {
	c.session, c.ended = s, make(chan struct{})
	c.users.Store(1)
	s.live.Add(1)
	if old := s.current.Swap(c); old != nil {
		old.release()
	}
}

// use returns the session's compiled model with a new reference. It fails after Close has begun.
func (s *Session) use() (*compiled, error) {
	for !s.closed.Load() {
		// Without references, a model has been replaced: the next iteration loads the new one.
		if c := s.current.Load(); c.acquire() {
			return c, nil
		}
	}
	return nil, errClosed()
}

func (c *compiled) acquire() bool {
	for n := c.users.Load(); n > 0; n = c.users.Load() {
		if c.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (c *compiled) release() {
	if c.users.Add(-1) > 0 {
		return
	}
	s := c.session
	if s.closed.Load() && s.current.Load() == c {
		_, c.err = s.endProfiling(c)
	}
	c.err = errors.Join(c.err, c.close())
	if c.err != nil && !s.closed.Load() {
		s.log.Warn("the former provider was not closed", "provider", c.provider.Name, "error", c.err.Error())
	}
	close(c.ended)
	s.live.Done()
}

func (c *compiled) close() error {
	err := c.engine.Close()
	if c.model != nil {
		err = errors.Join(err, c.model.Close())
	}
	c.held.release()
	return err
}
