package backendtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/internal/opset"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
)

// converted runs models after their conversion to the newest opset and back.
type converted struct {
	back    bool
	models  atomic.Int64 // converted ones; cases run at the same time
	mu      sync.Mutex
	refused map[string]int // nodes that have no form, by operator
}

func (*converted) Name() string                          { return "converted" }
func (*converted) SupportsDevice(d backend.Device) error { return backend.Reference.SupportsDevice(d) }

func (b *converted) NewSession(ctx context.Context, m *onnx.Model, d backend.Device,
	opts *onward.SessionOptions) (*onward.Session, error) {
	if from, _ := m.OpsetVersion(""); from >= opset.First && from <= opset.Last {
		c, err := opset.Convert(m, opset.Last)
		if err == nil && b.back {
			c, err = opset.Convert(c, from)
		}
		if e := new(opset.Error); errors.As(err, &e) {
			b.mu.Lock()
			b.refused[e.OpType]++
			b.mu.Unlock()
		} else if err != nil {
			return nil, err
		} else if err := onnx.Check(c, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
			return nil, fmt.Errorf("the converted model is invalid: %w", err)
		} else {
			m = c
			b.models.Add(1)
		}
	}
	return backend.CPU.NewSession(ctx, m, d, opts)
}

// TestSuiteConverted checks that the models of the suite keep their results when they are converted
// to the newest opset and back.
func TestSuiteConverted(t *testing.T) {
	dir := suite.Dir(t)
	if err := suite.Verify(dir); err != nil {
		t.Skip("the suite is not the pinned one: ", err)
	}
	for _, back := range []bool{false, true} {
		t.Run(map[bool]string{false: "up", true: "back"}[back], func(t *testing.T) {
			b := &converted{back: back, refused: map[string]int{}}
			for _, kind := range []string{"node", "simple"} {
				r, err := backendtest.New(b,
					&backendtest.Options{Dir: dir, Kinds: []string{kind}, Devices: []string{"CPU"}, Runs: 1})
				if err != nil {
					t.Fatal(err)
				}
				r.Run(t)
			}
			// The Resize has a mode that version 13 dropped.
			if want := map[string]int{"Resize": 1}; !maps.Equal(b.refused, want) || b.models.Load() != 1775 {
				t.Errorf("%d models were converted and %v refused, want 1775 and %v", b.models.Load(), b.refused, want)
			}
		})
	}
}
