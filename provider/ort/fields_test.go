package ort_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// scaled is y = x·w + x for x of [batch,3].
func scaled() *onnx.Model {
	b := onnx.NewModel("scaled").Opset("", 18).IRVersion(8)
	b.Input("x", onnx.Float, "batch", 3)
	b.Initializer("w", []float32{1, 2, 3}, 3)
	b.Node("Identity", []string{"x"}, []string{"i"})
	b.Node("Mul", []string{"i", "w"}, []string{"m"})
	b.Node("Add", []string{"m", "i"}, []string{"y"})
	b.Output("y", onnx.Float, "batch", 3)
	m := b.Must()
	m.Graph.Inputs[0].Type.Tensor.Shape.Dims[0].Denotation = "DATA_BATCH"
	return m
}

func openWith(t *testing.T, m *onnx.Model, o *onward.SessionOptions) *onward.Session {
	t.Helper()
	if o.Providers == nil {
		o.Providers = []onward.ProviderConfig{config(t)}
	}
	o.Threads = 1
	s, err := onward.OpenModel(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func rowOf(v ...float32) onward.Values {
	return onward.Values{"x": tensor.Must(tensor.New(v, len(v)/3, 3))}
}

func wantY(t *testing.T, s *onward.Session, opts *onward.RunOptions, x []float32, want ...float32) {
	t.Helper()
	out, err := s.Run(context.Background(), rowOf(x...), opts)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tensor.Data[float32](out["y"]); err != nil || !slices.Equal(got, want) {
		t.Errorf("y = %v, %v, want %v", got, err, want)
	}
}

// Every field is passed to ONNX Runtime: all of these runs succeed with the right results.
func TestFieldsReachONNXRuntime(t *testing.T) {
	dir := t.TempDir()
	for name, o := range map[string]*onward.SessionOptions{
		"threads":     {InterOpThreads: 2, ExecutionMode: onward.ExecutionParallel},
		"none":        {OptimizationLevel: onward.OptimizeNone},
		"basic":       {OptimizationLevel: onward.OptimizeBasic},
		"extended":    {OptimizationLevel: onward.OptimizeExtended},
		"passes":      {DisabledPasses: []string{"ConstantFolding"}, Config: map[string]string{onward.ConfigDisabledPasses: "MatMulAddFusion"}},
		"memory":      {DisableMemoryArena: true, DisableMemoryPattern: true},
		"same values": {Deterministic: true},
		"entry":       {Config: map[string]string{"session.intra_op.allow_spinning": "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			o.OptimizedModelPath = filepath.Join(dir, strings.ReplaceAll(name, " ", "_")+".onnx")
			s := openWith(t, scaled(), o)
			shrink := &onward.RunOptions{Config: map[string]string{"memory.enable_memory_arena_shrinkage": "cpu:0"}}
			if o.DisableMemoryArena {
				if _, err := s.Run(context.Background(), rowOf(1, 1, 1), shrink); err == nil ||
					!strings.Contains(err.Error(), "arena") {
					t.Errorf("shrinking an arena that does not exist: %v", err)
				}
				shrink = nil
			}
			wantY(t, s, shrink, []float32{1, 1, 1}, 2, 3, 4)
			saved, err := onnx.ReadFile(o.OptimizedModelPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer saved.Close()
			identity := slices.ContainsFunc(saved.Graph.Nodes, func(n *onnx.Node) bool {
				return n.OpType == "Identity"
			})
			if want := o.OptimizationLevel == onward.OptimizeNone; identity != want {
				t.Errorf("the saved model has Identity: %v, want %v", identity, want)
			}
		})
	}
}

func TestOptionOfTheProviderWins(t *testing.T) {
	c := config(t, "graph_optimization_level", "disable")
	path := filepath.Join(t.TempDir(), "m.onnx")
	openWith(t, scaled(), &onward.SessionOptions{Providers: []onward.ProviderConfig{c}, OptimizedModelPath: path})
	saved, err := onnx.ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	if saved.Graph.Nodes[0].OpType != "Identity" {
		t.Errorf("the first node is %s", saved.Graph.Nodes[0].OpType)
	}
}

func TestFixedDimensions(t *testing.T) {
	for _, o := range []*onward.SessionOptions{{FreeDimensions: map[string]int64{"batch": 2}},
		{FreeDimensionsByDenotation: map[string]int64{"DATA_BATCH": 2}}} {
		s := openWith(t, scaled(), o)
		wantY(t, s, nil, []float32{1, 1, 1, 2, 2, 2}, 2, 3, 4, 4, 6, 8)
		if _, err := s.Run(context.Background(), rowOf(1, 1, 1), nil); !errors.Is(err, onward.ErrInvalidArgument) {
			t.Errorf("a batch of 1 gives %v", err)
		}
	}
}

func TestGivenInitializers(t *testing.T) {
	w := tensor.Must(tensor.New([]float32{-1, 0, 1}, 3))
	s := openWith(t, scaled(), &onward.SessionOptions{Initializers: onward.Values{"w": w}})
	wantY(t, s, nil, []float32{1, 2, 3}, 0, 2, 6)

	m := scaled()
	m.Graph.Initializers[0] = &onnx.Tensor{Name: "w", Dims: []int64{3}, DataType: onnx.Float,
		DataLocation: onnx.LocationExternal,
		ExternalData: []onnx.StringStringEntry{{Key: "location", Value: "absent.bin"}}}
	s = openWith(t, m, &onward.SessionOptions{ExternalInitializers: onward.Values{"w": w}})
	wantY(t, s, nil, []float32{1, 2, 3}, 0, 2, 6)
}

func TestProfileOfONNXRuntime(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "prof")
	s := openWith(t, scaled(), &onward.SessionOptions{EnableProfiling: true, ProfilePrefix: prefix})
	wantY(t, s, nil, []float32{1, 1, 1}, 2, 3, 4)
	if at, err := s.ProfilingStart(); err != nil || at <= 0 {
		t.Errorf("profiling began at %d, %v", at, err)
	}
	name, err := s.EndProfiling()
	if err != nil || !strings.HasPrefix(name, prefix) {
		t.Fatalf("the profile is %q, %v", name, err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct{ Cat, Name string }
	if err := json.Unmarshal(data, &events); err != nil ||
		!slices.ContainsFunc(events, func(e struct{ Cat, Name string }) bool { return e.Cat == "Node" }) {
		t.Errorf("%v: %s", err, data)
	}
}

// safeBuffer is written by ONNX Runtime's threads.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestLogOfONNXRuntime(t *testing.T) {
	var log, other safeBuffer
	logger := func(b *safeBuffer) *slog.Logger {
		return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s := openWith(t, scaled(),
		&onward.SessionOptions{Logger: logger(&log), LogID: "mine", LogSeverity: onward.LogVerbose})
	quiet := openWith(t, scaled(), &onward.SessionOptions{Logger: logger(&other), LogSeverity: onward.LogError})
	wantY(t, quiet, nil, []float32{1, 1, 1}, 2, 3, 4)
	wantY(t, s, &onward.RunOptions{Tag: "first", LogSeverity: onward.LogVerbose}, []float32{1, 1, 1}, 2, 3, 4)
	for _, want := range []string{"category=onnxruntime", "session=mine", "run=first", "level=INFO"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log has no %q:\n%s", want, log.String())
		}
	}
	if other.String() != "" {
		t.Errorf("the other session's log is\n%s", other.String())
	}
}

// acme is a model with two nodes of one custom operator, one of them in a branch of
// an If, and with an omitted optional input.
func acme() *onnx.Model {
	branch := onnx.NewGraph("then")
	branch.Node("Scale", []string{"x", "bias"}, []string{"t"}, onnx.Attrs{"by": float32(10)}).Domain("acme")
	branch.Output("t", onnx.Float, "batch", 3)
	other := onnx.NewGraph("else")
	other.Node("Identity", []string{"x"}, []string{"e"})
	other.Output("e", onnx.Float, "batch", 3)
	b := onnx.NewModel("acme").Opset("", 18).Opset("acme", 1).IRVersion(8)
	b.Input("x", onnx.Float, "batch", 3).Input("c", onnx.Bool)
	b.Initializer("bias", []float32{1, 1, 1}, 3)
	b.Node("If", []string{"c"}, []string{"z"}, onnx.Attrs{"then_branch": branch, "else_branch": other})
	b.Node("Scale", []string{"z"}, []string{"y", "names"}, onnx.Attrs{"by": float32(2), "label": "n"}).Domain("acme")
	b.Output("y", onnx.Float, "batch", 3).Output("names", onnx.String, 2)
	return b.Must()
}

func scaleOp(fail *error) onward.CustomOperator {
	return onward.CustomOperator{Domain: "acme", Name: "Scale", Inputs: "x:T, bias:T?", Outputs: "y:T, names:string?",
		Types: map[string]string{"T": "float double"},
		Run: func(_ context.Context, c onward.CustomCall) ([]tensor.Value, error) {
			if *fail != nil {
				return nil, *fail
			}
			y := c.In[0].(*tensor.Tensor).Clone()
			d := tensor.MustData[float32](y)
			for i := range d {
				d[i] *= c.Attributes["by"].(float32)
				if len(c.In) > 1 && c.In[1] != nil {
					d[i] += tensor.MustData[float32](c.In[1].(*tensor.Tensor))[i%3]
				}
			}
			label, _ := c.Attributes["label"].(string)
			names, err := tensor.New([]string{label, "größer"}, 2)
			return []tensor.Value{y, names}[:c.Outputs], err
		}}
}

// Custom operators written in Go give the same results on ONNX Runtime as on the Go
// engine, and their errors are returned.
func TestCustomOperators(t *testing.T) {
	for _, p := range []onward.ProviderConfig{config(t), {Name: "cpu"}} {
		var fail error
		s := openWith(t, acme(), &onward.SessionOptions{Providers: []onward.ProviderConfig{p},
			CustomOperators: []onward.CustomOperator{scaleOp(&fail)}})
		var wg sync.WaitGroup
		for k := range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 20 {
					feed := rowOf(1, 2, float32(k))
					feed["c"] = tensor.Scalar(k%2 == 0)
					out, err := s.Run(context.Background(), feed, nil)
					if err != nil {
						t.Error(err)
						return
					}
					want := []float32{2, 4, 2 * float32(k)}
					if k%2 == 0 {
						want = []float32{22, 42, 20*float32(k) + 2}
					}
					y, _ := tensor.Data[float32](out["y"])
					names, _ := tensor.Data[string](out["names"])
					if !slices.Equal(y, want) || !slices.Equal(names, []string{"n", "größer"}) {
						t.Errorf("%s: y = %v, want %v, names %q", p.Name, y, want, names)
					}
				}
			}()
		}
		wg.Wait()
		fail = errors.New("out of paint")
		feed := rowOf(1, 2, 3)
		feed["c"] = tensor.Scalar(true)
		if _, err := s.Run(context.Background(), feed, nil); err == nil ||
			!strings.Contains(err.Error(), "out of paint") {
			t.Errorf("%s: error is %v", p.Name, err)
		}
	}
}

func TestCustomOperatorOfSequences(t *testing.T) {
	op := scaleOp(new(error))
	op.Inputs, op.Outputs, op.Types = "x:seq(float)", "y:float", nil
	b := onnx.NewModel("seq").Opset("", 18).Opset("acme", 1).IRVersion(8)
	b.InputType("x", onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32)))).Output("y", onnx.Float, 3)
	b.Node("Scale", []string{"x"}, []string{"y"}).Domain("acme")
	_, err := onward.OpenModel(t.Context(), b.Must(),
		&onward.SessionOptions{Providers: []onward.ProviderConfig{config(t)},
			CustomOperators: []onward.CustomOperator{op}})
	if !errors.Is(err, onward.ErrNotImplemented) || !strings.Contains(err.Error(), "tensors only") {
		t.Errorf("error is %v", err)
	}
}
