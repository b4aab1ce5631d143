package ops

import (
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// StringNormalizer removes stopwords and changes the case of the other elements. The input has
// shape [C] or [1, C]. If no element is left, the output is one empty string
// (https://onnx.ai/onnx/operators/onnx__StringNormalizer.html).
type StringNormalizer struct {
	Case          string // NONE, LOWER, UPPER
	CaseSensitive bool   // the comparison with stopwords is case sensitive
	Stopwords     []string

	stop map[string]bool
}

var _ = kit.Register(&kit.Def{Name: "StringNormalizer", Since: kit.Versions{10},
	In: "X:string", Out: "Y:string",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		// Case is changed by Unicode's mapping, which does not depend on the locale.
		a.Ignore("locale")
		op := &StringNormalizer{
			Case:          a.Enum("case_change_action", "NONE", "NONE", "LOWER", "UPPER"),
			CaseSensitive: a.Bool("is_case_sensitive", false),
			Stopwords:     a.Strings("stopwords"),
			stop:          map[string]bool{},
		}
		for _, w := range op.Stopwords {
			op.stop[op.fold(w)] = true
		}
		return op
	}})

func (op *StringNormalizer) fold(s string) string {
	if op.CaseSensitive {
		return s
	}
	return strings.ToLower(s)
}

// Infer implements ir.Operator.
func (op *StringNormalizer) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	var out []ir.Dim
	if in != nil {
		if len(in) < 1 || len(in) > 2 || len(in) == 2 && in[0].Differs(ir.Known(1)) {
			return fail.Errorf("input has shape %v, want [C] or [1 C]", in)
		}
		out = slices.Clone(in)
		if out[len(out)-1] = ir.Unknown; len(out) == 2 {
			out[0] = ir.Known(1)
		}
	}
	kit.SetShape(c, 0, tensor.TypeString, out)
	return nil
}

// Run implements ir.Operator.
func (op *StringNormalizer) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() < 1 || x.Rank() > 2 || x.Rank() == 2 && x.Dim(0) != 1 {
		return fail.Errorf("input has shape %v, want [C] or [1 C]", x.Shape())
	}
	in := tensor.MustData[string](x)
	size, meter := int64(0), ir.Meter{C: c}
	for _, s := range in {
		meter.Check(1)
		size += 16 + 3*int64(len(s)) // changing the case can take more bytes
	}
	if err := c.Reserve(size); err != nil {
		return err
	}
	kept := make([]string, 0, len(in))
	for _, s := range in {
		meter.Check(8 + 4*len(s))
		if len(op.stop) > 0 && op.stop[op.fold(s)] {
			continue
		}
		switch op.Case {
		case "LOWER":
			s = strings.ToLower(s)
		case "UPPER":
			s = strings.ToUpper(s)
		}
		kept = append(kept, s)
	}
	if len(kept) == 0 {
		kept = append(kept, "")
	}
	shape := slices.Clone(x.Shape())
	shape[len(shape)-1] = len(kept)
	out, err := c.Output(0, tensor.TypeString, shape...)
	if err != nil {
		return err
	}
	y := tensor.MustData[string](out)
	ir.Copy(c, y, kept)
	return nil
}
