package goengine

import (
	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
)

// OperatorSchema returns how many inputs and outputs an operator has in version opset of
// a domain, and whether it is implemented. The schema allows any attributes.
func OperatorSchema(domain, opType string, opset int64) (onnx.Schema, bool) {
	const newest = 1 << 20 // above every version, so that opset fits an int
	def, err := kit.Lookup(domain, opType, int(min(opset, newest)))
	if err != nil {
		return onnx.Schema{}, false
	}
	sig := def.Signature()
	s := onnx.Schema{AnyAttributes: true, MaxInputs: len(sig.In), MaxOutputs: len(sig.Out)}
	if n := len(sig.In); n > 0 && sig.In[n-1].Variadic {
		s.MaxInputs = -1
	}
	if n := len(sig.Out); n > 0 && sig.Out[n-1].Variadic {
		s.MaxOutputs = -1
	}
	return s, true
}

// MaxOpset returns the newest implemented version of an operator domain, and whether the
// domain is known.
func MaxOpset(domain string) (int, bool) {
	v, ok := kit.MaxOpset[kit.NormalDomain(domain)]
	return v, ok
}

// CheckOperators returns nil if every operator of a model is implemented in the version
// that the model imports. Otherwise the error lists all operators that are not.
func CheckOperators(m *onnx.Model) error {
	return status(frontend.CheckOperators(m, nil))
}
