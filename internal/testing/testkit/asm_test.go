//go:build !purego && (amd64 || arm64)

package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// recorder is a TB that records whether a test failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

// TestCheckPauses calls an assembly function of the standard library, which has no stack check, in
// a loop without one: for some milliseconds more than the limit, and for some microseconds.
func TestCheckPauses(t *testing.T) {
	data := make([]byte, 1<<20)
	for _, c := range []struct {
		calls int
		want  bool
	}{{2000, true}, {1, false}} {
		r := &recorder{TB: t}
		CheckPauses(r, func() {
			for range c.calls {
				bytes.IndexByte(data, 1)
			}
		})
		if r.failed != c.want {
			t.Errorf("%d calls: failed %v, want %v", c.calls, r.failed, c.want)
		}
	}
}

func TestAsmFunctionsWithoutStackChecks(t *testing.T) {
	for text, want := range map[string]bool{
		"\nTEXT ·f(SB), 0, $136-8\n":         false,
		"\nTEXT ·f(SB), 0, $128-8\n":         true,
		"\nTEXT ·f(SB), NOSPLIT, $136-8\n":   true,
		"\nTEXT ·f(SB), NOFRAME|1, $136-8\n": true,
		"\nTEXT f(SB), 0, $136\n":            true,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f.s"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r := &recorder{TB: t}
		if AsmFunctions(r, dir); r.failed != want {
			t.Errorf("%q: failed %v, want %v", text, r.failed, want)
		}
	}
}
