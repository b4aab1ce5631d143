package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// LRN divides each element by (Bias + Alpha/Size·Σx²)^Beta, where the sum is over Size adjacent
// channels (https://onnx.ai/onnx/operators/onnx__LRN.html).
type LRN struct {
	Alpha, Beta, Bias float32
	Size              int
}

var _ = kit.Register(&kit.Def{Name: "LRN", Since: kit.Versions{1, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Class: kit.ClassNormalization, Work: 6,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("size")
		n := &LRN{Alpha: a.Float("alpha", 0.0001), Beta: a.Float("beta", 0.75), Bias: a.Float("bias", 1),
			Size: a.Int("size", 1)}
		if n.Size < 1 {
			a.Errorf("attribute size is %d, want at least 1", n.Size)
		}
		return n
	},
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		x, size := n.Inputs[0], float32(n.Attrs.Int("size", 1))
		if size < 1 {
			return "", fail.Errorf("attribute size is %v, want at least 1", size)
		}
		sum := b.Factored("onward.ChannelWindowSum", size, b.Op("Mul", x, x))
		base := b.Plus(b.Scaled(n.Attrs.Float("alpha", 0.0001)/size, sum), n.Attrs.Float("bias", 1))
		return b.Op("Div", x, b.Op("Pow", base, b.Filled(n.Attrs.Float("beta", 0.75), base))), nil
	})})

// Infer keeps the shape.
func (n *LRN) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return fail.Errorf("input has rank %d, want at least 2", len(s))
	}
	return nil
}

// Run adds in float64.
func (n *LRN) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return lrn[float64](c, n)
	}
	return lrn[float32](c, n)
}

func lrn[T kit.RealFloat](c *ir.Call, n *LRN) error {
	t := c.Tensor(0)
	s := t.Shape()
	if len(s) < 2 {
		return fail.Errorf("input has shape %v, want rank at least 2", s)
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	ch, plane := s[1], kit.Product(s[2:])
	before, after := (n.Size-1)/2, n.Size/2
	alpha, beta, bias := float64(n.Alpha)/float64(n.Size), float64(n.Beta), float64(n.Bias)
	// Process blocks of columns of one instance. A running sum would lose precision.
	const width = 256
	blocks := (plane + width - 1) / width
	c.Parallel(s[0]*blocks, kit.GrainFor(width*ch*8), func(lo, hi int) {
		var sums [width]float64
		m := &ir.Meter{C: c}
		for b := lo; b < hi; b++ {
			img, p0 := b/blocks, b%blocks*width
			w := min(width, plane-p0)
			for k := range ch {
				sum := sums[:w]
				clear(sum)
				for o := max(0, k-before); o <= min(ch-1, k+min(after, ch)); o++ {
					for i, v := range x[(img*ch+o)*plane+p0:][:w] {
						sum[i] += float64(v) * float64(v)
					}
					if !m.Spend(w) {
						return
					}
				}
				at := (img*ch+k)*plane + p0
				for i, v := range x[at:][:w] {
					d := bias + alpha*sum[i]
					if beta == 0.75 {
						r := math.Sqrt(d)
						d = r * math.Sqrt(r)
					} else {
						d = math.Pow(d, beta)
					}
					y.Data[at+i] = T(float64(v) / d)
				}
			}
		}
	})
	y.Store()
	return c.Err()
}
