package exec

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// launching adds 1 by a kernel. It fails, or takes scratch memory, after the launch.
type launching struct {
	fail, scratch bool
	ran, launched int // how often Run and the kernel ran
}

func (*launching) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }

var errLaunching = errors.New("this run fails")

func (o *launching) Run(c *ir.Call) error {
	o.ran++
	in := c.Tensor(0)
	out, err := c.Output(0, in.DType(), in.Shape()...)
	if err != nil {
		return err
	}
	x, y := tensor.MustData[float32](in), tensor.MustData[float32](out)
	c.Launch(1, 1, func(int, int) {
		o.launched++
		for i, v := range x {
			y[i] = v + 1
		}
	})
	if o.scratch {
		if _, err := c.Scratch(64); err != nil {
			return err
		}
	}
	if o.fail {
		return errLaunching
	}
	return nil
}

// This test checks that a failure invalidates the capture, and that a call that takes scratch
// memory is not captured.
func TestFailureInvalidatesCapture(t *testing.T) {
	o := &launching{}
	var p *Plan
	compile := func() {
		var err error
		if p, err = Compile(t.Context(), chain(t, addOne{}, o, addOne{}), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	run := func() error {
		x := input(3)
		out, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}})
		if err == nil {
			want(t, out[0], x, 3)
		}
		return err
	}
	must := func() {
		t.Helper()
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 3 { // a failure in each run up to the captured one
		compile()
		for range k {
			must()
		}
		o.fail = true
		if err := run(); !errors.Is(err, errLaunching) {
			t.Fatalf("run %d: got %v, want that it fails", k, err)
		}
		o.fail = false
		for range 4 {
			must()
		}
		was := *o
		if must(); !checkReplay && (o.ran != was.ran || o.launched != was.launched+1) {
			t.Errorf(
				"after a failure of run %d a run calls the operator %d times and its kernel %d times, want 0 and 1",
				k, o.ran-was.ran, o.launched-was.launched)
		}
	}
	o.scratch = true
	compile()
	was := o.ran
	for range 6 {
		must()
	}
	if o.ran != was+6 {
		t.Errorf("6 runs called the operator with scratch memory %d times", o.ran-was)
	}
}
