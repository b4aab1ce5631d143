package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// LpPool takes the p-norm over a sliding window; padding counts as 0.
type LpPool struct {
	Window
	P float64
}

var _ = register(Def{Name: "LpPool", Since: []int{1, 2, 11, 18, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("kernel_shape")
		p := &LpPool{Window: readWindow(a, opset >= 18), P: readNorm(a, opset)}
		if opset >= 18 {
			p.Ceil = a.Bool("ceil_mode", false)
		}
		p.Crop = true
		return p
	})})

// readNorm reads the order p of a norm: a float in opset 1, an int from 2 on.
func readNorm(a *Attrs, opset int) float64 {
	p := 2.0
	if opset < 2 {
		p = float64(a.Float("p", 2))
	} else {
		p = float64(a.Int("p", 2))
	}
	if !(p > 0) {
		a.Errorf("attribute p is %g, want a positive number", p)
	}
	return p
}

// Infer computes the windows' number.
func (p *LpPool) Infer(c *ir.InferContext) error {
	return inferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run pools planes in parallel.
func (p *LpPool) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return lpPool[float64](c, p)
	}
	return lpPool[float32](c, p)
}

func lpPool[T realFloat](c *ir.Call, p *LpPool) error {
	g, shape, err := poolGeom(&p.Window, c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	x, err := realIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	in, out := product(g.in), product(g.out)
	err = poolPlanes(c, &g, shape[0]*shape[1], func(m *meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y.data[plane*out:][:out]
		return poolPlain(&g, m, xp, nil, func(o int, vals []T) bool {
			yp[o] = T(normOf(vals, p.P))
			return true
		})
	})
	if err == nil {
		y.store()
	}
	return err
}

// normOf returns the p-norm of v.
func normOf[T realFloat](v []T, p float64) float64 {
	sum := 0.0
	switch p {
	case 1:
		for _, x := range v {
			sum += math.Abs(float64(x))
		}
		return sum
	case 2:
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		return math.Sqrt(sum)
	}
	for _, x := range v {
		sum += math.Pow(math.Abs(float64(x)), p)
	}
	return math.Pow(sum, 1/p)
}
