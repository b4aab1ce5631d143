package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
)

// crashes is a variable of the environment. It registers a provider whose library ends the process
// when it opens a model, as OpenVINO 2026.4 does for some quantized models.
const crashes = "ONWARD_TEST_CRASHES"

type crashing struct{}

func (crashing) Name() string                  { return "test:crash" }
func (crashing) Available(driver.Config) error { return nil }
func (crashing) Needs() string                 { return "" }
func (crashing) Library(driver.Config) (*driver.Library, error) {
	return &driver.Library{Name: "a library"}, nil
}
func (crashing) Compile(context.Context, *driver.Model, *driver.Options, driver.Config) (driver.Engine, error) {
	go panic("crash of a library") // no caller can recover it
	select {}
}

// A library that crashes must not end the verbs that try several providers.
func TestCrashingLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"check", "logreg_iris.onnx"}, "test:crash: cannot run it: "},
		{[]string{"inspect", "logreg_iris.onnx"}, "provider test:crash: "},
		{[]string{"tune", "logreg_iris.onnx", "--provider", "cpu,test:crash", "--duration", "3ms", "--no-cache",
			"--shape", "float_input=3x2"}, ""},
		{[]string{"bench", "logreg_iris.onnx", "--provider", "cpu,test:crash", "--duration", "3ms",
			"--shape", "float_input=3x2"}, ""},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			cmd := exec.Command(os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), asCommand+"=1", crashes+"=1")
			b, _ := cmd.CombinedOutput() // bench fails if a provider does
			out := string(b)
			if !strings.Contains(out, c.want) || !strings.Contains(out, "has ended: panic: crash of a library") ||
				!strings.Contains(out, "cpu") || strings.Contains(out, "goroutine ") {
				t.Errorf("prints\n%s", out)
			}
		})
	}
}
