package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// IsAllFinite returns whether no element of any input is infinite or NaN. InfOnly and
// NaNOnly restrict the check to one of the two
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.IsAllFinite).
type IsAllFinite struct{ InfOnly, NaNOnly bool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "IsAllFinite", Since: kit.Versions{1},
	In: "input:V+", Out: "output:T",
	Class: kit.ClassReduction,
	Types: "V: @float; T: bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &IsAllFinite{a.Bool("isinf_only", false), a.Bool("isnan_only", false)}
		if o.InfOnly && o.NaNOnly {
			a.Errorf("both attributes isinf_only and isnan_only are set")
		}
		return o
	}})

// Infer implements [ir.Operator].
func (*IsAllFinite) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(tensor.TypeBool))
	return nil
}

// Run implements [ir.Operator].
func (o *IsAllFinite) Run(c *ir.Call) error {
	all := true
	for i := range c.NumIn() {
		t := c.Tensor(i)
		if t == nil {
			return fail.Errorf("input %d is missing", i)
		}
		if t.DType() == tensor.TypeFloat64 {
			all = all && allFinite(o, tensor.MustData[float64](t))
			continue
		}
		v, err := kit.RealIn[float32](c, t)
		if err != nil {
			return err
		}
		all = all && allFinite(o, v)
		if err := c.Err(); err != nil {
			return err
		}
	}
	y, err := c.Output(0, tensor.TypeBool)
	if err != nil {
		return err
	}
	tensor.MustData[bool](y)[0] = all
	return nil
}

func allFinite[T kit.RealFloat](o *IsAllFinite, x []T) bool {
	for _, v := range x {
		if v != v && !o.InfOnly || math.IsInf(float64(v), 0) && !o.NaNOnly {
			return false
		}
	}
	return true
}
