package pipeline

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// oracleFolders returns the folders below the one that ONWARD_PIPELINES names whose names match
// a pattern. Each holds a model and what Python packages return for it; testdata/oracle_text.py
// writes them.
func oracleFolders(t *testing.T, pattern string) []string {
	t.Helper()
	dir := os.Getenv("ONWARD_PIPELINES")
	if dir == "" {
		t.Skip("ONWARD_PIPELINES does not name a folder of models with the results of Python packages; " +
			"make test-pipelines writes one")
	}
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s has no folder %s: %v", dir, pattern, err)
	}
	return found
}

// expected reads expected.json of a folder.
func expected[T any](t *testing.T, folder string) (v T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// near reports whether two numbers differ by at most tolerance, relative to want if that is
// larger than 1.
func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want)) || got == want
}
