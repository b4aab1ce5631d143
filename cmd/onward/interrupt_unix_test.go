//go:build unix && !core && !server

package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/onnx"
)

// interruptItself makes a process of the test binary send itself a SIGINT while a run that never
// ends is in progress.
const interruptItself = "ONWARD_TEST_INTERRUPT"

func init() {
	if os.Getenv(interruptItself) == "" {
		return
	}
	beforeProcess = func() {
		start := cputime.Now()
		go func() {
			for start.Elapsed() < 50*time.Millisecond { // whenever it comes, the run has not ended
				time.Sleep(time.Millisecond)
			}
			syscall.Kill(os.Getpid(), syscall.SIGINT)
		}()
	}
}

// endless is a model with a Loop that never ends.
func endless(t *testing.T) *onnx.Model {
	t.Helper()
	body := onnx.NewGraph("body").Input("i", onnx.Int64).Input("go", onnx.Bool).Input("s", onnx.Float, "N", 4)
	body.Output("on", onnx.Bool).Output("next", onnx.Float, "N", 4)
	body.Node("Identity", []string{"go"}, []string{"on"})
	body.Node("Sin", []string{"s"}, []string{"next"})
	g, err := body.Graph()
	if err != nil {
		t.Fatal(err)
	}
	b := onnx.NewModel("endless").Opset("", 21)
	b.Input("x", onnx.Float, "N", 4).Output("y", onnx.Float, "N", 4)
	b.Initializer("true", []bool{true})
	b.Node("Loop", []string{"", "true", "x"}, []string{"y"}, onnx.Attrs{"body": g})
	return b.Must()
}

// TestInterruptSignal sends SIGINT to processes in the middle of a run.
func TestInterruptSignal(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := onnx.WriteFile("m.onnx", endless(t), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("rows.csv", []byte("a,b,c,d\n1,2,3,4\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	before := contents(t, ".")
	temp := t.TempDir()
	for _, line := range []string{
		"run m.onnx --random --save out.npz",
		"edit simplify m.onnx -o out.onnx",
		"quantize m.onnx -o out.onnx --data random:1",
		"calibrate m.onnx --data random:1 -o out",
		"compare m.onnx --layers --html out.html",
		"compare m.onnx --bisect out",
		"bench m.onnx --csv out.csv",
		"profile m.onnx --trace out.json --html out.html",
		"map m.onnx rows.csv -o out.csv --bind x=a,b,c,d",
	} {
		words := strings.Fields(line)
		cmd := exec.Command(os.Args[0], words...)
		cmd.Env = append(os.Environ(), asCommand+"=1", interruptItself+"=1", "TMPDIR="+temp)
		want := "onward: interrupted\n"
		if words[0] == "map" {
			want = "onward: interrupted after 0 rows\n"
		}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != 130 || errs.String() != want {
			t.Errorf("onward %s: exit code %d, want 130\n%s", line, code, &errs)
		}
		if after := contents(t, "."); !slices.Equal(after, before) || len(contents(t, temp)) > 1 {
			t.Fatalf("onward %s leaves %v and %v", line, contents(t, "."), contents(t, temp))
		}
	}
}
