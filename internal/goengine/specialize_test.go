package goengine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// pixels returns n values that depend on seed.
func pixels(n, seed int) []float32 {
	d := make([]float32, n)
	for i := range d {
		d[i] = float32((i*seed+i/7)%23)/16 - 0.7
	}
	return d
}

// freeModel returns a network over images of any size, with a 3×3 convolution and a depthwise one.
func freeModel(build ...func(b *onnx.ModelBuilder)) *onnx.Model {
	const c = 32
	pads := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
	b := onnx.NewModel("free").Opset("", 17)
	b.Input("x", onnx.Float, "n", 3, "h", "w").Output("y", onnx.Float, nil, nil, nil, nil)
	b.Output("mean", onnx.Float, nil, nil, nil, nil)
	b.Initializer("first", pixels(c*3*9, 5), c, 3, 3, 3).Initializer("bias", pixels(c, 3), c)
	b.Initializer("dense", pixels(c*c*9, 7), c, c, 3, 3).Initializer("depth", pixels(c*9, 11), c, 1, 3, 3)
	b.Node("Conv", []string{"x", "first", "bias"}, []string{"a"}, pads)
	b.Node("Relu", []string{"a"}, []string{"r"})
	b.Node("Conv", []string{"r", "dense"}, []string{"d"}, pads)
	b.Node("Conv", []string{"d", "depth"}, []string{"k"}, onnx.Attrs{"pads": []int64{1, 1, 1, 1}, "group": int64(c)})
	b.Node("Add", []string{"k", "r"}, []string{"y"})
	b.Node("GlobalAveragePool", []string{"y"}, []string{"mean"})
	for _, fn := range build {
		fn(b)
	}
	return b.Must()
}

func imageOf(n, h, w int) *tensor.Tensor {
	return tensor.Must(tensor.New(pixels(n*3*h*w, 13), n, 3, h, w))
}

// freeEngine compiles a model on cpu. cost, unless negative, is the time that a shape must save.
func freeEngine(t *testing.T, m *onnx.Model, opts *driver.Options, cost int64) *engine {
	t.Helper()
	x, err := provider{name: Default}.Compile(t.Context(), &driver.Model{Model: m}, opts, driver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := x.(*engine)
	t.Cleanup(func() { e.Close() })
	if e.special != nil && cost >= 0 {
		e.special.cost = cost
	}
	return e
}

// ran runs an engine and returns the plan and the outputs of the run.
func (e *engine) ran(ctx context.Context, in ...tensor.Value) (plan string, out []tensor.Value, err error) {
	o := &driver.RunOptions{Observe: func(n driver.NodeRun) { plan = n.Plan }}
	req := &driver.Request{In: in, Out: make([]tensor.Value, len(e.graph.Outputs)), Options: o}
	err = e.Run(ctx, req)
	return plan, req.Out, err
}

func wantPlan(t *testing.T, e *engine, want string, in ...tensor.Value) {
	t.Helper()
	plan, _, err := e.ran(t.Context(), in...)
	if err != nil {
		t.Fatal(err)
	}
	if plan != want {
		t.Errorf("the run used the plan %q, want %q", plan, want)
	}
}

// TestSpecializedPlanReplacesGeneral checks that a shape gets a plan once its runs repay the
// compilation.
func TestSpecializedPlanReplacesGeneral(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{}, 0)
	wantPlan(t, e, "x=1x3x12x12", imageOf(1, 12, 12))
	g, _, err := e.special.typed(t.Context(), []tensor.Value{imageOf(1, 9, 8)}, false)
	if err != nil {
		t.Fatal(err)
	}
	e.special.cost = 3 * gain(g)
	for _, want := range []string{driver.GeneralPlan, driver.GeneralPlan, "x=1x3x9x8", "x=1x3x9x8"} {
		wantPlan(t, e, want, imageOf(1, 9, 8))
	}
	wantPlan(t, e, "x=1x3x12x12", imageOf(1, 12, 12))
}

// TestSpecializedPlanIsBlocked checks that a specialized plan has the operators of a model with
// fixed dimensions.
func TestSpecializedPlanIsBlocked(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{}, 0)
	fixed := freeModel()
	for i, n := range []int64{1, 3, 40, 36} {
		fixed.Graph.Inputs[0].Type.Tensor.Shape.Dims[i] = onnx.Dim{Kind: onnx.DimValue, Value: n}
	}
	want := Kinds(freeEngine(t, fixed, &driver.Options{}, 0))
	if _, _, err := e.ran(t.Context(), imageOf(1, 40, 36)); err != nil {
		t.Fatal(err)
	}
	p := e.special.program(t.Context(), []tensor.Value{imageOf(1, 40, 36)})
	var got []string
	for _, n := range p.graph.Nodes {
		got = append(got, n.OpType)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the specialized plan has %v, want %v", got, want)
	}
	if slices.Equal(Kinds(e), want) {
		t.Error("the general plan has the operators of the fixed one: the test compares nothing")
	}
}

// TestSpecializedPlansEvict checks that the plan used longest ago makes room for a new one.
func TestSpecializedPlansEvict(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{SpecializedShapes: 2}, 0)
	for _, h := range []int{8, 9, 8, 10} { // 10 evicts 9
		wantPlan(t, e, fmt.Sprintf("x=1x3x%dx8", h), imageOf(1, h, 8))
	}
	var kept []string
	for key, sh := range e.special.shapes {
		if sh.program.Load() != nil {
			kept = append(kept, key)
		}
	}
	slices.Sort(kept)
	if want := []string{"1x3x10x8x ", "1x3x8x8x "}; !slices.Equal(kept, want) {
		t.Errorf("plans for %q, want %q", kept, want)
	}
	for h := 11; h < 2*maxShapes+20; h++ {
		wantPlan(t, e, fmt.Sprintf("x=1x3x%dx8", h), imageOf(1, h, 8))
	}
	e.special.cost = 1 << 60
	for h := 300; h < 2*maxShapes+310; h++ {
		wantPlan(t, e, driver.GeneralPlan, imageOf(1, h, 8))
	}
	if n := len(e.special.shapes); n > maxShapes+2 {
		t.Errorf("%d shapes are known, want at most %d", n, maxShapes+2)
	}
}

// TestEvictedShapesWaitLonger checks that a shape whose plan was evicted gets another one after
// twice the savings, unless one run saves the time to compile it.
func TestEvictedShapesWaitLonger(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{SpecializedShapes: 1}, 0)
	g, _, err := e.special.typed(t.Context(), []tensor.Value{imageOf(1, 8, 8)}, false)
	if err != nil {
		t.Fatal(err)
	}
	e.special.cost = gain(g) + 1 // two runs
	general, plans := driver.GeneralPlan, []string{"x=1x3x8x8", "x=1x3x16x16"}
	for run, want := range []string{general, plans[0], plans[1], general, general, plans[0], plans[1]} {
		size := 8
		if want == plans[1] {
			size = 16 // saves more in one run
		}
		plan, _, err := e.ran(t.Context(), imageOf(1, size, size))
		if err != nil || plan != want {
			t.Errorf("run %d used the plan %q, error %v, want %q", run, plan, err, want)
		}
	}
}

// TestSpecializedPlansShareWeights checks that plans of two shapes have one copy of packed weights,
// and that weights of no plan are freed.
func TestSpecializedPlansShareWeights(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{SpecializedShapes: 2}, 0)
	wantPlan(t, e, "x=1x3x64x64", imageOf(1, 64, 64))
	one := e.special.packs.Beyond()
	if one < 32*32*9*4 {
		t.Fatalf("packed weights of %d bytes, want at least those of the dense convolution", one)
	}
	wantPlan(t, e, "x=1x3x64x80", imageOf(1, 64, 80))
	if two := e.special.packs.Beyond(); two != one {
		t.Errorf("two plans hold %d bytes of packed weights, one held %d", two, one)
	}
	for _, sh := range e.special.shapes {
		e.special.drop(sh)
	}
	if n := e.special.packs.Beyond(); n != 0 {
		t.Errorf("%d bytes of packed weights have no plan", n)
	}
}

// TestSpecializedPlanBeyondLimit checks that a plan which exceeds its part of the memory limit is
// not kept.
func TestSpecializedPlanBeyondLimit(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{}, 0)
	e.special.maxBytes = 1 << 10
	plan, _, err := e.ran(t.Context(), imageOf(1, 16, 16))
	if err != nil || plan != driver.GeneralPlan {
		t.Fatalf("plan %q, error %v, want the general plan", plan, err)
	}
	if n := e.special.packs.Beyond(); n != 0 {
		t.Errorf("%d bytes of packed weights remain", n)
	}
	limited := freeEngine(t, freeModel(), &driver.Options{Limits: driver.Limits{MaxMemory: 4 << 20}}, 0)
	if limited.special.maxBytes != 1<<20 {
		t.Errorf("plans may take %d bytes of a limit of 4 MiB, want a quarter", limited.special.maxBytes)
	}
}

// TestSpecializedPlansConcurrently runs several shapes in several goroutines, while plans are
// compiled and evicted, and compares the results with the general plan's.
func TestSpecializedPlansConcurrently(t *testing.T) {
	for _, procs := range []int{1, runtime.GOMAXPROCS(0)} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		general := freeEngine(t, freeModel(), &driver.Options{SpecializedShapes: -1}, 0)
		e := freeEngine(t, freeModel(), &driver.Options{SpecializedShapes: 2}, 0)
		var group sync.WaitGroup
		for k := range 6 {
			group.Go(func() {
				for i := range 8 {
					x := imageOf(1+k%2, 8+(i+k)%4, 12)
					_, want, err := general.ran(t.Context(), x)
					if err != nil {
						t.Error(err)
						return
					}
					_, got, err := e.ran(t.Context(), x)
					if err != nil {
						t.Error(err)
						return
					}
					for j := range want {
						if err := tensor.AllClose(got[j], want[j], 1e-4, 1e-4); err != nil {
							t.Errorf("%s: output %d: %v", x, j, err)
						}
					}
				}
			})
		}
		group.Wait()
	}
}

// TestRunsWaitForDeterministicPlans checks that with Deterministic every run of a shape has the
// same plan, also if several begin at the same time.
func TestRunsWaitForDeterministicPlans(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{Deterministic: true}, 1<<60)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() { wantPlan(t, e, "x=1x3x30x30", imageOf(1, 30, 30)) })
	}
	group.Wait()
}

// blockingModel returns a network with a custom operator whose Infer calls fn if its input has a
// height of 16.
func blockingModel(fn func()) (*onnx.Model, *driver.Options) {
	m := freeModel(func(b *onnx.ModelBuilder) {
		b.Opset("test", 1).Output("z", onnx.Float, nil, nil, nil, nil)
		b.Node("Same", []string{"y"}, []string{"same"}).Domain("test")
		b.Node("Neg", []string{"same"}, []string{"z"})
	})
	same := driver.CustomOperator{Domain: "test", Name: "Same", Inputs: "x:float", Outputs: "y:float",
		Infer: func(s driver.CustomShapes) ([][]driver.Dim, error) {
			if s.Shapes[0] != nil && s.Shapes[0][2].Value == 16 {
				fn()
			}
			return s.Shapes, nil
		},
		Run: func(_ context.Context, c driver.CustomCall) ([]tensor.Value, error) {
			return []tensor.Value{tensor.Clone(c.In[0])}, nil
		}}
	return m, &driver.Options{CustomOperators: []driver.CustomOperator{same}}
}

// TestCloseStopsSpecialization closes an engine while it compiles a plan in the background.
func TestCloseStopsSpecialization(t *testing.T) {
	began, proceed := make(chan struct{}), make(chan struct{})
	calls := 0
	m, opts := blockingModel(func() {
		if calls++; calls == 2 { // the first call is that of the run
			close(began)
			<-proceed
		}
	})
	e := freeEngine(t, m, opts, 0)
	e.special.left = 1 << 40
	wantPlan(t, e, driver.GeneralPlan, imageOf(1, 16, 16))
	<-began
	closed := make(chan struct{})
	go func() {
		e.Close()
		close(closed)
	}()
	<-e.special.ctx.Done()
	close(proceed)
	<-closed
	for _, sh := range e.special.shapes {
		if sh.program.Load() != nil {
			t.Error("the closed engine has a specialized plan")
		}
	}
}

// TestBackgroundSpecialization checks that runs use the general plan until one with many weights is
// compiled.
func TestBackgroundSpecialization(t *testing.T) {
	proceed := make(chan struct{})
	calls := 0
	m, opts := blockingModel(func() {
		if calls++; calls == 2 {
			<-proceed
		}
	})
	e := freeEngine(t, m, opts, 0)
	e.special.left = 1 << 40
	wantPlan(t, e, driver.GeneralPlan, imageOf(1, 16, 16))
	wantPlan(t, e, driver.GeneralPlan, imageOf(1, 16, 16))
	close(proceed)
	e.special.work.Wait()
	wantPlan(t, e, "x=1x3x16x16", imageOf(1, 16, 16))
	wantPlan(t, e, "x=1x3x17x16", imageOf(1, 17, 16)) // its weights are packed
}

// TestLargeImagesWaitForWeights checks that a run waits for a plan with many weights if that saves
// more time than the weights take to pack.
func TestLargeImagesWaitForWeights(t *testing.T) {
	for _, c := range []struct {
		size int
		plan string
	}{{16, driver.GeneralPlan}, {500, "x=1x3x500x500"}} {
		e := freeEngine(t, freeModel(), &driver.Options{}, 0)
		e.special.left = backgroundWeights + 1
		wantPlan(t, e, c.plan, imageOf(1, c.size, c.size))
	}
}

// TestCancelledSpecialization checks that a run which is cancelled while it infers shapes or
// compiles a plan does not keep later runs from compiling it.
func TestCancelledSpecialization(t *testing.T) {
	for call := 1; call <= 2; call++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		m, opts := blockingModel(func() {
			if calls++; calls == call {
				cancel()
			}
		})
		e := freeEngine(t, m, opts, 0)
		if _, _, err := e.ran(ctx, imageOf(1, 16, 16)); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
		wantPlan(t, e, "x=1x3x16x16", imageOf(1, 16, 16))
	}
}

// TestDeterministicRunsAfterCancel checks that a run which waits for a plan compiles it if the run
// that began to is cancelled.
func TestDeterministicRunsAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var e *engine
	var once sync.Once
	var group sync.WaitGroup
	m, opts := blockingModel(func() {
		once.Do(func() {
			group.Go(func() { wantPlan(t, e, "x=1x3x16x16", imageOf(1, 16, 16)) })
			time.Sleep(20 * time.Millisecond) // the second run waits, or compiles after this one
			cancel()
		})
	})
	opts.Deterministic = true
	e = freeEngine(t, m, opts, 0)
	if _, _, err := e.ran(ctx, imageOf(1, 16, 16)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	group.Wait()
}

// TestInvalidShapeIsNotSpecialized checks the error of a run whose shape no plan can be specialized
// to.
func TestInvalidShapeIsNotSpecialized(t *testing.T) {
	m := freeModel(func(b *onnx.ModelBuilder) {
		b.Initializer("row", pixels(12, 3), 12).Output("z", onnx.Float, nil, nil, nil, nil)
		b.Node("Add", []string{"y", "row"}, []string{"z"})
	})
	e := freeEngine(t, m, &driver.Options{}, 0)
	for range 2 {
		_, _, err := e.ran(t.Context(), imageOf(1, 12, 7))
		var node *ir.NodeError
		if !errors.As(err, &node) || node.Stage != "run" {
			t.Fatalf("error %v, want that of the node when it runs", err)
		}
	}
	wantPlan(t, e, "x=1x3x7x12", imageOf(1, 7, 12))
}

// TestWhoSpecializes checks which engines compile specialized plans.
func TestWhoSpecializes(t *testing.T) {
	if e := freeEngine(t, freeModel(), &driver.Options{SpecializedShapes: -1}, 0); e.special != nil {
		t.Error("an engine with SpecializedShapes −1 specializes plans")
	}
	if e := freeEngine(t, freeModel(), &driver.Options{OptimizationLevel: driver.OptimizeExtended},
		0); e.special != nil {
		t.Error("an engine without layouts specializes plans")
	}
	reference := provider{name: "reference", generic: true}
	x, err := reference.Compile(t.Context(), &driver.Model{Model: freeModel()}, &driver.Options{}, driver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if x.(*engine).special != nil {
		t.Error("reference specializes plans")
	}
	large := freeModel(func(b *onnx.ModelBuilder) {
		b.Initializer("matrix", make([]float32, otherWeights/4), 32, otherWeights/128).Output("z", onnx.Float, nil, nil)
		b.Node("Flatten", []string{"mean"}, []string{"flat"})
		b.Node("MatMul", []string{"flat", "matrix"}, []string{"z"})
	})
	if e := freeEngine(t, large, &driver.Options{}, 0); e.special != nil {
		t.Error("an engine specializes plans for a small part of the weights")
	}
	b := onnx.NewModel("rows").Opset("", 17)
	b.Input("x", onnx.Float, "n", 8).Output("y", onnx.Float, nil, nil)
	b.Initializer("w", pixels(64, 3), 8, 8).Node("MatMul", []string{"x", "w"}, []string{"y"})
	if e := freeEngine(t, b.Must(), &driver.Options{}, 0); e.special != nil {
		t.Error("an engine without convolutions specializes plans")
	}
}

// TestSpecializedBinding runs a binding with changing shapes.
func TestSpecializedBinding(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{}, 0)
	b, err := e.NewBinding()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for k := range 2 {
		if err := b.BindOutput(k, driver.Memory{}, driver.Device{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []int{10, 10, 10, 14, 14, 10} {
		x := imageOf(1, h, 10)
		_, want, err := e.ran(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.BindInput(0, driver.Memory{Value: x}); err != nil {
			t.Fatal(err)
		}
		plan := ""
		for range 3 { // captures, and replays
			if err := b.Run(t.Context(), &driver.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				got, err := b.Output(k)
				if err != nil {
					t.Fatal(err)
				}
				if err := tensor.AllClose(got.Value, want[k], 0, 0); err != nil {
					t.Errorf("height %d, output %d: %v", h, k, err)
				}
			}
		}
		if err := b.Run(t.Context(), &driver.RunOptions{Observe: func(n driver.NodeRun) {
			plan = n.Plan
		}}); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("x=1x3x%dx10", h); plan != want {
			t.Errorf("the binding used the plan %q, want %q", plan, want)
		}
	}
}

// TestSpecializedFetches runs only the nodes that one output needs, with a specialized plan.
func TestSpecializedFetches(t *testing.T) {
	e := freeEngine(t, freeModel(), &driver.Options{}, 0)
	_, want, err := e.ran(t.Context(), imageOf(1, 11, 10))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	o := &driver.RunOptions{OnlyPathToFetches: true, Observe: func(n driver.NodeRun) {
		if ran++; n.Plan != "x=1x3x11x10" || n.OpType == "BlockedGlobalAveragePool" {
			t.Errorf("node %s of the plan %q ran", n.OpType, n.Plan)
		}
	}}
	req := &driver.Request{In: []tensor.Value{imageOf(1, 11, 10)}, Out: make([]tensor.Value, 2),
		Wanted: []bool{true, false}, Options: o}
	if err := e.Run(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if err := tensor.AllClose(req.Out[0], want[0], 0, 0); err != nil || req.Out[1] != nil || ran == 0 {
		t.Errorf("%d nodes, outputs %v, difference %v", ran, req.Out[1], err)
	}
}
