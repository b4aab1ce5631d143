package states

import (
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/bindingtest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// providers are the Go engines, and an engine without bindings: the session copies its states.
var providers = append(slices.Clone(enginetest.Engines), bindingtest.Register("cpu"))

func TestStates(t *testing.T) {
	for _, p := range providers {
		t.Run(p, func(t *testing.T) { Check(t, onward.ProviderConfig{Name: p}) })
	}
}

// This test checks that steps do not allocate memory for a copy of the caches.
func TestStatesAreNotCopied(t *testing.T) {
	const length, steps = 4096, 16
	for _, d := range decoders() {
		if d.axis != 2 || d.fixed {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			s := enginetest.Open(t, d.model.Must(), enginetest.On("cpu"))
			q, rng := start(t, s, &d), rand.New(rand.NewPCG(1, 2))
			past := d.first["past_k"].(*tensor.Tensor)
			shape := slices.Clone(past.Shape())
			shape[2] = length
			for name := range q.states {
				must(t, q.b.BindCPUInput(name, tensor.Must(tensor.Zeros(past.DType(), shape...))))
			}
			run := func(k int) {
				for name, v := range d.feed(rng, length+k, 1) {
					must(t, q.b.BindCPUInput(name, v))
				}
				must(t, s.RunBinding(t.Context(), q.b, nil))
			}
			for k := range 3 {
				run(k)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for k := range steps {
				run(3 + k)
			}
			runtime.ReadMemStats(&after)
			size := past.DType().Size() * shape[0] * shape[1] * length * shape[3]
			if n := int(after.TotalAlloc - before.TotalAlloc); n > size {
				t.Errorf("%d runs allocate %d bytes, want less than the %d of a cache", steps, n, size)
			}
		})
	}
}

// This test checks the errors of calls with wrong arguments.
func TestStateErrors(t *testing.T) {
	b := onnx.NewModel("errors").Opset("", 17)
	b.Input("x", onnx.Float, "n").Input("past", onnx.Float, "n")
	b.Input("other", onnx.Int64, "n").Input("two", onnx.Float, 2)
	b.Output("y", onnx.Float, "n").Output("z", onnx.Float, 3)
	b.Node("Add", []string{"x", "past"}, []string{"y"})
	b.Initializer("c", []float32{1, 2, 3}, 3)
	b.Node("Identity", []string{"c"}, []string{"z"})
	for _, provider := range providers {
		s := enginetest.Open(t, b.Must(), enginetest.On(provider))
		n, err := s.NewBinding()
		must(t, err)
		vec := func(v ...float32) *tensor.Tensor { return tensor.Must(tensor.New(v, len(v))) }
		must(t, n.BindCPUInput("x", vec(1, 2)))
		must(t, n.BindCPUInput("two", vec(1, 2)))
		must(t, n.BindCPUInput("other", tensor.Must(tensor.New([]int64{1}, 1))))
		for what, call := range map[string]func() error{
			"Invalid output name: q":                   func() error { return n.BindState("q", "past") },
			"Failed to find input name":                func() error { return n.BindState("y", "q") },
			"want tensors of one type":                 func() error { return n.BindState("y", "other") },
			"which differ":                             func() error { return n.BindState("z", "two") },
			"bind its first value":                     func() error { return n.BindState("y", "past") },
			"has no state":                             func() error { _, err := n.State("past"); return err },
			"has no state: call BindState":             func() error { return n.TruncateState("x", 0, 1) },
			"Failed to find input name in the mapping": func() error { return n.TruncateState("q", 0, 1) },
		} {
			fails(t, call(), what)
		}
		must(t, n.BindCPUInput("past", vec(10, 20)))
		must(t, n.BindState("y", "past"))
		for what, call := range map[string]func() error{
			"output y is the state of input past already": func() error { return n.BindState("y", "x") },
			"y is the state of input past":                func() error { return n.BindOutput("y", onward.Buffer{}) },
			"must be in [-1, 1), got 1":                   func() error { return n.TruncateState("past", 1, 1) },
			"elements 0 to 3 are out of range of axis 0":  func() error { return n.TruncateState("past", -1, 3) },
		} {
			fails(t, call(), what)
		}
		// A failed run leaves the state as it was.
		must(t, s.RunBinding(t.Context(), n, nil))
		must(t, n.BindCPUInput("x", vec(1, 2, 3)))
		if s.RunBinding(t.Context(), n, nil) == nil {
			t.Error("a run with other shapes succeeded")
		}
		must(t, n.BindCPUInput("x", vec(1, 2)))
		must(t, s.RunBinding(t.Context(), n, nil))
		got, err := n.State("past")
		must(t, err)
		must(t, enginetest.Same(got, vec(12, 24), "past"))
		// The input keeps the last value of a state that ends.
		must(t, n.ClearOutputs())
		must(t, n.BindOutput("y", onward.Buffer{}))
		must(t, s.RunBinding(t.Context(), n, nil))
		out, err := n.CopyOutputsToCPU()
		must(t, err)
		must(t, enginetest.Same(out[0], vec(13, 26), "y"))
	}
}

func fails(t *testing.T, err error, with string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), with) {
		t.Errorf("got error %v, want one with %q", err, with)
	}
}

// This test runs forks of a binding concurrently.
func TestForksAtOnce(t *testing.T) {
	for _, d := range decoders() {
		s := enginetest.Open(t, d.model.Must(), enginetest.On("cpu"))
		q := start(t, s, &d)
		q.step(t, s, &d, rand.New(rand.NewPCG(1, 1)), 2)
		var wg sync.WaitGroup
		for g := range 4 {
			b, err := q.b.Fork()
			must(t, err)
			f := &sequence{b: b, states: maps.Clone(q.states), length: q.length}
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 2))
				for range 8 {
					f.step(t, s, &d, rng, 1)
				}
			})
		}
		wg.Wait()
		q.check(t, &d)
	}
}

// This test checks that a state that would exceed the memory limit fails the run, and stays as it
// was.
func TestStateLimit(t *testing.T) {
	d := decoders()[0]
	o := enginetest.On("cpu")
	o.Limits.MaxMemory = 64 << 10
	s := enginetest.Open(t, d.model.Must(), o)
	q, rng := start(t, s, &d), rand.New(rand.NewPCG(1, 2))
	var err error
	for range 64 {
		for name, v := range d.feed(rng, q.length, 5) {
			must(t, q.b.BindCPUInput(name, v))
		}
		if err = s.RunBinding(t.Context(), q.b, nil); err != nil {
			break
		}
		q.length += 5
	}
	fails(t, err, "memory limit exceeded")
	v, err := q.b.State("past_k")
	must(t, err)
	if v.Dim(2) != q.length || q.length == 0 {
		t.Errorf("the state has %d tokens, want %d, more than 0", v.Dim(2), q.length)
	}
}

// This test checks that runs with a state of fixed size are replayed: they allocate nothing.
func TestStatesAreReplayed(t *testing.T) {
	b := onnx.NewModel("filter").Opset("", 17)
	b.Input("x", onnx.Float, 2, size).Input("past", onnx.Float, 2, size).Output("present", onnx.Float, 2, size)
	b.Output("y", onnx.Float, 2, size)
	b.Node("Add", []string{"x", "past"}, []string{"s"})
	b.Node("Tanh", []string{"s"}, []string{"present"})
	b.Node("Mul", []string{"present", "past"}, []string{"y"})
	s := enginetest.Open(t, b.Must(), enginetest.On("cpu"))
	n, err := s.NewBinding()
	must(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	x, past := enginetest.Normal(rng, 2, size), enginetest.Normal(rng, 2, size)
	must(t, n.BindCPUInput("x", x))
	must(t, n.BindCPUInput("past", past))
	must(t, n.BindState("present", "past"))
	must(t, n.BindOutput("y", onward.Buffer{}))
	ctx := t.Context()
	run := func() {
		if err := s.RunBinding(ctx, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	in := onward.Values{"x": x, "past": past}
	for range 12 {
		run()
		want, err := s.Run(ctx, in, nil)
		must(t, err)
		got, err := n.State("past")
		must(t, err)
		must(t, enginetest.Same(got, want["present"], "present"))
		in["past"] = want["present"]
	}
	if a := testing.AllocsPerRun(20, run); a > 0 && !enginetest.Race && os.Getenv("ONWARD_CHECK_REPLAY") == "" {
		t.Errorf("a run allocates %v times", a)
	}
}
