package contrib

import (
	"context"
	"slices"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

func init() { driver.RegisterOperators(operators...) }

// The domains of the operators. Tokenizers are in both.
const (
	domain       = "ai.onnx.contrib"
	domainVision = "com.microsoft.extensions"
)

// operators are filled by the declarations of the operators, before init runs.
var operators []driver.CustomOperator

// Operators returns the operators of this package.
func Operators() []driver.CustomOperator { return slices.Clone(operators) }

// kernel computes a node.
type kernel func(c *call) ([]tensor.Value, error)

// bind returns the kernel of a node with given attributes.
type bind func(n *node) (kernel, error)

// register adds an operator of ai.onnx.contrib.
func register(name, inputs, outputs string, b bind) bool {
	return add(domain, name, inputs, outputs, b)
}

// registerTokenizer adds an operator of both domains.
func registerTokenizer(name, inputs, outputs string, b bind) bool {
	return register(name, inputs, outputs, b) && add(domainVision, name, inputs, outputs, b)
}

// always returns the bind of an operator without attributes.
func always(k kernel) bind { return func(*node) (kernel, error) { return k, nil } }

func add(domain, name, inputs, outputs string, b bind) bool {
	operators = append(operators, driver.CustomOperator{Domain: domain, Name: name, Inputs: inputs, Outputs: outputs,
		Bind: func(attrs map[string]any) (func(context.Context, driver.CustomCall) ([]tensor.Value, error), error) {
			n := &node{attrs: attrs}
			k, err := b(n)
			if n.err != nil {
				return nil, n.err
			}
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, c driver.CustomCall) ([]tensor.Value, error) {
				cut(c.In)
				out, err := k(&call{CustomCall: c, ctx: ctx})
				cut(out)
				return out, err
			}, nil
		}})
	return true
}

// cut replaces string tensors by ones whose strings end before their first zero byte, as those
// of ONNX Runtime Extensions do in inputs and outputs.
func cut(list []tensor.Value) {
	for i, v := range list {
		t, ok := v.(*tensor.Tensor)
		if !ok || t.DType() != tensor.TypeString {
			continue
		}
		var cut []string
		for k, s := range tensor.MustData[string](t) {
			if n := strings.IndexByte(s, 0); n >= 0 {
				if cut == nil {
					cut = slices.Clone(tensor.MustData[string](t))
				}
				cut[k] = s[:n]
			}
		}
		if cut != nil {
			list[i] = shaped(cut, t.Shape()...)
		}
	}
}
