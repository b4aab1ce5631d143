// Package backend implements the ONNX Backend API
// (https://onnx.ai/onnx/repo-docs/ImplementingAnOnnxBackend.html). [Prepare] loads a
// model for a [Backend] and returns a [Rep], which runs it.
//
//	rep, err := backend.Prepare(ctx, "model.onnx", backend.CPU, nil)
//	outs, err := rep.Run(ctx, backend.List{x0, x1}, nil)
package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Backend opens sessions for models; [Provider] implements it for the registered providers.
type Backend interface {
	// Name returns the backend's name, such as "cpu".
	Name() string
	// SupportsDevice returns nil if the backend can run on a device, else the reason.
	SupportsDevice(d Device) error
	// NewSession opens a session for a model on a device.
	NewSession(ctx context.Context, m *onnx.Model, d Device, opts *onward.SessionOptions) (*onward.Session, error)
}

// CompatibilityChecker is a [Backend] that checks, without opening a session, whether it
// supports a model.
type CompatibilityChecker interface {
	// CheckModel returns nil if the backend supports the model, else an error that
	// lists everything that is missing, such as operators.
	CheckModel(m *onnx.Model) error
}

// Provider is the [Backend] of the registered provider with that name.
type Provider string

// The providers of the Go engine.
const (
	CPU       Provider = "cpu"
	Reference Provider = "reference"
)

// Name returns the provider's name.
func (p Provider) Name() string { return string(p) }

// traits returns the provider's traits, the zero Traits if it is not registered.
func (p Provider) traits() driver.Traits { return driver.TraitsOf(driver.Lookup(string(p))) }

// CheckModel returns nil if the Go engine implements the opsets and operators of the model. A
// native library checks a model only when it opens it, so the result for its providers is nil.
func (p Provider) CheckModel(m *onnx.Model) error {
	if !p.traits().Operators {
		return nil
	}
	for _, im := range m.OpsetImports {
		if d := onnx.NormalizeDomain(im.Domain); !released(d, im.Version) {
			top, _ := onward.MaxOpset(d)
			return driver.Errorf(driver.CodeNotImplemented,
				"opset version %d of domain %q is not supported by provider %s; versions 1 to %d are", im.Version,
				domainName(d), p, top)
		}
	}
	return onward.CheckOperators(m)
}

// SupportsDevice accepts devices of the type that the provider computes on, and of
// CPUs only CPU:0, if the provider can work on this machine.
func (p Provider) SupportsDevice(d Device) error {
	return p.supports(d, driver.Config{Name: string(p)})
}

func (p Provider) supports(d Device, c driver.Config) error {
	impl, err := driver.Find(string(p))
	if err != nil {
		return invalid("%w", err)
	}
	if kind(p.Device(nil)) != kind(d) || d.IsCPU() && d.ID != 0 {
		return incompatible(d, p.Device(nil))
	}
	if c, err = p.onDevice(c, d); err != nil {
		return err
	}
	return impl.Available(c)
}

// onDevice returns the configuration with the id of a GPU as the option device_id.
func (p Provider) onDevice(c driver.Config, d Device) (driver.Config, error) {
	if d.IsCPU() || d.ID == 0 {
		return c, nil
	}
	id := strconv.Itoa(d.ID)
	if have := c.Options[optionDeviceID]; have != "" && have != id {
		return c, driver.Errorf(driver.CodeInvalidArgument, "the device is %s, the option %s of provider %s is %q",
			deviceName(d), optionDeviceID, p, have)
	}
	o := map[string]string{optionDeviceID: id}
	maps.Copy(o, c.Options)
	c.Options = o
	return c, nil
}

// ForDevice returns a provider that computes on a device such as "CPU" or "CUDA:1": [CPU], or
// the first other provider by name that can work on this machine.
func ForDevice(device string) (Provider, error) {
	d, err := ParseDevice(device)
	if err != nil {
		return "", err
	}
	for _, name := range append([]string{string(CPU)}, driver.Providers()...) {
		if p := Provider(name); p.SupportsDevice(d) == nil {
			return p, nil
		}
	}
	return "", invalid("no registered provider supports device %s on this machine", deviceName(d))
}

// optionDeviceID is the provider option that selects a GPU by its number.
const optionDeviceID = "device_id"

// Device returns the device that the provider computes on if it is opened with the
// given options of its own.
func (p Provider) Device(options map[string]string) Device {
	d := Device{Type: cmp.Or(p.traits().Device, "cpu")}
	if !d.IsCPU() {
		d.ID, _ = strconv.Atoi(options[optionDeviceID]) // an invalid number is refused when the provider opens a model
	}
	return d
}

// config returns the provider's configuration in a session's options.
func (p Provider) config(opts *onward.SessionOptions) onward.ProviderConfig {
	if opts != nil {
		for _, c := range opts.Providers {
			if c.Name == string(p) {
				return c
			}
		}
	}
	return onward.ProviderConfig{Name: string(p)}
}

// NewSession opens the model on the provider. The id of a GPU is passed to the provider
// as its option device_id.
func (p Provider) NewSession(ctx context.Context, m *onnx.Model, d Device,
	opts *onward.SessionOptions) (*onward.Session, error) {
	c, err := p.onDevice(p.config(opts), d)
	if err != nil {
		return nil, err
	}
	o := (&Options{Session: opts}).sessionOptions()
	o.Providers = []onward.ProviderConfig{c}
	return onward.OpenModel(ctx, m, &o)
}

// invalid returns an error with the status INVALID_ARGUMENT.
func invalid(format string, args ...any) error {
	return driver.Errorf(driver.CodeInvalidArgument, format, args...)
}

// ErrSkip is wrapped by the error that [Prepare] returns for a model that the backend does not
// support, so that a test runner can skip it.
var ErrSkip = errors.New("not supported by the backend")

// Options configure [Prepare]. Nil and the zero value select the defaults.
type Options struct {
	// Device is where the model runs, as [ParseDevice] reads it. Default: the device of
	// a [Provider], the CPU for other backends.
	Device string
	// Session holds the options of the session. Of its Providers, a [Provider] uses the
	// entry with its own name.
	Session *onward.SessionOptions
	// SkipCheck disables the ONNX checker, which checks models in memory: an *onnx.Model,
	// *onnx.Graph or *onnx.Function.
	SkipCheck bool
	// ReleasedOpsetsOnly refuses models that import unreleased opsets, with [ErrSkip].
	// If it is false, the provider decides. ONNX Runtime's library reads the environment
	// variable ALLOW_RELEASED_ONNX_OPSET_ONLY, and runs them only if that is 0. Default:
	// true unless the variable has another value than 1.
	ReleasedOpsetsOnly *bool
	// Example is an input of a model that is given as a function, which does not declare
	// the types of its inputs.
	Example Inputs
	// TargetOpset is the version of ai.onnx for a graph, and for a function that does not
	// import ai.onnx. Default: the newest version that the backend accepts.
	TargetOpset int64
	// NewOpset replaces the version of ai.onnx that the model imports. The nodes are not
	// converted and must be valid in that version. Default: the model's.
	NewOpset int64
	// IRVersion replaces the model's version of ONNX's IR. Default: the model's.
	IRVersion int64
	// NewOutputs names the values that become the outputs of the model, in this order.
	// Nodes, inputs and initializers that they do not need are removed. Default: the
	// model's outputs.
	NewOutputs []string
	// StaticInputs replaces inputs of the graph by constants. In a graph that is a
	// subgraph of a model, it can also define the names of the enclosing graph.
	StaticInputs map[string]*tensor.Tensor
	// SkipRun loads and checks the model without opening a session, to inspect or change
	// it. Runs of the Rep return an error.
	SkipRun bool
	// NoInplace gives every intermediate result its own memory, which sets
	// DisableMemoryReuse of the session's options.
	NoInplace bool
	// Profile records the duration of each node of all runs, see [Rep.Profiling]. With a
	// native library, the session has EnableProfiling set and a profile in a temporary
	// folder, which [Rep.Close] removes.
	Profile bool
}

func (o *Options) releasedOnly() bool {
	if o.ReleasedOpsetsOnly != nil {
		return *o.ReleasedOpsetsOnly
	}
	return releasedOnly()
}

// sessionOptions returns a copy of the options of the session.
func (o *Options) sessionOptions() onward.SessionOptions {
	if o.Session == nil {
		return onward.SessionOptions{}
	}
	return *o.Session
}

// device returns the device of the options, by default that of a provider.
func (o *Options) device(b Backend) (Device, error) {
	if p, ok := b.(Provider); ok && o.Device == "" {
		return p.Device(p.config(o.Session).Options), nil
	}
	return ParseDevice(o.Device)
}

func orDefault(o *Options) *Options {
	if o == nil {
		return &Options{}
	}
	return o
}

// Prepare loads a model for repeated runs. A session gets a Rep around it, and a Rep is
// returned unchanged. Any other model is read, and its opsets and operators are checked before
// a session is opened. The ONNX checker checks models in memory only. The outputs of YieldOp
// nodes, ONNX Runtime's operator for training, become inputs of the model, to be given in a run.
//
// If b is nil, [ForDevice] selects the backend for [Options.Device].
//
// Every error has an [onward.StatusError] in its chain. If the backend does not support the
// model, it has [ErrSkip] too.
func Prepare[S Preparable](ctx context.Context, model S, b Backend, opts *Options) (*Rep, error) {
	r, err := prepare(ctx, model, b, orDefault(opts))
	return r, driver.LoadError(err)
}

func prepare(ctx context.Context, model any, b Backend, o *Options) (*Rep, error) {
	if a, ok := model.(Any); ok {
		model = a.form
	}
	device, err := o.device(b)
	if err != nil {
		return nil, err
	}
	switch m := model.(type) {
	case *Rep:
		if m == nil {
			return nil, invalid("the Rep is nil")
		}
		if o.Device != "" && deviceName(m.Device) != deviceName(device) {
			return nil, incompatible(device, m.Device)
		}
		return m, nil
	case *onward.Session:
		if m == nil {
			return nil, invalid("the session is nil")
		}
		have := Provider(m.Provider()).Device(m.ProviderOptions()[m.Provider()])
		if o.Device != "" && deviceName(have) != deviceName(device) {
			return nil, incompatible(device, have)
		}
		r := &Rep{Session: m, Device: have, Backend: b, opts: *o}
		if o.Profile && !r.reports() {
			return nil, driver.Errorf(driver.CodeNotImplemented,
				"Profile needs a session that Prepare opens: provider %s writes its profile from the start",
				m.Provider())
		}
		if o.Profile {
			r.profile = &profile{}
		}
		return r, nil
	}
	if b == nil {
		p, err := ForDevice(o.Device)
		if err != nil {
			return nil, err
		}
		b = p
	}
	if p, ok := b.(Provider); ok {
		err = p.supports(device, p.config(o.Session))
	} else {
		err = b.SupportsDevice(device)
	}
	if err != nil {
		return nil, err
	}
	opset := o.TargetOpset
	switch model.(type) {
	case *onnx.Graph, *onnx.Function:
		if opset == 0 {
			opset = newestOpset(ctx, b, device, o.Session)
		}
	}
	m, err := load(model, opset, o.Example)
	if err != nil {
		return nil, err
	}
	if m, err = o.transform(m); err != nil {
		return nil, err
	}
	if o.releasedOnly() {
		if why := unreleased(m); why != "" {
			return nil, fmt.Errorf("%w: %w", ErrSkip, driver.Errorf(driver.CodeNotImplemented, "%s", why))
		}
	}
	// Missing operators are reported before the checker runs: without their schemas it
	// could not tell them from invalid ones.
	if err := Compatible(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSkip, err)
	}
	_, isFunction := model.(*onnx.Function)
	derived := isFunction || o.NewOutputs != nil
	if inMemory(model) && !o.SkipCheck && !(derived && !shaped(m)) {
		if err := check(b, m); err != nil {
			return nil, err
		}
	}
	r := &Rep{Model: m, Device: device, Backend: b, opts: *o}
	if o.SkipRun {
		return r, nil
	}
	session := o.Session
	if o.NoInplace {
		s := r.opts.sessionOptions()
		s.DisableMemoryReuse = true
		session = &s
	}
	if o.Profile {
		if r.profile, session, err = newProfile(b, session); err != nil {
			return nil, err
		}
	}
	r.Session, err = b.NewSession(ctx, m, device, session)
	if err != nil {
		r.profile.close()
		if !errors.Is(err, onward.ErrNotImplemented) && !strings.Contains(err.Error(), refusedOpset) {
			return nil, err
		}
		if bad := invalidModel(b, m); bad != nil {
			return nil, fmt.Errorf("%w (the backend says: %w)", driver.LoadError(bad), err)
		}
		return nil, fmt.Errorf("%w: %w", ErrSkip, err)
	}
	return r, nil
}

// inMemory reports whether a model is given as a value, not as a file or its bytes. Python's
// backends check only those. A file may have nodes in another order or outputs without shapes.
func inMemory(model any) bool {
	switch model.(type) {
	case *onnx.Model, *onnx.Graph, *onnx.Function:
		return true
	}
	return false
}

// RunModel prepares a model and runs it once.
func RunModel[S Preparable](ctx context.Context, model S, b Backend, in Inputs, opts *Options) (*Outputs, error) {
	o := *orDefault(opts)
	if o.Example == nil {
		o.Example = in
	}
	rep, err := Prepare(ctx, model, b, &o)
	if err != nil {
		return nil, err
	}
	if given := any(model); given != any(rep) && given != any(rep.Session) {
		defer rep.Close()
	}
	return rep.Run(ctx, in, nil)
}

// SupportsDevice reports whether a backend can run on a device such as "CUDA:1".
func SupportsDevice(b Backend, device string) bool {
	d, err := ParseDevice(device)
	return err == nil && b.SupportsDevice(d) == nil
}

// IsCompatible reports whether a backend can run a model on a device. The error names the
// reason: the device, an opset, or all missing operators and types.
func IsCompatible[S Source](ctx context.Context, model S, b Backend, device string) (bool, error) {
	d, err := ParseDevice(device)
	if err != nil {
		return false, err
	}
	if err := b.SupportsDevice(d); err != nil {
		return false, err
	}
	opset := int64(0)
	if _, ok := any(model).(*onnx.Graph); ok {
		opset = newestOpset(ctx, b, d, nil)
	}
	m, err := load(model, opset, nil)
	if err != nil {
		return false, err
	}
	if err := Compatible(b, m); err != nil {
		return false, err
	}
	// OpenVINO opens models of opsets that it does not know.
	if ok, why := IsOpsetSupported(m); !ok {
		return false, driver.Errorf(driver.CodeNotImplemented, "%s", why)
	}
	s, err := b.NewSession(ctx, m, d, nil)
	if err != nil {
		return false, err
	}
	return true, s.Close()
}

// Compatible returns nil, or an error that lists the operators, types and opsets of the model that
// the backend does not support. It opens no session, unlike [IsCompatible].
func Compatible(b Backend, m *onnx.Model) error {
	if c, ok := b.(CompatibilityChecker); ok {
		return c.CheckModel(m)
	}
	return nil
}

// check runs the ONNX checker. It compares operators with the schemas of this module only for
// the Go engine, since a native library may have other operators.
func check(b Backend, m *onnx.Model) error {
	o := &onnx.CheckOptions{}
	if p, ok := b.(Provider); ok && p.traits().Operators {
		o.Schema = onward.OperatorSchema
	}
	return onnx.Check(m, o)
}

// refusedOpset is part of the error of ONNX Runtime's library for an opset that it does not know
// as released. Its status is FAIL.
const refusedOpset = "with official released onnx opset versions"

// refusedIRVersion is part of its error for the version of the IR that a later opset needs.
const refusedIRVersion = "Unsupported model IR version"

// invalidModel returns an error if a native library does not support a model because that is
// invalid. The libraries give both the same status. It returns nil for a model with operators
// that this module does not know.
func invalidModel(b Backend, m *onnx.Model) error {
	if p, ok := b.(Provider); !ok || p.traits().Operators || onward.CheckOperators(m) != nil {
		return nil
	}
	if err := onnx.Check(m, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
		return err
	}
	if _, err := onward.Analyze(m, onward.Limits{}); errors.Is(err, onward.ErrInvalidGraph) {
		return err
	}
	return nil
}

// incompatible returns ONNX Runtime's error for a wrong device.
func incompatible(want, have Device) error {
	return invalid("Incompatible device expected '%s', got '%s'", deviceName(want), deviceName(have))
}

// envReleased is the environment variable of ONNX Runtime's backend that, set to another value
// than 1, allows unreleased opsets.
const envReleased = "ALLOW_RELEASED_ONNX_OPSET_ONLY"

func releasedOnly() bool {
	v, set := os.LookupEnv(envReleased)
	return !set || v == "1"
}

// IsOpsetSupported reports whether all opsets that a model imports are released, as
// is_opset_supported of ONNX Runtime's backend does: it accepts every model if the environment
// variable ALLOW_RELEASED_ONNX_OPSET_ONLY has another value than 1. If an opset is not
// released, the text is ONNX Runtime's. Domains that this module does not know are accepted.
func IsOpsetSupported(m *onnx.Model) (bool, string) {
	if !releasedOnly() {
		return true, ""
	}
	why := unreleased(m)
	return why == "", why
}

// unreleased returns ONNX Runtime's text for the first opset that is not released, or "".
func unreleased(m *onnx.Model) string {
	for _, im := range m.OpsetImports {
		if d := onnx.NormalizeDomain(im.Domain); !released(d, im.Version) {
			return fmt.Sprintf("Skipping this test as only released onnx opsets are supported.To run this test set "+
				"env variable %s to 0. Got Domain '%s' version '%d'.",
				envReleased, domainName(d), im.Version)
		}
	}
	return ""
}

// released reports whether a version of a domain is released. Versions of unknown domains are.
func released(domain string, version int64) bool {
	top, known := onward.MaxOpset(domain)
	return !known || version >= 1 && version <= int64(top)
}

func domainName(d string) string { return cmp.Or(d, "ai.onnx") }
