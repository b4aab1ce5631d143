package onward_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestMemoryBudget checks that sessions share a budget, and give back what their runs reserve.
func TestMemoryBudget(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n").Output("y", onnx.Float, "n").Node("Exp", []string{"x"}, []string{"y"})
	data, err := b.Must().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20
	budget := onward.NewMemoryBudget(limit)
	var sessions []*onward.Session
	for _, p := range []string{"cpu", "reference"} {
		s, err := onward.OpenBytes(t.Context(), data, &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}, Limits: onward.Limits{Budget: budget}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sessions = append(sessions, s)
	}
	run := func(s *onward.Session, n int) error {
		_, err := s.Run(t.Context(), onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, n))}, nil)
		return err
	}
	for i, s := range sessions {
		if err := run(s, 1000); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
		if err := budget.Reserve(limit - 100); err != nil {
			t.Fatal(err)
		}
		if err := run(s, 1000); !errors.Is(err, onward.ErrMemoryBudget) || errors.Is(err, onward.ErrMemoryLimit) {
			t.Errorf("session %d, without memory left: %v, want ErrMemoryBudget", i, err)
		}
		budget.Release(limit - 100)
		if err := run(s, limit); !errors.Is(err, onward.ErrMemoryLimit) {
			t.Errorf("session %d, a run of more than the budget: %v, want ErrMemoryLimit", i, err)
		}
	}
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			if err := run(sessions[i%2], 1<<16); err != nil && !errors.Is(err, onward.ErrMemoryBudget) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := budget.Used(); n != 0 {
		t.Errorf("%d bytes are reserved after all runs, want 0", n)
	}
	if d := onward.NewMemoryBudget(0); d.Limit() != 0 {
		t.Errorf("a budget without size has limit %d before a session is opened", d.Limit())
	} else if s, err := onward.OpenBytes(t.Context(), data, &onward.SessionOptions{Limits: onward.Limits{Budget: d}}); err != nil || d.Limit() <= 0 {
		t.Errorf("a budget without size has limit %d after a session is opened: %v", d.Limit(), err)
	} else {
		s.Close()
	}
}
