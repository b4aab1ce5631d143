package internal

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// seedLines is the number of lines of each seed in docs/seeds.md.
var seedLines = map[string]int{"000": 20, "001": 20, "002": 9, "003": 18, "004": 14}

var (
	seedRow      = regexp.MustCompile(`^\| (\d{3}\.\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	seedProvider = []string{"all", "–", "reference", "cpu", "ort", "openvino", "ort:cuda", "ort:tensorrt", "ort:openvino", "ort:webgpu"}
)

// TestSeedsNameTests checks that docs/seeds.md has all lines of the seeds, once and in order, and
// that the tests that it names exist.
func TestSeedsNameTests(t *testing.T) {
	page, err := os.ReadFile("../docs/seeds.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range seedFaults(string(page), testsIn(t)) {
		t.Errorf("docs/seeds.md: %s", fault)
	}
}

// testsIn returns a function that lists the tests of a folder.
func testsIn(t *testing.T) func(folder string) map[string]bool {
	found := map[string]map[string]bool{}
	return func(folder string) map[string]bool {
		if found[folder] != nil {
			return found[folder]
		}
		names := map[string]bool{}
		found[folder] = names
		files, err := filepath.Glob(filepath.Join("..", strings.TrimPrefix(folder, "root"), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testFunction.FindAllStringSubmatch(string(data), -1) {
				names[m[1]] = true
			}
		}
		return names
	}
}

// seedFaults returns what is wrong with the page.
func seedFaults(page string, tests func(folder string) map[string]bool) (faults []string) {
	var want []string
	for _, seed := range slices.Sorted(maps.Keys(seedLines)) {
		for i := range seedLines[seed] {
			want = append(want, fmt.Sprintf("%s.%d", seed, i+1))
		}
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var lines []string
	for row := range strings.Lines(page) {
		m := seedRow.FindStringSubmatch(strings.TrimSpace(row))
		if m == nil {
			continue
		}
		lines = append(lines, m[1])
		for part := range strings.SplitSeq(m[3], "; ") {
			folder, names, ok := strings.Cut(part, ": ")
			if !ok {
				fault("line %s: %q is not FOLDER: TESTS", m[1], part)
			}
			for name := range strings.SplitSeq(names, ", ") {
				if !tests(folder)[name] {
					fault("line %s: folder %s has no test %s", m[1], folder, name)
				}
			}
		}
		for p := range strings.SplitSeq(m[4], ", ") {
			if !slices.Contains(seedProvider, p) {
				fault("line %s: unknown provider %q", m[1], p)
			}
		}
	}
	if !slices.Equal(lines, want) {
		fault("it has %d lines, want %d in order: %v", len(lines), len(want), lines)
	}
	return faults
}

func TestSeedFaultsAreFound(t *testing.T) {
	tests := func(folder string) map[string]bool { return map[string]bool{folder + "Test": true} }
	var page strings.Builder
	for _, seed := range slices.Sorted(maps.Keys(seedLines)) {
		for i := range seedLines[seed] {
			fmt.Fprintf(&page, "| %s.%d | a part | a: aTest; b: bTest | all, ort:cuda |\n", seed, i+1)
		}
	}
	good := page.String()
	if faults := seedFaults(good, tests); len(faults) != 0 {
		t.Errorf("a right page: %v", faults)
	}
	for old, new := range map[string]string{"| 002.9 |": "| 002.8 |", "a: aTest;": "a: aTest, TestNone;", "b: bTest": "bTest", "ort:cuda": "ort:npu", "| 004.14 |": "|"} {
		if faults := seedFaults(strings.Replace(good, old, new, 1), tests); len(faults) == 0 {
			t.Errorf("%q instead of %q is not found", new, old)
		}
	}
}
