package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// skipNormalization normalizes input + skip + bias over the last dimension. It implements
// SkipLayerNormalization and, without centering, SkipSimplifiedLayerNormalization. skip
// has the shape of input, or that shape without its first dimension, or with 1 there. The
// outputs after the first are the mean and inverse standard deviation of each row, unused
// in inference, and the sum
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipLayerNormalization).
type skipNormalization struct {
	epsilon    float32
	simplified bool
}

const skipNormOutputs = "output:T, mean:U?, inv_std_var:U?, input_skip_bias_sum:T?"

var (
	_ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "SkipLayerNormalization", Since: kit.Versions{1},
		Work: 7,
		In:   "input:T, skip:T, gamma:T, beta:T?, bias:T?", Out: skipNormOutputs, Types: "T: @float; U: float",
		Build: func(a *kit.Attrs, opset int) kit.Operator {
			return &skipNormalization{a.Float("epsilon", 1e-12), false}
		}})
	_ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "SkipSimplifiedLayerNormalization",
		Since: kit.Versions{1},
		Work:  5,
		In:    "input:T, skip:T, gamma:T, bias:T?", Out: skipNormOutputs, Types: "T: @float; U: float",
		Build: func(a *kit.Attrs, opset int) kit.Operator {
			return &skipNormalization{a.Float("epsilon", 1e-12), true}
		}})
)

// Infer sets output and sum to the type of input, and the statistics to one number per
// row.
func (op *skipNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	c.SetOut(3, c.Type(0))
	stat := ir.UnrankedTensor(tensor.TypeFloat32)
	if s := c.Shape(0); s != nil {
		if len(s) == 0 {
			return fail.Errorf("input is a scalar, want rank 1 or more")
		}
		stat.Shape = append(append([]ir.Dim{}, s[:len(s)-1]...), ir.Known(1))
	}
	c.SetOut(1, stat)
	c.SetOut(2, stat)
	return nil
}

// Run adds the inputs and normalizes the sum.
func (op *skipNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runSkipNorm[float64](op, c)
	}
	return runSkipNorm[float32](op, c)
}

// inputs checks the shapes and returns gamma, beta and bias, nil for one that is absent.
func (op *skipNormalization) inputs(c *ir.Call) (params [3]*tensor.Tensor, err error) {
	shape, skip := c.Tensor(0).Shape(), c.Tensor(1).Shape()
	if len(shape) == 0 {
		return params, fail.Errorf("input is a scalar, want rank 1 or more")
	}
	s := skip
	if len(s) == len(shape) && len(s) > 1 && s[0] == 1 && shape[0] != 1 {
		s = s[1:]
	}
	if !slices.Equal(s, shape) && (len(shape) < 2 || !slices.Equal(s, shape[1:])) {
		return params, fail.Errorf("skip has shape %v, want %v or the same without the first dimension", skip, shape)
	}
	params = [3]*tensor.Tensor{c.Tensor(2), c.Tensor(3), c.Tensor(4)}
	if op.simplified {
		params = [3]*tensor.Tensor{c.Tensor(2), nil, c.Tensor(3)}
	}
	for i, p := range params {
		if cols := shape[len(shape)-1]; p != nil && (p.Rank() != 1 || p.Len() != cols) {
			return params, fail.Errorf("%s has shape %v, want [%d]", []string{"gamma", "beta", "bias"}[i],
				p.Shape(), cols)
		}
	}
	return params, nil
}

func runSkipNorm[T kit.RealFloat](op *skipNormalization, c *ir.Call) error {
	params, err := op.inputs(c)
	if err != nil {
		return err
	}
	t := c.Tensor(0)
	shape := t.Shape()
	cols := shape[len(shape)-1]
	var in [5][]T // input, skip, gamma, beta, bias
	for i, t := range [5]*tensor.Tensor{t, c.Tensor(1), params[0], params[1], params[2]} {
		if in[i], err = kit.RealIn[T](c, t); err != nil {
			return err
		}
	}
	r := ir.Kept[reduce.NormRows[T]](c)
	*r = reduce.NormRows[T]{Cols: cols, Gain: in[2], Bias: in[3], Eps: float64(op.epsilon), Center: !op.simplified}
	var sum kit.RealOutput[T]
	if c.Wants(3) {
		sum, err = kit.RealOut[T](c, 3, t.DType(), shape...)
	} else {
		sum.Data, err = ir.LaunchScratchOf[T](c, t.Len())
	}
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), shape...)
	if err != nil {
		return err
	}
	var stats [2]kit.RealOutput[float32]
	for i, p := range [...]*[]float32{&r.Mean, &r.Inv} {
		if c.Wants(1 + i) {
			stat := append(append([]int{}, shape[:len(shape)-1]...), 1)
			if stats[i], err = kit.RealOut[float32](c, 1+i, tensor.TypeFloat32, stat...); err != nil {
				return err
			}
			*p = stats[i].Data
		}
	}
	if x := in[0]; len(x) > 0 {
		c.Launch(len(x)/cols, kit.GrainFor(2*cols), ir.Do(c, skipRows[T]{sum.Data, x, in[1], in[4], cols}))
	} else {
		for _, s := range stats {
			ir.Clear(c, s.Data)
		}
	}
	r.X, r.Y = sum.Data, y.Data
	r.Launch(c)
	y.Store()
	if sum.T != nil {
		sum.Store()
	}
	return nil
}

// skipRows adds the skip, and the bias if it is not nil, to rows of x.
type skipRows[T kit.RealFloat] struct {
	sum, x, skip, bias []T
	cols               int
}

// Do implements [ir.Section].
func (s *skipRows[T]) Do(lo, hi int) {
	for i := lo; i < hi; i++ {
		row := s.sum[i*s.cols:][:s.cols]
		copy(row, s.x[i*s.cols:])
		addTo(row, s.skip[i*s.cols%len(s.skip):])
		if s.bias != nil {
			addTo(row, s.bias)
		}
	}
}
