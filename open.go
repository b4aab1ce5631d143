package onward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/onward-ml/onward/onnx"
)

// open makes an engine on the first provider that can run the model.
func (s *Session) open(ctx context.Context, path string, m *onnx.Model, configs []ProviderConfig) (Engine, ProviderConfig, error) {
	start := time.Now()
	if len(configs) == 0 {
		configs = []ProviderConfig{{Name: "cpu"}}
	}
	configs, err := s.usable(configs)
	if err != nil {
		return nil, ProviderConfig{}, err
	}
	var errs []error
	for i, c := range configs {
		p, err := findProvider(c.Name)
		if err == nil {
			err = available(p, c)
		}
		var e Engine
		if err == nil {
			e, err = compile(ctx, p, path, m, &s.opts, c, i+1 == len(configs))
		}
		if err == nil {
			s.log.Info("session created", "model", s.meta.GraphName, "provider", c.Name, "duration", time.Since(start))
			if s.profile != nil {
				s.profile.session("session_initialization", start, time.Since(start))
			}
			return e, c, nil
		}
		errs = append(errs, err)
		if s.opts.DisableFallback {
			break
		}
		if i+1 < len(configs) {
			s.log.Warn("provider cannot run the model, trying the next", "provider", c.Name, "next", configs[i+1].Name, "reason", err.Error())
		}
	}
	if len(errs) == 1 {
		return nil, ProviderConfig{}, loadStatus(errs[0])
	}
	return nil, ProviderConfig{}, &StatusError{Code: Fail, Message: "no provider can run the model: " + errors.Join(errs...).Error(), Err: errors.Join(errs...)}
}

// usable removes providers that are listed twice. Without fallback these are
// errors, and so are all that cannot work here.
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
		p, err := findProvider(c.Name)
		if err == nil {
			err = available(p, c)
		}
		if err != nil {
			if len(configs) == 1 {
				return nil, loadStatus(err)
			}
			bad = append(bad, err.Error())
		}
	}
	if bad != nil {
		return nil, statusf(InvalidArgument, "fallback is disabled and not every provider can be used: %s", strings.Join(bad, "; "))
	}
	return r, nil
}

// Providers returns the names of the providers that the session works with: the one
// that runs the model.
func (s *Session) Providers() []string { return []string{s.Provider()} }

// ProviderOptions returns the options of every provider that the session works with,
// by its name.
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

// SetProviders lets other providers run the model: the first of configs that can.
// Runs that are active end first. On an error the session goes on as it was.
//
// The model is read again from its file, or taken from the *onnx.Model that the
// session was opened with while the caller keeps that. A session of [OpenBytes]
// keeps neither and answers NOT_IMPLEMENTED.
func (s *Session) SetProviders(ctx context.Context, configs []ProviderConfig) error {
	m, path, err := s.reload(configs)
	if err != nil {
		return loadStatus(err)
	}
	closeModel := func() error { return nil }
	if path != "" {
		closeModel = m.Close
	}
	e, c, err := s.open(ctx, path, m, configs)
	if err != nil {
		return errors.Join(err, closeModel())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(&StatusError{Code: Fail, Message: "the session is closed"}, e.Close(), closeModel())
	}
	old, oldModel := s.engine, s.model
	s.engine, s.provider = e, c
	if path != "" {
		s.model = m
	}
	err = old.Close()
	if path != "" && oldModel != nil {
		err = errors.Join(err, oldModel.Close())
	}
	return err
}

// modelSource returns what finds the model again without keeping it in memory.
func modelSource(path string, m *onnx.Model, o *SessionOptions) func([]ProviderConfig) (*onnx.Model, string, error) {
	if path != "" {
		return func(configs []ProviderConfig) (*onnx.Model, string, error) {
			m, err := onnx.ReadFile(path, o.readOptions(configs))
			return m, path, err
		}
	}
	w := weak.Make(m)
	return func([]ProviderConfig) (*onnx.Model, string, error) {
		if m := w.Value(); m != nil && m.Graph != nil {
			return m, "", nil
		}
		return nil, "", statusf(NotImplemented, "the session has not kept its model; open a new session")
	}
}
