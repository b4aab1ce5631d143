// Command modelfiles runs the model files of folders, such as clones of other projects, on the two
// Go engines and compares their results:
//
//	modelfiles [-command PATH] [-timeout 30s] FOLDER…
//
// A file uses the inputs of test_data_set_0 beside it, as in ONNX's backend suite, else random
// ones. The exit code is 1 if results differ or only one engine refuses a file.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Outcomes for a file.
const (
	agree   = "the engines agree"
	differ  = "the results differ"
	refused = "both engines refuse"
	oneOnly = "one engine refuses"
	late    = "an engine exceeds the timeout"
)

// runner runs the onward command and returns its output, and the error of a failure.
type runner func(args ...string) (stdout, stderr string, err error)

func main() {
	command := flag.String("command", "onward", "the onward to run")
	timeout := flag.Duration("timeout", 30*time.Second, "longest time of a run")
	flag.Parse()
	counts, err := all(flag.Args(), func(args ...string) (string, string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), *timeout)
		defer cancel()
		c := exec.CommandContext(ctx, *command, args...)
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		err := c.Run()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return stdout.String(), stderr.String(), err
	})
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%s: %d\n", what, counts[what])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "modelfiles:", err)
	}
	if err != nil || counts[differ]+counts[oneOnly] > 0 {
		os.Exit(1)
	}
}

// all classifies the files of folders and prints those on which the engines do not agree.
func all(folders []string, run runner) (map[string]int, error) {
	counts := map[string]int{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".onnx" {
				return err
			}
			what, detail := classify(path, run)
			if counts[what]++; what != agree {
				fmt.Printf("%s: %s: %s\n", path, what, detail)
			}
			return nil
		})
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// classify runs a file on both engines.
func classify(path string, run runner) (what, detail string) {
	inputs := []string{"--random"}
	var given []string
	if data := filepath.Join(filepath.Dir(path), "test_data_set_0"); isFolder(data) {
		inputs = []string{"--inputs", data}
		given = inputs
	}
	stdout, stderr, err := run(append([]string{"compare", path, "--provider", "cpu,reference", "--json"}, given...)...)
	switch {
	case err == nil:
		return agree, ""
	case errors.Is(err, context.DeadlineExceeded):
		return late, ""
	case strings.HasPrefix(stdout, "{"):
		return differ, stderr
	}
	failed := map[string]bool{}
	for _, p := range []string{"cpu", "reference"} {
		_, text, err := run(append([]string{"run", path, "--provider", p, "--threads", "1"}, inputs...)...)
		if errors.Is(err, context.DeadlineExceeded) {
			return late, p
		}
		if failed[p] = err != nil; err != nil {
			detail += p + ": " + strings.TrimSpace(text) + "; "
		}
	}
	if failed["cpu"] != failed["reference"] {
		return oneOnly, detail
	}
	if !failed["cpu"] { // the comparison fails although both run
		return differ, stderr
	}
	return refused, detail
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
