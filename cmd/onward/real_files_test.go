//go:build !core

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/store"
)

// TestRealFiles runs the command that inspect proposes for each model file of bench/real in the
// cache, for its quantized form, too, and counts its nodes on the page of the graph.
func TestRealFiles(t *testing.T) {
	root, err := store.Path("")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && rel != "." && (!strings.HasPrefix(rel, "real-") || strings.Contains(rel, ".new-")) {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".onnx" {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		t.Skipf("model files not tested, since none is in the cache (%v); make bench-real fetches them", err)
	}
	if os.Getenv("ONWARD_LONG") == "" {
		t.Skipf("model files not tested without ONWARD_LONG: %d", len(files))
	}
	nodes := regexp.MustCompile(`(?m)^(\d+) nodes,`)
	proposed := func(t *testing.T, path string) string {
		out, _ := command(t, exitOK, "inspect", path)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		try, _ := strings.CutPrefix(lines[len(lines)-1], "try it: onward run "+path)
		command(t, exitOK, append([]string{"run", path}, words(try)...)...)
		return out
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			out := proposed(t, path)
			if n := nodes.FindStringSubmatch(out); n == nil ||
				!strings.Contains(pageOf(t, exitOK, "graph", path), "<dt>nodes</dt><dd>"+n[1]) {
				t.Errorf("the page of the graph does not count the nodes of\n%s", out)
			}
			small := filepath.Join(t.TempDir(), "small.onnx")
			var stdout, stderr strings.Builder
			args := []string{"quantize", path, "-o", small, "--mode", "dynamic"}
			if code := run(t.Context(), args, &stdout, &stderr); code == exitOK {
				proposed(t, small)
			} else if !strings.Contains(stderr.String(), "convert it first") { // an old opset
				t.Errorf("quantize: exit code %d: %s", code, &stderr)
			}
		})
	}
}

// words divides arguments as a shell does, with single quotes.
func words(s string) []string {
	var r []string
	for _, w := range regexp.MustCompile(`(?:'[^']*'|[^' ])+`).FindAllString(s, -1) {
		r = append(r, strings.ReplaceAll(w, "'", ""))
	}
	return r
}
