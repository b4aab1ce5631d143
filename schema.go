package onward

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/onnx"
)

// OperatorSchema tells [onnx.Check] which operators exist at a version of a
// domain and how many inputs and outputs they take at most. Attributes are
// checked when a session is opened.
func OperatorSchema(domain, opType string, opset int64) (onnx.Schema, bool) {
	const newest = 1 << 20
	def, err := ops.Lookup(domain, opType, int(min(opset, newest)))
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
