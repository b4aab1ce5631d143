package onward

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/onward-ml/onward/onnx"
)

// PrepackedWeights lets sessions of one model share what cpu makes of it: the
// optimized graph and its packed weights, which then are in memory once (ONNX
// Runtime's PrepackedWeightsContainer). The zero value is ready to use, and safe for
// many goroutines.
//
// Sessions share when they are opened from equal files or bytes without external
// data, with equal options and without operators or initializers of their own; others
// are opened as always. A closed session gives its share back: close all of them.
type PrepackedWeights struct {
	mu      sync.Mutex
	engines map[string]*prepacked
}

// prepacked is an engine and the sessions that use it.
type prepacked struct {
	once   sync.Once
	engine *engine
	err    error
	refs   int
}

// sharedEngine is a session's share of an engine.
type sharedEngine struct {
	*engine
	release func() error
}

func (e *sharedEngine) Close() error { return e.release() }

// Sessions returns how many open sessions share an engine with another or could.
func (w *PrepackedWeights) Sessions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.engines {
		n += p.refs
	}
	return n
}

// share returns the engine of a key, which the first caller makes.
func (w *PrepackedWeights) share(key string, make func() (*engine, error)) (Engine, error) {
	w.mu.Lock()
	if w.engines == nil {
		w.engines = map[string]*prepacked{}
	}
	p := w.engines[key]
	if p == nil {
		p = new(prepacked)
		w.engines[key] = p
	}
	p.refs++
	w.mu.Unlock()
	p.once.Do(func() { p.engine, p.err = make() })
	release := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.refs--; p.refs > 0 {
			return nil
		}
		if w.engines[key] == p {
			delete(w.engines, key)
		}
		if p.engine == nil {
			return nil
		}
		return p.engine.Close()
	}
	if p.err != nil {
		release()
		return nil, p.err
	}
	return &sharedEngine{p.engine, release}, nil
}

// prepackedKey says which sessions may share an engine; empty for none.
func prepackedKey(provider string, m *onnx.Model, o *SessionOptions) string {
	if o.PrepackedWeights == nil || o.modelHash == "" || len(o.CustomOperators)+len(o.Initializers)+len(o.ExternalInitializers) > 0 || o.OptimizedModelPath != "" {
		return ""
	}
	external := false
	m.EachTensor(func(t *onnx.Tensor) bool {
		external = t.DataLocation == onnx.LocationExternal
		return !external
	})
	if external {
		return "" // it may change while the model's file does not
	}
	return fmt.Sprintf("%s %s %v %q %v %v %v %+v %d %t %t %t", provider, o.modelHash, o.OptimizationLevel, o.DisabledPasses, o.FreeDimensions,
		o.FreeDimensionsByDenotation, o.Config, o.Limits, o.Threads, o.DisableMemoryPattern, o.DisableMemoryReuse, o.MapWeights)
}

// hashed returns the options with the hash of a model's bytes, where sessions may
// share.
func (o *SessionOptions) hashed(model io.Reader) (*SessionOptions, error) {
	h := sha256.New()
	if _, err := io.Copy(h, model); err != nil {
		return nil, err
	}
	c := *o
	c.modelHash = string(h.Sum(nil))
	return &c, nil
}

func (o *SessionOptions) hashedFile(path string) (*SessionOptions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return o.hashed(f)
}

// Compile makes an engine, or takes a share of one.
func (n native) Compile(ctx context.Context, m *onnx.Model, opts *SessionOptions, config ProviderConfig) (Engine, error) {
	return n.shareOrCompile(ctx, m, opts, config, false)
}

func (n native) compileOwned(ctx context.Context, m *onnx.Model, opts *SessionOptions, config ProviderConfig) (Engine, error) {
	return n.shareOrCompile(ctx, m, opts, config, true)
}

func (n native) shareOrCompile(ctx context.Context, m *onnx.Model, opts *SessionOptions, config ProviderConfig, owned bool) (Engine, error) {
	if key := prepackedKey(n.name, m, opts); key != "" {
		return opts.PrepackedWeights.share(key, func() (*engine, error) { return n.compile(ctx, m, opts, config, owned) })
	}
	e, err := n.compile(ctx, m, opts, config, owned)
	if err != nil {
		return nil, err
	}
	return e, nil
}
