package onward_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// stressModel returns a model whose intermediate sizes depend on the contents of n.
func stressModel() *onnx.Model {
	b := onnx.NewModel("stress").Opset("", 22)
	b.Input("n", onnx.Int64).Input("x", onnx.Float, "N").Output("s", onnx.Float).Output("y", onnx.Float, "N")
	b.Initializer("zero", int64(0)).Initializer("one", int64(1))
	b.Node("Range", []string{"zero", "n", "one"}, []string{"r"})
	b.Node("Cast", []string{"r"}, []string{"f"}, onnx.Attrs{"to": onnx.Float})
	b.Node("Sin", []string{"f"}, []string{"e"})
	b.Node("ReduceSum", []string{"e"}, []string{"s"}, onnx.Attrs{"keepdims": 0})
	b.Node("Add", []string{"x", "s"}, []string{"a"})
	b.Node("Tanh", []string{"a"}, []string{"y"})
	return b.Must()
}

// stressRounds returns how often a stress test repeats: a few times, or as
// often as ONWARD_STRESS says.
func stressRounds(t *testing.T, few int) int {
	if n, err := strconv.Atoi(os.Getenv("ONWARD_STRESS")); err == nil {
		return n
	}
	t.Logf("%d rounds; ONWARD_STRESS=N runs N", few)
	return few
}

// TestStressOneSession: 64 goroutines run, bind, cancel and close one session. Each run gives its
// result, or an error that says that it was cancelled or that the session is closed.
func TestStressOneSession(t *testing.T) {
	rounds := stressRounds(t, 40)
	for range max(1, rounds/20) {
		s, err := onward.OpenModel(t.Context(), stressModel(), &onward.SessionOptions{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int64
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 5))
				for k := range min(rounds, 20) {
					if g == 0 && k == 15 {
						_ = s.Close()
					}
					n := 1 + rng.IntN(300)
					x := tensor.Must(tensor.New(make([]float32, n), n))
					feed := onward.Values{"n": tensor.Scalar(int64(rng.IntN(2000))), "x": x}
					ctx, cancel := context.WithCancel(context.Background())
					if rng.IntN(3) == 0 {
						go cancel()
					}
					var err error
					if rng.IntN(4) == 0 {
						err = bindAndRun(ctx, s, feed)
					} else {
						var out onward.Values
						if out, err = s.Run(ctx, feed, nil); err == nil && out["y"].(*tensor.Tensor).Len() != n {
							t.Errorf("y is %s, want %d elements", out["y"], n)
						}
					}
					cancel()
					if err == nil {
						ran.Add(1)
					}
					if err != nil && !errors.Is(err, context.Canceled) &&
						!strings.Contains(err.Error(), "session is closed") {
						t.Errorf("error is %v, want that the run was cancelled or the session closed", err)
					}
				}
			})
		}
		wg.Wait()
		_ = s.Close()
		if ran.Load() == 0 {
			t.Error("no run succeeded")
		}
	}
}

func bindAndRun(ctx context.Context, s *onward.Session, feed onward.Values) error {
	b, err := s.NewBinding()
	if err != nil {
		return err
	}
	defer b.Close()
	for name, v := range feed {
		if err := b.BindCPUInput(name, v); err != nil {
			return err
		}
	}
	if err := b.BindOutput("y", onward.Buffer{}); err != nil {
		return err
	}
	for range 3 {
		if err := s.RunBinding(ctx, b, nil); err != nil {
			return err
		}
	}
	return nil
}

// TestStressChangingShapes: runs with changing shapes leave nothing reserved (exec panics in tests
// if they do) and keep no memory.
func TestStressChangingShapes(t *testing.T) {
	rounds := stressRounds(t, 1000)
	s, err := onward.OpenModel(t.Context(), stressModel(),
		&onward.SessionOptions{Threads: 1, Limits: onward.Limits{MaxMemory: 4 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 6))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var before int64
	for k := range rounds {
		if k == rounds/2 {
			before = heap() // caches of layouts are full
		}
		n := 1 + rng.IntN(2000)
		_, err := s.Run(t.Context(), onward.Values{"n": tensor.Scalar(int64(rng.IntN(100_000))),
			"x": tensor.Must(tensor.New(make([]float32, n), n))}, nil)
		if err != nil {
			t.Fatalf("run %d: %v", k, err)
		}
	}
	// Up to 8 MiB of recycled blocks wait for their next use (tensor.RecycledBytes).
	if grown := heap() - before; grown > 12<<20 {
		t.Errorf("the second half of %d runs keeps %d bytes", rounds, grown)
	}
}

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
		s, err := onward.OpenBytes(t.Context(), data,
			&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}},
				Limits: onward.Limits{Budget: budget}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sessions = append(sessions, s)
	}
	held := budget.Used() // by the models
	run := func(s *onward.Session, n int) error {
		_, err := s.Run(t.Context(), onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, n))}, nil)
		return err
	}
	for i, s := range sessions {
		if err := run(s, 1000); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
		if err := budget.Reserve(limit - held - 100); err != nil {
			t.Fatal(err)
		}
		if err := run(s, 1000); !errors.Is(err, onward.ErrMemoryBudget) || errors.Is(err, onward.ErrMemoryLimit) {
			t.Errorf("session %d, without memory left: %v, want ErrMemoryBudget", i, err)
		}
		budget.Release(limit - held - 100)
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
	if n := budget.Used(); n != held {
		t.Errorf("%d bytes are reserved after all runs, want the %d of the models", n, held)
	}
	for _, s := range sessions {
		s.Close()
	}
	if n := budget.Used(); n != 0 {
		t.Errorf("%d bytes are reserved after the sessions are closed, want 0", n)
	}
	if d := onward.NewMemoryBudget(0); d.Limit() != 0 {
		t.Errorf("a budget without size has limit %d before a session is opened", d.Limit())
	} else if s, err := onward.OpenBytes(t.Context(), data,
		&onward.SessionOptions{Limits: onward.Limits{Budget: d}}); err != nil || d.Limit() <= 0 {
		t.Errorf("a budget without size has limit %d after a session is opened: %v", d.Limit(), err)
	} else {
		s.Close()
	}
}

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

// longRun begins an endless run on s. It returns a function that ends the run and checks its error.
func longRun(t *testing.T, s *onward.Session, feed onward.Values) func() {
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan bool), make(chan error)
	go func() {
		n := 0
		_, err := s.Run(ctx, feed, &onward.RunOptions{Observe: func(onward.NodeRun) {
			if n++; n == 1 {
				close(started)
			}
		}})
		ended <- err
	}()
	<-started
	return func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the long run: %v", err)
		}
	}
}

// SetProviders does not wait for a run, and runs that follow do not wait for it. They have no
// deadline here: a run that waits for the endless one ends with the test.
func TestRunsDoNotWaitForSetProviders(t *testing.T) {
	s, feed := endless(t)
	defer s.Close()
	stop := longRun(t, s, feed)
	binding, err := s.NewBinding()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetProviders(t.Context(), []onward.ProviderConfig{{Name: "reference"}}); err != nil {
		t.Fatal(err)
	}
	if p := s.Provider(); p != "reference" {
		t.Errorf("the provider is %s, want reference", p)
	}
	if _, err := s.Run(t.Context(), onward.Values{"t": tensor.Scalar(int64(1)), "x": feed["x"]}, nil); err != nil {
		t.Errorf("a run after SetProviders: %v", err)
	}
	if err := binding.ClearInputs(); err == nil {
		t.Error("a binding of the former provider can be used")
	}
	if err := binding.Close(); err != nil {
		t.Errorf("closing a binding of the former provider: %v", err)
	}
	stop()
}

// Close waits for runs, on the former provider too. Runs that begin meanwhile fail without waiting.
func TestCloseWaitsForRuns(t *testing.T) {
	for _, change := range []bool{false, true} {
		s, feed := endless(t)
		stop := longRun(t, s, feed)
		if change {
			if err := s.SetProviders(t.Context(), []onward.ProviderConfig{{Name: "reference"}}); err != nil {
				t.Fatal(err)
			}
		}
		closed := make(chan error, 2)
		for range 2 {
			go func() { closed <- s.Close() }()
		}
		for {
			_, err := s.Run(t.Context(), onward.Values{"t": tensor.Scalar(int64(1)), "x": feed["x"]}, nil)
			if err != nil {
				if !strings.Contains(err.Error(), "closed") {
					t.Errorf("a run beside Close: %v", err)
				}
				break
			}
		}
		select {
		case err := <-closed:
			t.Errorf("Close returns %v before the run ends", err)
		case <-time.After(20 * time.Millisecond):
		}
		stop()
		for range 2 {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
	}
}

// SetProviders ends with its context and leaves the session unchanged.
func TestSetProvidersHonoursItsContext(t *testing.T) {
	s, feed := endless(t)
	defer s.Close()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SetProviders(done, []onward.ProviderConfig{{Name: "reference"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("SetProviders: %v, want Canceled", err)
	}
	if p := s.Provider(); p != "cpu" {
		t.Errorf("the provider is %s after a failed SetProviders, want cpu", p)
	}
	if _, err := s.Run(t.Context(), onward.Values{"t": tensor.Scalar(int64(1)), "x": feed["x"]}, nil); err != nil {
		t.Errorf("a run after a failed SetProviders: %v", err)
	}
}
