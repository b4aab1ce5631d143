package onward

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Provider makes engines that run models, for example "cpu". Drivers for native
// runtimes register themselves in an init function, so that a blank import
// enables them, as with database/sql.
type Provider interface {
	// Name is the provider's name as in [ProviderConfig].
	Name() string
	// Available returns nil when the provider can work on this machine, or what is
	// missing. A provider whose answer depends on its options also has a method
	// AvailableFor(ProviderConfig) error, which is asked instead.
	Available() error
	// Compile makes an engine for a model.
	Compile(ctx context.Context, m *onnx.Model, opts *SessionOptions, config ProviderConfig) (Engine, error)
}

// available asks a provider whether it can work with a configuration. One whose
// answer depends on it has a method AvailableFor.
func available(p Provider, config ProviderConfig) error {
	if p, ok := p.(interface{ AvailableFor(ProviderConfig) error }); ok {
		return p.AvailableFor(config)
	}
	return p.Available()
}

// optionApplier is a provider that applies SessionOptions to the model itself. Other
// providers get a model with its dimensions fixed and its initializers replaced.
type optionApplier interface{ AppliesOptions() }

// fileCompiler is a provider that reads model files itself.
type fileCompiler interface {
	// CompileFile is Compile for the model in a file. Of the model that is passed too
	// only the description is used; its raw data may be a mapping of the file.
	CompileFile(ctx context.Context, path string, m *onnx.Model, opts *SessionOptions, config ProviderConfig) (Engine, error)
}

// readOptions say how the file of a session on one of configs is read. It is mapped where nobody takes weights from it, since
// all providers read files themselves, and with MapWeights where our own engines do, which guard what they read.
func (o *SessionOptions) readOptions(configs []ProviderConfig) *onnx.ReadOptions {
	r := &onnx.ReadOptions{MaxFileSize: o.Limits.MaxFileSize, StrictExternalData: o.StrictExternalData}
	reads, guards := len(configs) > 0, true
	for _, c := range configs {
		switch LookupProvider(c.Name).(type) {
		case fileCompiler:
			guards = false
		case native:
			reads = false
		default:
			reads, guards = false, false
		}
	}
	r.MapExternal = o.MapWeights && guards
	r.Map = reads || r.MapExternal
	return r
}

// ownedCompiler is a provider that can take a model apart while it compiles it.
type ownedCompiler interface {
	compileOwned(ctx context.Context, m *onnx.Model, opts *SessionOptions, config ProviderConfig) (Engine, error)
}

// compile makes an engine. A model from a file is the session's own; when no other provider is left to need it,
// last, it may be taken apart.
func compile(ctx context.Context, p Provider, path string, m *onnx.Model, opts *SessionOptions, config ProviderConfig, last bool) (Engine, error) {
	if _, ok := p.(optionApplier); !ok {
		var err error
		if m, opts, path, err = applyOptions(p, path, m, opts); err != nil {
			return nil, err
		}
	}
	if f, ok := p.(fileCompiler); ok && path != "" {
		return f.CompileFile(ctx, path, m, opts, config)
	}
	if o, ok := p.(ownedCompiler); ok && path != "" && last {
		return o.compileOwned(ctx, m, opts, config)
	}
	return p.Compile(ctx, m, opts, config)
}

// Engine runs one model. It is safe for concurrent use.
type Engine interface {
	// Run computes the wanted outputs. Inputs have been checked against the model's.
	// The request is not used any more when Run has returned.
	Run(ctx context.Context, req *Request) error
	// Close frees what the engine holds. No Run is active then.
	Close() error
}

// Request is one run of an engine. In and Out are in the order of the model's
// inputs and outputs.
type Request struct {
	In      []tensor.Value // nil for an input that is omitted
	Out     []tensor.Value // filled by Run; a tensor that is given is filled in place when it fits
	Wanted  []bool         // per output; nil wants all
	Options *RunOptions    // not nil
}

// ProviderConfig names a provider and its options.
//
// A session tries its providers in order. One that is not registered, not available,
// listed twice, or that cannot run the model is skipped with a warning, unless it is
// the last or [SessionOptions.DisableFallback] is set.
type ProviderConfig struct {
	Name    string            // "cpu", "reference", or the name of a registered driver
	Options map[string]string // the provider's own; an unknown option is an error
}

var providers struct {
	sync.RWMutex
	m map[string]Provider
}

// RegisterProvider makes a provider known. It panics when the name is taken.
func RegisterProvider(p Provider) {
	providers.Lock()
	defer providers.Unlock()
	if providers.m == nil {
		providers.m = map[string]Provider{}
	}
	if providers.m[p.Name()] != nil {
		panic("onward: provider " + p.Name() + " is registered twice")
	}
	providers.m[p.Name()] = p
}

// LookupProvider returns a registered provider, or nil.
func LookupProvider(name string) Provider {
	providers.RLock()
	defer providers.RUnlock()
	return providers.m[name]
}

// Providers returns the names of all registered providers, sorted.
func Providers() []string {
	providers.RLock()
	defer providers.RUnlock()
	var r []string
	for n := range providers.m {
		r = append(r, n)
	}
	slices.Sort(r)
	return r
}

// AvailableProviders returns the names of the registered providers that can work on
// this machine, sorted.
func AvailableProviders() []string {
	return slices.DeleteFunc(Providers(), func(name string) bool { return LookupProvider(name).Available() != nil })
}

func findProvider(name string) (Provider, error) {
	if p := LookupProvider(name); p != nil {
		return p, nil
	}
	return nil, &StatusError{Code: InvalidArgument, Message: fmt.Sprintf("provider %q is not registered; registered are %s", name, strings.Join(Providers(), ", "))}
}
