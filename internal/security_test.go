package internal

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesHaveTests checks that the tests that SECURITY.md names exist.
func TestPromisesHaveTests(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, m := range regexp.MustCompile("`((Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1) {
		missing[m[1]] = true
	}
	if len(missing) < 20 {
		t.Fatalf("SECURITY.md names %d tests, want 20 or more", len(missing))
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			delete(missing, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range missing {
		t.Errorf("SECURITY.md names %s, which does not exist", name)
	}
}
