package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// MeanVarianceNormalization subtracts the mean over Axes and divides by the standard deviation
// (https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html). Version 1 is an
// experimental operator for images that ONNX Runtime still runs.
type MeanVarianceNormalization struct {
	Axes       []int
	CenterOnly bool // do not divide
}

var _ = kit.Register(&kit.Def{Name: "MeanVarianceNormalization", Since: kit.Versions{1, 9, 13}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Work: 6,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		n := &MeanVarianceNormalization{Axes: []int{0, 2, 3}}
		if opset < 9 {
			n.CenterOnly = a.Int("normalize_variance", 1) == 0
			if a.Bool("across_channels", false) {
				n.Axes = []int{0, 1, 2, 3}
			}
			return n
		}
		if a.Has("axes") {
			n.Axes = a.Ints("axes")
		}
		return n
	},
	Gradient: gradient.Decomposition(meanVarianceParts)})

// meanVarianceParts computes (x − mean)/(standard deviation + 1e-9).
func meanVarianceParts(b *gradient.Builder, n *gradient.Node) (string, error) {
	x, axes := n.Inputs[0], n.Attrs.Ints("axes", []int64{0, 2, 3})
	if n.Attrs.Int("across_channels", 0) != 0 {
		axes = []int64{0, 1, 2, 3}
	}
	sum := func(v string) string {
		if len(axes) == 0 {
			return b.SumFrom(v, 0)
		}
		for _, a := range axes {
			v = b.SumAxis(v, a)
		}
		return v
	}
	count := sum(b.Filled(1, x))
	d := b.Op("Sub", x, b.Op("Div", sum(x), count))
	if n.Attrs.Int("normalize_variance", 1) == 0 {
		return d, nil
	}
	return b.Op("Div", d, b.Plus(b.Op("Sqrt", b.Op("Div", sum(b.Op("Mul", d, d)), count)), 1e-9)), nil
}

// Infer keeps the shape.
func (n *MeanVarianceNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil {
		_, err := kit.NormalAxes(n.Axes, len(s))
		return err
	}
	return nil
}

func (n *MeanVarianceNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return meanVarianceNorm[float64](c, n)
	}
	return meanVarianceNorm[float32](c, n)
}

func meanVarianceNorm[T kit.RealFloat](c *ir.Call, n *MeanVarianceNormalization) error {
	t := c.Tensor(0)
	s := t.Shape()
	plan, err := new(reduce.Reduction).Plan(c, s, n.Axes)
	if err != nil {
		return err
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	keep, keepStep, sum, sumStep, run := plan.Pieces() // run elements are contiguous and normalized together
	num := plan.N
	_, single := any(x).([]float32)
	kernels := single && !c.Generic && run >= kit.ShortRow
	joined := kernels && run < num && num <= 4096 // in a copy, as one piece
	c.Parallel(kit.Product(keep), kit.GrainFor(8*num), func(lo, hi int) {
		index := make([]int, len(sum))
		var piece []float32
		if joined {
			piece = make([]float32, num)
		}
		// each calls fn for the pieces that are normalized together.
		each := func(first int, fn func(x, y []T)) {
			for range num / run {
				at := first
				for d, k := range index {
					at += k * sumStep[d]
				}
				fn(x[at:at+run], y.Data[at:at+run])
				kit.NextIndex(index, sum)
			}
		}
		for g := lo; g < hi && c.Err() == nil; g++ {
			first := reduce.PlanOffset(g, keep, keepStep)
			if joined {
				p := any(piece[:0]).([]T)
				each(first, func(x, _ []T) { p = append(p, x...) })
				if n.fast(num, func(fn func(x, y []float32)) { fn(piece, piece) }) {
					each(first, func(_, y []T) { p = p[copy(y, p):] })
					continue
				}
			} else if kernels && n.fast(num, func(fn func(x, y []float32)) {
				each(first, func(x, y []T) { fn(any(x).([]float32), any(y).([]float32)) })
			}) {
				continue
			}
			mean, sq := 0.0, 0.0
			each(first, func(x, _ []T) { mean += sumOf(x, 0, false) })
			mean /= float64(num)
			each(first, func(x, _ []T) { sq += sumOf(x, mean, true) })
			std := n.deviation(sq, num)
			each(first, func(x, y []T) {
				for i, v := range x {
					y[i] = T((float64(v) - mean) / std)
				}
			})
		}
	})
	y.Store()
	return c.Err()
}

// deviation returns the divisor of num differences from their mean, from the sum of their squares.
func (n *MeanVarianceNormalization) deviation(sq float64, num int) float64 {
	if n.CenterOnly {
		return 1
	}
	return math.Sqrt(sq/float64(num)) + 1e-9
}

// fast normalizes num elements, of which each yields the pieces, with kernels. It returns false if
// a sum overflows.
func (n *MeanVarianceNormalization) fast(num int, each func(fn func(x, y []float32))) bool {
	l := cpu.Active()
	_, rest, sq := reduce.CenteredMoments(l, num, each)
	std := n.deviation(sq, num)
	if !(math.Abs(rest) < 1e37 && std < 1e37) {
		return false
	}
	each(func(_, y []float32) { vec.ScaleShiftF32(l, y, y, float32(1/std), float32(-rest/std)) })
	return true
}

// sumOf returns Σ (x[i]-center), or of its squares. Four sums hide the latency of the additions.
func sumOf[T kit.RealFloat](x []T, center float64, square bool) float64 {
	var s0, s1, s2, s3 float64
	for ; len(x) >= 4; x = x[4:] {
		d0, d1, d2, d3 := float64(x[0])-center, float64(x[1])-center, float64(x[2])-center, float64(x[3])-center
		if square {
			d0, d1, d2, d3 = d0*d0, d1*d1, d2*d2, d3*d3
		}
		s0, s1, s2, s3 = s0+d0, s1+d1, s2+d2, s3+d3
	}
	for _, v := range x {
		d := float64(v) - center
		if square {
			d *= d
		}
		s0 += d
	}
	return s0 + s1 + s2 + s3
}
