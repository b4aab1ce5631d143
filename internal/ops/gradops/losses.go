package gradops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// ClassPositions returns for every target the index of the element of the second input that a loss
// over classes reads, counted from 1. The input holds scores [N, C, d…] or, if PerClass is set,
// weights [C]. Targets equal to ignore_index have the index 0.
type ClassPositions struct {
	reduce.ClassLoss
	PerClass bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "ClassPositions", Since: kit.Versions{1},
	In: "target:I, like:T", Out: "Y:int64", Types: "T: @float; I: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ClassPositions{reduce.BuildClassLoss(a), a.Bool("per_class", false)}
	},
	Gradient: gradient.None})

// Infer infers the output.
func (*ClassPositions) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeInt64, Shape: c.Shape(0)})
	return nil
}

// Run checks the targets and computes the indices.
func (p *ClassPositions) Run(c *ir.Call) error {
	t, s := c.Tensor(0).Shape(), c.Tensor(1).Shape()
	classes, inner := 0, 1
	switch {
	case p.PerClass && len(s) == 1:
		classes = s[0]
	case !p.PerClass && len(s) >= 2 && len(t) == len(s)-1 && t[0] == s[0] && slices.Equal(t[1:], s[2:]):
		classes, inner = s[1], kit.Product(s[2:])
	default:
		return fail.Errorf("scores or weights have shape %v, which is inconsistent with targets of shape %v", s, t)
	}
	out, err := c.Output(0, tensor.TypeInt64, t...)
	if err != nil {
		return err
	}
	y := tensor.MustData[int64](out)
	for i, v := range kit.Ints(c.Tensor(0)) {
		switch {
		case p.HasIgnore && v == p.Ignore:
			y[i] = 0
		case v < 0 || v >= classes:
			return fail.Errorf("target[%d] is %d, want 0 to %d", i, v, classes-1)
		case p.PerClass:
			y[i] = int64(v) + 1
		default:
			y[i] = int64((i/inner*classes+v)*inner+i%inner) + 1
		}
	}
	return nil
}
