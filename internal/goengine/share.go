package goengine

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// sharedEngine is an engine that several sessions use. Close releases it for one of them.
type sharedEngine struct {
	*engine
	release func() error
}

func (e *sharedEngine) Close() error { return e.release() }

// shareKey returns the key of the engine that sessions with equal models and options
// share, or "" if the session cannot share an engine.
func shareKey(provider string, m *driver.Model, o *driver.Options) string {
	if o.PrepackedWeights == nil || m.Hash == "" || len(o.CustomOperators)+len(o.Initializers)+
		len(o.ExternalInitializers) > 0 || o.OptimizedModelPath != "" {
		return ""
	}
	external := false
	m.EachTensor(func(t *onnx.Tensor) bool {
		external = t.DataLocation == onnx.LocationExternal
		return !external
	})
	if external {
		return "" // external data may change while the model file does not
	}
	return fmt.Sprintf("%s %s %v %v %q %v %v %v %+v %d %t %t %t %t %d", provider, m.Hash, o.OptimizationLevel,
		o.Precision, o.DisabledPasses, o.FreeDimensions, o.FreeDimensionsByDenotation, o.Config, o.Limits, o.Threads,
		o.Deterministic, o.DisableMemoryPattern, o.DisableMemoryReuse, m.Mapping() != nil, o.SpecializedShapes)
}

// Compile returns a new engine, or a shared one if the options and the model allow that.
func (p provider) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	config driver.Config) (driver.Engine, error) {
	compile := func() (driver.Engine, error) {
		e, err := p.compile(ctx, m, opts, config)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	key := shareKey(p.name, m, opts)
	if key == "" {
		return compile()
	}
	e, release, err := opts.PrepackedWeights.Share(key, compile)
	if err != nil {
		return nil, err
	}
	return &sharedEngine{e.(*engine), release}, nil
}
