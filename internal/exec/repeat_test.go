package exec

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// offering is addOne that offers to run again. It fails, or takes scratch memory, after that.
type offering struct {
	addOne
	fail, scratch bool
	again         int // how often it was repeated
}

var errOffering = errors.New("this run fails")

func (o *offering) Run(c *ir.Call) error {
	if err := o.addOne.Run(c); err != nil {
		return err
	}
	x, y := tensor.Of[float32](c.Tensor(0)), tensor.Of[float32](c.Out[0].(*tensor.Tensor))
	c.Repeat(func() {
		o.again++
		for i, v := range x {
			y[i] = v + 1
		}
	}, c.Tensor(0))
	if o.scratch {
		if _, err := c.Scratch(64); err != nil {
			return err
		}
	}
	if o.fail {
		return errOffering
	}
	return nil
}

// What a call offers before it fails is forgotten, and a call that takes scratch memory
// is not repeated.
func TestRepeatForgetsWhatFails(t *testing.T) {
	o := &offering{}
	var p *Plan
	compile := func() {
		var err error
		if p, err = Compile(chain(t, addOne{}, o, addOne{}), Options{}); err != nil {
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
	for k := range 3 { // a failure in each of the runs up to that which learns
		compile()
		for range k {
			must()
		}
		o.fail = true
		if err := run(); !errors.Is(err, errOffering) {
			t.Fatalf("run %d: got %v, want that it fails", k, err)
		}
		o.fail = false
		for range 4 {
			must()
		}
		was := o.again
		if must(); o.again != was+1 {
			t.Errorf("after a failure of run %d a run repeats the call %d times, want 1", k, o.again-was)
		}
	}
	o.scratch = true
	compile()
	was := o.again
	for range 6 {
		must()
	}
	if o.again != was {
		t.Errorf("a call with scratch memory was repeated %d times", o.again-was)
	}
}
