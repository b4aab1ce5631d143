package attention

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
)

// CopyHeads copies whole caches, so it must stop when the run does.
func TestCopyHeadsStops(t *testing.T) {
	const rows, cols = 1 << 12, 1 << 8
	src, dst := make([]float32, rows*cols), make([]float32, rows*cols)
	for i := range src {
		src[i] = 1
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &ir.Call{Env: &optest.Env{Ctx: ctx}}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, context.Canceled) {
			t.Errorf("recovered %v, want %v", err, context.Canceled)
		}
		if dst[len(dst)-1] != 0 {
			t.Error("all rows were copied after the context had ended")
		}
	}()
	CopyHeads(c, HeadsFirst(dst, 1, rows, cols), HeadsFirst(src, 1, rows, cols), 1, 1, 0, 0, rows, cols)
}
