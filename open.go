package onward

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// Open loads a model file. External data is read from the folder of the file. If ctx is
// done, loading stops. opts may be nil. Errors are of type *[StatusError].
//
// With nil options, a run may take half of the machine's memory, the file may have any size,
// and there is no time limit other than the deadlines of the contexts that Open and
// [Session.Run] get. Runs at the same time have that memory each. A server, or a program that opens
// untrusted models, should set MaxMemory and MaxFileSize of [Limits] and give every context a
// deadline.
func Open(ctx context.Context, path string, opts *SessionOptions) (*Session, error) {
	return open(ctx, source{file: true, path: path}, opts)
}

// OpenBytes loads a model from memory, like [Open]. The bytes must not change while the
// session is in use. The model cannot refer to external data.
func OpenBytes(ctx context.Context, data []byte, opts *SessionOptions) (*Session, error) {
	if data == nil {
		data = []byte{}
	}
	return open(ctx, source{data: data}, opts)
}

// OpenModel returns a session for a model in memory, like [Open]. The model must not be
// changed or closed while the session is in use. Closing the session does not close the
// model.
func OpenModel(ctx context.Context, m *onnx.Model, opts *SessionOptions) (*Session, error) {
	return open(ctx, source{model: m}, opts)
}

// open returns a session for a source.
func open(ctx context.Context, src source, opts *SessionOptions) (*Session, error) {
	s := &Session{opts: *orDefault(opts), source: src.kept()}
	if err := s.opts.check(); err != nil {
		return nil, err
	}
	s.log, s.options = s.opts.log(), s.opts.driver()
	if s.opts.EnableProfiling {
		s.profile = newRecorder(s.options.ProfilePrefix)
	}
	var err error
	var c *compiled
	if s.signature, c, err = s.load(ctx, src, s.opts.Providers); err != nil {
		return nil, err
	}
	s.install(c)
	return s, nil
}

func orDefault(opts *SessionOptions) *SessionOptions {
	if opts == nil {
		return &SessionOptions{}
	}
	return opts
}

// load reads, prepares, describes and compiles a model.
func (s *Session) load(ctx context.Context, src source, configs []ProviderConfig) (
	sig signature, c *compiled, err error) {
	h := newHeld(&s.opts.Limits)
	runtime.AddCleanup(s, (*held).release, h) // of a session that is not closed
	m, err := src.read(ctx, &s.opts, configs, h)
	defer func() {
		if err != nil {
			if m != nil && m.Owned {
				m.Close()
			}
			h.release()
		}
	}()
	if err != nil {
		return sig, c, driver.LoadError(err)
	}
	if m.Model, err = prepare(m.Model, s.options); err != nil {
		return sig, c, driver.LoadError(err)
	}
	if sig, err = describe(ctx, m.Model); err != nil {
		return sig, c, driver.LoadError(err)
	}
	c, err = s.compile(ctx, m, configs, h)
	return sig, c, err
}

// compile compiles a model with the first of the given providers that can run it.
func (s *Session) compile(ctx context.Context, m *driver.Model, configs []ProviderConfig, h *held) (*compiled, error) {
	start := time.Now()
	tried, err := s.usable(orDefaultProvider(configs))
	if err != nil {
		return nil, err
	}
	var errs []error
	read := h.n.Load()
	for i, c := range tried {
		last := i+1 == len(tried)
		e, err := s.compileOn(ctx, c, m, last)
		if err == nil {
			s.log.Info("session created", "model", m.Graph.Name, "provider", c.Name, "duration", time.Since(start))
			if s.profile != nil {
				s.profile.session("session_initialization", start, time.Since(start))
			}
			r := &compiled{engine: e, provider: c, next: tried[i+1:], held: h}
			if m.Owned {
				r.model = m.Model
			}
			return r, nil
		}
		if stopped(err) && ctx.Err() != nil {
			return nil, &StatusError{Code: CodeFail, Message: "loading was stopped: " + err.Error(), Err: err}
		}
		errs = append(errs, err)
		h.reset(read)
		if s.opts.DisableFallback {
			break
		}
		if !last {
			s.log.Warn("provider cannot run the model, trying the next", "provider", c.Name, "next", tried[i+1].Name,
				"reason", err.Error())
		}
	}
	if len(errs) == 1 {
		return nil, driver.LoadError(errs[0])
	}
	err = errors.Join(errs...)
	return nil, &StatusError{Code: CodeFail, Message: "no provider can run the model: " + err.Error(), Err: err}
}

// orDefaultProvider returns the default provider for an empty list.
func orDefaultProvider(configs []ProviderConfig) []ProviderConfig {
	if len(configs) == 0 {
		return []ProviderConfig{{Name: goengine.Default}}
	}
	return configs
}

// compileOn compiles the model with one provider. last says that no other provider
// follows: Compile may then take apart a model that the session has read from a file.
func (s *Session) compileOn(ctx context.Context, c ProviderConfig, m *driver.Model, last bool) (driver.Engine, error) {
	p, err := available(c)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	own, opts := *m, s.options
	own.Owned = m.Owned && last
	if !driver.TraitsOf(p).AppliesOptions {
		if len(opts.CustomOperators) > 0 {
			return nil, statusf(CodeNotImplemented, "provider %s does not run operators written in Go", p.Name())
		}
		if opts.OptimizedModelPath != "" {
			s.log.Warn("the provider does not save the optimized model", "provider", p.Name(),
				"path", opts.OptimizedModelPath)
		}
		own.Model, opts = replaceInitializers(m.Model, opts)
		if opts != s.options {
			own.Path = ""
		}
	}
	return p.Compile(ctx, &own, opts, c)
}

// available returns the provider of a configuration, or an error if it is not registered
// or not available.
func available(c ProviderConfig) (driver.Provider, error) {
	p, err := driver.Find(c.Name)
	if err != nil {
		return nil, invalid(err)
	}
	return p, p.Available(c)
}

// usable returns the configurations without later duplicates of a provider. If fallback
// is disabled, a duplicate or unavailable provider is an error.
func (s *Session) usable(configs []ProviderConfig) ([]ProviderConfig, error) {
	var r []ProviderConfig
	var bad []string
	for _, c := range configs {
		if slices.ContainsFunc(r, func(o ProviderConfig) bool { return o.Name == c.Name }) {
			bad = append(bad, fmt.Sprintf("provider %q is listed twice", c.Name))
			s.log.Warn("duplicate provider, its later entry is ignored", "provider", c.Name)
			continue
		}
		r = append(r, c)
	}
	if !s.opts.DisableFallback {
		return r, nil
	}
	for _, c := range r {
		if _, err := available(c); err != nil {
			if len(configs) == 1 {
				return nil, driver.LoadError(err)
			}
			bad = append(bad, err.Error())
		}
	}
	if bad != nil {
		return nil, statusf(CodeInvalidArgument, "fallback is disabled and not every provider can be used: %s",
			strings.Join(bad, "; "))
	}
	return r, nil
}

// SetProviders recompiles the model with the first provider of configs that can run it
// and switches the session to that provider. Active runs end on the former provider, which
// the last of them closes. After an error the session is unchanged.
//
// SetProviders reads a session's model file again. A session of [OpenModel] uses its
// model if the caller still holds it; the session itself does not keep it in memory. A
// session of [OpenBytes] returns NOT_IMPLEMENTED.
func (s *Session) SetProviders(ctx context.Context, configs []ProviderConfig) error {
	_, c, err := s.load(ctx, s.source, configs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return errors.Join(errClosed(), c.close())
	}
	s.install(c)
	return nil
}
