package inputs

import (
	"cmp"
	"context"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/onnx"
)

const (
	maxRunWeights = 1 << 30 // bytes of a model that is run to find sizes
	runMemory     = 2 << 30
	runTimeout    = 20 * time.Second // of all runs together
)

// Run returns a function for fit.Options that runs a model on the Go engine, within limits of
// memory and time, or nil if the model is too large for that.
func Run(ctx context.Context, m *onnx.Model) func(onward.Values) error {
	if modelfile.WeightBytes(m) > maxRunWeights {
		return nil
	}
	deadline := time.Time{}
	return func(feed onward.Values) error {
		if deadline.IsZero() {
			deadline = time.Now().Add(runTimeout)
		}
		ctx, stop := context.WithDeadline(ctx, deadline)
		defer stop()
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := onward.OpenModel(ctx, m, &onward.SessionOptions{Limits: onward.Limits{MaxMemory: runMemory}})
		if err != nil {
			return nil // the provider that is asked for may run it, or reports the error
		}
		defer s.Close()
		_, err = s.Run(ctx, feed, nil)
		return cmp.Or(ctx.Err(), err)
	}
}
