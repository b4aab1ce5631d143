package gradops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// GridSampleGrad returns the derivatives of order Order of a GridSample with respect to the grid:
// [N, C, E1…Er, r, …, r], with one last dimension r per order. GridSampleGradBack sums X of such a
// shape into the elements that they are derived from, those of a tensor in the shape of the third
// input: GridSampleGrad and it are transposes of each other.
type GridSampleGrad struct {
	ops.GridSample
	Order int
	Back  bool
}

var (
	_ = registerGridSampleGrad("GridSampleGrad", "X:T, grid:U", false, gradient.Grid(1))
	_ = registerGridSampleGrad("GridSampleGradBack", "X:T, grid:U, like:T", true, gradient.GridBack)
)

func registerGridSampleGrad(name, in string, back bool, gradient *gradient.Gradient) *kit.Def {
	return kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: name, Since: kit.Versions{1}, In: in, Out: "Y:T",
		Types:    "T: @float; U: @float",
		Gradient: gradient,
		Build: func(a *kit.Attrs, opset int) kit.Operator {
			g := &GridSampleGrad{Order: a.Int("order", 1), Back: back}
			g.AlignCorners, g.Padding = a.Bool("align_corners", false),
				a.Enum("padding_mode", "zeros", "zeros", "border", "reflection")
			g.Mode = a.Enum("mode", "linear", "linear", "bilinear", "nearest", "cubic", "bicubic")
			switch g.Mode {
			case "bilinear":
				g.Mode = "linear"
			case "bicubic":
				g.Mode = "cubic"
			}
			if g.Order < 0 || g.Order > gridOrders {
				a.Errorf("attribute order is %d, want 0 to %d", g.Order, gridOrders)
			}
			return g
		}})
}

// gridOrders is the maximum order of derivatives; higher ones of a bicubic interpolation
// are zero.
const gridOrders = 6

// Infer infers the output.
func (g *GridSampleGrad) Infer(c *ir.InferContext) error {
	if g.Back {
		return shapedLike(2)(c)
	}
	return unrankedLike(c)
}

// Run computes in float64.
func (g *GridSampleGrad) Run(c *ir.Call) error {
	image, grid := c.Tensor(0), c.Tensor(1)
	if g.Back {
		image = c.Tensor(2)
	}
	xs, gs := image.Shape(), grid.Shape()
	if err := g.Check(len(xs), len(gs)); err != nil {
		return err
	}
	r := len(xs) - 2
	if gs[0] != xs[0] || gs[r+1] != r {
		return fail.Errorf("image and grid have shapes %v and %v, want one grid of %d coordinates per image", xs, gs, r)
	}
	derivatives := append([]int{xs[0], xs[1]}, gs[1:r+1]...)
	parts := 1
	for range g.Order {
		if parts *= r; parts > window.GridPoints {
			return fail.Errorf("derivatives of order %d with respect to %d coordinates are too many", g.Order, r)
		}
		derivatives = append(derivatives, r)
	}
	shape := derivatives
	if g.Back {
		if shape = xs; !slices.Equal(c.Tensor(0).Shape(), derivatives) {
			return fail.Errorf("X has shape %v, want %v", c.Tensor(0).Shape(), derivatives)
		}
	}
	at, err := kit.RealIn[float64](c, grid)
	if err != nil {
		return err
	}
	x, err := kit.RealIn[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float64](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	ir.Clear(c, y.Data)
	dims, ch, plane, points := xs[2:], xs[1], kit.Product(xs[2:]), kit.Product(gs[1:r+1])
	if plane == 0 && g.Padding != "zeros" && points > 0 {
		return fail.Errorf("image has shape %v, want at least one element per plane, which padding requires", xs)
	}
	most := int(math.Pow(float64(g.Taps()), float64(r)))
	index, weight, orders := make([]int, most), make([]float64, most), make([]int, r)
	m := &ir.Meter{C: c}
	for p := range xs[0] * points {
		img, point := p/points, p%points
		for part := range parts {
			clear(orders)
			for i, k := 0, part; i < g.Order; i++ {
				orders[k%r]++
				k /= r
			}
			n := g.derivative(at[p*r:][:r], dims, orders, grid.DType(), index, weight)
			for k := range ch {
				image, offset := (img*ch+k)*plane, ((img*ch+k)*points+point)*parts+part
				for i, from := range index[:n] {
					if g.Back {
						y.Data[image+from] += weight[i] * x[offset]
					} else {
						y.Data[offset] += weight[i] * x[image+from]
					}
				}
			}
			if !m.Spend(n * ch) {
				return c.Err()
			}
		}
	}
	y.Store()
	return nil
}

// derivative writes the indices and weights of the taps of one derivative, and returns their
// number. orders holds the order of the derivative with respect to each coordinate.
func (g *GridSampleGrad) derivative(at []float64, dims, orders []int, t tensor.DType, index []int,
	weight []float64) int {
	n := 1
	index[0], weight[0] = 0, 1
	for a, d := range dims {
		v, order := at[len(at)-1-a], orders[len(at)-1-a]
		x := g.Coordinate(v, d, t)
		factor := math.Pow(g.coordinateDerivative(v, d), float64(order))
		base := int(math.Floor(x))
		ratio := x - float64(base)
		num := g.Taps()
		var taps [4]int
		var w [4]float64
		switch {
		case num == 1:
			taps[0] = base
			if order == 0 {
				w[0] = 1
			}
		case num == 2:
			taps[0], taps[1] = base, base+1
			switch order {
			case 0:
				w[0], w[1] = 1-ratio, ratio
			case 1:
				w[0], w[1] = -1, 1
			}
		default:
			for k := range taps {
				taps[k] = base - 1 + k
				w[k] = keysDerivative(float64(k-1)-ratio, -0.75, order)
				if order%2 == 1 {
					w[k] = -w[k] // chain rule: the kernel's argument decreases with the ratio
				}
			}
		}
		kept := 0
		for k := range num {
			if taps[k] = g.Element(taps[k], d); taps[k] >= 0 {
				taps[kept], w[kept] = taps[k], w[k]*factor
				kept++
			}
		}
		for i := n - 1; i >= 0; i-- {
			from, f := index[i], weight[i]
			for k := kept - 1; k >= 0; k-- {
				index[i*kept+k], weight[i*kept+k] = from*d+taps[k], f*w[k]
			}
		}
		n *= kept
	}
	return n
}

// coordinateDerivative returns the derivative of [ops.GridSample.Coordinate] with respect to the
// coordinate v.
func (g *GridSampleGrad) coordinateDerivative(v float64, d int) float64 {
	lo, hi := g.Borders(d)
	scale := float64(d) / 2
	at := ((v+1)*float64(d) - 1) / 2
	if g.AlignCorners {
		scale = float64(d-1) / 2
		at = (v + 1) / 2 * float64(d-1)
	}
	const far = 1 << 40
	if !(math.Abs(at) < far) {
		return 0
	}
	switch {
	case g.Padding == "border" && g.Mode != "cubic" && (at < 0 || at > float64(d-1)):
		return 0
	case g.Padding == "reflection" && (at < lo || at > hi):
		if hi-lo <= 0 {
			return 0
		}
		if int(math.Floor((at-lo)/(hi-lo)))%2 != 0 {
			return -scale
		}
	}
	return scale
}

// keysDerivative returns the derivative of the given order of KeysKernel.
func keysDerivative(x, a float64, order int) float64 {
	sign := 1.0
	if x < 0 && order%2 == 1 {
		sign = -1
	}
	x = math.Abs(x)
	var p [4]float64 // the polynomial, constant first
	switch {
	case x <= 1:
		p = [4]float64{1, 0, -(a + 3), a + 2}
	case x < 2:
		p = [4]float64{-4 * a, 8 * a, -5 * a, a}
	}
	for range order {
		p = [4]float64{p[1], 2 * p[2], 3 * p[3], 0}
	}
	return sign * (((p[3]*x+p[2])*x+p[1])*x + p[0])
}
