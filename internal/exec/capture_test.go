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

// rows returns the number of rows of its input.
type rows struct{ ran int }

func (*rows) ReadsShapes() {}
func (*rows) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, ir.Known(1)))
	return nil
}

func (o *rows) Run(c *ir.Call) error {
	o.ran++
	y, err := c.Output(0, tensor.TypeFloat32, 1)
	if err == nil {
		tensor.MustData[float32](y)[0] = float32(c.Tensor(0).Dim(0))
	}
	return err
}

// TestCaptureKeepsResultsOfShapes checks that replays do not compute again what depends on shapes
// alone, and that other shapes get other results.
func TestCaptureKeepsResultsOfShapes(t *testing.T) {
	r, between := &rows{}, &launching{}
	p, err := Compile(t.Context(), chain(t, addOne{}, r, between, addOne{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int) {
		t.Helper()
		out, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{input(n)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.MustData[float32](out[0].(*tensor.Tensor))[0]; got != float32(n)+2 {
			t.Fatalf("got %v for %d rows, want %d", got, n, n+2)
		}
	}
	for _, n := range []int{3, 5} {
		for range 4 {
			run(n)
		}
		ran, launched := r.ran, between.launched
		for range 4 {
			run(n)
		}
		if !checkReplay && (r.ran != ran || between.launched != launched) {
			t.Errorf("4 replays computed the shape %d times and its sum %d times", r.ran-ran, between.launched-launched)
		}
	}
	for i := range 8 {
		run(3 + i%2)
	}
}

// viaScratch adds 1 by two kernels with scratch memory between them.
type viaScratch struct{ ran int }

func (*viaScratch) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }

func (o *viaScratch) Run(c *ir.Call) error {
	o.ran++
	in := c.Tensor(0)
	out, err := c.Output(0, in.DType(), in.Shape()...)
	if err != nil {
		return err
	}
	x, y := tensor.MustData[float32](in), tensor.MustData[float32](out)
	between, err := ir.LaunchScratchOf[float32](c, len(x))
	if err != nil {
		return err
	}
	c.Launch(1, 1, func(int, int) { copy(between, x) })
	c.Launch(1, 1, func(int, int) {
		for i, v := range between {
			y[i] = v + 1
		}
	})
	return nil
}

// TestCaptureOfLargeLayouts checks that plans that share their memory replay launches that refer to
// it, and that a plan whose memory another one has taken captures again.
func TestCaptureOfLargeLayouts(t *testing.T) {
	arenas := new(Arenas)
	var ops [2]*viaScratch
	var plans [2]*Plan
	for i := range plans {
		ops[i] = &viaScratch{}
		var err error
		plans[i], err = Compile(t.Context(), chain(t, addOne{}, ops[i], addOne{}), Options{Arenas: arenas})
		if err != nil {
			t.Fatal(err)
		}
	}
	const rows = keptLimit / 8
	next := float32(0)
	run := func(i int) (ran int) {
		t.Helper()
		x := input(rows)
		next++
		tensor.MustData[float32](x)[0] = next
		was := ops[i].ran
		out, err := plans[i].Run(t.Context(), &Request{Inputs: []tensor.Value{x}, MemoryLimit: 64 * rows})
		if err != nil {
			t.Fatal(err)
		}
		want(t, out[0], x, 3)
		return ops[i].ran - was
	}
	for range 4 {
		run(0)
		run(1)
	}
	for i := range 4 {
		if ran := run(i % 2); ran != 0 && !checkReplay {
			t.Errorf("run %d of two plans in turn calls the operator %d times, want 0", i, ran)
		}
	}
	taken := arenas.idle
	arenas.idle = nil
	if ran := run(0); ran == 0 {
		t.Error("a run in other memory than that of its captured launches replays them")
	}
	arenas.idle = append(arenas.idle, taken...)
	for range 3 {
		run(0)
		run(1)
	}
	if ran := run(0); ran != 0 && !checkReplay {
		t.Errorf("after another plan has had its memory, a plan calls the operator %d times, want 0", ran)
	}
}

// asideOp adds 1 by two kernels, of which each writes a part of the result.
type asideOp struct{}

func (asideOp) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }

func (asideOp) Run(c *ir.Call) error {
	in := c.Tensor(0)
	out, err := c.Output(0, in.DType(), in.Shape()...)
	if err != nil {
		return err
	}
	x, y := tensor.MustData[float32](in), tensor.MustData[float32](out)
	half := len(x) / 2
	c.LaunchAside(half, 7, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y[i] = x[i] + 1
		}
	})
	c.Launch(len(x)-half, 1, func(lo, hi int) {
		for i := half + lo; i < half+hi; i++ {
			y[i] = x[i] + 1
		}
	})
	return nil
}

// TestCaptureJoinsLaunchesAside checks that a replay runs a launch aside with the next one.
func TestCaptureJoinsLaunchesAside(t *testing.T) {
	p, err := Compile(t.Context(), chain(t, asideOp{}, asideOp{}), Options{Pool: testPool(t, 3, 3)})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		x := input(50)
		out, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{x}})
		if err != nil {
			t.Fatal(err)
		}
		want(t, out[0], x, 2)
	}
	if got := len(p.states.idle[0].capture.program); got != 2 {
		t.Errorf("a replay of two operators has %d instructions, want one each", got)
	}
}
