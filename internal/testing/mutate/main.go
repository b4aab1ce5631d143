// Command mutate breaks the source one statement at a time and reports which test catches
// each mutant:
//
//	mutate [-run REGEXP] [-list]
//
// A mutant replaces a snippet that occurs exactly once below a folder. `go test -overlay`
// compiles the changed file, so that the tree stays as it is. The exit code is 1 if a mutant
// survives its tests or does not build, if its snippet does not occur exactly once, or if the
// tests fail without it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is one change and the tests that must notice it.
type mutant struct {
	Name string // area and what is broken
	Dir  string // folder below which the snippet is, relative to the module
	Old  string // occurs exactly once
	New  string
	Test []check
}

// check is a run of go test.
type check struct {
	Package string // pattern for go test; empty for the package of the snippet
	Run     string
}

const timeout = 8 * time.Minute // of one run of go test, which may compile much

func main() {
	run := flag.String("run", "", "only mutants whose name matches this regular expression")
	list := flag.Bool("list", false, "print the mutants and run none")
	flag.Parse()
	re, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
	failed := 0
	for _, m := range mutants {
		switch {
		case !re.MatchString(m.Name):
		case *list:
			fmt.Println(m.Name)
		case !report(os.Stdout, root, m):
			failed++
		}
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "%d mutants are not caught\n", failed)
		os.Exit(1)
	}
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

// report runs the tests of a mutant, prints a line of the table and reports whether one
// caught it.
func report(w io.Writer, root string, m mutant) bool {
	by, err := try(root, m)
	switch {
	case err != nil:
		fmt.Fprintf(w, "| %s | ERROR: %v |\n", m.Name, err)
	case by == "":
		fmt.Fprintf(w, "| %s | SURVIVED |\n", m.Name)
	default:
		fmt.Fprintf(w, "| %s | %s |\n", m.Name, by)
	}
	return err == nil && by != ""
}

// try returns the package and the first test that fails with the mutant, "" if none does.
func try(root string, m mutant) (string, error) {
	file, mutated, err := apply(root, m)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	replacement, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	description, err := json.Marshal(map[string]map[string]string{"Replace": {file: replacement}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(replacement, mutated, 0o666), os.WriteFile(overlay, description, 0o666)); err !=
		nil {
		return "", err
	}
	for _, c := range m.Test {
		pkg := c.Package
		if pkg == "" {
			rel, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return "", err
			}
			pkg = "./" + filepath.ToSlash(rel)
		}
		if test, out, err := goTest(root, pkg, c.Run); test != "" || err != nil {
			return "", fmt.Errorf("%s -run %s fails without the mutant: %s %v\n%s", pkg, c.Run, test, err, out)
		}
		test, out, err := mutatedTest(root, pkg, c.Run, overlay)
		if err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		if test != "" {
			return pkg + " " + test, nil
		}
	}
	return "", nil
}

// mutatedTest runs tests with the overlay and removes the files in which rapid keeps the
// draws that failed.
func mutatedTest(root, pkg, run, overlay string) (string, string, error) {
	pattern := filepath.Join(root, pkg, "testdata", "rapid", "*", "*.fail")
	before, err := filepath.Glob(pattern)
	if err != nil {
		return "", "", err
	}
	test, out, err := goTest(root, pkg, run, "-overlay", overlay)
	after, _ := filepath.Glob(pattern)
	for _, file := range after {
		if !slices.Contains(before, file) {
			err = errors.Join(err, os.Remove(file))
			// Folders that are not empty stay.
			for dir := filepath.Dir(file); filepath.Base(dir) != "testdata" && os.Remove(dir) == nil; {
				dir = filepath.Dir(dir)
			}
		}
	}
	return test, out, err
}

// apply finds the file that has the snippet and returns it with the mutation.
func apply(root string, m mutant) (file string, mutated []byte, err error) {
	found := 0
	err = filepath.WalkDir(filepath.Join(root, filepath.FromSlash(m.Dir)),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if n := bytes.Count(src, []byte(m.Old)); n > 0 {
				found += n
				file, mutated = path, bytes.Replace(src, []byte(m.Old), []byte(m.New), 1)
			}
			return nil
		})
	if err == nil && found != 1 {
		err = fmt.Errorf("the snippet %q occurs %d times below %s, want once", m.Old, found, m.Dir)
	}
	return file, mutated, err
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	crashed    = regexp.MustCompile(`(?m)^(panic:|fatal error:|SIG|unexpected fault)`)
)

// goTest runs tests and returns the first that fails, or "" if all pass. It returns an
// error if they do not build, or if run selects no test.
func goTest(root, pkg, run string, args ...string) (string, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	args = append(append([]string{"test", "-v", "-vet=off", "-short", "-run", run}, args...), pkg)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	b, err := cmd.CombinedOutput()
	out := string(b)
	switch m := failedTest.FindStringSubmatch(out); {
	case ctx.Err() != nil:
		return "no test: it ran out of time", out, nil
	case err == nil && !strings.Contains(out, "--- PASS"):
		return "", out, fmt.Errorf("%s -run %s runs no test", pkg, run)
	case err == nil:
		return "", out, nil
	case m != nil:
		return m[1], tail(out), nil
	case crashed.MatchString(out):
		return "a crash", tail(out), nil
	}
	return "", tail(out), fmt.Errorf("go test %s: %w", pkg, err)
}

func tail(s string) string { return s[max(0, len(s)-2000):] }
