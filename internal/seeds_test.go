package internal

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// seedParts lists the APIs of docs/seeds.md in order, with the number of their parts.
var seedParts = []struct {
	api   string
	parts int
}{
	{"mlprodict.onnxrt.backend", 20},
	{"onnx.backend", 20},
	{"onnxruntime.backend", 9},
	{"onnxruntime: InferenceSession, IOBinding, OrtValue", 18},
	{"ENOT Lite: backends", 14},
}

var (
	seedRow      = regexp.MustCompile(`^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	seedProvider = []string{"all", "–", "reference", "cpu", "ort", "openvino", "ort:cuda", "ort:tensorrt",
		"ort:openvino", "ort:webgpu"}
)

// TestSeedsNameTests checks that docs/seeds.md has all parts of each API, described once, and that
// the tests that it names exist.
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
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var apis []string
	parts := map[string][]string{} // by API
	for row := range strings.Lines(page) {
		row = strings.TrimSpace(row)
		if api, ok := strings.CutPrefix(row, "## "); ok {
			apis = append(apis, api)
			continue
		}
		m := seedRow.FindStringSubmatch(row)
		if m == nil || m[1] == "part" {
			continue
		}
		if len(apis) == 0 {
			fault("part %q is before the first API", m[1])
			continue
		}
		api := apis[len(apis)-1]
		if slices.Contains(parts[api], m[1]) {
			fault("%s has the part %q twice", api, m[1])
		}
		parts[api] = append(parts[api], m[1])
		for part := range strings.SplitSeq(m[2], "; ") {
			folder, names, ok := strings.Cut(part, ": ")
			if !ok {
				fault("part %q: %q is not FOLDER: TESTS", m[1], part)
			}
			for name := range strings.SplitSeq(names, ", ") {
				if !tests(folder)[name] {
					fault("part %q: folder %s has no test %s", m[1], folder, name)
				}
			}
		}
		for p := range strings.SplitSeq(m[3], ", ") {
			if !slices.Contains(seedProvider, p) {
				fault("part %q: unknown provider %q", m[1], p)
			}
		}
	}
	var want []string
	for _, s := range seedParts {
		want = append(want, s.api)
		if n := len(parts[s.api]); n != s.parts {
			fault("%s has %d parts, want %d", s.api, n, s.parts)
		}
	}
	if !slices.Equal(apis, want) {
		fault("it has the APIs %q, want %q", apis, want)
	}
	return faults
}

func TestSeedFaultsAreFound(t *testing.T) {
	tests := func(folder string) map[string]bool { return map[string]bool{folder + "Test": true} }
	var page strings.Builder
	for _, s := range seedParts {
		fmt.Fprintf(&page, "## %s\n\n| part | tests | providers |\n", s.api)
		for i := range s.parts {
			fmt.Fprintf(&page, "| part %d | a: aTest; b: bTest | all, ort:cuda |\n", i+1)
		}
	}
	good := page.String()
	if faults := seedFaults(good, tests); len(faults) != 0 {
		t.Errorf("a right page: %v", faults)
	}
	for old, new := range map[string]string{
		"| part 9 |":      "| part 8 |",
		"a: aTest;":       "a: aTest, TestNone;",
		"b: bTest":        "bTest",
		"ort:cuda":        "ort:npu",
		"| part 14 |":     "|",
		"## onnx.backend": "## onnx.reference",
	} {
		if faults := seedFaults(strings.Replace(good, old, new, 1), tests); len(faults) == 0 {
			t.Errorf("%q instead of %q is not found", new, old)
		}
	}
}
