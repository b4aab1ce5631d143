package driver

import "sync"

// PrepackedWeights lets sessions of one model share what cpu makes of it: the
// optimized graph and its packed weights, which then are in memory once (ONNX
// Runtime's PrepackedWeightsContainer). The zero value is ready to use, and safe for
// many goroutines.
//
// Sessions share if they are opened from equal files or bytes without external data,
// with equal options and without operators or initializers of their own; others are
// opened as always. A closed session gives its share back: close all of them.
type PrepackedWeights struct {
	mu      sync.Mutex
	engines map[string]*shared
}

// shared is an engine and the number of sessions that use it.
type shared struct {
	once   sync.Once
	engine Engine
	err    error
	refs   int
}

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

// Share returns the engine of a key, which the first caller compiles, and what gives the
// share back. The last caller to give it back closes the engine.
func (w *PrepackedWeights) Share(key string, compile func() (Engine, error)) (e Engine, release func() error, err error) {
	w.mu.Lock()
	if w.engines == nil {
		w.engines = map[string]*shared{}
	}
	p := w.engines[key]
	if p == nil {
		p = new(shared)
		w.engines[key] = p
	}
	p.refs++
	w.mu.Unlock()
	p.once.Do(func() { p.engine, p.err = compile() })
	release = func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.refs--; p.refs > 0 {
			return nil
		}
		if w.engines[key] == p {
			delete(w.engines, key)
		}
		if p.err != nil {
			return nil
		}
		return p.engine.Close()
	}
	if p.err != nil {
		release()
		return nil, nil, p.err
	}
	return p.engine, release, nil
}
