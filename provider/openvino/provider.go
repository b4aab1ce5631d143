package openvino

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/provider/internal/native"
)

// Name is the name of the provider.
const Name = "openvino"

const get = "pip install openvino, or an archive from https://docs.openvino.ai/install"

type provider struct{}

func init() { driver.Register(provider{}) }

func (provider) Name() string { return Name }

// Traits implements [driver.Describer].
func (provider) Traits() driver.Traits { return driver.Traits{AppliesOptions: true, ReadsFiles: true} }

// Available returns nil if OpenVINO's library is on this machine and finds the device.
// Otherwise the error lists the paths that were tried, what each lacks, and how to install
// the library.
func (p provider) Available(config driver.Config) error {
	want := "CPU"
	if d := config.Options["device"]; d != "" {
		var err error
		if want, err = native.Check(Name, "device", d, device); err != nil {
			return err
		}
	}
	l, err := p.open(config)
	if err != nil {
		return err
	}
	devices, err := l.devices()
	if err != nil {
		return unavailable("OpenVINO %s cannot list its devices: %v", l.version, err)
	}
	if kind, _, _ := strings.Cut(want, ":"); kind == "AUTO" || kind == "MULTI" || kind == "HETERO" || kind == "BATCH" {
		return nil // creating the session checks these
	}
	// OpenVINO names a single device GPU, and several GPU.0, GPU.1 and so on.
	for _, d := range devices {
		if d == want || strings.HasPrefix(d, want+".") || want == d+".0" {
			return nil
		}
	}
	return unavailable("OpenVINO %s does not find device %s, only %s", l.version, want, list(devices))
}

func list(devices []string) string {
	if len(devices) == 0 {
		return "none"
	}
	return strings.Join(devices, ", ")
}

func unavailable(format string, args ...any) error {
	return &driver.StatusError{Code: driver.CodeExecutionProvider, Message: "provider openvino is not available: " +
		fmt.Sprintf(format, args...)}
}

func (provider) open(config driver.Config) (*library, error) {
	l, err := open(config.Options["library"])
	if err != nil {
		return nil, &driver.StatusError{Code: driver.CodeExecutionProvider, Err: err,
			Message: fmt.Sprintf("provider openvino is not available: %v\n"+
				"Get it with %s; or name its path in %s or in the option library.", err, get, Env)}
	}
	return l, nil
}

// Compile creates a session. OpenVINO loads the model from its file if there is one.
func (p provider) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	config driver.Config) (driver.Engine, error) {
	s, err := parse(opts, config)
	if err != nil {
		return nil, err
	}
	l, err := p.open(config)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.fixed = fixedDims(m.Model, opts)
	if opts.EnableProfiling {
		if l.table[fnProfile] == 0 {
			return nil, notImplemented("OpenVINO %s has no profiles in its C API", l.version)
		}
		s.properties[perfCount] = "YES"
	}
	if err := noCustom(m.Model, opts); err != nil {
		return nil, err
	}
	path, model := withInitializers(m.Path, m.Model, opts)
	if path, model, err = inlined(ctx, path, model, opts); err != nil {
		return nil, err
	}
	warn(opts)
	return l.newSession(path, model, s)
}

// Library implements [driver.LibraryUser].
func (p provider) Library(config driver.Config) (*driver.Library, error) {
	l, err := p.open(config)
	if err != nil {
		return nil, err
	}
	devices, err := l.devices()
	if err != nil {
		return nil, err
	}
	slices.Sort(devices)
	return &driver.Library{Name: "OpenVINO", Path: cmp.Or(l.file, l.Path), Source: l.Source, Version: l.version,
		Providers: devices}, nil
}

// Needs implements [driver.LibraryUser].
func (provider) Needs() string {
	return "OpenVINO's C library, 2023.1 or later, with its plug-in for the device"
}
