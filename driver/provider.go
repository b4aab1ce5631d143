package driver

import (
	"context"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Provider makes engines that run models. It may also implement [Describer] and
// [LibraryUser].
type Provider interface {
	// Name returns the provider's name as in [Config].
	Name() string
	// Available returns nil if the provider can work on this machine with a
	// configuration, else what is missing.
	Available(config Config) error
	// Compile makes an engine for a model. A context that ends stops it.
	Compile(ctx context.Context, m *Model, opts *Options, config Config) (Engine, error)
}

// Config names a provider and its options.
//
// A session tries its providers in order. It skips one that is not registered, not
// available, listed twice or unable to run the model, with a warning, unless it is the
// last one or fallback is disabled.
type Config struct {
	Name    string            // "cpu", "reference", or the name of a registered provider
	Options map[string]string // the provider's own; an unknown option is an error
}

// Model is a model to compile. Its free dimensions have been fixed as [Options] says.
type Model struct {
	*onnx.Model
	// Path is the file that the model was read from, empty for a model in memory. The file
	// still has the dimensions and initializers that Options replace; a provider without
	// [Traits.AppliesOptions] gets no path then.
	Path string
	// Hash identifies the bytes of the model. It is set if the session may share an
	// engine through [Options.PrepackedWeights].
	Hash string
	// Owned says that nothing else uses the model: Compile may take it apart, which
	// keeps large weights from being in memory twice.
	Owned bool
}

// Engine runs one model. It is safe for concurrent use. It may also implement [Binder],
// [Allocator] and [Profiler].
type Engine interface {
	// Run computes the wanted outputs. The session has checked the inputs against the
	// model's declarations. Run must not keep the request.
	Run(ctx context.Context, req *Request) error
	// Close frees what the engine holds. No Run is active then.
	Close() error
}

// Request is one run of an engine. The order of In is the model's inputs without
// initializers, then those with; that of Out is the model's outputs. Sparse tensors are
// in COO format.
type Request struct {
	In      []tensor.Value // nil for an input that is omitted
	Out     []tensor.Value // filled by Run; a tensor that is given is filled in place if it fits
	Wanted  []bool         // per output; nil wants all
	Options *RunOptions    // not nil
}

// Describer is a [Provider] whose traits differ from the zero [Traits].
type Describer interface {
	Traits() Traits
}

// Traits say how a provider takes models and runs them.
type Traits struct {
	// Device is the type of the device that the provider computes on, as in
	// [Device.Type]. The empty string is the CPU.
	Device string
	// Operators says that the provider runs the operators of this module: it runs each
	// model that CheckOperators accepts, with custom operators in functions too, and
	// observes every node.
	Operators bool
	// AppliesOptions says that Compile applies Initializers, ExternalInitializers,
	// CustomOperators and OptimizedModelPath of [Options]. For other providers the session
	// replaces the initializers in the model and refuses custom operators.
	AppliesOptions bool
	// ReadsFiles says that Compile reads the model from [Model.Path] if that is set. The
	// model that is passed then serves for its description only, and its tensors may lie
	// in a mapping of the file.
	ReadsFiles bool
	// GuardsMapping says that the engines survive a mapped file that becomes shorter
	// ([onnx.Mapping.Guard]), so that tensors may stay in the mapping.
	GuardsMapping bool
}

// TraitsOf returns the traits of a provider, which may be nil.
func TraitsOf(p Provider) Traits {
	if d, ok := p.(Describer); ok {
		return d.Traits()
	}
	return Traits{}
}

// LibraryUser is a [Provider] that opens a native library.
type LibraryUser interface {
	// Needs describes what the provider needs on a machine.
	Needs() string
	// Library describes the library that a configuration uses. It fails if the library
	// cannot be opened, as Available does.
	Library(config Config) (*Library, error)
}

// Library describes a native library in use.
type Library struct {
	Name       string   `json:"what"`                  // "ONNX Runtime"
	Path       string   `json:"path"`                  // the file, or the bare name that the system's loader found
	Source     string   `json:"source"`                // which search rule found it
	Version    string   `json:"version"`               // its release, such as "1.30.0"
	APIVersion int      `json:"api_version,omitempty"` // 0 if its API has no version of its own
	Build      string   `json:"build,omitempty"`       // what the library says about its build
	Providers  []string `json:"providers"`             // execution providers that it was built with, or devices that it finds
}

// Profiler is an [Engine] that profiles itself if [Options.EnableProfiling] is set.
type Profiler interface {
	// EndProfiling ends the profile and returns the name of its file.
	EndProfiling() (string, error)
	// ProfilingStart returns when profiling began, in nanoseconds of the engine's clock.
	ProfilingStart() (int64, error)
}
