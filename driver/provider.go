package driver

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Provider compiles models to engines. It may also implement [Describer] and
// [LibraryUser].
type Provider interface {
	// Name returns the provider's name as in [Config].
	Name() string
	// Available returns nil if the provider can be used on this machine with a
	// configuration, else an error that says what is missing.
	Available(config Config) error
	// Compile returns an engine for a model. It stops if ctx is done.
	Compile(ctx context.Context, m *Model, opts *Options, config Config) (Engine, error)
}

// Config names a provider and its options.
//
// A session tries its providers in order. It skips one that is not registered, not
// available, listed twice or unable to run the model, with a warning, unless it is the
// last one or fallback is disabled.
type Config struct {
	Name    string            // "cpu", "reference", or the name of a registered provider
	Options map[string]string // options of the provider; an unknown one is an error
}

// String returns the name with the options: "ort:cuda", "ort:cuda(device_id=1)".
func (c Config) String() string {
	if len(c.Options) == 0 {
		return c.Name
	}
	var options []string
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		options = append(options, name+"="+c.Options[name])
	}
	return c.Name + "(" + strings.Join(options, ", ") + ")"
}

// Model is a model to compile. The free dimensions in [Options] have been set in it.
type Model struct {
	*onnx.Model
	// Path is the file that the model was read from, or "" for a model in memory. The
	// file still has the dimensions and initializers that Options replaces. Path is
	// therefore empty if there are such and the provider lacks [Traits.AppliesOptions].
	Path string
	// Hash is a hash of the model's bytes. It is empty unless the session may share an
	// engine through [Options.PrepackedWeights].
	Hash string
	// Owned says that nothing else uses the model. Compile may then modify it and
	// release its weights, so that large ones are not in memory twice.
	Owned bool
	// Reserve is called before memory for the model's data is allocated, such as decoded
	// tensors. If it fails, Compile returns its error. The session holds the memory until the
	// engine is closed. nil: no limit.
	Reserve func(bytes int64) error
}

// Engine runs one model. It is safe for concurrent use. It may also implement [Binder],
// [Allocator] and [Profiler].
type Engine interface {
	// Run computes the wanted outputs. The session has checked the inputs against the
	// model's declarations. Run must not keep the request.
	Run(ctx context.Context, req *Request) error
	// Close releases the resources of the engine. It is called when no Run is active.
	Close() error
}

// Request holds the arguments and results of one run. In holds the model's inputs: those
// without an initializer, then those with one. Out holds its outputs. Sparse tensors
// are in COO format.
type Request struct {
	In      []tensor.Value // nil for an input that is omitted
	Out     []tensor.Value // set by Run, which fills a tensor in it in place if type and shape match
	Wanted  []bool         // per output; nil selects all
	Options *RunOptions    // not nil
}

// Describer is a [Provider] with traits other than the zero [Traits].
type Describer interface {
	// Traits returns the traits of the provider.
	Traits() Traits
}

// Traits describes how a provider reads and runs models.
type Traits struct {
	// Device is the type of the device that the provider computes on, as in
	// [Device.Type]. The empty string is the CPU.
	Device string
	// Operators says that the provider runs the operators of this module. It runs every
	// model that onward.CheckOperators accepts, runs custom operators in functions, and
	// calls [RunOptions.Observe] after every node.
	Operators bool
	// AppliesOptions says that Compile applies Initializers, ExternalInitializers,
	// CustomOperators and OptimizedModelPath of [Options]. For other providers the session
	// replaces the initializers in the model and rejects custom operators.
	AppliesOptions bool
	// ReadsFiles says that Compile reads the model from [Model.Path] if that is set. It
	// then uses the [Model] for its description only, so that the tensors of the model
	// may be in a mapping of the file.
	ReadsFiles bool
	// GuardsMapping says that the engines return an error if a mapped file has become
	// shorter ([onnx.Mapping.Guard]), so that tensors may stay in the mapping.
	GuardsMapping bool
}

// TraitsOf returns the traits of a provider. p may be nil.
func TraitsOf(p Provider) Traits {
	if d, ok := p.(Describer); ok {
		return d.Traits()
	}
	return Traits{}
}

// LibraryUser is a [Provider] that opens a native library.
type LibraryUser interface {
	// Needs describes what must be installed for the provider.
	Needs() string
	// Library describes the library that a configuration uses. Like Available, it
	// returns an error if the library cannot be opened.
	Library(config Config) (*Library, error)
}

// Library describes a native library in use.
type Library struct {
	Name       string   `json:"what"`                  // "ONNX Runtime"
	Path       string   `json:"path"`                  // file, or the bare name that the system's loader resolved
	Source     string   `json:"source"`                // search rule that found the library
	Version    string   `json:"version"`               // release, such as "1.30.0"
	APIVersion int      `json:"api_version,omitempty"` // 0 if the API has no separate version
	Build      string   `json:"build,omitempty"`       // build information that the library reports
	Providers  []string `json:"providers"`             // execution providers in the library, or devices that it finds
}

// DynamicOptions is an [Engine] with options that may change while it is in use.
type DynamicOptions interface {
	// SetDynamicOptions sets options, whose names are those of the engine.
	SetDynamicOptions(options map[string]string) error
}

// Profiler is an [Engine] that writes its own profile if [Options.EnableProfiling] is set.
type Profiler interface {
	// EndProfiling ends profiling and returns the name of the profile's file.
	EndProfiling() (string, error)
	// ProfilingStart returns the time at which profiling started, in nanoseconds on the
	// engine's clock.
	ProfilingStart() (int64, error)
}
