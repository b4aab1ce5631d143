package preset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	"github.com/onward-ml/onward/tensor"
)

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
		if f := first.Results[i]; r.Name != f.Name || r.Median != f.Median || r.Runs != f.Runs ||
			r.MaxError != f.MaxError {
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
			a.Candidates = []preset.Preset{preset.Registered{Provider: "test:slow"},
				preset.Registered{Provider: "test:fast", Threads: 1}}
		},
		"tolerance": func(a *preset.Auto) { a.Tolerance = 1 },
		"no cache":  func(a *preset.Auto) { a.NoCache = true },
		"own model": func(a *preset.Auto) {
			a.Candidates = []preset.Preset{preset.Registered{Provider: "test:slow", Model: preset.From(linear())},
				preset.Registered{Provider: "test:fast"}}
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

// TestPoisonedTuningCache damages the file that remembers a choice: it must
// be ignored and replaced.
func TestPoisonedTuningCache(t *testing.T) {
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

// A choice between candidates whose times overlap is not cached; more blocks can decide it.
func TestAutoDoesNotRememberNoise(t *testing.T) {
	fast, slow := runners["test:fast"], runners["test:inexact"]
	defer func(a, b time.Duration) {
		fast.takes, slow.takes, fast.takesNext, slow.takesNext = a, b, nil, nil
	}(fast.takes, slow.takes)
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
