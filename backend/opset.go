package backend

import (
	"context"
	"strings"
	"sync"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

// accepted holds the newest opsets that providers accept: opsetKey → int64.
var accepted sync.Map

type opsetKey struct{ provider, library string }

// newestOpset returns the newest version of ai.onnx that a backend accepts. A native library
// accepts those of its own release, but has no function that returns them. So a model of one node
// is opened, at a lower version after each failure.
func newestOpset(ctx context.Context, b Backend, d Device, opts *onward.SessionOptions) int64 {
	top, _ := onward.MaxOpset("")
	key := opsetKey{provider: b.Name()}
	p, ok := b.(Provider)
	if !ok || p.traits().Operators {
		return int64(top)
	}
	c := p.config(opts)
	key.library = c.Options["library"]
	if v, ok := accepted.Load(key); ok {
		return v.(int64)
	}
	for v := int64(top); v > 0; v-- {
		m := onnx.NewModel("opset").Opset("", v)
		m.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
		m.Node("Relu", []string{"x"}, []string{"y"})
		s, err := b.NewSession(ctx, m.Must(), d,
			&onward.SessionOptions{Providers: []onward.ProviderConfig{c}, Threads: 1})
		if err == nil {
			s.Close()
			accepted.Store(key, v)
			return v
		}
		if !strings.Contains(err.Error(), refusedOpset) && !strings.Contains(err.Error(), refusedIRVersion) {
			break // the version is not the reason
		}
	}
	return int64(top)
}
