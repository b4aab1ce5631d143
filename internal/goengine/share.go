package goengine

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// sharedEngine is a session's share of an engine.
type sharedEngine struct {
	*engine
	release func() error
}

func (e *sharedEngine) Close() error { return e.release() }

// shareKey identifies what sessions that share an engine have in common; it is empty for a
// session that cannot share.
func shareKey(provider string, m *driver.Model, o *driver.Options) string {
	if o.PrepackedWeights == nil || m.Hash == "" || len(o.CustomOperators)+len(o.Initializers)+len(o.ExternalInitializers) > 0 || o.OptimizedModelPath != "" {
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
	return fmt.Sprintf("%s %s %v %q %v %v %v %+v %d %t %t %t", provider, m.Hash, o.OptimizationLevel, o.DisabledPasses, o.FreeDimensions,
		o.FreeDimensionsByDenotation, o.Config, o.Limits, o.Threads, o.DisableMemoryPattern, o.DisableMemoryReuse, m.Mapping() != nil)
}

// Compile makes an engine, or takes a share of one.
func (p provider) Compile(ctx context.Context, m *driver.Model, opts *driver.Options, config driver.Config) (driver.Engine, error) {
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
