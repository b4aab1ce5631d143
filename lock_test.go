package onward_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// endless returns a session whose runs end with their context only, and a feed.
func endless(t *testing.T) (*onward.Session, onward.Values) {
	t.Helper()
	body := onnx.NewModel("body")
	body.Input("i", onnx.Int64).Input("c", onnx.Bool).Input("v", onnx.Float, 1).Output("c", onnx.Bool).
		Output("w", onnx.Float, 1)
	body.Node("Add", []string{"v", "v"}, []string{"w"})
	b := onnx.NewModel("endless").Opset("", 21)
	b.Input("t", onnx.Int64).Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
	b.Node("Loop", []string{"t", "", "x"}, []string{"y"}).Attr("body", body.Must().Graph)
	path := t.TempDir() + "/m.onnx"
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	s, err := onward.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, onward.Values{"t": tensor.Scalar(int64(1) << 60), "x": tensor.Must(tensor.New([]float32{0}, 1))}
}

// While Close or SetProviders waits for a run, other runs end with their own context.
func TestRunsDoNotWaitPastTheirDeadline(t *testing.T) {
	for _, what := range []string{"SetProviders", "Close"} {
		s, feed := endless(t)
		long, stop := context.WithCancel(t.Context())
		started, ended := make(chan bool), make(chan error)
		go func() {
			n := 0
			_, err := s.Run(long, feed, &onward.RunOptions{Observe: func(onward.NodeRun) {
				if n++; n == 1 {
					close(started)
				}
			}})
			ended <- err
		}()
		<-started
		waiting := make(chan error, 1)
		go func() {
			if what == "Close" {
				waiting <- s.Close()
				return
			}
			waiting <- s.SetProviders(t.Context(), []onward.ProviderConfig{{Name: "reference"}})
		}()
		// Without its deadline a run would succeed until the writer waits, and then block.
		for end := time.Now().Add(20 * time.Second); ; {
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := s.Run(short, onward.Values{"t": tensor.Scalar(int64(1)), "x": feed["x"]}, nil)
			cancel()
			if err != nil {
				if what == "SetProviders" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: a run beside it: %v, want DeadlineExceeded", what, err)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s does not wait for the run", what)
			}
		}
		select {
		case err := <-waiting:
			t.Errorf("%s returns %v before the run ends", what, err)
		default:
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the long run: %v", what, err)
		}
		if err := <-waiting; err != nil {
			t.Errorf("%s: %v", what, err)
		}
		s.Close()
	}
}

// SetProviders ends with its context while it waits for a run, and leaves the session unchanged.
func TestSetProvidersHonoursItsContext(t *testing.T) {
	s, feed := endless(t)
	defer s.Close()
	long, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	started := make(chan bool)
	go func() {
		n := 0
		_, err := s.Run(long, feed, &onward.RunOptions{Observe: func(onward.NodeRun) {
			if n++; n == 1 {
				close(started)
			}
		}})
		ended <- err
	}()
	<-started
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.SetProviders(short, []onward.ProviderConfig{{Name: "reference"}}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("SetProviders: %v, want DeadlineExceeded", err)
	}
	if p := s.Provider(); p != "cpu" {
		t.Errorf("the provider is %s after a failed SetProviders, want cpu", p)
	}
	if _, err := s.Run(t.Context(), onward.Values{"t": tensor.Scalar(int64(1)), "x": feed["x"]}, nil); err != nil {
		t.Errorf("a run after a failed SetProviders: %v", err)
	}
	stop()
	<-ended
}
