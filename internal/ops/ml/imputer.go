package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Imputer replaces the elements of X that equal a given value, which may be NaN, by an
// imputed value: one for all, or one per column of the last dimension
// (https://onnx.ai/onnx/operators/onnx_aionnxml_Imputer.html).
type Imputer struct {
	floats []float32
	ints   []int64
	float  float32 // the value to replace, for float inputs
	int    int64   // for integer inputs
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "Imputer", Since: kit.Versions{1}, In: "X:T", Out: "Y:T",
	Types: "T: " + mlNumbers,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &Imputer{a.Floats("imputed_value_floats"), int64s(a.Ints("imputed_value_int64s")),
			a.Float("replaced_value_float", 0), int64(a.Int("replaced_value_int64", 0))}
		if (len(op.floats) > 0) == (len(op.ints) > 0) {
			a.Errorf("%d imputed_value_floats and %d imputed_value_int64s, want one of the two",
				len(op.floats), len(op.ints))
		}
		return op
	}})

// Infer sets Y to the type of X.
func (op *Imputer) Infer(c *ir.InferContext) error {
	if c.Elem(0).IsFloat() == (len(op.floats) == 0) {
		return fail.Errorf("X is %s, want float types with imputed_value_floats and integers with imputed_value_int64s",
			c.Elem(0))
	}
	return kit.SameAsInput(c)
}

// Run replaces element by element.
func (op *Imputer) Run(c *ir.Call) error {
	x := c.Tensor(0)
	cols := 1
	if x.Rank() > 0 {
		cols = x.Dim(x.Rank() - 1)
	}
	if k := max(len(op.floats), len(op.ints)); k != 1 && k != cols {
		return fail.Errorf("%d imputed values for X of shape %v, want 1 or %d", k, x.Shape(), cols)
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	switch x.DType() {
	case tensor.TypeFloat32:
		impute(c, tensor.MustData[float32](y), tensor.MustData[float32](x), cols, op.float, op.floats)
	case tensor.TypeFloat64:
		impute(c, tensor.MustData[float64](y), tensor.MustData[float64](x), cols, op.float, op.floats)
	case tensor.TypeInt32:
		impute(c, tensor.MustData[int32](y), tensor.MustData[int32](x), cols, op.int, op.ints)
	case tensor.TypeInt64:
		impute(c, tensor.MustData[int64](y), tensor.MustData[int64](x), cols, op.int, op.ints)
	default:
		return fail.Errorf("X has type %s, want one of %s", x.DType(), mlNumbers)
	}
	return nil
}

func impute[T float32 | float64 | int32 | int64, V float32 | int64](c *ir.Call, y, x []T, cols int,
	replaced V, by []V) {
	old := T(replaced)
	value := func(i int) T {
		if len(by) == 1 {
			return T(by[0])
		}
		return T(by[i%cols])
	}
	c.Parallel(len(x), kit.GrainCheap, func(lo, hi int) {
		from, to := x[lo:hi], y[lo:hi]
		if old == old {
			for i, v := range from {
				if v == old {
					v = value(lo + i)
				}
				to[i] = v
			}
			return
		}
		for i, v := range from {
			if v != v {
				v = value(lo + i)
			}
			to[i] = v
		}
	})
}
