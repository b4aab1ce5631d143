package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// LpNormalization divides the elements along Axis by their P-norm; vectors of
// norm 0 become 0.
type LpNormalization struct{ Axis, P int }

var _ = register(Def{Name: "LpNormalization", Since: []int{1, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		n := &LpNormalization{Axis: a.Int("axis", -1), P: a.Int("p", 2)}
		if n.P != 1 && n.P != 2 {
			a.Errorf("attribute p is %d, want 1 or 2", n.P)
		}
		return n
	})})

// Infer keeps the shape.
func (n *LpNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil {
		_, err := normalAxis(n.Axis, len(s))
		return err
	}
	return nil
}

// Run sums as double.
func (n *LpNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return lpNorm[float64](c, n)
	}
	return lpNorm[float32](c, n)
}

func lpNorm[T realFloat](c *ir.Call, n *LpNormalization) error {
	t := c.Tensor(0)
	s := t.Shape()
	axis, err := normalAxis(n.Axis, len(s))
	if err != nil {
		return err
	}
	x, err := realIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	length, step := s[axis], product(s[axis+1:])
	c.Parallel(len(x)/length, grainFor(3*length), func(lo, hi int) {
		for v := lo; v < hi && c.Err() == nil; v++ {
			first := v/step*length*step + v%step
			sum := 0.0
			for i := range length {
				f := float64(x[first+i*step])
				if n.P == 1 {
					sum += math.Abs(f)
				} else {
					sum += f * f
				}
			}
			if n.P == 2 {
				sum = math.Sqrt(sum)
			}
			for i := range length {
				var r T
				if sum != 0 {
					r = T(float64(x[first+i*step]) / sum)
				}
				y.data[first+i*step] = r
			}
		}
	})
	y.store()
	return c.Err()
}
