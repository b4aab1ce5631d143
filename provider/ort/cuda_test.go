package ort

import (
	"errors"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/ortlib"
)

// TestAvailableCountsDevices gives the CUDA provider's options to a library that loads, with
// the number of devices that the test sets.
func TestAvailableCountsDevices(t *testing.T) {
	lib := ortlib.Path(t)
	for _, c := range []struct {
		devices int
		err     error
		id      string
		want    string
	}{
		{devices: 1}, {devices: 2, id: "1"},
		{devices: 0, want: "finds no device on this machine"},
		{devices: 0, id: "0", want: "finds no device on this machine"},
		{devices: 1, id: "1", want: "option device_id is 1, CPUExecutionProvider finds 1 devices"},
		{err: errors.New("CUDA error 35"), want: "CUDA error 35"},
	} {
		ep := *cpu
		ep.title, ep.device, ep.options = "CUDA", "cuda", cudaOptions
		ep.devices = func(*library) (int, error) { return c.devices, c.err }
		config := driver.Config{Name: "ort:cuda", Options: map[string]string{"library": lib}}
		if c.id != "" {
			config.Options["device_id"] = c.id
		}
		err := provider{"ort:cuda", &ep}.Available(config)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if !errors.Is(err, onward.ErrExecution) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCountDevices(t *testing.T) {
	for _, c := range []struct {
		status, stored int32
		want           int
		err            string
	}{{0, 3, 3, ""}, {100, 0, 0, ""}, {35, 0, 0, "libcudart.so.12 cannot count the devices: CUDA error 35"}} {
		n, err := countDevices("libcudart.so.12", func(n *int32) int32 { *n = c.stored; return c.status })
		if n != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
}

// The library of the CUDA provider is not on every machine; a program of the test's own
// machine does not link CUDA's runtime, and no file gives no names.
func TestCUDARuntimes(t *testing.T) {
	for _, file := range []string{"/proc/self/exe", "/nowhere/libonnxruntime_providers_cuda.so"} {
		if names := cudaRuntimes(file); len(names) != 0 {
			t.Errorf("%s links %v", file, names)
		}
	}
}
