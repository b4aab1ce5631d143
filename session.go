package onward

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

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

	current atomic.Pointer[compiled]
	closed  atomic.Bool
	live    sync.WaitGroup // compiled models that are not closed yet
	mu      sync.Mutex     // held while current or closed changes

	fallback sync.Mutex // held by fallBack
}

// Close waits for active runs, writes the profile if profiling is on, and releases the
// resources of the session. Runs that begin meanwhile fail at once.
func (s *Session) Close() error {
	s.mu.Lock()
	c, first := s.current.Load(), !s.closed.Swap(true)
	s.mu.Unlock()
	if first {
		c.release()
	}
	s.live.Wait()
	if first {
		return c.err
	}
	return nil
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
	return s.current.Load().provider.Name
}

// Providers returns the names of the session's providers, as get_providers of ONNX
// Runtime does. A session has one: that of [Session.Provider].
func (s *Session) Providers() []string { return []string{s.Provider()} }

// ProviderOptions returns the options of the session's providers by provider name.
func (s *Session) ProviderOptions() map[string]map[string]string {
	p := s.current.Load().provider
	o := maps.Clone(p.Options)
	if o == nil {
		o = map[string]string{}
	}
	return map[string]map[string]string{p.Name: o}
}

// Options returns the options that the session was opened with.
func (s *Session) Options() SessionOptions { return s.opts }

// SetDynamicOptions sets options of the session's provider that may change while the
// session is in use, such as OpenVINO's ep.dynamic.workload_type. It returns
// NOT_IMPLEMENTED if the provider has none.
func (s *Session) SetDynamicOptions(options map[string]string) error {
	c, err := s.use()
	if err != nil {
		return err
	}
	defer c.release()
	d, ok := c.engine.(driver.DynamicOptions)
	if !ok {
		return statusf(CodeNotImplemented, "provider %s has no options that can be changed while the session is in use",
			c.provider.Name)
	}
	return runStatus(d.SetDynamicOptions(options))
}

func errClosed() error { return &StatusError{Code: CodeFail, Message: "the session is closed"} }
