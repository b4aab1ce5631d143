package onward

import (
	"context"
	"maps"
)

// RunAsync is [Session.Run] on a goroutine of its own. It returns at once; callback
// is called on that goroutine with what Run returns, exactly once, also for inputs
// that are refused and for a session that is closed meanwhile. The tensors of the
// feed must not change until then, nor may opts.
func (s *Session) RunAsync(ctx context.Context, feed Values, opts *RunOptions, callback func(Values, error)) {
	feed = maps.Clone(feed)
	go func() {
		out, err := s.Run(ctx, feed, opts)
		callback(out, err)
	}()
}
