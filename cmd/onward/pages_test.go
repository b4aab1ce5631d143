//go:build !core

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
)

// pageOf runs a verb with --html and returns the page.
func pageOf(t *testing.T, want int, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	command(t, want, append(args, "--html", path)...)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rowsOf returns the texts of the cells of each row of a page.
func rowsOf(html string) [][]string {
	var rows [][]string
	for _, tr := range regexp.MustCompile(`(?s)<tr>(.*?)</tr>`).FindAllStringSubmatch(html, -1) {
		var row []string
		for _, td := range regexp.MustCompile(`(?s)<t[hd][^>]*>(?:<span[^>]*></span>)?(.*?)</t[hd]>`).FindAllStringSubmatch(tr[1], -1) {
			row = append(row, td[1])
		}
		rows = append(rows, row)
	}
	return rows
}

func TestPages(t *testing.T) {
	_, npz := digitData(t)
	for _, c := range []struct {
		args  []string
		code  int
		wants []string
	}{
		{[]string{"profile", "digits.onnx", "--provider", "reference", "--runs", "2"}, exitOK, []string{`class="flame"`, ">Conv<", "conv2"}},
		{[]string{"compare", "digits.onnx", "--layers"}, exitOK, []string{"Error along the layers", "Signal-to-noise", ">conv1<"}},
		{[]string{"compare", "digits.onnx", "--layers", "--rtol", "0", "--atol", "0"}, exitFailed, []string{"first difference: a1", "differs"}},
		{[]string{"bench", "digits.onnx", "--provider", "cpu,reference", "--rounds", "1", "--iterations", "5"}, exitOK, []string{"times of reference", "of the time of reference", "p99 "}},
		{[]string{"calibrate", "digits.onnx", "--data", npz, "-o", t.TempDir()}, exitOK, []string{"values of a1", `class="range"`}},
		{[]string{"calibrate", "digits.onnx", "--data", npz, "--method", "entropy", "-o", t.TempDir()}, exitOK, []string{"values of a1", "entropy"}},
	} {
		html := pageOf(t, c.code, c.args...)
		for _, want := range c.wants {
			if !strings.Contains(html, want) {
				t.Errorf("the page of %q has no %q", c.args, want)
			}
		}
	}
	command(t, exitFailed, "profile", "digits.onnx", "--runs", "1", "--html",
		filepath.Join(t.TempDir(), "no", "p.html"))
}

func TestComparePage(t *testing.T) {
	x, y := 0.5, 12.25
	c := &compareJSON{Model: "m.onnx", Providers: [2]string{"cpu", "ort"},
		Values: []compareValue{{Name: "a", Node: "n", Op: "Conv"}, {Name: "b", Op: "Relu"}}}
	c.Values[0].Agree, c.Values[0].Type = true, "float[2]"
	c.Values[1].MaxAbs, c.Values[1].SNR = &x, &y
	var b strings.Builder
	if err := page.Render(&b, comparePage(c)); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"index", "result", "value", "node", "operator", "type", "max abs", "max rel", "SNR dB", "passes with rtol", "or atol"},
		{"0", "ok", "a", "n", "Conv", "float[2]", "-", "-", "-", "-", "-"},
		{"1", "differs", "b", "", "Relu", "", "0.5", "-", "12.2", "-", "-"},
	}
	if d := cmp.Diff(want, rowsOf(b.String())); d != "" {
		t.Error(d)
	}
}

// Nodes of a subgraph lie below the node that runs it; nodes without start times follow each other.
func TestFlame(t *testing.T) {
	start := time.Unix(1000, 0)
	node := func(index int, op string, from, to int) onward.NodeRun {
		return onward.NodeRun{Index: index, OpType: op, Start: start.Add(time.Duration(from)),
			Duration: time.Duration(to - from)}
	}
	f := flame([]onward.NodeRun{node(1, "Add", 20, 40), node(2, "Mul", 40, 50), node(0, "If", 10, 60),
		node(3, "Neg", 60, 100)}, start, 100)
	var got []string
	for _, x := range f.Frames {
		got = append(got, strings.Repeat(" ", x.Level)+x.Label)
	}
	if d := cmp.Diff([]string{"run", " If", "  Add", "  Mul", " Neg"}, got); d != "" || f.Depth != 3 ||
		f.Frames[2].Left != 0.2 || f.Frames[2].Width != 0.2 {
		t.Errorf("depth %d, frames %+v\n%s", f.Depth, f.Frames, d)
	}
	f = flameOf([]profileLine{{Index: 1, Op: "B", TimeMS: 75}, {Op: "A", TimeMS: 25}})
	if len(f.Frames) != 3 || f.Frames[1].Label != "A" || f.Frames[2].Left != 0.25 || f.Frames[2].Width < 0.7499 ||
		f.Depth != 2 {
		t.Errorf("%+v", f)
	}
}

func TestOccupied(t *testing.T) {
	edges, counts := occupied(calibration.Range{Edges: []float32{0, 1, 2, 3, 4}, Hist: []int64{0, 2, 5, 0}})
	if d := cmp.Diff([]float64{1, 2, 3}, edges) + cmp.Diff([]float64{2, 5}, counts); d != "" {
		t.Error(d)
	}
	wide := calibration.Range{Edges: make([]float32, 1001), Hist: make([]int64, 1000)}
	for i := range wide.Hist {
		wide.Hist[i], wide.Edges[i+1] = 1, float32(i+1)
	}
	if edges, counts := occupied(wide); len(counts) > 80 || len(edges) != len(counts)+1 || edges[len(edges)-1] != 1000 {
		t.Errorf("%d bins to %g, want at most 80 to 1000", len(counts), edges[len(edges)-1])
	}
}

// TestPagesSayWhereAndWhen checks the origin in the head of pages.
func TestPagesSayWhereAndWhen(t *testing.T) {
	for _, args := range [][]string{{"graph", "digits.onnx"},
		{"profile", "digits.onnx", "--runs", "1", "--peak=false"}} {
		html := pageOf(t, exitOK, args...)
		for _, want := range []string{"processor</dt><dd>.+", "kernels</dt><dd>.+", "version</dt><dd>.+",
			`date</dt><dd>\d{4}-\d\d-\d\d \d\d:\d\d`} {
			if !regexp.MustCompile("<dt>" + want + "</dd>").MatchString(html) {
				t.Errorf("%s: the page has no %s", args[0], want)
			}
		}
	}
}
