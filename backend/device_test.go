package backend_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/driver"
)

// fakeGPU is a provider that claims to compute on a GPU and computes with the reference
// engine.
type fakeGPU struct {
	name   string
	config onward.ProviderConfig // of the last Compile
}

func (g *fakeGPU) Name() string { return g.name }

// Available counts eight devices.
func (g *fakeGPU) Available(c driver.Config) error {
	if id, _ := strconv.Atoi(c.Options["device_id"]); id >= 8 {
		return driver.Errorf(driver.CodeExecutionProvider, "device_id is %d of 8 devices", id)
	}
	return nil
}

func (g *fakeGPU) Traits() driver.Traits { return driver.Traits{Device: "cuda"} }

func (g *fakeGPU) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	c driver.Config) (driver.Engine, error) {
	g.config = c
	return driver.Lookup(string(backend.Reference)).
		Compile(ctx, m, opts, onward.ProviderConfig{Name: string(backend.Reference)})
}

var gpu = &fakeGPU{name: "fake:cuda"}

func init() { driver.Register(gpu) }

// TestDeviceReachesTheProvider prepares for several devices and looks at the options that
// the provider gets, and at the device of the Rep.
func TestDeviceReachesTheProvider(t *testing.T) {
	b, err := backend.ForDevice(onward.GetDevice())
	if err != nil || b != backend.Provider(gpu.name) {
		t.Fatalf("the provider for %q is %s, %v", onward.GetDevice(), b, err)
	}
	if got, err := backend.ForDevice("CPU"); got != backend.CPU {
		t.Errorf("the provider for the CPU is %s, %v", got, err)
	}
	if got, err := backend.ForDevice("CPU:1"); err == nil {
		t.Errorf("the provider for CPU:1 is %s", got)
	}
	if got := onward.GetDevice(); got != "GPU" {
		t.Fatalf("GetDevice returns %q with a provider for GPUs", got)
	}
	for _, c := range []struct{ device, option, want, err string }{
		{device: onward.GetDevice(), want: ""},
		{device: "", want: ""},
		{device: "CUDA", want: ""},
		{device: "CUDA:7", want: "7"},
		{device: "GPU:7", option: "7", want: "7"},
		{device: "", option: "3", want: "3"},
		{device: "CUDA:7", option: "3", err: `the device is CUDA:7, the option device_id of provider fake:cuda is "3"`},
		{device: "CUDA:8", err: "device_id is 8 of 8 devices"},
		{device: "", option: "9", err: "device_id is 9 of 8 devices"},
		{device: "CPU", err: "Incompatible device expected 'CPU', got 'CUDA'"},
	} {
		o := &backend.Options{Device: c.device, Session: &onward.SessionOptions{}}
		if c.option != "" {
			o.Session.Providers = []onward.ProviderConfig{{Name: gpu.name,
				Options: map[string]string{"device_id": c.option}}}
		}
		r, err := backend.Prepare(t.Context(), linear(), b, o)
		if strings.HasPrefix(c.device, "CUDA") && err == nil && c.option == "" { // the device selects the backend
			alone, err := backend.Prepare(t.Context(), linear(), nil, &backend.Options{Device: c.device})
			if err != nil || alone.Backend != r.Backend || alone.Device != r.Device {
				t.Errorf("%+v without a backend: %+v, %v", c, alone, err)
			}
		}
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := gpu.config.Options["device_id"]; got != c.want {
			t.Errorf("%+v: the provider's device_id is %q", c, got)
		}
		if id, _ := strconv.Atoi(c.want); r.Device != (backend.Device{Type: "cuda", ID: id}) {
			t.Errorf("%+v: the Rep's device is %s", c, r.Device)
		}
		if s := prepare(t, r.Session, b, nil); s.Device != r.Device {
			t.Errorf("%+v: the Rep of the session is on %s", c, s.Device)
		}
		// A Rep of a changed model stays on the device.
		again, err := r.BuildIntermediate(t.Context(), "h")
		if err != nil {
			t.Fatal(err)
		}
		if again.Device != r.Device || gpu.config.Options["device_id"] != c.want {
			t.Errorf("%+v: the changed model is on %s with device_id %q", c, again.Device,
				gpu.config.Options["device_id"])
		}
		again.Close()
		r.Close()
	}
}

func TestSupportsDevice(t *testing.T) {
	for _, c := range []struct {
		b      backend.Provider
		device string
		want   bool
	}{
		{backend.CPU, "CPU", true}, {backend.Reference, "CPU", true}, {backend.CPU, "CPU:1", false},
		{backend.CPU, "CUDA", false}, {backend.CPU, "XPU", false}, {"nosuch", "CPU", false},
		{backend.Provider(gpu.name), "CUDA:7", true}, {backend.Provider(gpu.name), "CUDA:8", false},
	} {
		if got := backend.SupportsDevice(c.b, c.device); got != c.want {
			t.Errorf("%s on %s: %v", c.b, c.device, got)
		}
	}
}
