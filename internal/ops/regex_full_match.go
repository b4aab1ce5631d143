package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/regex"
	"github.com/onward-ml/onward/tensor"
)

// RegexFullMatch returns whether each string as a whole matches Pattern, in RE2 syntax
// (https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html).
type RegexFullMatch struct {
	Pattern string

	re *regex.Regexp
}

var _ = kit.Register(&kit.Def{Name: "RegexFullMatch", Since: kit.Versions{20},
	In: "X:string", Out: "Y:bool", Build: buildRegexFullMatch})

func buildRegexFullMatch(a *kit.Attrs, opset int) kit.Operator {
	p := a.String("pattern", "")
	re, err := regex.Compile(p, true)
	if err != nil {
		return a.Fail(fail.Errorf("attribute pattern: %w", err))
	}
	return &RegexFullMatch{Pattern: p, re: re}
}

// Infer implements ir.Operator.
func (op *RegexFullMatch) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, tensor.TypeBool, c.Shape(0))
	return nil
}

// Run implements ir.Operator.
func (op *RegexFullMatch) Run(c *ir.Call) error {
	x := c.Tensor(0)
	out, err := c.Output(0, tensor.TypeBool, x.Shape()...)
	if err != nil {
		return err
	}
	op.re.MatchAll(c, tensor.MustData[bool](out), tensor.MustData[string](x))
	return nil
}
