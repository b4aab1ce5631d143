package onward

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// Open loads a model file. External data is read from the folder of the file. If ctx is
// done, loading stops. opts may be nil. Errors are of type *[StatusError].
//
// With nil options, a run may take half of the machine's memory, the file may have any size,
// and there is no time limit other than the deadlines of the contexts that Open and
// [Session.Run] get. Runs at the same time have that memory each. A server, and whoever opens
// models of others, should set MaxMemory and MaxFileSize of [Limits] and give every context a
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

// open returns a session for a source in five steps: read and prepare the model,
// describe it, select a provider, compile.
func open(ctx context.Context, src source, opts *SessionOptions) (s *Session, err error) {
	s = &Session{opts: *orDefault(opts), source: src.kept()}
	if err := s.opts.check(); err != nil {
		return nil, err
	}
	s.log, s.options = s.opts.log(), s.opts.driver()
	if s.opts.EnableProfiling {
		s.profile = newRecorder(s.options.ProfilePrefix)
	}
	m, err := src.read(ctx, &s.opts, s.opts.Providers)
	if err != nil {
		return nil, driver.LoadError(err)
	}
	defer func() {
		if err != nil {
			src.close(m.Model)
			s = nil
		}
	}()
	if m.Model, err = prepare(m.Model, s.options); err != nil {
		return nil, driver.LoadError(err)
	}
	if s.signature, err = describe(ctx, m.Model); err != nil {
		return nil, driver.LoadError(err)
	}
	if s.engine, s.provider, err = s.compile(ctx, m, s.opts.Providers); err != nil {
		return nil, err
	}
	s.next = following(s.opts.Providers, s.provider.Name)
	if src.file {
		s.model = m.Model
	}
	return s, nil
}

func orDefault(opts *SessionOptions) *SessionOptions {
	if opts == nil {
		return &SessionOptions{}
	}
	return opts
}

// source is the origin of a model: a file, bytes or a model in memory.
type source struct {
	file bool
	path string
	data []byte

	model  *onnx.Model
	opened bool                     // the session is open: use weak, which does not keep the model in memory
	weak   weak.Pointer[onnx.Model] // nil for a file and for bytes
}

// kept returns the source that a session keeps for [Session.SetProviders]. It keeps
// neither bytes nor a model alive.
func (src source) kept() source {
	k := source{file: src.file, path: src.path, opened: true}
	if src.model != nil {
		k.weak = weak.Make(src.model)
	}
	return k
}

// read reads the model for a session that tries the given providers.
func (src source) read(ctx context.Context, o *SessionOptions, configs []ProviderConfig) (*driver.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &driver.Model{Path: src.path, Model: src.model}
	var err error
	switch {
	case src.file:
		if o.PrepackedWeights != nil {
			if m.Hash, err = hashFile(src.path); err != nil {
				return nil, err
			}
		}
		m.Model, err = onnx.ReadFile(src.path, o.readOptions(configs))
	case src.opened:
		if m.Model = src.weak.Value(); m.Model == nil || m.Graph == nil {
			return nil, statusf(NotImplemented, "the session does not keep its model; open a new session")
		}
	case src.model == nil && src.data != nil:
		if o.PrepackedWeights != nil {
			m.Hash, _ = hash(bytes.NewReader(src.data)) // reading from memory cannot fail
		}
		m.Model, err = onnx.Unmarshal(src.data, nil)
	}
	if err != nil {
		return nil, err
	}
	if m.Model == nil || m.Graph == nil {
		src.close(m.Model)
		return nil, errors.New("the model has no graph")
	}
	return m, nil
}

// close closes a model that read has opened from a file, which may be mapped. It does
// nothing for other sources.
func (src source) close(m *onnx.Model) error {
	if !src.file || m == nil {
		return nil
	}
	return m.Close()
}

// readOptions returns how to read the model file of a session that tries the given
// providers. The file is mapped in two cases:
//
//   - all providers read the file themselves, so that no weights are taken from the
//     mapping
//   - MapWeights is set and the engines of all providers guard reads from a mapping
func (o *SessionOptions) readOptions(configs []ProviderConfig) *onnx.ReadOptions {
	if len(configs) == 0 {
		configs = []ProviderConfig{{Name: goengine.Default}}
	}
	r := &onnx.ReadOptions{MaxFileSize: o.Limits.MaxFileSize, StrictExternalData: o.StrictExternalData}
	reads, guards := true, true
	for _, c := range configs {
		t := driver.TraitsOf(driver.Lookup(c.Name))
		reads, guards = reads && t.ReadsFiles, guards && t.GuardsMapping
	}
	r.MapExternal = o.MapWeights && guards
	r.Map = reads || r.MapExternal
	return r
}

func hash(model io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, model)
	return string(h.Sum(nil)), err
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hash(f)
}

// compile returns an engine of the first of the given providers that can run the model,
// and the configuration of that provider.
func (s *Session) compile(ctx context.Context, m *driver.Model, configs []ProviderConfig) (driver.Engine, ProviderConfig, error) {
	start := time.Now()
	if len(configs) == 0 {
		configs = []ProviderConfig{{Name: goengine.Default}}
	}
	configs, err := s.usable(configs)
	if err != nil {
		return nil, ProviderConfig{}, err
	}
	var errs []error
	for i, c := range configs {
		last := i+1 == len(configs)
		p, err := available(c)
		if err == nil {
			err = ctx.Err()
		}
		var e driver.Engine
		if err == nil {
			e, err = s.compileOn(ctx, p, c, m, last)
		}
		if err == nil {
			s.log.Info("session created", "model", s.meta.GraphName, "provider", c.Name, "duration", time.Since(start))
			if s.profile != nil {
				s.profile.session("session_initialization", start, time.Since(start))
			}
			return e, c, nil
		}
		if stopped(err) && ctx.Err() != nil {
			return nil, ProviderConfig{}, &StatusError{Code: Fail, Message: "loading was stopped: " + err.Error(), Err: err}
		}
		errs = append(errs, err)
		if s.opts.DisableFallback {
			break
		}
		if !last {
			s.log.Warn("provider cannot run the model, trying the next", "provider", c.Name, "next", configs[i+1].Name, "reason", err.Error())
		}
	}
	if len(errs) == 1 {
		return nil, ProviderConfig{}, driver.LoadError(errs[0])
	}
	return nil, ProviderConfig{}, &StatusError{Code: Fail, Message: "no provider can run the model: " + errors.Join(errs...).Error(), Err: errors.Join(errs...)}
}

// compileOn compiles the model with one provider. last says that no other provider
// follows: Compile may then take apart a model that the session has read from a file.
func (s *Session) compileOn(ctx context.Context, p driver.Provider, c ProviderConfig, m *driver.Model, last bool) (driver.Engine, error) {
	own, opts := *m, s.options
	own.Owned = s.source.file && last
	if !driver.TraitsOf(p).AppliesOptions {
		if len(opts.CustomOperators) > 0 {
			return nil, statusf(NotImplemented, "provider %s does not run operators written in Go", p.Name())
		}
		if opts.OptimizedModelPath != "" {
			s.log.Warn("the provider does not save the optimized model", "provider", p.Name(), "path", opts.OptimizedModelPath)
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
		return nil, statusf(InvalidArgument, "fallback is disabled and not every provider can be used: %s", strings.Join(bad, "; "))
	}
	return r, nil
}

// SetProviders recompiles the model with the first provider of configs that can run it
// and switches the session to that provider. It waits for active runs. After an error
// the session is unchanged.
//
// SetProviders reads a session's model file again. A session of [OpenModel] uses its
// model if the caller still holds it; the session itself does not keep it in memory. A
// session of [OpenBytes] returns NOT_IMPLEMENTED.
func (s *Session) SetProviders(ctx context.Context, configs []ProviderConfig) error {
	m, err := s.source.read(ctx, &s.opts, configs)
	if err != nil {
		return driver.LoadError(err)
	}
	if m.Model, err = prepare(m.Model, s.options); err != nil {
		s.source.close(m.Model)
		return driver.LoadError(err)
	}
	e, c, err := s.compile(ctx, m, configs)
	if err != nil {
		s.source.close(m.Model)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(errClosed(), e.Close(), s.source.close(m.Model))
	}
	old, oldModel := s.engine, s.model
	s.engine, s.provider, s.next = e, c, following(configs, c.Name)
	if s.source.file {
		s.model = m.Model
	}
	return errors.Join(old.Close(), s.source.close(oldModel))
}
