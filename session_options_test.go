package onward_test

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
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// scaled computes y = x·w + x and z = −x for x of [batch,3].
func scaled() *onnx.ModelBuilder {
	b := onnx.NewModel("scaled").Opset("", 21)
	b.Input("x", onnx.Float, "batch", 3)
	b.Initializer("w", []float32{1, 2, 3}, 3)
	b.Node("Mul", []string{"x", "w"}, []string{"m"})
	b.Node("Add", []string{"m", "x"}, []string{"y"})
	b.Node("Neg", []string{"x"}, []string{"z"})
	b.Output("y", onnx.Float, "batch", 3).Output("z", onnx.Float, "batch", 3)
	return b
}

// onBoth runs a test on cpu and on reference.
func onBoth(t *testing.T, fn func(t *testing.T, o *onward.SessionOptions)) {
	for _, p := range []string{"cpu", "reference"} {
		t.Run(p, func(t *testing.T) { fn(t, enginetest.On(p)) })
	}
}

func row(v ...float32) onward.Values {
	return onward.Values{"x": tensor.Must(tensor.New(v, len(v)/3, 3))}
}

func TestFreeDimensions(t *testing.T) {
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		o.FreeDimensions = map[string]int64{"batch": 2}
		s := enginetest.Open(t, scaled().Must(), o)
		if got := s.Inputs()[0].String() + " " +
			s.Outputs()[0].String(); got != "x: tensor(float)[2,3] y: tensor(float)[2,3]" {
			t.Errorf("arguments are %s", got)
		}
		if _, err := s.Run(context.Background(), row(1, 1, 1), nil); err == nil ||
			!strings.Contains(err.Error(), "index: 0 Got: 1 Expected: 2") {
			t.Errorf("a batch of 1 gives %v", err)
		}
		out, err := s.Run(context.Background(), row(1, 1, 1, 2, 2, 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := enginetest.Floats(t, out["y"]); !slices.Equal(got, []float32{2, 3, 4, 4, 6, 8}) {
			t.Errorf("y = %v", got)
		}
	})
	m := scaled().Must()
	m.Graph.Inputs[0].Type.Tensor.Shape.Dims[0].Denotation = "DATA_BATCH"
	m.Graph.Inputs[0].Type.Tensor.Shape.Dims[1].Denotation = "DATA_FEATURE"
	s := enginetest.Open(t, m,
		&onward.SessionOptions{FreeDimensionsByDenotation: map[string]int64{"DATA_BATCH": 1, "DATA_FEATURE": 3}})
	if got := s.Inputs()[0].Shape[0].Value; got != 1 {
		t.Errorf("the batch is %d, want 1", got)
	}
	if got := s.Outputs()[0].Shape[0].Value; got != 1 {
		t.Errorf("the batch of the output is %d, want 1: it has the name of the input's", got)
	}
	if m.Graph.Inputs[0].Type.Tensor.Shape.Dims[0].Param != "batch" {
		t.Error("the caller's model was changed")
	}
	for _, bad := range []*onward.SessionOptions{
		{FreeDimensions: map[string]int64{"batch": -1}},
		{FreeDimensionsByDenotation: map[string]int64{"DATA_FEATURE": 4}},
		{FreeDimensions: map[string]int64{"batch": 2, "bach": 2}},
		{FreeDimensions: map[string]int64{"DATA_BATCH": 2}},
		{FreeDimensionsByDenotation: map[string]int64{"batch": 4}},
		{FreeDimensions: map[string]int64{"": 2}},
	} {
		if _, err := onward.OpenModel(t.Context(), m, bad); !errors.Is(err, onward.ErrInvalidArgument) {
			t.Errorf("%v: error is %v", bad, err)
		}
	}
}

func TestInitializers(t *testing.T) {
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		o.Initializers = onward.Values{"w": tensor.Must(tensor.New([]float32{-1, -1, 0}, 3))}
		s := enginetest.Open(t, scaled().Must(), o)
		out, err := s.Run(context.Background(), row(1, 2, 3), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := enginetest.Floats(t, out["y"]); !slices.Equal(got, []float32{0, 0, 3}) {
			t.Errorf("y = %v", got)
		}
	})
	w := tensor.Must(tensor.New([]float32{1, 1, 1}, 3))
	for name, o := range map[string]*onward.SessionOptions{
		"has no initializer":       {Initializers: onward.Values{"v": w}},
		"float[3] in the mod":      {Initializers: onward.Values{"w": tensor.Must(tensor.New([]float32{1, 1, 1}, 1, 3))}},
		"got a value of double[3]": {Initializers: onward.Values{"w": tensor.Must(tensor.New([]float64{1, 1, 1}, 3))}},
		"must be a tensor":         {Initializers: onward.Values{"w": &tensor.Optional{Elem: w.Type(), Value: w}}},
		"is not stored externally": {ExternalInitializers: onward.Values{"w": w}},
	} {
		if _, err := onward.OpenModel(t.Context(), scaled().Must(), o); !errors.Is(err, onward.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("want an error that says %q, got %v", name, err)
		}
	}
}

func TestExternalInitializers(t *testing.T) {
	m := scaled().Must()
	m.Graph.Initializers[0] = &onnx.Tensor{Name: "w", Dims: []int64{3}, DataType: onnx.Float,
		DataLocation: onnx.LocationExternal,
		ExternalData: []onnx.StringStringEntry{{Key: "location", Value: "absent.bin"}}}
	path := filepath.Join(t.TempDir(), "m.onnx")
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := onward.Open(t.Context(), path, nil); err == nil {
		s.Close()
		t.Error("the model opens without its weights")
	}
	s, err := onward.Open(t.Context(), path,
		&onward.SessionOptions{
			ExternalInitializers: onward.Values{"w": tensor.Must(tensor.New([]float32{1, 2, 3}, 3))}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), row(1, 1, 1), nil)
	if err != nil || !slices.Equal(enginetest.Floats(t, out["y"]), []float32{2, 3, 4}) {
		t.Errorf("y = %v, %v", out, err)
	}
}

// This test checks that only the nodes that a wanted output depends on run, and that full
// runs in between are not affected.
func TestOnlyPathToFetches(t *testing.T) {
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		s := enginetest.Open(t, scaled().Must(), o)
		for i := range 12 {
			var ran []string
			opts := &onward.RunOptions{Outputs: []string{"z"}, OnlyPathToFetches: i%3 != 0,
				Observe: func(n onward.NodeRun) { ran = append(ran, n.OpType) }}
			if i%3 == 2 {
				opts.Outputs = []string{"y"}
			}
			out, err := s.Run(context.Background(), row(1, 2, float32(i)), opts)
			if err != nil {
				t.Fatal(err)
			}
			name, want := "z", []float32{-1, -2, -float32(i)}
			if i%3 == 2 {
				name, want = "y", []float32{2, 6, 4 * float32(i)}
			}
			if got := enginetest.Floats(t, out[name]); len(out) != 1 || !slices.Equal(got, want) {
				t.Errorf("run %d: %s = %v, want %v", i, name, got, want)
			}
			if all := i%3 == 0; all != slices.Contains(ran, "Neg") && i%3 == 2 || i%3 == 1 &&
				!slices.Equal(ran, []string{"Neg"}) {
				t.Errorf("run %d: nodes %v", i, ran)
			}
		}
	})
}

func TestMemorySwitches(t *testing.T) {
	for _, o := range []onward.SessionOptions{{DisableMemoryPattern: true}, {DisableMemoryReuse: true},
		{DisableMemoryArena: true}} {
		s := enginetest.Open(t, scaled().Must(), &o)
		for i := range 5 {
			out, err := s.Run(context.Background(), row(1, 2, float32(i)), nil)
			if err != nil || !slices.Equal(enginetest.Floats(t, out["y"]), []float32{2, 6, 4 * float32(i)}) {
				t.Errorf("y = %v, %v", out, err)
			}
		}
	}
}

func TestOptimizationLevels(t *testing.T) {
	ops := func(o *onward.SessionOptions) (r []string) {
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Float, 2, 3).Output("y", onnx.Float, 2, 4)
		b.Initializer("w", make([]float32, 12), 3, 4)
		b.Node("Identity", []string{"x"}, []string{"i"})
		b.Node("Sigmoid", []string{"i"}, []string{"s"})
		b.Node("Mul", []string{"i", "s"}, []string{"g"})
		b.Node("MatMul", []string{"g", "w"}, []string{"y"})
		s := enginetest.Open(t, b.Must(), o)
		if _, err := s.Run(context.Background(), row(1, 2, 3, 4, 5, 6),
			&onward.RunOptions{Observe: func(n onward.NodeRun) { r = append(r, n.OpType) }}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		o    onward.SessionOptions
		want string
	}{
		{onward.SessionOptions{OptimizationLevel: onward.OptimizeNone}, "Identity Sigmoid Mul MatMul"},
		{onward.SessionOptions{OptimizationLevel: onward.OptimizeBasic}, "Sigmoid Mul MatMul"},
		{onward.SessionOptions{OptimizationLevel: onward.OptimizeExtended}, "Silu MatMul"},
		{onward.SessionOptions{}, "Silu Linear"},
		{onward.SessionOptions{DisabledPasses: []string{"fuse-linear", "identity"}}, "Identity Silu MatMul"},
		{onward.SessionOptions{Config: map[string]string{onward.ConfigDisabledPasses: "fuse-linear; fuse-activation", "session.unheard_of": "1"}}, "Sigmoid Mul MatMul"},
		{onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}}, "Identity Sigmoid Mul MatMul"},
	} {
		if got := strings.Join(ops(&c.o), " "); got != c.want {
			t.Errorf("%v %v: nodes %s, want %s", c.o.OptimizationLevel, c.o.DisabledPasses, got, c.want)
		}
	}
	for _, p := range onward.OptimizationPasses() {
		if p.Doc == "" || p.Level == onward.OptimizeNone {
			t.Errorf("%+v", p)
		}
	}
	var l onward.OptimizationLevel
	if err := l.UnmarshalText([]byte("basic")); err != nil || l != onward.OptimizeBasic {
		t.Errorf("basic is %v, %v", l, err)
	}
	if err := l.UnmarshalText([]byte("most")); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("error is %v", err)
	}
}

func TestProfiling(t *testing.T) {
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		o.EnableProfiling, o.ProfilePrefix = true, filepath.Join(t.TempDir(), "run")
		s := enginetest.Open(t, scaled().Must(), o)
		if at, err := s.ProfilingStart(); err != nil || at <= 0 {
			t.Errorf("profiling began at %d, %v", at, err)
		}
		for range 3 {
			if _, err := s.Run(context.Background(), row(1, 2, 3), nil); err != nil {
				t.Fatal(err)
			}
		}
		name, err := s.EndProfiling()
		if err != nil || !strings.HasPrefix(name, o.ProfilePrefix+"_") || !strings.HasSuffix(name, ".json") {
			t.Fatalf("the profile is %q, %v", name, err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var events []struct {
			Cat, Ph, Name string
			Dur, TS       float64
			Args          struct {
				OpName   string `json:"op_name"`
				Provider string
				Out      []map[string][]int `json:"output_type_shape"`
			}
		}
		if err := json.Unmarshal(data, &events); err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		count := map[string]int{}
		for _, e := range events {
			if e.Ph != "X" || e.Dur < 0 || e.TS < 0 {
				t.Errorf("%+v", e)
			}
			if count[e.Cat+" "+e.Name+e.Args.OpName]++; e.Cat != "Node" {
				continue
			}
			if shape := e.Args.Out[0]["float"]; e.Args.Provider != s.Provider() || !slices.Equal(shape, []int{1, 3}) {
				t.Errorf("%+v", e)
			}
		}
		if count["Session model_run"] != 3 || count["Session session_initialization"] != 1 || len(events) < 3*2+4 {
			t.Errorf("events: %v", count)
		}
		if again, err := s.EndProfiling(); again != "" || err != nil {
			t.Errorf("a second time: %q, %v", again, err)
		}
	})
	// Closing a session ends its profile.
	dir := t.TempDir()
	s := enginetest.Open(t, scaled().Must(),
		&onward.SessionOptions{EnableProfiling: true, ProfilePrefix: filepath.Join(dir, "p")})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "p_*.json")); len(list) != 1 {
		t.Errorf("profiles: %v", list)
	}
}

func TestLog(t *testing.T) {
	var log bytes.Buffer
	o := &onward.SessionOptions{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), LogID: "s1", LogSeverity: onward.LogVerbose, LogVerbosity: 1}
	s := enginetest.Open(t, scaled().Must(), o)
	if _, err := s.Run(context.Background(), row(1, 2, 3), &onward.RunOptions{Tag: "r1"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"session created", "provider=cpu", "run=r1", "session=s1", "op=Neg", "run ends"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log has no %q:\n%s", want, log.String())
		}
	}
	log.Reset()
	o.LogSeverity = onward.LogDefault
	quiet := enginetest.Open(t, scaled().Must(), o)
	if _, err := quiet.Run(context.Background(), row(1, 2, 3), nil); err != nil || log.Len() > 0 {
		t.Errorf("%v, log:\n%s", err, log.String())
	}
	if _, err := quiet.Run(context.Background(), row(1, 2, 3),
		&onward.RunOptions{LogSeverity: onward.LogVerbose}); err != nil ||
		!strings.Contains(log.String(), "run begins") {
		t.Errorf("%v, log:\n%s", err, log.String())
	}
	log.Reset()
	onward.SetDefaultLogSeverity(onward.LogInfo)
	onward.SetDefaultLogger(o.Logger)
	defer onward.SetDefaultLogSeverity(onward.LogDefault)
	defer onward.SetDefaultLogger(nil)
	enginetest.Open(t, scaled().Must(), nil)
	if !strings.Contains(log.String(), "session created") {
		t.Errorf("log:\n%s", log.String())
	}
	for s, want := range map[onward.LogSeverity]slog.Level{onward.LogVerbose: slog.LevelDebug,
		onward.LogInfo: slog.LevelInfo, onward.LogWarning: slog.LevelWarn, onward.LogError: slog.LevelError, onward.LogFatal: slog.LevelError + 4} {
		if s.Level() != want {
			t.Errorf("severity %d has level %v, want %v", s, s.Level(), want)
		}
	}
}

func TestSeed(t *testing.T) {
	b := onnx.NewModel("random").Opset("", 21)
	b.Output("y", onnx.Float, 8)
	b.Node("RandomNormal", nil, []string{"y"}, onnx.Attrs{"shape": []int64{8}})
	draw := func(opts *onward.RunOptions) []float32 {
		s := enginetest.Open(t, b.Must(), nil)
		out, err := s.Run(context.Background(), nil, opts)
		if err != nil {
			t.Fatal(err)
		}
		return enginetest.Floats(t, out["y"])
	}
	first := draw(nil)
	onward.SetSeed(42)
	defer onward.SetSeed(0)
	if onward.DefaultSeed() != 42 {
		t.Error("the seed is not kept")
	}
	second := draw(nil)
	if slices.Equal(first, second) || !slices.Equal(second, draw(nil)) ||
		!slices.Equal(second, draw(&onward.RunOptions{Seed: 42})) ||
		slices.Equal(second, draw(&onward.RunOptions{Seed: 7})) {
		t.Error("the default seed does not decide")
	}
}

// This test checks that session.intra_op.allow_spinning=0, with which threads sleep between
// parallel sections, does not change results.
func TestSessionWithoutSpinning(t *testing.T) {
	const n = 1 << 18
	b := onnx.NewModel("exp").Opset("", 21)
	b.Input("x", onnx.Float, n)
	b.Output("y", onnx.Float, n)
	b.Node("Exp", []string{"x"}, []string{"y"})
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%200)/10 - 10
	}
	in := onward.Values{"x": tensor.Must(tensor.New(x, n))}
	var want []byte
	for _, threads := range []int{1, 0, 3} {
		s := enginetest.Open(t, b.Must(),
			&onward.SessionOptions{Threads: threads, Config: map[string]string{onward.ConfigAllowSpinning: "0"}})
		for range 20 {
			out, err := s.Run(context.Background(), in, nil)
			if err != nil {
				t.Fatal(err)
			}
			y := out["y"].(*tensor.Tensor).Bytes()
			if want == nil {
				want = y
			}
			if !bytes.Equal(y, want) {
				t.Fatalf("%d threads: results differ from those of one", threads)
			}
		}
	}
}
