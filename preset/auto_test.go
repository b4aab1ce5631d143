package preset_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
)

// auto is a short measurement that remembers nothing, by a clock that only runners advance.
func auto(t testing.TB, names ...string) preset.Auto {
	useClock(t)
	return preset.Auto{Model: preset.From(linear()), InputExample: backend.One(matrix()), Candidates: on(names...),
		NoCache: true, MinDuration: 9 * time.Millisecond, CacheDir: t.TempDir()}
}

func TestAutoTakesTheFastest(t *testing.T) {
	a := auto(t, "test:slow", "test:absent", "test:fast", "test:refusing", "test:failing", "test:wrong", "test:inexact",
		"test:nan", "test:shape", "nothing", "test:fast")
	var told []string
	a.Progress = func(c string) { told = append(told, c) }
	best, report, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer best.Close()
	if got := best.Session.Provider(); got != "test:fast" || !strings.HasPrefix(report.Best, "test:fast") ||
		report.Baseline != "OnwardReference" || report.Cached {
		t.Errorf("it runs on %s; %+v", got, report)
	}
	out, err := best.Run(t.Context(), backend.One(matrix()), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), linearResult)
	for _, c := range []struct {
		name   string
		status preset.Status
		reason string
	}{
		{"test:slow", preset.StatusOK, ""},
		{"test:fast", preset.StatusOK, ""},
		{"test:fast (2)", preset.StatusOK, ""},
		{"test:inexact", preset.StatusOK, ""},
		{"test:absent", preset.StatusSkipped, "the library is missing: get it somewhere"},
		{"nothing", preset.StatusSkipped, `provider "nothing" is not registered`},
		{"test:refusing", preset.StatusFailed, "it refuses the model"},
		{"test:failing", preset.StatusFailed, "it fails"},
		{"test:wrong", preset.StatusWrong, `output "y": tensor: 4 of 4 elements differ`},
		{"test:nan", preset.StatusWrong, `output "y": tensor: 4 of 4 elements differ`},
		{"test:shape", preset.StatusWrong, `output "y"`},
	} {
		r := report.Result(c.name)
		if r == nil || r.Status != c.status || !strings.Contains(r.Reason, c.reason) ||
			(r.Err == nil) != (c.status == preset.StatusOK) {
			t.Errorf("%s: %+v", c.name, r)
			continue
		}
		if ok := c.status == preset.StatusOK; ok != (r.Median > 0) || ok != (r.FPS > 0) {
			t.Errorf("%s: median %v, FPS %v", c.name, r.Median, r.FPS)
		}
	}
	slow, fast := report.Result("test:slow"), report.Result("test:fast")
	if slow.Median < 20*time.Millisecond || fast.Median < time.Millisecond || fast.Median >= slow.Median ||
		slow.Runs >= fast.Runs {
		t.Errorf("slow %+v, fast %+v", slow, fast)
	}
	if e := report.Result("test:inexact").MaxError; e < 3e-4 || e > 5e-4 {
		t.Errorf("the error of the inexact one is %g", e)
	}
	if e := report.Result("test:wrong").MaxError; e < 5 || e > 7 {
		t.Errorf("the error of the wrong one is %g", e)
	}
	for name, r := range runners {
		if left := r.opened.Load() - r.closed.Load(); left != 0 && name != "test:fast" || left > 1 {
			t.Errorf("%d sessions of %s are open", left, name)
		}
	}
	// slow is hopeless after its first block.
	if n := strings.Count(strings.Join(told, "\n"), "test:slow"); n != 1 {
		t.Errorf("test:slow was measured %d times: %q", n, told)
	}
	table := report.String()
	for _, want := range []string{`test:fast.*ok \(fastest\)`, `test:absent +skipped`, `(?m)^test:wrong: output "y"`} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("the table has no %s:\n%s", want, table)
		}
	}
}

func TestAutoTolerance(t *testing.T) {
	a := auto(t, "test:inexact")
	a.Tolerance = 1e-5
	_, report, err := a.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Auto: no backend here runs the model: test:inexact: output") ||
		report.Results[0].Status != preset.StatusWrong {
		t.Errorf("%v, %+v", err, report)
	}
}

// In a model that quantizes activations, a sum that differs in its last bit moves a value by a
// step.
func TestAutoToleranceOfQuantized(t *testing.T) {
	for _, quantizes := range []bool{false, true} {
		b := onnx.NewModel("m")
		b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2)
		b.Initializer("s", []float32{0.1})
		if quantizes {
			b.Node("QuantizeLinear", []string{"x", "s"}, []string{"q"})
			b.Node("DequantizeLinear", []string{"q", "s"}, []string{"d"})
		} else {
			b.Node("Identity", []string{"x"}, []string{"d"})
		}
		a := auto(t, "test:step")
		b.Node("Identity", []string{"d"}, []string{"y"})
		a.Model = preset.From(b.Must())
		best, report, err := a.Open(t.Context())
		if (err == nil) != quantizes {
			t.Errorf("quantizes %v: %v, %+v", quantizes, err, report)
		}
		if err == nil {
			best.Close()
		}
	}
}

func TestAutoErrors(t *testing.T) {
	for _, c := range []struct {
		a    preset.Auto
		want string
	}{
		{preset.Auto{}, "Auto: the field Model is not set"},
		{preset.Auto{Model: preset.From(linear())}, "Auto: InputExample is required for the inputs [x: tensor(float)[n,2]]"},
		{preset.Auto{Model: preset.From(linear()), InputExample: backend.One(vector(1))}, "Auto: InputExample: "},
		{preset.Auto{Model: preset.From(linear()), InputExample: backend.One(matrix()), NoCache: true, Candidates: []preset.Preset{}}, "the list of candidates is empty"},
		{preset.Auto{Model: preset.From(linear()), InputExample: backend.One(matrix()), NoCache: true, Candidates: on("test:absent", "test:refusing")}, "test:absent: the library is missing: get it somewhere\ntest:refusing: "},
	} {
		if _, _, err := c.a.Open(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// TestAutoHang has a candidate whose runs never end.
func TestAutoHang(t *testing.T) {
	h := runners["test:hang"]
	h.hang = make(chan struct{})
	a := auto(t, "test:hang", "test:fast")
	a.Timeout = time.Minute
	h.hangs = func() { now.Advance(time.Minute) }
	best, report, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	best.Close()
	if r := report.Result("test:hang"); report.Best != "test:fast" || r.Status != preset.StatusFailed ||
		!errors.Is(r.Err, context.DeadlineExceeded) || !strings.Contains(r.Reason, "the limit of 1m0s") {
		t.Errorf("%+v", report)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.hangs = cancel
	if _, _, err := a.Open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled context gives %v", err)
	}
	close(h.hang)
	for h.opened.Load() != h.closed.Load() { // else what was given up is not closed when it ends
		time.Sleep(time.Millisecond)
	}
}

// TestAutoOwnEngines lets the real engines of this module compete, in all forms of a
// model.
func TestAutoOwnEngines(t *testing.T) {
	m := linear()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for form, x := range map[string]preset.Model{"model": preset.From(m), "graph": preset.From(m.Graph),
		"bytes": preset.From(data), "path": preset.From(modelFile(t, m)),
		"stream": preset.From(backend.Stream{Reader: bytes.NewReader(data)})} {
		a := preset.Auto{Model: x, InputExample: backend.Named{"x": matrix()},
			Candidates: []preset.Preset{preset.Onward{}, preset.OnwardReference{}}, CacheDir: t.TempDir(), MinDuration: 3 * time.Millisecond}
		best, report, err := a.Open(t.Context())
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		if out, err := best.Run(t.Context(), backend.One(matrix()), nil); err != nil {
			t.Error(err)
		} else {
			wantEqual(t, out.Tensor(0), linearResult)
		}
		best.Close()
		for _, r := range report.Results {
			if r.Status != preset.StatusOK || r.MaxError > 1e-6 {
				t.Errorf("%s: %+v", form, r)
			}
		}
	}
}

type table string

func (s table) WriteFlatBuffers(w io.Writer) error {
	_, err := io.WriteString(w, string(s))
	return err
}

func modelFile(t testing.TB, m *onnx.Model) string {
	t.Helper()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTypes(t *testing.T) {
	seen := map[string]bool{}
	for _, typ := range preset.Types() {
		name := typ.String()
		if got, err := preset.ParseType(strings.ToLower(name)); err != nil || got != typ || seen[name] {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		seen[name] = true
		if automatic := strings.HasPrefix(name, "AUTO"); automatic != (typ.Preset(nil) == nil) ||
			len(typ.Candidates(nil)) == 0 {
			t.Errorf("%s: %v, %v", name, typ.Preset(nil), typ.Candidates(nil))
		}
	}
	for _, want := range []string{"ORT_CPU", "ORT_OPENVINO", "OPENVINO", "AUTO_CPU", "ORT_CUDA", "ORT_TENSORRT",
		"ORT_TENSORRT_FP16", "AUTO_GPU", "CPU", "REFERENCE"} {
		if !seen[want] {
			t.Errorf("there is no type %s", want)
		}
	}
	if _, err := preset.ParseType("TORCH_CPU"); err == nil || !strings.Contains(err.Error(), `unknown type "TORCH_CPU", want one of CPU, REFERENCE, ORT_CPU`) {
		t.Error(err)
	}
	names := func(list []preset.Preset) string {
		var r []string
		for _, p := range list {
			r = append(r, p.Name())
		}
		return strings.Join(r, " ")
	}
	if got := names(preset.TypeAutoCPU.Candidates(nil)); got !=
		"Onward OrtCPU OrtOpenVINOFloat OrtOpenVINOInt8 OpenVINO" {
		t.Error(got)
	}
	if got := names(preset.TypeAutoGPU.Candidates(&preset.CreateOptions{Table: table("t")})); got !=
		"OrtCUDA OrtTensorRTFloat OrtTensorRTFloatOptim OrtTensorRTInt8 OrtTensorRTInt8QDQ" {
		t.Error(got)
	}
	if got := len(preset.TypeAuto.Candidates(nil)); got != 9 {
		t.Errorf("AUTO has %d candidates", got)
	}
	if _, err := preset.Create(t.Context(), linear(), preset.Type(99), nil); err == nil {
		t.Error("type 99 was made")
	}
}

func TestCreateAuto(t *testing.T) {
	useClock(t)
	r, err := preset.Create(t.Context(), linear(), preset.TypeAutoGPU,
		&preset.CreateOptions{InputExample: backend.One(matrix()),
			Auto: preset.Auto{Candidates: on("test:slow", "test:fast"), NoCache: true, MinDuration: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := r.Session.Provider(); got != "test:fast" {
		t.Errorf("AUTO_GPU runs on %s", got)
	}
}

func TestBenchmark(t *testing.T) {
	useClock(t)
	var out bytes.Buffer
	b := &preset.Benchmark{BatchSize: 2, Model: preset.From(linear()), Input: backend.One(matrix()),
		Backends: on("test:fast", "test:failing", "test:absent", "cpu"),
		Warmup:   1, Repeat: 4, Number: 3, Verbose: true, Output: &out}
	before := runners["test:fast"].runCount.Load()
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if runs := runners["test:fast"].runCount.Load() - before; runs != 1+4*3 {
		t.Errorf("%d runs, want %d", runs, 1+4*3)
	}
	if want := regexp.MustCompile(`^Benchmarking: test:fast\.\.\. OK
Benchmarking: test:failing\.\.\. FAILED \(RuntimeException=.*it fails\)
Benchmarking: test:absent\.\.\. FAILED \(Error=test:absent: the library is missing: get it somewhere\)
Benchmarking: cpu\.\.\. OK
$`); !want.MatchString(out.String()) {
		t.Errorf("it says %q", out.String())
	}
	r := b.Results()
	if len(r) != 4 || r[0].Err != nil || r[1].Err == nil || r[2].Err == nil || r[3].Err != nil {
		t.Fatalf("%+v", r)
	}
	f := r[0]
	if f.MSPerBatch < 1 || f.MSPerBatch > 1.01 || f.MSPerSample != f.MSPerBatch/2 || f.FPS < 1999/f.MSPerBatch ||
		f.FPS > 2001/f.MSPerBatch || f.StdevMS < 0 {
		t.Errorf("%+v", f)
	}
	out.Reset()
	if err := b.Print(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`Batch size +2\n`, `Warmup +1\nRepeat +4\nNumber +3\n`, `backend +FPS +ms per sample +ms per batch +stdev ms\n`, `test:fast +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+\n`, `test:failing \(FAILED\)\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := (&preset.Benchmark{Model: preset.From(linear()), Number: -1}).Run(t.Context()); err == nil {
		t.Error("a negative number was taken")
	}
}
