package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module whose packages end in every way that a package can.
var module = map[string]string{
	"go.mod": "module m\n\ngo 1.26\n",
	"ok/ok_test.go": `package ok
import "testing"
func TestPass(t *testing.T) { t.Log("hidden") }
func TestSkip(t *testing.T) { t.Skip("no part:\n3 cases left out") }
func TestSub(t *testing.T) {
	t.Run("a", func(t *testing.T) {})
	t.Run("b", func(t *testing.T) { t.Skip("no part:\n3 cases left out") })
	t.Run("c", func(t *testing.T) { t.Run("d", func(t *testing.T) {}) })
}`,
	"fails/f_test.go": `package fails
import "testing"
func TestFail(t *testing.T) { t.Error("wrong number 7") }
func TestSub(t *testing.T) { t.Run("a", func(t *testing.T) { t.Error("wrong number 8") }) }`,
	"parent/p_test.go": `package parent
import "testing"
func TestParent(t *testing.T) { t.Run("a", func(t *testing.T) {}); t.Error("the parent alone") }`,
	"panics/p_test.go": `package panics
import "testing"
func TestPanic(t *testing.T) { panic("at the disco") }`,
	"exits/e_test.go": `package exits
import ("os"; "testing")
func TestExit(t *testing.T) { os.Exit(3) }`,
	"limit/l_test.go": `package limit
import ("flag"; "testing")
func TestLimit(t *testing.T) { if d := flag.Lookup("test.timeout").Value.String(); d != "40m0s" { t.Error("the limit is", d) } }`,
	"broken/b_test.go": "package broken\nimport \"testing\"\nfunc TestX(t *testing.T) { undefined() }",
	"empty/e.go":       "package empty",
}

func write(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range module {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestCounts(t *testing.T) {
	write(t)
	for _, c := range []struct {
		args string
		want counts
		code int
		says []string
	}{
		{"./ok", counts{3, 0, 2}, 0, []string{"ok  \tm/ok", "     2 no part: 3 cases left out"}},
		{"./empty", counts{}, 0, []string{"[no test files]"}},
		{"./fails", counts{0, 2, 0}, 1, []string{"wrong number 7", "wrong number 8"}},
		{"./parent", counts{1, 1, 0}, 1, []string{"the parent alone"}},
		{"./panics", counts{0, 1, 0}, 1, []string{"at the disco"}},
		{"./exits", counts{0, 1, 0}, 1, []string{"FAIL\tm/exits"}},
		{"./broken", counts{0, 1, 0}, 1, []string{"undefined: undefined"}},
		{"./absent", counts{0, 1, 0}, 1, nil},
		{"./limit", counts{1, 0, 0}, 0, nil},
		{"-timeout 5m ./limit", counts{0, 1, 0}, 1, []string{"the limit is 5m0s"}},
		{"-run TestSub/c/d ./ok", counts{1, 0, 0}, 0, nil},
		{"-run TestSub/[a/]$|TestNone ./ok ./empty", counts{1, 0, 0}, 0, nil},
		{"-run TestNone ./ok", counts{0, 1, 0}, 1, []string{"no test matches -run TestNone"}},
		{"-run=TestSub/e ./ok", counts{1, 1, 0}, 1, []string{"no test matches -run TestSub/e"}},
		{"-run ^$ -bench . ./ok", counts{}, 0, nil},
		{"./ok ./fails ./broken", counts{3, 3, 2}, 1, nil},
	} {
		tally := filepath.Join(t.TempDir(), "tally")
		var out strings.Builder
		code, err := command(append([]string{"-tally", tally}, strings.Fields(c.args)...), &out)
		if err != nil || code != c.code {
			t.Errorf("%s: code %d, %v, want %d", c.args, code, err, c.code)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := lines[len(lines)-1]; last != c.want.String() {
			t.Errorf("%s ends with %q, want %q\n%s", c.args, last, c.want, out.String())
		}
		for _, s := range c.says {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%s: no %q in\n%s", c.args, s, out.String())
			}
		}
		if strings.Contains(out.String(), "hidden") {
			t.Errorf("%s shows the log of a test that passed", c.args)
		}
		if got, err := readTally(tally); err != nil || got != c.want {
			t.Errorf("%s: tally %v, %v, want %v", c.args, got, err, c.want)
		}
	}
}

func TestTotal(t *testing.T) {
	tally := filepath.Join(t.TempDir(), "tally")
	for _, c := range []counts{{1, 0, 2}, {10, 1, 0}} {
		if err := appendTally(tally, c); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	code, err := command([]string{"-total", tally}, &out)
	if want := "11 passed, 1 failed, 2 skipped\n"; err != nil || code != 1 || out.String() != want {
		t.Errorf("-total: %q, %d, %v, want %q, 1", out.String(), code, err, want)
	}
}
