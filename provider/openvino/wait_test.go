package openvino

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward/driver"
)

// ended is a context that ends after its first call of Err.
type ended struct {
	context.Context
	asked bool
}

func (c *ended) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (c *ended) Err() error {
	if !c.asked {
		c.asked = true
		return nil
	}
	return context.Canceled
}

// TestWaitingStops checks that a run stops waiting for a request when its context ends.
func TestWaitingStops(t *testing.T) {
	s := &session{queue: make(chan *state)} // all requests are in use
	if err := s.Run(&ended{Context: t.Context()}, &driver.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want that it was cancelled", err)
	}
}
