package onward

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// Values maps names of inputs or outputs to their values.
type Values map[string]tensor.Value

// Session is a loaded model. It is safe for concurrent use by multiple goroutines.
//
// Close a session whose provider uses a native library, or that is opened with
// [SessionOptions.MapWeights], [SessionOptions.PrepackedWeights] or its own number of
// threads. The garbage collector frees other sessions.
type Session struct {
	signature
	source  source
	opts    SessionOptions
	options *driver.Options // the part of opts that providers receive
	log     *slog.Logger
	profile *recorder // nil if profiling is off

	requests sync.Pool // of empty *request

	mu sessionLock // held for reading by Run, for writing by Close and SetProviders
	compiled
	closed bool

	fallback sync.Mutex // held by fallBack
}

// Close waits for active runs, writes the profile if profiling is on, and releases the
// resources of the session. Runs that begin meanwhile fail at once.
func (s *Session) Close() error {
	s.mu.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	_, err := s.endProfiling()
	return errors.Join(err, s.compiled.close())
}

// Inputs returns the model's inputs. Initializers are not included.
func (s *Session) Inputs() []NodeArg { return slices.Clone(s.inputs) }

// Outputs returns the model's outputs.
func (s *Session) Outputs() []NodeArg { return slices.Clone(s.outputs) }

// OverridableInitializers returns the inputs that have an initializer as default.
func (s *Session) OverridableInitializers() []NodeArg { return slices.Clone(s.defaults) }

// Metadata returns the metadata of the model.
func (s *Session) Metadata() ModelMetadata { return s.meta }

// Provider returns the name of the provider that runs the model.
func (s *Session) Provider() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.provider.Name
}

// Providers returns the names of the session's providers, as get_providers of ONNX
// Runtime does. A session has one: that of [Session.Provider].
func (s *Session) Providers() []string { return []string{s.Provider()} }

// ProviderOptions returns the options of the session's providers by provider name.
func (s *Session) ProviderOptions() map[string]map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o := maps.Clone(s.provider.Options)
	if o == nil {
		o = map[string]string{}
	}
	return map[string]map[string]string{s.provider.Name: o}
}

// Options returns the options that the session was opened with.
func (s *Session) Options() SessionOptions { return s.opts }

// SetDynamicOptions sets options of the session's provider that may change while the
// session is in use, such as OpenVINO's ep.dynamic.workload_type. It returns
// NOT_IMPLEMENTED if the provider has none.
func (s *Session) SetDynamicOptions(options map[string]string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed()
	}
	d, ok := s.engine.(driver.DynamicOptions)
	if !ok {
		return statusf(CodeNotImplemented, "provider %s has no options that can be changed while the session is in use",
			s.provider.Name)
	}
	return runStatus(d.SetDynamicOptions(options))
}

func errClosed() error { return &StatusError{Code: CodeFail, Message: "the session is closed"} }
