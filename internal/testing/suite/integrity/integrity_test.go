// Package integrity tests that the suite is complete and of the release that the other
// tests are written against.
package integrity

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward/internal/testing/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

func TestFilesAreThoseOfTheRelease(t *testing.T) {
	dir := suite.Dir(t)
	if s, err := suite.Find(); err != nil {
		t.Fatal(err)
	} else if s.Version != suite.Version && s.Source != suite.Env {
		t.Skipf("the suite on this machine is ONNX %s (%s), not %s: its files are not compared", s.Version,
			s.Source, suite.Version)
	}
	if err := suite.Verify(dir); err != nil {
		if os.Getenv(suite.Env) != "" {
			t.Skipf("%v", err)
		}
		t.Error(err)
	}
	for kind, want := range suite.Cases {
		cases, err := filepath.Glob(filepath.Join(dir, kind, "test_*"))
		if err != nil || len(cases) != want {
			t.Errorf("%s has %d cases, %v, want %d", kind, len(cases), err, want)
		}
	}
}

func TestEveryCaseHasAModelAndData(t *testing.T) {
	dir := suite.Dir(t)
	for kind := range suite.Cases {
		if kind == "real" {
			continue // its folders hold the address of a model
		}
		cases, err := filepath.Glob(filepath.Join(dir, kind, "test_*"))
		if err != nil || len(cases) == 0 {
			t.Errorf("%s has %d cases, %v", kind, len(cases), err)
		}
		for _, c := range cases {
			if _, err := os.Stat(filepath.Join(c, "model.onnx")); err != nil {
				t.Error(err)
			}
			if out, err := filepath.Glob(filepath.Join(c, "test_data_set_*", "output_*.pb")); err != nil ||
				len(out) == 0 {
				t.Errorf("%s has no expected output, %v", c, err)
			}
		}
	}
}
