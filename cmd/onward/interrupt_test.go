//go:build !core && !server

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
)

// stopAfter is a context that a signal ends when it has been asked a number of times
// whether it has ended.
type stopAfter struct {
	context.Context
	left   atomic.Int64
	cancel context.CancelCauseFunc
}

func newStopAfter(ctx context.Context, n int) *stopAfter {
	c := new(stopAfter)
	c.Context, c.cancel = context.WithCancelCause(ctx)
	c.left.Store(int64(n))
	return c
}

func (c *stopAfter) asked() {
	if c.left.Add(-1) < 0 {
		c.cancel(cli.Interrupted{Signal: syscall.SIGINT})
	}
}

// Err implements context.Context.
func (c *stopAfter) Err() error {
	c.asked()
	return c.Context.Err()
}

// Done implements context.Context.
func (c *stopAfter) Done() <-chan struct{} {
	c.asked()
	return c.Context.Done()
}

// contents returns the paths below a folder.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// writers are command lines that write files to the working directory, which has the files of
// docs/tools.md, rows.csv and iris.onnx.
var writers = []string{
	"run model.onnx --inputs samples.npz --save out.npz",
	"edit simplify model.onnx -o out.onnx",
	"edit convert model.onnx -o out.onnx --float16 --external-data out.bin",
	"edit convert model.onnx -o out.onnx --float16 --embed",
	"edit dims fixed.onnx -o out.onnx --batch N",
	"optimize model.onnx -o out.onnx --external-data out.bin",
	"quantize model.onnx -o new/out.onnx --data samples.npz",
	"quantize model.onnx -o out.onnx --mode dynamic",
	"calibrate model.onnx --data samples.npz -o new",
	"calibrate model.onnx --data samples.npz --format json -o out.json --html out.html",
	"graph model.onnx --html out.html",
	"compare changed.onnx model.onnx --layers --html out.html",
	"compare model.onnx --rtol 0 --atol 0 --bisect failing",
	"bench model.onnx --iterations 3 --rounds 1 --csv out.csv --save out.json --html out.html",
	"profile model.onnx --runs 2 --peak=false --trace out.json --html out.html",
}

// TestInterruptLeavesNoFile stops each verb that writes at its first look at the context, at
// its second, fourth and so on until it ends before: it fails with the exit code of the signal
// and leaves no file.
func TestInterruptLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	documentedFiles(t, dir)
	t.Chdir(dir)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := contents(t, dir)
	for _, line := range writers {
		stopped := 0
		for n := 0; ; n = 2*n + 1 {
			var out, errs bytes.Buffer
			code := run(newStopAfter(t.Context(), n), strings.Fields(line), &out, &errs)
			if code == exitOK || code == exitFailed && errs.Len() == 0 {
				break
			}
			stopped++
			if code != 130 || errs.String() != "onward: interrupted\n" {
				t.Errorf("onward %s, stopped after %d looks: exit code %d, %s", line, n, code, &errs)
			}
			if after := contents(t, dir); !slices.Equal(after, before) || len(contents(t, temp)) > 1 {
				t.Fatalf("onward %s, stopped after %d looks, leaves %v and %v", line, n, after, contents(t, temp))
			}
		}
		after := contents(t, dir)
		if stopped == 0 || len(after) == len(before) {
			t.Errorf("onward %s: was stopped %d times and wrote %d files", line, stopped, len(after)-len(before))
		}
		for _, path := range after {
			if !slices.Contains(before, path) {
				if strings.HasPrefix(filepath.Base(path), ".") {
					t.Errorf("onward %s leaves %s", line, path)
				}
				os.RemoveAll(path)
			}
		}
	}
}

// TestInterruptedMap stops map: the file is not there, and --resume completes it.
func TestInterruptedMap(t *testing.T) {
	t.Chdir(t.TempDir())
	rows := "a,b\n" + strings.Repeat("5.1,3.5\n", 100)
	if err := os.WriteFile("rows.csv", []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"map", "logreg_iris.onnx", "rows.csv", "-o", "out.csv", "--bind", "float_input=a,b", "--outputs",
		"output_label", "--batch", "10", "--resume"}
	stopped := 0
	for n := 0; ; n++ {
		var out, errs bytes.Buffer
		code := run(newStopAfter(t.Context(), n), args, &out, &errs)
		if code == exitOK {
			break
		}
		if stopped++; code != 130 || !strings.HasPrefix(errs.String(), "onward: interrupted") {
			t.Fatalf("exit code %d, %s", code, &errs)
		}
		if _, err := os.Stat("out.csv"); err == nil {
			t.Fatal("an interrupted job has written its file")
		}
		if rest := len(contents(t, ".")) > 2; rest != strings.Contains(errs.String(), "--resume continues it") {
			t.Fatalf("files %v after %s", contents(t, "."), &errs)
		}
	}
	got, err := os.ReadFile("out.csv")
	if want := strings.ReplaceAll(strings.Replace(rows, "b\n", "b,output_label\n", 1), "3.5\n",
		"3.5,0\n"); err != nil || string(got) != want {
		t.Errorf("%v, got\n%s", err, got)
	}
	if files := contents(t, "."); len(files) != 3 || stopped == 0 {
		t.Errorf("stopped %d times; files %v", stopped, files)
	}
}
