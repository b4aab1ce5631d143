package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/fakecuda"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/preset"
)

// child is set in the process that TestStandIn starts: a process can use the execution
// providers of one ONNX Runtime only.
const child = "ONWARD_GPU_CHECK"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		os.Args = []string{os.Args[0], "-standin"}
		os.Exit(check())
	}
	os.Exit(m.Run())
}

// TestStandIn runs all checks that only copy, on ONNX Runtime's own CUDA and TensorRT
// providers.
func TestStandIn(t *testing.T) {
	ortlib.GPU.Path(t)
	suite.Dir(t)
	if err := fakecuda.Build(t.Context(), ortlib.GPU.Path(t), t.TempDir()); errors.Is(err, fakecuda.ErrAbsent) {
		t.Skip(err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), child+"=1", ortlib.Env+"="+ortlib.GPU.Path(t))
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n13 ok, 0 failed\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// onCPU is a target on every machine, to test the checks with.
func onCPU(t *testing.T) target {
	t.Helper()
	t.Setenv(ortlib.Env, ortlib.Path(t))
	return target{provider: "ort:cpu", memory: onward.Device{Type: "cpu"}}
}

func TestScenarios(t *testing.T) {
	here := onCPU(t)
	for _, s := range scenarios {
		for _, copies := range []bool{false, true} {
			c := &checker{copies: copies}
			if text, err := c.bind(context.Background(), here, s); err != nil || !strings.Contains(text, "right") {
				t.Errorf("%s, copies %t: %q, %v", s.name, copies, text, err)
			}
		}
	}
}

// TestQDQ runs the model for OrtTensorRTInt8QDQ on both engines that are here.
func TestQDQ(t *testing.T) {
	here := onCPU(t)
	m, err := qdq()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"cpu", here.provider} {
		s, err := onward.OpenModel(t.Context(), m,
			&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Run(context.Background(), onward.Values{"image": digits(3)}, nil); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestPresetsAndTimes(t *testing.T) {
	here := onCPU(t)
	if text, err := tryPreset(context.Background(), preset.OrtCPU{}); err != nil || !strings.Contains(text, "agrees") {
		t.Errorf("OrtCPU: %q, %v", text, err)
	}
	dir := suite.Dir(t)
	c := &checker{data: dir, duration: time.Millisecond, targets: []target{{provider: "ort:cpu"}}}
	text, err := c.time(context.Background(), "light_squeezenet")
	if err != nil || !strings.HasPrefix(text, "cpu ") || !strings.Contains(text, here.provider+" ") {
		t.Errorf("times: %q, %v", text, err)
	}
}

// TestWithoutGPU proves that every row which needs a GPU says that it is missing,
// and that the table then does not pass.
func TestWithoutGPU(t *testing.T) {
	none := errors.New("there is no NVIDIA GPU")
	c := &checker{targets: targets, progress: io.Discard, gpu: none}
	c.all()
	if c.run(context.Background()) {
		t.Error("the checks pass without a GPU")
	}
	kinds := map[string]int{}
	for _, r := range c.rows {
		kinds[r.kind]++
		if r.kind != "doctor" && !errors.Is(r.err, none) {
			t.Errorf("%s %s: %v, want that there is no GPU", r.kind, r.name, r.err)
		}
	}
	for kind, want := range map[string]int{"machine": 1, "doctor": 3, "conformance": 2, "preset": 6,
		"binding": 6, "time": 4} {
		if kinds[kind] != want {
			t.Errorf("%d rows of kind %s, want %d", kinds[kind], kind, want)
		}
	}
	var b bytes.Buffer
	c.print(&b)
	// The three rows of doctor look at libraries, which may be here.
	var ok, failed int
	last := b.String()[strings.LastIndexByte(strings.TrimSpace(b.String()), '\n')+1:]
	if _, err := fmt.Sscanf(last, "%d ok, %d failed", &ok, &failed); err != nil || failed < 19 || ok+failed != 22 {
		t.Errorf("the table ends %q, want 22 rows of which 19 failed", last)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 700 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}

func TestInclude(t *testing.T) {
	c := &checker{targets: targets, progress: io.Discard, gpu: errors.New("none"), include: []string{"binding"}}
	c.all()
	c.run(context.Background())
	if len(c.rows) != 6 {
		t.Errorf("%d rows, want the 6 of bindings", len(c.rows))
	}
}

// TestPresetsGetFarEnough proves that without CUDA the presets fail for want of it,
// and not for their models, tables and options.
func TestPresetsGetFarEnough(t *testing.T) {
	onCPU(t)
	for _, p := range presets() {
		if _, err := tryPreset(context.Background(), p); err != nil && !errors.Is(err, onward.ErrExecution) {
			t.Errorf("%s: %v, want status EP_FAIL", p.Name(), err)
		}
	}
}
