package main

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// TestExports runs the exported models that are kept in testdata.
func TestExports(t *testing.T) {
	cases, err := find("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Fatalf("testdata holds %d cases, want at least 30", len(cases))
	}
	for _, c := range cases {
		t.Run(c.family+"/"+c.name, func(t *testing.T) {
			if err := c.load(); err != nil {
				t.Fatal(err)
			}
			for _, e := range engines {
				if o := c.run(context.Background(), e); o.err != nil {
					t.Errorf("%s: %v", e, o.err)
				}
			}
		})
	}
}

// TestCompareFails holds that the comparison finds each kind of difference.
func TestCompareFails(t *testing.T) {
	f := func(v ...float32) *tensor.Tensor { return tensor.Must(tensor.New(v, len(v))) }
	i := func(v ...int64) *tensor.Tensor { return tensor.Must(tensor.New(v, len(v))) }
	s := func(v ...string) *tensor.Tensor { return tensor.Must(tensor.New(v, len(v))) }
	nan := float32(math.NaN())
	for _, c := range []struct {
		got, want *tensor.Tensor
		text      string
	}{
		{f(1, 2), f(1, 2, 3), "shape is [2], want [3]"},
		{f(1, 2), f(1, 2.5), "1 of 2 elements differ, the first is 1: 2, want 2.5"},
		{f(1, nan), f(1, 2), "1 of 2 elements differ"},
		{f(1, 2), f(1, nan), "1 of 2 elements differ"},
		{i(1000000), i(1000001), "1 of 1 elements differ"},
		{s("a"), s("b"), ""},
		{s("a"), i(1), "type is string, want int64"},
	} {
		_, err := compare(c.got, c.want, 1e-3, 1e-3)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("compare(%v, %v) = %v, want %q", c.got, c.want, err, c.text)
		}
	}
	for _, c := range [][2]*tensor.Tensor{
		{f(1, nan), f(1, nan)},
		{tensor.Must(f(1, 2).Reshape(2, 1)), f(1, 2.0001)},
		{tensor.Must(s("a", "b").Reshape(2, 1)), s("a", "b")},
		{f(float32(math.Inf(1))), f(float32(math.Inf(1)))},
	} {
		if _, err := compare(c[0], c[1], 1e-3, 1e-3); err != nil {
			t.Errorf("compare(%v, %v): %v", c[0], c[1], err)
		}
	}
}

// TestReportKeepsLines holds that a run over some models keeps the others' lines.
func TestReportKeepsLines(t *testing.T) {
	good := map[string]outcome{"cpu": {maxAbs: 1e-6}, "reference": {maxAbs: 2e-6}}
	bad := map[string]outcome{"cpu": {err: errors.New("a | b")}, "reference": {maxAbs: 2e-6}}
	c := func(family, name, refused string) *exported {
		return &exported{family: family, name: name,
			note: note{Library: "lib 1", Exporter: "exp 2", RTol: 0.1, ATol: 0.2, NotExported: refused}}
	}
	r := earlier("")
	r.add(row{exported: c("f", "one", ""), nodes: 3, kinds: 2, outcomes: good})
	r.add(row{exported: c("f", "two", ""), nodes: 3, kinds: 2, outcomes: bad})
	r.add(row{exported: c("f", "three", "cannot"), nodes: 3, kinds: 2})
	first := r.String()
	if again := earlier(first).String(); again != first {
		t.Errorf("reading a report back changes it:\n%s\nwant\n%s", again, first)
	}
	r = earlier(first)
	r.add(row{exported: c("f", "three", ""), nodes: 3, kinds: 2, outcomes: good})
	r.add(row{exported: c("g", "four", "cannot [Caused by a line of /some/file]"), nodes: 3, kinds: 2})
	text := r.String()
	for _, want := range []string{
		"| f | 3 | 2 | 2 of 3 |\n", "| one | 3 | 2 | 1e-06 | 2e-06 | agrees |\n", "| two | 3 | 2 | FAILS: a \\| b | 2e-06 | agrees |\n",
		"| three | 3 | 2 | 1e-06 |", "lib 1, exp 2 (rtol 0.1, atol 0.2).\n", "| g/four | exp 2 | cannot |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report misses %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "f/three") || strings.Contains(text, "## g") {
		t.Errorf("the report keeps a refused model that is exported, or has an empty family:\n%s", text)
	}
}
