package main

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/onnx"
)

// dims returns the sizes of a shape as 1x3x224x224.
func dims(t *testing.T, s string) []int64 {
	t.Helper()
	var list []int64
	for d := range strings.SplitSeq(s, "x") {
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil || n < 1 {
			t.Errorf("shape %q has the size %q, want a positive number", s, d)
		}
		list = append(list, n)
	}
	return list
}

func TestFilesAreWellFormed(t *testing.T) {
	names, packages := map[string]bool{}, map[string]bool{}
	for _, w := range wheels() {
		pkg, version, ok := strings.Cut(w.Requirement, "==")
		if !ok || packages[pkg] {
			t.Errorf("requirement %q has no version, or its package is listed twice", w.Requirement)
		}
		packages[pkg] = true
		if w.npm() && w.File != pkg+"-"+version+".tgz" {
			t.Errorf("file %q is not the archive of %s", w.File, w.Requirement)
		} else if prefix := strings.ReplaceAll(pkg, "-", "_") + "-" + version + "-"; !w.npm() &&
			(!strings.HasPrefix(w.File, prefix) || !strings.HasSuffix(w.File, "-"+w.Platform+".whl")) {
			t.Errorf("file %q does not begin with %q and end with its platform %q", w.File, prefix, w.Platform)
		}
		if sum, err := hex.DecodeString(w.Sum); err != nil || len(sum) != 32 || w.Sum != strings.ToLower(w.Sum) {
			t.Errorf("%s: %q is not a SHA-256 in lower case", w.Requirement, w.Sum)
		}
		for _, f := range w.files {
			if !filepath.IsLocal(f.path) || !strings.HasSuffix(f.path, ".onnx") {
				t.Errorf("%s: %q is not a path of a model inside the wheel", w.Requirement, f.path)
			}
			for _, s := range f.sizes {
				if name := w.name(&f, &s); names[name] {
					t.Errorf("%q is listed twice", name)
				} else {
					names[name] = true
				}
				if len(s.shapes) != len(f.sizes[0].shapes) || len(s.values) != len(f.sizes[0].values) {
					t.Errorf("%s: sizes %v and %v have different inputs", f.path, s, f.sizes[0])
					continue
				}
				for i, x := range s.shapes {
					a, shape := cut(x)
					b, other := cut(f.sizes[0].shapes[i])
					if got, want := dims(t, shape), dims(t, other); a != b || a == "" || len(got) != len(want) {
						t.Errorf("%s: shapes %q and %q differ in name or rank", f.path, x, f.sizes[0].shapes[i])
					}
				}
			}
		}
	}
}

// TestFilesHaveTheirShapes compares the shapes with those that the models declare: free dimensions
// have two sizes, others the declared one.
func TestFilesHaveTheirShapes(t *testing.T) {
	for _, w := range wheels() {
		t.Run(w.Requirement, func(t *testing.T) {
			dir, err := w.folder()
			if err != nil {
				t.Fatal(err)
			}
			if !w.cached(dir) {
				t.Skipf("models not compared: %d, since their wheel is not in the cache; make bench-real fetches it",
					len(w.files))
			}
			for _, f := range w.files {
				m, err := onnx.ReadFile(filepath.Join(dir, filepath.FromSlash(f.path)), nil)
				if err != nil {
					t.Fatal(err)
				}
				compareInputs(t, &f, m)
			}
		})
	}
}

func compareInputs(t *testing.T, f *file, m *onnx.Model) {
	t.Helper()
	free := false
	for _, s := range f.sizes {
		given := map[string][]int64{}
		for _, x := range s.shapes {
			name, shape := cut(x)
			given[name] = dims(t, shape)
		}
		for _, x := range s.values {
			name, _ := cut(x)
			given[name] = nil
		}
		for _, in := range m.Graph.Inputs {
			if slices.ContainsFunc(m.Graph.Initializers, func(x *onnx.Tensor) bool { return x.Name == in.Name }) {
				continue
			}
			shape := in.Type.Tensor.Shape.Dims
			got, ok := given[in.Name]
			delete(given, in.Name)
			if len(got) != len(shape) && ok {
				t.Errorf("%s: input %s has rank %d, want %d", f.path, in.Name, len(got), len(shape))
				continue
			}
			for i, d := range shape {
				fixed := d.Kind == onnx.DimValue && d.Value >= 0 // older exporters of Paddle write -1
				free = free || !fixed
				if fixed && ok && got[i] != d.Value || !fixed && !ok {
					t.Errorf("%s: input %s has the shape %v, dimension %d is %v", f.path, in.Name, got, i, d)
				}
			}
		}
		for name := range given {
			t.Errorf("%s has no input %q", f.path, name)
		}
	}
	want := 1
	if free {
		want = 2
	}
	if len(f.sizes) != want {
		t.Errorf("%s has %d sizes, want %d, since its dimensions are free: %v", f.path, len(f.sizes), want, free)
	}
}

func TestReport(t *testing.T) {
	m := measure.Measured{Threads: 1, Results: []measure.Result{{Provider: "cpu", MedianMS: 2, MinMS: 2},
		{Provider: "ort", MedianMS: 3, MinMS: 3}, {Provider: "openvino", Error: "no\nConv"}}}
	rows := []*measure.Row{{Name: "a 1.0, b.onnx", By: []measure.Measured{m, m}}}
	text := (&table{rows: rows, missing: []string{"c==2 is absent"}}).report()
	for _, want := range []string{"| package, file, inputs |", "- c==2 is absent\n",
		"| a 1.0, b.onnx | 2 ms | 3 ms | failed | 1.50 | 1.50 | 1.50 |", "- a 1.0, b.onnx: openvino fails: no Conv\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the report has %q %d times, want 1:\n%s", want, strings.Count(text, want), text)
		}
	}
}

// TestFetchReportsFailures checks that a wheel that cannot be fetched is named, not an error.
func TestFetchReportsFailures(t *testing.T) {
	for _, v := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(v, t.TempDir())
	}
	t.Setenv("PATH", "")
	s := selection{only: regexp.MustCompile(""), threads: "1", providers: []string{"cpu"}}
	tables, err := s.tables(context.Background())
	if err != nil || len(tables) != 2 {
		t.Fatal(tables, err)
	}
	packages, exports := tables[0], tables[1]
	if len(packages.rows)+len(exports.rows) != 0 || len(packages.missing) != len(wheels()) ||
		len(exports.missing) != len(groups) || !strings.Contains(packages.missing[0], "nudenet==3.4.2") ||
		!strings.Contains(exports.missing[len(groups)-1], "paddle are not made") {
		t.Errorf("tables = %v; want no rows and a reason for each wheel and group", tables)
	}
	s.part = "exports"
	if tables, err := s.tables(context.Background()); err != nil || len(tables[0].missing) != 0 {
		t.Errorf("tables of the exports = %v, %v", tables, err)
	}
	s.part = "nothing"
	if _, err := s.tables(context.Background()); err == nil {
		t.Error("an unknown part is accepted")
	}
	// Nothing is fetched for -quick.
	s.part, s.quick = "", true
	if tables, err := s.tables(context.Background()); err != nil || len(tables[0].missing) < 5 ||
		!strings.Contains(tables[0].missing[0], "not in the cache") {
		t.Errorf("tables for -quick = %v, %v", tables, err)
	}
}

func TestFixModel(t *testing.T) {
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, "n", 3).Output("y", onnx.Float, "n", 3)
	b.Node("Relu", []string{"x"}, []string{"y"})
	from, to := filepath.Join(t.TempDir(), "a.onnx"), filepath.Join(t.TempDir(), "b.onnx")
	if err := onnx.WriteFile(from, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	if free, err := fixModel(from, to, []string{"--shape", "x=2x3"}); err != nil || !free {
		t.Fatal(free, err)
	}
	m, err := onnx.ReadFile(to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Graph.Inputs[0].Type.Tensor.Shape.Dims; d[0].Value != 2 || d[0].Kind != onnx.DimValue || d[1].Value != 3 {
		t.Errorf("dimensions are %v", d)
	}
	if free, err := fixModel(to, to, []string{"--shape", "x=2x3"}); err != nil || free {
		t.Errorf("a model without free dimensions: %v, %v", free, err)
	}
	for _, shape := range []string{"y=2x3", "x=2x3x4", "x=a"} {
		if _, err := fixModel(from, to, []string{"--shape", shape}); err == nil {
			t.Errorf("--shape %s is accepted", shape)
		}
	}
}

// TestExports reads the entries of a group as export.py writes them, and compares those in the
// cache with their models.
func TestExports(t *testing.T) {
	names := map[string]bool{}
	for _, group := range groups {
		dir, list, err := exports(group)
		if errors.Is(err, fs.ErrNotExist) {
			t.Logf("exports not compared: the group %s is not in the cache; make real-exports makes it", group)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if names[x.Name] || len(x.Sizes) != 2 {
				t.Errorf("%s is listed twice or has %d sizes, want 2", x.Name, len(x.Sizes))
			}
			if names[x.Name] = true; x.NotExported != "" {
				continue
			}
			m, err := onnx.ReadFile(filepath.Join(dir, x.Name+".onnx"), nil)
			if err != nil {
				t.Fatal(err)
			}
			f := file{path: x.Name}
			for _, shapes := range x.Sizes {
				f.sizes = append(f.sizes, size{shapes: shapes})
			}
			compareInputs(t, &f, m)
		}
	}
}
