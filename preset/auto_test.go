package preset_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	"github.com/onward-ml/onward/tensor"
)

// runner is a provider whose duration and result of runs the test chooses.
type runner struct {
	name  string
	takes time.Duration
	// takesNext, if set, returns the time of the runs of the next session.
	takesNext func() time.Duration
	missing   error
	compile   error
	run       error
	spoil     func(out []tensor.Value)
	hang      chan struct{} // runs wait for its end, whatever their context says
	hangs     func()        // is called before a run that hangs
	opened    atomic.Int32
	closed    atomic.Int32
	runCount  atomic.Int32
	version   string
}

func (r *runner) Needs() string { return "nothing" }

func (r *runner) Library(driver.Config) (*driver.Library, error) {
	return &driver.Library{Version: r.version}, nil
}

func (r *runner) Name() string                  { return r.name }
func (r *runner) Available(driver.Config) error { return r.missing }

func (r *runner) Compile(ctx context.Context, m *driver.Model, opts *driver.Options, _ driver.Config) (driver.Engine, error) {
	if r.compile != nil {
		return nil, r.compile
	}
	e, err := driver.Lookup("reference").Compile(ctx, m, opts, onward.ProviderConfig{Name: "reference"})
	if err == nil {
		r.opened.Add(1)
	}
	if r.takesNext != nil && err == nil {
		r.takes = r.takesNext()
	}
	return &running{e, r}, err
}

type running struct {
	driver.Engine
	r *runner
}

func (e *running) Run(ctx context.Context, req *driver.Request) error {
	e.r.runCount.Add(1)
	if e.r.hang != nil {
		e.r.hangs()
		<-e.r.hang
	}
	if e.r.run != nil {
		return e.r.run
	}
	if now != nil {
		now.Advance(e.r.takes)
	}
	err := e.Engine.Run(ctx, req)
	if err == nil && e.r.spoil != nil {
		e.r.spoil(req.Out)
	}
	return err
}

func (e *running) Close() error {
	e.r.closed.Add(1)
	return e.Engine.Close()
}

// now is the clock of the tests that measure runners.
var now *preset.Clock

var runners = map[string]*runner{}

func init() {
	for _, r := range []*runner{
		{name: "test:fast", takes: time.Millisecond},
		{name: "test:slow", takes: 20 * time.Millisecond},
		{name: "test:absent", missing: errors.New("the library is missing: get it somewhere")},
		{name: "test:refusing", compile: errors.New("it refuses the model")},
		{name: "test:failing", run: errors.New("it fails")},
		{name: "test:wrong", spoil: func(out []tensor.Value) { out[0] = vectorLike(out[0], 100) }},
		{name: "test:inexact", takes: 3 * time.Millisecond, spoil: func(out []tensor.Value) { out[0] = vectorLike(out[0], 16.1*4e-4) }},
		{name: "test:nan", spoil: func(out []tensor.Value) { out[0] = vectorLike(out[0], nan()) }},
		{name: "test:shape", spoil: func(out []tensor.Value) { out[0] = vector(1) }},
		{name: "test:hang"},
	} {
		runners[r.name] = r
		driver.Register(r)
	}
}

func nan() float32 { var z float32; return z / z }

// vectorLike is a tensor of float32 with something added to every element.
func vectorLike(v tensor.Value, add float32) tensor.Value {
	t := v.(*tensor.Tensor).Clone()
	x := tensor.Of[float32](t)
	for i := range x {
		x[i] += add
	}
	return t
}

func on(names ...string) []preset.Preset {
	var p []preset.Preset
	for _, n := range names {
		p = append(p, preset.Registered{Provider: n})
	}
	return p
}

// useClock lets the test measure by a clock that only runners advance.
func useClock(t testing.TB) {
	now = preset.UseClock(t)
	t.Cleanup(func() { now = nil })
}

// auto is a short measurement that remembers nothing, by a clock that only runners advance.
func auto(t testing.TB, names ...string) preset.Auto {
	useClock(t)
	return preset.Auto{Model: preset.From(linear()), InputExample: backend.One(matrix()), Candidates: on(names...), NoCache: true, MinDuration: 9 * time.Millisecond, CacheDir: t.TempDir()}
}

func TestAutoTakesTheFastest(t *testing.T) {
	a := auto(t, "test:slow", "test:absent", "test:fast", "test:refusing", "test:failing", "test:wrong", "test:inexact", "test:nan", "test:shape", "nothing", "test:fast")
	var told []string
	a.Progress = func(c string) { told = append(told, c) }
	best, report, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer best.Close()
	if got := best.Session.Provider(); got != "test:fast" || !strings.HasPrefix(report.Best, "test:fast") || report.Baseline != "OnwardReference" || report.Cached {
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
		if r == nil || r.Status != c.status || !strings.Contains(r.Reason, c.reason) || (r.Err == nil) != (c.status == preset.StatusOK) {
			t.Errorf("%s: %+v", c.name, r)
			continue
		}
		if ok := c.status == preset.StatusOK; ok != (r.Median > 0) || ok != (r.FPS > 0) {
			t.Errorf("%s: median %v, FPS %v", c.name, r.Median, r.FPS)
		}
	}
	slow, fast := report.Result("test:slow"), report.Result("test:fast")
	if slow.Median < 20*time.Millisecond || fast.Median < time.Millisecond || fast.Median >= slow.Median || slow.Runs >= fast.Runs {
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
	if err == nil || !strings.Contains(err.Error(), "Auto: no backend here runs the model: test:inexact: output") || report.Results[0].Status != preset.StatusWrong {
		t.Errorf("%v, %+v", err, report)
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
	if r := report.Result("test:hang"); report.Best != "test:fast" || r.Status != preset.StatusFailed || !errors.Is(r.Err, context.DeadlineExceeded) || !strings.Contains(r.Reason, "the limit of 1m0s") {
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
	for form, x := range map[string]preset.Model{"model": preset.From(m), "graph": preset.From(m.Graph), "bytes": preset.From(data), "path": preset.From(modelFile(t, m)),
		"stream": preset.From(backend.Stream{Reader: bytes.NewReader(data)})} {
		a := preset.Auto{Model: x, InputExample: backend.Named{"x": matrix()}, Candidates: []preset.Preset{preset.Onward{}, preset.OnwardReference{}}, CacheDir: t.TempDir(), MinDuration: 3 * time.Millisecond}
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

// TestAutoRemembers checks what the memory of a choice depends on.
func TestAutoRemembers(t *testing.T) {
	fast := runners["test:fast"]
	a := auto(t, "test:slow", "test:fast")
	a.NoCache = false
	open := func(a preset.Auto) (*preset.Report, int32) {
		t.Helper()
		before := fast.runCount.Load()
		best, report, err := a.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		best.Close()
		if report.Best != "test:fast" || report.CacheError != "" {
			t.Errorf("%+v", report)
		}
		return report, fast.runCount.Load() - before
	}
	first, _ := open(a)
	again, runs := open(a)
	if first.Cached || !again.Cached || runs != 0 {
		t.Errorf("first %v, again %v with %d runs", first.Cached, again.Cached, runs)
	}
	for i, r := range again.Results {
		if f := first.Results[i]; r.Name != f.Name || r.Median != f.Median || r.Runs != f.Runs || r.MaxError != f.MaxError {
			t.Errorf("result %d is %+v, was %+v", i, r, f)
		}
	}
	other := linear()
	other.Graph.Initializers[1] = onnx.FromTensor(vector(1, 2))
	other.Graph.Initializers[1].Name = "b"
	change := map[string]func(*preset.Auto){
		"weights": func(a *preset.Auto) { a.Model = preset.From(other) },
		"shape": func(a *preset.Auto) {
			a.InputExample = backend.One(tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 2)))
		},
		"candidates": func(a *preset.Auto) { a.Candidates = on("test:fast", "test:slow") },
		"options": func(a *preset.Auto) {
			a.Candidates = []preset.Preset{preset.Registered{Provider: "test:slow"}, preset.Registered{Provider: "test:fast", Threads: 1}}
		},
		"tolerance": func(a *preset.Auto) { a.Tolerance = 1 },
		"no cache":  func(a *preset.Auto) { a.NoCache = true },
		"own model": func(a *preset.Auto) {
			a.Candidates = []preset.Preset{preset.Registered{Provider: "test:slow", Model: preset.From(linear())}, preset.Registered{Provider: "test:fast"}}
		},
	}
	for name, f := range change {
		b := a
		f(&b)
		if r, _ := open(b); r.Cached {
			t.Errorf("with other %s, it was remembered", name)
		}
	}
	fast.version = "2"
	if r, _ := open(a); r.Cached {
		t.Error("with another release, it was remembered")
	}
	fast.version = ""
	// What it chose must still be there.
	fast.missing = errors.New("gone")
	defer func() { fast.missing = nil }()
	best, report, err := a.Open(t.Context())
	if err != nil || report.Cached || report.Best != "test:slow" {
		t.Fatalf("%+v, %v", report, err)
	}
	best.Close()
}

// TestBadInput41PoisonedTuningCache damages the file that remembers a choice: it must
// be ignored and replaced.
func TestBadInput41PoisonedTuningCache(t *testing.T) {
	a := auto(t, "test:slow", "test:fast", "test:absent")
	a.NoCache = false
	open := func() *preset.Report {
		t.Helper()
		best, report, err := a.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		best.Close()
		if report.Best != "test:fast" {
			t.Errorf("the best is %s", report.Best)
		}
		return report
	}
	open()
	files, err := filepath.Glob(filepath.Join(a.CacheDir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	path := files[0]
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"library", "options", "somewhere"} {
		if bytes.Contains(good, []byte(forbidden)) {
			t.Errorf("the file names %q:\n%s", forbidden, good)
		}
	}
	edit := func(f func(e map[string]any, results []any)) []byte {
		var e map[string]any
		if err := json.Unmarshal(good, &e); err != nil {
			t.Fatal(err)
		}
		f(e, e["results"].([]any))
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	result := func(results []any, i int) map[string]any { return results[i].(map[string]any) }
	poisons := map[string][]byte{
		"empty": {}, "garbage": []byte("\x00\xff{{{"), "truncated": good[:len(good)/2], "twice": append(append([]byte{}, good...), good...),
		"deep": []byte(strings.Repeat("[", 1<<19)), "huge": append(bytes.Clone(good), bytes.Repeat([]byte(" "), 2<<20)...), "null": []byte("null"), "wrong type": []byte(`{"format":"1"}`),
		"format":         edit(func(e map[string]any, _ []any) { e["format"] = 2 }),
		"other key":      edit(func(e map[string]any, _ []any) { e["key"] = strings.Repeat("0", 64) }),
		"unknown field":  edit(func(e map[string]any, _ []any) { e["library"] = "/tmp/evil.so" }),
		"unknown best":   edit(func(e map[string]any, _ []any) { e["best"] = "/tmp/evil.so" }),
		"no best":        edit(func(e map[string]any, _ []any) { delete(e, "best") }),
		"absent best":    edit(func(e map[string]any, _ []any) { e["best"] = "test:absent" }),
		"slower best":    edit(func(e map[string]any, _ []any) { e["best"] = "test:slow" }),
		"baseline":       edit(func(e map[string]any, _ []any) { e["baseline"] = "\x1b[2J" }),
		"fewer results":  edit(func(e map[string]any, r []any) { e["results"] = r[:1] }),
		"more results":   edit(func(e map[string]any, r []any) { e["results"] = append(r, r[0]) }),
		"other name":     edit(func(_ map[string]any, r []any) { result(r, 0)["name"] = "x" }),
		"other provider": edit(func(_ map[string]any, r []any) { result(r, 1)["provider"] = "ort" }),
		"negative":       edit(func(_ map[string]any, r []any) { result(r, 1)["median_ns"] = -5 }),
		"overflow":       edit(func(_ map[string]any, r []any) { result(r, 1)["median_ns"] = 1e300 }),
		"no time":        edit(func(_ map[string]any, r []any) { delete(result(r, 1), "median_ns") }),
		"negative error": edit(func(_ map[string]any, r []any) { result(r, 1)["max_error"] = -1 }),
		"status":         edit(func(_ map[string]any, r []any) { result(r, 2)["status"] = "ok" }),
		"strange status": edit(func(_ map[string]any, r []any) { result(r, 0)["status"] = "great" }),
	}
	check := func(name string) {
		t.Helper()
		if r := open(); r.Cached {
			t.Errorf("%s: it was believed", name)
		}
		if _, err := os.Lstat(path); err == nil && name != "a folder" {
			if r := open(); !r.Cached {
				t.Errorf("%s: it was not replaced: %s", name, r.CacheError)
			}
		}
	}
	for name, data := range poisons {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		check(name)
	}
	replace := map[string]func() error{
		"a link": func() error {
			aside := filepath.Join(t.TempDir(), "aside")
			return errors.Join(os.WriteFile(aside, good, 0o600), os.Symlink(aside, path))
		},
		"a pipe":   func() error { return makePipe(path) },
		"a folder": func() error { return os.Mkdir(path, 0o700) },
		"writable by all": func() error {
			return errors.Join(os.WriteFile(path, good, 0o600), os.Chmod(path, 0o666))
		},
	}
	if runtime.GOOS == "windows" {
		t.Log("links, pipes and modes are not checked on Windows")
		return
	}
	for _, name := range []string{"a link", "a pipe", "writable by all", "a folder"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := replace[name](); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check(name)
	}
	if err := errors.Join(os.Remove(path), os.Chmod(a.CacheDir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if r := open(); r.Cached || !strings.Contains(r.CacheError, "can be changed by other users") {
		t.Errorf("in a folder of all users: %+v", r)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("a file was written into a folder of all users")
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
		if automatic := strings.HasPrefix(name, "AUTO"); automatic != (typ.Preset(nil) == nil) || len(typ.Candidates(nil)) == 0 {
			t.Errorf("%s: %v, %v", name, typ.Preset(nil), typ.Candidates(nil))
		}
	}
	for _, want := range []string{"ORT_CPU", "ORT_OPENVINO", "OPENVINO", "AUTO_CPU", "ORT_CUDA", "ORT_TENSORRT", "ORT_TENSORRT_FP16", "AUTO_GPU", "CPU", "REFERENCE"} {
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
	if got := names(preset.TypeAutoCPU.Candidates(nil)); got != "Onward OrtCPU OrtOpenVINOFloat OrtOpenVINOInt8 OpenVINO" {
		t.Error(got)
	}
	if got := names(preset.TypeAutoGPU.Candidates(&preset.CreateOptions{Table: table("t")})); got != "OrtCUDA OrtTensorRTFloat OrtTensorRTFloatOptim OrtTensorRTInt8 OrtTensorRTInt8QDQ" {
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
	r, err := preset.Create(t.Context(), linear(), preset.TypeAutoGPU, &preset.CreateOptions{InputExample: backend.One(matrix()),
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
	b := &preset.Benchmark{BatchSize: 2, Model: preset.From(linear()), Input: backend.One(matrix()), Backends: on("test:fast", "test:failing", "test:absent", "cpu"),
		Warmup: 1, Repeat: 4, Number: 3, Verbose: true, Output: &out}
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
	if f.MSPerBatch < 1 || f.MSPerBatch > 1.01 || f.MSPerSample != f.MSPerBatch/2 || f.FPS < 1999/f.MSPerBatch || f.FPS > 2001/f.MSPerBatch || f.StdevMS < 0 {
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

// A choice between candidates whose times overlap is not cached; more blocks can decide it.
func TestAutoDoesNotRememberNoise(t *testing.T) {
	fast, slow := runners["test:fast"], runners["test:inexact"]
	defer func(a, b time.Duration) { fast.takes, slow.takes, fast.takesNext, slow.takesNext = a, b, nil, nil }(fast.takes, slow.takes)
	for _, c := range []struct {
		name          string
		fast, slow    []time.Duration // of the sessions, in turn
		undecided     bool
		moreThanThree bool
	}{
		{"apart", []time.Duration{10, 11, 12}, []time.Duration{13, 14, 15}, false, false},
		{"overlapping", []time.Duration{10, 15, 11, 14}, []time.Duration{14, 10, 15, 11}, true, true},
		{"one outlier", []time.Duration{10, 15, 10, 10, 10, 10, 10, 10, 10}, []time.Duration{14}, false, true},
	} {
		a := auto(t, "test:fast", "test:inexact")
		a.NoCache = false
		fast.takesNext, slow.takesNext = inTurn(c.fast), inTurn(c.slow)
		told := 0
		a.Progress = func(name string) {
			if name == "test:fast" {
				told++
			}
		}
		for run := range 2 {
			best, report, err := a.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			best.Close()
			if got := len(report.Undecided) > 0; got != c.undecided || report.Cached != (run == 1 && !c.undecided) {
				t.Errorf("%s, run %d: %+v", c.name, run, report)
			}
			if c.undecided != strings.Contains(report.String(), "the difference is noise") {
				t.Errorf("%s: the report says\n%s", c.name, report)
			}
			if run == 0 && c.moreThanThree != (told > 3) {
				t.Errorf("%s: %d blocks", c.name, told)
			}
		}
	}
}

// inTurn returns a function that returns the durations in milliseconds one after the other, again
// and again.
func inTurn(ms []time.Duration) func() time.Duration {
	k := 0
	return func() time.Duration {
		k++
		return ms[(k-1)%len(ms)] * time.Millisecond
	}
}
