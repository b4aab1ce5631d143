package ops

import (
	"errors"
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// BatchNormalization normalizes every channel with the given statistics or, in training mode, with
// those of the batch, then scales and shifts it. In training mode it also returns the running mean
// and variance, and up to opset 13 the batch's own
// (https://onnx.ai/onnx/operators/onnx__BatchNormalization.html).
type BatchNormalization struct {
	Epsilon, Momentum float32
	Training          bool
	Spatial           bool // statistics are per channel, not per element of an instance
}

var _ = kit.Register(&kit.Def{Name: "BatchNormalization", Since: kit.Versions{1, 6, 7, 9, 14, 15},
	Work:        2,
	In:          "X:T, scale:T1, B:T1, input_mean:T2, input_var:T2",
	Out:         "Y:T, running_mean:T2?, running_var:T2?, saved_mean:T2?, saved_var:T2?",
	KeepOutputs: func(op kit.Operator) bool { return op.(*BatchNormalization).Training },
	Types:       "T: @float; T1: @float; T2: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		b := &BatchNormalization{Epsilon: reduce.ReadEpsilon(a), Momentum: a.Float("momentum", 0.9), Spatial: true}
		switch {
		case opset >= 14:
			b.Training = a.Bool("training_mode", false)
			if a.NumOut > 3 {
				a.Errorf("node has %d outputs, want at most 3", a.NumOut)
			}
		case opset >= 7:
			b.Training = a.NumOut > 1
		default:
			b.Training = !a.Bool("is_test", false)
		}
		if opset < 9 {
			b.Spatial = a.Bool("spatial", true)
		}
		if opset < 6 {
			a.Ignore("consumed_inputs")
		}
		return b
	},
	Gradient: gradient.Decomposition(batchNormalizationParts)})

// batchNormalizationParts normalizes channels by the statistics of the batch when
// training, else by the given ones.
func batchNormalizationParts(b *gradient.Builder, n *gradient.Node) (string, error) {
	if err := b.Need(9); err != nil {
		return "", err
	}
	x, epsilon := n.Inputs[0], n.Attrs.Float("epsilon", 1e-5)
	wide := b.ChannelsLike(x)
	if n.Attrs.Int("training_mode", 0) != 0 || b.Opset < 14 && len(n.Outputs) > 1 {
		x = b.Normal(x, epsilon, func(v string) string { return wide(b.Op("onward.ChannelSum", v, n.Input(1))) })
	} else {
		d := b.Op("Sub", x, wide(n.Input(3)))
		x = b.Op("Div", d, wide(b.Op("Sqrt", b.Plus(n.Input(4), epsilon))))
	}
	return b.ScaledAndShifted(x, n.Input(1), n.Input(2), wide), nil
}

// Infer keeps the shapes.
func (b *BatchNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	for i := 1; i < 5; i++ {
		c.SetOut(i, c.Type(3+(i-1)%2)) // statistics have the shapes of mean and var
		if c.Wants(i) && !b.Training {
			return errors.New("running statistics are outputs in training mode only")
		}
	}
	if s := c.Shape(0); b.Spatial && len(s) > 1 {
		for i := 1; i < 5; i++ {
			if p := c.Shape(i); p != nil && ir.Product(p).Differs(s[1]) {
				return fail.Errorf("input %d has shape %v, want [%s]", i, p, s[1])
			}
		}
	}
	return nil
}

// Run computes half-precision types in float32.
func (b *BatchNormalization) Run(c *ir.Call) error {
	for i := range 5 {
		if c.Tensor(i).DType() == tensor.TypeFloat64 {
			return batchNorm[float64](c, b)
		}
	}
	return batchNorm[float32](c, b)
}

func batchNorm[T kit.RealFloat](c *ir.Call, b *BatchNormalization) error {
	t := c.Tensor(0)
	s := t.Shape()
	n, ch, plane := 1, 1, 1 // instances, channels, elements of a channel
	switch {
	case len(s) == 1:
		n = s[0]
	case len(s) > 1 && b.Spatial:
		n, ch, plane = s[0], s[1], kit.Product(s[2:])
	case len(s) > 1:
		n, ch = s[0], kit.Product(s[1:])
	}
	var p [5][]T
	names := []string{"X", "scale", "B", "mean", "var"}
	var err error
	for i := 1; i < 5; i++ {
		if p[i], err = reduce.ChannelParam[T](c, names[i], c.Tensor(i), ch); err != nil {
			return err
		}
	}
	if p[0], err = kit.RealIn[T](c, t); err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), s...)
	if err != nil {
		return err
	}
	x, mean, variance := p[0], p[3], p[4]
	if b.Training {
		if n*plane == 0 && ch > 0 {
			return fail.Errorf("input has shape %v: the statistics of an empty batch are undefined", s)
		}
		if mean, err = ir.ScratchOf[T](c, ch); err != nil {
			return err
		}
		if variance, err = ir.ScratchOf[T](c, ch); err != nil {
			return err
		}
		batchMoments(c, x, y.Data, mean, variance, n, ch, plane)
		m := float64(b.Momentum)
		for i, batch := range [][]T{mean, variance, mean, variance} {
			if !c.Wants(1 + i) {
				continue
			}
			in := c.Tensor(3 + i%2)
			o, err := kit.RealOut[T](c, 1+i, in.DType(), in.Shape()...)
			if err != nil {
				return err
			}
			for k, v := range batch {
				if i < 2 {
					v = T(float64(p[3+i][k])*m + float64(v)*(1-m))
				}
				o.Data[k] = v
			}
			o.Store()
		}
	}
	if err := batchScale(c, x, y.Data, p[1], p[2], mean, variance, ch, plane, float64(b.Epsilon)); err != nil {
		return err
	}
	y.Store()
	return nil
}

// batchMoments computes the mean and variance of every channel over all instances. y is scratch
// memory.
func batchMoments[T kit.RealFloat](c *ir.Call, x, y, mean, vari []T, n, ch, plane int) {
	x32, fast := any(x).([]float32)
	y32, _ := any(y).([]float32)
	fast = fast && !c.Generic && plane >= kit.ShortRow && plane <= 1<<20 // the kernels do not check the context
	num := float64(n * plane)
	c.Parallel(ch, kit.GrainFor(n*plane*2), func(lo, hi int) {
		for k := lo; k < hi && c.Err() == nil; k++ {
			if fast {
				if m, v, ok := channelMoments(x32, y32[lo*plane:][:plane], k, n, ch, plane); ok {
					mean[k], vari[k] = T(m), T(v)
					continue
				}
			}
			sum, sq := 0.0, 0.0
			for i := range n {
				for _, v := range x[(i*ch+k)*plane:][:plane] {
					sum += float64(v)
				}
			}
			m := sum / num
			for i := range n {
				sq += reduce.Variance(c, x[(i*ch+k)*plane:][:plane], m)
			}
			mean[k], vari[k] = T(m), T(sq/num)
		}
	})
}

// channelMoments returns the mean and variance of channel k, unless a sum overflows. y is scratch
// memory for a plane.
func channelMoments(x, y []float32, k, n, ch, plane int) (mean, variance float64, ok bool) {
	center, rest, sq := reduce.CenteredMoments(cpu.Active(), n*plane, func(fn func(x, y []float32)) {
		for at := k * plane; at < len(x); at += ch * plane {
			fn(x[at:][:plane], y)
		}
	})
	return float64(center) + rest, sq / float64(n*plane), math.Abs(rest) < 1e37 && sq < 1e37
}

// batchScale computes y = (x − mean)/√(vari + eps)·scale + shift per channel.
func batchScale[T kit.RealFloat](c *ir.Call, x, y, scale, shift, mean, vari []T, ch, plane int, eps float64) error {
	if len(x) == 0 {
		return nil
	}
	l := cpu.Active()
	x32, fast := any(x).([]float32)
	y32, _ := any(y).([]float32)
	fast = fast && !c.Generic
	if fast && plane == 1 && ch >= 8 {
		return batchScaleRows(c, x32, y32, any(scale).([]float32), any(shift).([]float32), any(mean).([]float32),
			any(vari).([]float32), eps)
	}
	fast = fast && plane >= 8
	c.Parallel(len(x)/plane, kit.GrainFor(plane), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k := i % ch
			f := float64(scale[k]) / math.Sqrt(float64(vari[k])+eps)
			g := float64(shift[k]) - float64(mean[k])*f
			if fast {
				vec.ScaleShiftF32(l, y32[i*plane:][:plane], x32[i*plane:][:plane], float32(f), float32(g))
				continue
			}
			out := y[i*plane:][:plane]
			for j, v := range x[i*plane:][:plane] {
				out[j] = T((float64(v)-float64(mean[k]))*f + float64(shift[k]))
			}
		}
	})
	return c.Err()
}

// batchScaleRows is batchScale for channels of one element: rows of all channels have the same
// factors and summands.
func batchScaleRows(c *ir.Call, x, y, scale, shift, mean, vari []float32, eps float64) error {
	ch := len(scale)
	factors, err := ir.ScratchOf[float32](c, 2*ch)
	if err != nil {
		return err
	}
	summands := factors[ch:]
	factors = factors[:ch]
	c.Parallel(ch, kit.GrainCostly, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			f := float64(scale[k]) / math.Sqrt(float64(vari[k])+eps)
			factors[k], summands[k] = float32(f), float32(float64(shift[k])-float64(mean[k])*f)
		}
	})
	c.Parallel(len(x)/ch, kit.GrainFor(ch), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for from, to := range ir.Steps(c, ch) {
				vec.MulAddF32(cpu.Active(), y[i*ch+from:i*ch+to], x[i*ch+from:i*ch+to], factors[from:to],
					summands[from:to])
			}
		}
	})
	return c.Err()
}
