package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The snippets of all mutants occur exactly once, and change something.
func TestMutantsApply(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 30 {
		t.Errorf("%d mutants, want at least 30", len(mutants))
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if _, _, err := apply(root, m); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if m.Old == m.New || len(m.Test) == 0 || names[m.Name] {
			t.Errorf("%s changes nothing, has no tests, or is there twice", m.Name)
		}
		names[m.Name] = true
		for _, c := range m.Test {
			if _, err := regexp.Compile(c.Run); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
}

// A mutant is caught, survives, or is refused, and the source is left as it is.
func TestTry(t *testing.T) {
	root := t.TempDir()
	source := "package m\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }\n"
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "m.go": source,
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Error()\n\t}\n}\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all := []check{{"", "."}}
	for _, c := range []struct {
		m       mutant
		by, err string
	}{
		{mutant{"caught", ".", "a + b", "a * b", all}, ". TestAdd", ""},
		{mutant{"crash", ".", "a + b", "a / (b - b)", all}, ". TestAdd", ""},
		{mutant{"survives", ".", "a - b", "b - a", all}, "", ""},
		{mutant{"no such snippet", ".", "a % b", "", all}, "", "occurs 0 times"},
		{mutant{"two snippets", ".", "a, b int", "b, a int", all}, "", "occurs 2 times"},
		{mutant{"does not build", ".", "a + b", "c", all}, "", "undefined: c"},
		{mutant{"no test", ".", "a + b", "a * b", []check{{"", "Nothing"}}}, "", "runs no test"},
	} {
		by, err := try(root, c.m)
		if !strings.HasSuffix(by, strings.TrimPrefix(c.by, ".")) || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: caught by %q, %v, want %q, %q", c.m.Name, by, err, c.by, c.err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(root, "m.go")); err != nil || string(got) != source {
		t.Errorf("the source became %q, %v", got, err)
	}
}
