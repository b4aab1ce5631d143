//go:build !core && !server

package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page has a row for each operator with the results of both providers.
func TestConformancePage(t *testing.T) {
	dir := smallSuite(t)
	rows := rowsOf(pageOf(t, exitFailed, "conformance", "--data", dir, "--provider", "cpu,reference"))
	want := [][]string{
		{"operator", "cases", "cpu", "reference"},
		{"Abs", "1", "1 passed", "1 passed"},
		{"Neg", "1", "0 passed, 1 failed", "0 passed, 1 failed"},
		{"NoSuchOperator", "1", "0 passed, 1 skipped", "0 passed, 1 skipped"},
		{"Relu", "1", "1 passed", "1 passed"},
	}
	if d := cmp.Diff(want, rows[:min(len(rows), 5)]); d != "" {
		t.Error(d)
	}
	if !slices.ContainsFunc(rows, func(r []string) bool { return slices.Contains(r, "test_wrong_cpu") }) {
		t.Error("the failed case is not listed")
	}
	command(t, exitUsage, "conformance", "--data", dir, "--provider", "cpu,reference")
	command(t, exitUsage, "conformance", "--data", dir, "--provider", "cpu,reference", "--json", "--html",
		filepath.Join(t.TempDir(), "x.html"))
}
