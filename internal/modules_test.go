package internal

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// requirements lists the modules that the root's go.mod requires, and who needs them. It changes
// with the design and never to make a build pass: every module that imports Onward carries them
// in its module graph.
var requirements = map[string]string{
	"github.com/ebitengine/purego":  "internal/dl",
	"github.com/google/flatbuffers": "ORT format and calibration tables",
	"github.com/google/go-cmp":      "tests",
	"golang.org/x/image":            "imagecodec/webp",
	"golang.org/x/sys":              "memory mapping and CPU features",
	"google.golang.org/protobuf":    "protowire",
	"pgregory.net/rapid":            "tests",
}

// goMod is the part that the tests need of `go mod edit -json` and `go work edit -json`.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Use     []struct{ DiskPath string }
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// goCommand runs the go command in a folder, without the workspace, and returns its output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("modules are not checked: %v", err)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, errs.String())
	}
	return string(out)
}

func readGoMod(t *testing.T, dir string, args ...string) goMod {
	t.Helper()
	var m goMod
	if err := json.Unmarshal([]byte(goCommand(t, dir, args...)), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// workspace returns go.work and the go.mod files that it lists, by folder.
func workspace(t *testing.T) (goMod, map[string]goMod) {
	t.Helper()
	watch(t)
	work, modules := readGoMod(t, "..", "work", "edit", "-json", "go.work"), map[string]goMod{}
	for _, use := range work.Use {
		dir := filepath.Join("..", use.DiskPath)
		modules[dir] = readGoMod(t, dir, "mod", "edit", "-json")
	}
	return work, modules
}

func TestRootRequiresLittle(t *testing.T) {
	var got []string
	for _, r := range readGoMod(t, "..", "mod", "edit", "-json").Require {
		got = append(got, r.Path)
	}
	if want := slices.Sorted(maps.Keys(requirements)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("go.mod requires %v, want %v", got, want)
	}
}

// TestModuleGraphOfConsumer checks the module graph of a program that imports the root alone.
func TestModuleGraphOfConsumer(t *testing.T) {
	watch(t)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/consumer\n\ngo 1.26\n\nrequire " + module + " v0.1.0\n\nreplace " + module + " => " + root + "\n",
		"main.go": "package main\n\nimport _ \"" + module + "\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	goCommand(t, dir, "mod", "tidy")
	got := strings.Fields(goCommand(t, dir, "list", "-m", "-f", "{{.Path}}", "all"))
	// the latter by protobuf
	want := append(slices.Collect(maps.Keys(requirements)), "example.com/consumer", module,
		"github.com/golang/protobuf")
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the module graph has %v, want %v", got, want)
	}
}

// TestModulesAgree checks that the modules of go.work require each other at the version that
// go.work replaces, other modules at one version, and that none has a replace directive.
func TestModulesAgree(t *testing.T) {
	work, modules := workspace(t)
	version := map[string]string{}
	for _, r := range work.Replace {
		version[r.Old.Path] = r.Old.Version
		if m := modules[filepath.Join("..", r.New.Path)]; m.Module.Path != r.Old.Path ||
			r.Old.Version != work.Replace[0].Old.Version {
			t.Errorf("go.work replaces %s %s with %s", r.Old.Path, r.Old.Version, r.New.Path)
		}
	}
	for dir, m := range modules {
		if m.Go != work.Go {
			t.Errorf("%s is for Go %s, go.work for %s", dir, m.Go, work.Go)
		}
		if len(m.Replace) > 0 {
			t.Errorf("%s replaces modules, so go install PACKAGE@VERSION refuses it", dir)
		}
		for _, r := range m.Require {
			if inModule(r.Path) && version[r.Path] == "" {
				t.Errorf("%s requires %s, which go.work does not replace", dir, r.Path)
			}
			if version[r.Path] == "" {
				version[r.Path] = r.Version
			}
			if r.Version != version[r.Path] {
				t.Errorf("%s requires %s %s, others require %s", dir, r.Path, r.Version, version[r.Path])
			}
		}
	}
}

// TestModulesAreComplete checks that each go.mod lists what its packages and tests need. In a
// workspace, the requirements of the other modules would hide what is missing.
func TestModulesAreComplete(t *testing.T) {
	work, modules := workspace(t)
	for dir := range modules {
		file := filepath.Join(t.TempDir(), "go.mod")
		for from, to := range map[string]string{"go.mod": file, "go.sum": strings.TrimSuffix(file, "mod") + "sum"} {
			text, err := os.ReadFile(filepath.Join(dir, from))
			if err != nil && from == "go.mod" {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		edit := []string{"mod", "edit"}
		for _, r := range work.Replace {
			if r.Old.Path == modules[dir].Module.Path {
				continue
			}
			to, err := filepath.Abs(filepath.Join("..", r.New.Path))
			if err != nil {
				t.Fatal(err)
			}
			edit = append(edit, "-replace="+r.Old.Path+"="+to)
		}
		if len(edit) > 2 {
			goCommand(t, dir, append(edit, file)...)
		}
		goCommand(t, dir, "list", "-modfile="+file, "-deps", "-test", "./...")
	}
}
