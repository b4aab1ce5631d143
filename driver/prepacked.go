package driver

import "sync"

// PrepackedWeights lets sessions of one model on cpu share the optimized graph and its
// packed weights, so that these are in memory once (ONNX Runtime's
// PrepackedWeightsContainer). The zero value is ready to use. It is safe for concurrent
// use.
//
// Sessions share an engine if they have equal model files or bytes, without external
// data, and equal options, without custom operators, replaced initializers or an
// OptimizedModelPath. Other sessions are opened as without PrepackedWeights. The memory
// is released when the last session that shares it is closed.
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

// Sessions returns the number of open sessions whose engines are in w.
func (w *PrepackedWeights) Sessions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.engines {
		n += p.refs
	}
	return n
}

// Share returns the engine of a key, which the first call compiles, and a function that
// releases it. The engine is closed when all its users have released it. A call that waits
// for one that fails compiles itself: the error may be that the other's context ended.
func (w *PrepackedWeights) Share(key string,
	compile func() (Engine, error)) (e Engine, release func() error, err error) {
	for {
		p, own := w.acquire(key), false
		p.once.Do(func() {
			own = true
			p.engine, p.err = compile()
		})
		if p.err == nil {
			return p.engine, func() error { return w.release(key, p) }, nil
		}
		_ = w.release(key, p)
		if own {
			return nil, nil, p.err
		}
	}
}

func (w *PrepackedWeights) acquire(key string) *shared {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.engines == nil {
		w.engines = map[string]*shared{}
	}
	p := w.engines[key]
	if p == nil {
		p = new(shared)
		w.engines[key] = p
	}
	p.refs++
	return p
}

func (w *PrepackedWeights) release(key string, p *shared) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.refs--; p.refs > 0 && p.err == nil {
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
