package main

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestOperatorsStop cancels a large call of every operator. It is the short form of the family
// cancel: calls of up to 2¹⁸ elements, which end after 20 ms of CPU time. Loops check the
// context within 10 ms; the bound is 30 ms, because caches that other processes use make loops
// several times as slow.
func TestOperatorsStop(t *testing.T) {
	if began := threadTime(); began == threadTime() {
		t.Skip("the CPU time of a thread is not available")
	}
	a, err := newAttack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a.bits, a.budget = 18, 20*time.Millisecond
	old := *longest
	defer func() { *longest = old }()
	*longest = 30 * time.Millisecond
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector's share of the work is not the loops'
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	names, ran := operators(a), 0
	for _, name := range names {
		at, err := protect(func() (*attempt, error) { return tryCancel(a, name, 5) })
		if err != nil {
			text := ""
			if at != nil {
				text = at.text
			}
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if at != nil {
			ran++
		}
	}
	t.Logf("%d of %d operators ran", ran, len(names))
	if ran < len(names)*8/10 {
		t.Errorf("%d of %d operators ran, want most", ran, len(names))
	}
}

// TestLongItemsCheck counts the checks of the context in calls that are one item, such as a softmax
// of one row: the engine checks it between items only.
func TestLongItemsCheck(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 1 << 20
	microsoft := func(c *opfuzz.Case) *opfuzz.Case {
		c.Domain = "com.microsoft"
		return c
	}
	token := func(pattern string) *opfuzz.Case {
		return microsoft(call("Tokenizer", 1, onnx.Attrs{"mark": int64(0), "mincharnum": int64(1), "pad_value": "#",
			"tokenexp": pattern}, texts(strings.Repeat("ab", n/32))))
	}
	row := func(op string) *opfuzz.Case { return call(op, 13, nil, filled(r, tensor.TypeFloat32, 1, n)) }
	for name, c := range map[string]struct {
		c         *opfuzz.Case
		cpu, want int // least numbers of checks on cpu and on reference
	}{
		"softmax":      {row("Softmax"), 15, 20},
		"log softmax":  {row("LogSoftmax"), 15, 20},
		"hardmax":      {row("Hardmax"), 0, 4},
		"layer":        {call("LayerNormalization", 17, nil, filled(r, tensor.TypeFloat32, 1, n), filled(r, tensor.TypeFloat32, n)), 0, 45},
		"instance":     {call("InstanceNormalization", 6, nil, filled(r, tensor.TypeFloat32, 1, 1, n), filled(r, tensor.TypeFloat32, 1), filled(r, tensor.TypeFloat32, 1)), 0, 45},
		"bytes":        {microsoft(call("QLinearSoftmax", 1, onnx.Attrs{"opset": int64(13)}, filled(r, tensor.TypeUint8, 1, n), tensor.Scalar(float32(0.1)), tensor.Scalar(uint8(3)), tensor.Scalar(float32(1.0/256)), tensor.Scalar(uint8(0)))), 45, 45},
		"attention":    {call("Attention", 23, nil, filled(r, tensor.TypeFloat32, 1, 1, 16, 512), filled(r, tensor.TypeFloat32, 1, 1, 1024, 512), filled(r, tensor.TypeFloat32, 1, 1, 1024, 512)), 0, 15},
		"long sums":    {call("MatMul", 13, nil, filled(r, tensor.TypeFloat64, 1, n), filled(r, tensor.TypeFloat64, n, 1)), 8, 0},
		"tokens":       {token("[ab]"), 15, 15},
		"tokens by ^":  {token("^a"), 0, 0},
		"no match":     {token("(a{0,30}){0,30}c"), 100, 100},
		"split string": {call("StringSplit", 20, onnx.Attrs{"delimiter": "a"}, texts(strings.Repeat("ab", n/32))), 30, 30},
	} {
		t.Run(name, func(t *testing.T) {
			m, feed, err := c.c.Model()
			if err != nil {
				t.Fatal(err)
			}
			for provider, want := range map[string]int{"cpu": c.cpu, "reference": c.want} {
				s, err := onward.OpenModel(t.Context(), m,
					&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: provider}}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				w := newWatched(0, time.Hour)
				if _, err := s.Run(w, feed, nil); err != nil {
					t.Fatalf("%s: %v", provider, err)
				}
				if w.calls < want {
					t.Errorf("%s: %d checks of the context, want at least %d", provider, w.calls, want)
				}
				t.Logf("%s: %d checks", provider, w.calls)
			}
		})
	}
}

// A context whose checks stop must be noticed: a case that works for 30 ms between two checks is a
// finding at a bound of 10 ms.
func TestWatchedFindsGap(t *testing.T) {
	old := *longest
	defer func() { *longest = old }()
	*longest = 10 * time.Millisecond
	w := newWatched(0, time.Hour)
	for start := threadTime(); threadTime()-start < 30*time.Millisecond; {
	}
	_ = w.Err()
	if err := w.late("working"); err == nil || !strings.Contains(err.Error(), "without a check") {
		t.Errorf("30 ms without a check: %v", err)
	}
}

// planted is the provider cpu with a fault.
type planted struct {
	driver.Provider
	name  string
	fault func(req *driver.Request) error
}

func (p planted) Name() string { return p.name }

func (p planted) Compile(ctx context.Context, m *driver.Model, o *driver.Options,
	c driver.Config) (driver.Engine, error) {
	c.Name = "cpu"
	e, err := p.Provider.Compile(ctx, m, o, c)
	return plantedEngine{e, p.fault}, err
}

type plantedEngine struct {
	driver.Engine
	fault func(req *driver.Request) error
}

func (e plantedEngine) Run(ctx context.Context, req *driver.Request) error {
	if err := e.Engine.Run(ctx, req); err != nil {
		return err
	}
	return e.fault(req)
}

// TestEndlessLoopIsNoFinding runs a loop without a trip count, whose iterations allocate 16 MiB:
// more than 1 GiB until the deadline, of which it holds little.
func TestEndlessLoopIsNoFinding(t *testing.T) {
	a, err := newAttack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a.engines[1] = "reference"
	body := onnx.NewGraph("body").Input("i", onnx.Int64).Input("c", onnx.Bool).Input("v", onnx.Int64, 1).
		Output("c", onnx.Bool).Output("w", onnx.Int64, 1)
	body.Node("ConstantOfShape", []string{"v"}, []string{"z"})
	body.Node("Shape", []string{"z"}, []string{"w"})
	b := onnx.NewModel("m").Opset("", 22)
	b.Input("v", onnx.Int64, 1).Output("y", onnx.Int64, 1).Initializer("true", true)
	b.Node("Loop", []string{"", "true", "v"}, []string{"y"}, onnx.Attrs{"body": body})
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	feed := map[string]tensor.Value{"v": tensor.Must(tensor.New([]int64{4 << 20}, 1))}
	before := allocated()
	if _, err := compareEngines(a, &attempt{model: m, feed: feed}, false); err != nil {
		t.Error(err)
	}
	if n := allocated() - before; n < 1<<30 {
		t.Skipf("%d MiB were allocated until the deadline, too few to be a finding", n>>20)
	}
}

// garbage keeps an allocation on the heap.
var garbage []byte

// TestMutateFindsPlantedFaults shows that the family mutate can fail. The same mutants pass
// with the right engine.
func TestMutateFindsPlantedFaults(t *testing.T) {
	suite.Dir(t)
	a, err := newAttack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cpu := driver.Lookup("cpu")
	driver.Register(planted{cpu, "test:differs", func(req *driver.Request) error {
		if x, ok := req.Out[0].(*tensor.Tensor); ok && x.DType() == tensor.TypeFloat32 && x.Len() > 0 {
			tensor.MustData[float32](x)[x.Len()-1] += 1
		}
		return nil
	}})
	driver.Register(planted{cpu, "test:refuses", func(*driver.Request) error {
		return driver.Errorf(driver.CodeRuntimeException, "planted")
	}})
	driver.Register(planted{cpu, "test:panics", func(*driver.Request) error { panic("planted") }})
	driver.Register(planted{cpu, "test:allocates", func(*driver.Request) error {
		garbage = make([]byte, 3<<27) // over 1 GiB in three runs, and cleared within the deadline
		garbage = nil
		return nil
	}})
	models := []string{"node/test_add", "node/test_relu", "node/test_softmax_axis_0",
		"node/test_conv_with_strides_padding", "node/test_gemm_all_attributes"}
	for _, c := range []struct{ provider, want string }{
		{"cpu", ""},
		{"test:differs", "elements differ"},
		{"test:refuses", "the engines disagree"},
		{"test:panics", "PANIC"},
		{"test:allocates", "were allocated"},
	} {
		a.engines[1] = c.provider
		found := ""
		rng := rand.New(rand.NewPCG(1, 2))
		for range 60 {
			_, err := protect(func() (*attempt, error) {
				return tryMutate(a, models[rng.IntN(len(models))], rng.Uint64())
			})
			if err != nil {
				found = err.Error()
				break
			}
		}
		if c.want == "" && found != "" || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", c.provider, found, c.want)
		}
	}
}
