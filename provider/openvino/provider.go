package openvino

import (
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

// Available returns nil if OpenVINO's library is on this machine and finds the
// device; else an error that lists the places looked at, what each lacks, and where
// to get the library.
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
		return unavailable("OpenVINO %s there cannot list its devices: %v", l.version, err)
	}
	if kind, _, _ := strings.Cut(want, ":"); kind == "AUTO" || kind == "MULTI" || kind == "HETERO" || kind == "BATCH" {
		return nil // the session will tell
	}
	// OpenVINO says GPU for the only one, GPU.0 and GPU.1 for two.
	for _, d := range devices {
		if d == want || strings.HasPrefix(d, want+".") || want == d+".0" {
			return nil
		}
	}
	return unavailable("OpenVINO %s there finds no device %s, only %s", l.version, want, list(devices))
}

func list(devices []string) string {
	if len(devices) == 0 {
		return "none"
	}
	return strings.Join(devices, ", ")
}

func unavailable(format string, args ...any) error {
	return &driver.StatusError{Code: driver.ExecutionProvider, Message: "provider openvino is not available: " + fmt.Sprintf(format, args...)}
}

func (provider) open(config driver.Config) (*library, error) {
	l, err := open(config.Options["library"])
	if err != nil {
		return nil, &driver.StatusError{Code: driver.ExecutionProvider, Err: err,
			Message: fmt.Sprintf("provider openvino is not available: %v\nGet it with %s; or name its path in %s or in the option library.", err, get, Env)}
	}
	return l, nil
}

// Version returns the build of the library that a configuration uses, "" where it
// cannot be used.
func (p provider) Version(config driver.Config) string {
	l, err := p.open(config)
	if err != nil {
		return ""
	}
	return l.version
}

// Compile makes a session of OpenVINO, which loads the model from its file if there is one.
func (p provider) Compile(ctx context.Context, m *driver.Model, opts *driver.Options, config driver.Config) (driver.Engine, error) {
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
	if err := noCustom(m.Model, opts); err != nil {
		return nil, err
	}
	path, model := withInitializers(m.Path, m.Model, opts)
	warn(opts)
	return l.newSession(path, model, s)
}

// Info describes the library in use.
type Info struct {
	Path    string   // the file, or the bare name that the system's loader found
	Source  string   // why it was looked for there, in words
	Version string   // OpenVINO's words on its build
	Devices []string // that its plug-ins find on this machine
}

// Describe returns what the provider uses on this machine. The error is that of
// Available.
func Describe() (Info, error) {
	l, err := provider{}.open(driver.Config{})
	if err != nil {
		return Info{}, err
	}
	devices, err := l.devices()
	if err != nil {
		return Info{}, err
	}
	slices.Sort(devices)
	path := l.file
	if path == "" {
		path = l.Path
	}
	return Info{Path: path, Source: l.Source, Version: l.version, Devices: devices}, nil
}

// Needs says what the provider needs, in words.
func Needs() string { return "OpenVINO's C library, 2023.1 or later, with its plug-in for the device" }

// Attempts returns the places that were looked at, from an error of Available.
func Attempts(err error) []string { return native.Attempts(err) }
