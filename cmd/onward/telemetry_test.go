package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/provider/ort"
)

// asCommand makes a process of the test binary run as the command.
const asCommand = "ONWARD_TEST_AS_COMMAND"

// beforeProcess is called in such a process before the command.
var beforeProcess func()

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		if beforeProcess != nil {
			beforeProcess()
		}
		os.Exit(process())
	}
	os.Exit(m.Run())
}

// TestNothingIsSent runs a model on every provider in a process whose home folder is empty, under
// strace if that is installed: no provider may connect to a network or leave files behind. ONNX
// Runtime's telemetry would do both.
func TestNothingIsSent(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each provider")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Logf("strace is not installed: connections are not traced")
	}
	for _, c := range []struct{ provider, library string }{{"cpu", ""}, {"reference", ""},
		{"ort", ort.Env}, {"openvino", openvino.Env}} {
		t.Run(c.provider, func(t *testing.T) {
			home, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
			env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + home,
				"XDG_DATA_HOME=" + home,
				"XDG_CONFIG_HOME=" + home, "TMPDIR=" + home, asCommand + "=1"}
			switch c.library {
			case ort.Env:
				env = append(env, ort.Env+"="+ortlib.Path(t))
			case openvino.Env:
				env = append(env, openvino.Env+"="+openvinolib.Path(t))
			}
			args := []string{os.Args[0], "run", "logreg_iris.onnx", "--input", iris, "--output", "output_label",
				"--provider", c.provider}
			if c.provider == "openvino" { // has no tree and linear operators of ai.onnx.ml
				args = []string{os.Args[0], "run", "sigmoid.onnx", "--input", "x=zeros", "--provider", c.provider}
			}
			if strace != "" {
				args = append([]string{strace, "-f", "-o", trace, "-e", "trace=network"}, args...)
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
			}
			if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
				t.Errorf("the home folder holds %v afterwards (%v)", left, err)
			}
			if strace == "" {
				return
			}
			calls, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(calls), "exited with 0") {
				t.Errorf("strace saw no process end:\n%s", calls)
			}
			if sent := regexp.MustCompile(`(?m)^.*\b(AF_INET6?|sendto|sendmsg|connect)\b.*$`).FindAll(calls, -1); sent != nil {
				t.Errorf("the process used the network:\n%s", sent)
			}
		})
	}
}
