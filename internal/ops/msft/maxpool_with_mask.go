package msft

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// MaxpoolWithMask is a MaxPool that, in each row of a window, stops at the first element
// whose mask is 0. The first element of a plane does not stop it. A mask with fewer
// planes than the input repeats. The maximum of no elements is −MaxFloat32
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MaxpoolWithMask).
type MaxpoolWithMask struct{ kit.Window }

var _ = kit.Register(kit.Def{Domain: kit.DomainMicrosoft, Name: "MaxpoolWithMask", Since: []int{1}, In: "X:T, M:int32", Out: "Y:T", Types: kit.Types{"T": "float"},
	Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		a.Ignore("storage_order")
		return &MaxpoolWithMask{kit.ReadWindow(a, false)}
	})})

// Infer computes the output shape.
func (p *MaxpoolWithMask) Infer(c *ir.InferContext) error {
	return kit.InferPool(c, &p.Window, ir.UnrankedTensor(tensor.TypeFloat32))
}

// Run processes planes in parallel.
func (p *MaxpoolWithMask) Run(c *ir.Call) error {
	x, mask := c.Tensor(0), c.Tensor(1)
	g, shape, err := kit.PoolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	ms := mask.Shape()
	fits := len(ms) == x.Rank()
	for d := 2; fits && d < len(ms); d++ {
		fits = ms[d] == x.Dim(d)
	}
	planes := shape[0] * shape[1]
	if !fits || planes > 0 && ms[0]*ms[1] == 0 {
		return fmt.Errorf("M has shape %v, which is inconsistent with X with shape %v", ms, x.Shape())
	}
	y, err := c.Output(0, tensor.TypeFloat32, shape...)
	if err != nil || y.Len() == 0 {
		return err
	}
	in, out := kit.Product(g.In), kit.Product(g.Out)
	src, dst, keep := tensor.Of[float32](x), tensor.Of[float32](y), tensor.Of[int32](mask)
	n := len(g.In)
	return kit.PoolPlanes(c, &g, planes, func(m *kit.Meter, plane int) bool {
		xp, yp := src[plane*in:][:in], dst[plane*out:][:out]
		mp := keep[plane%(ms[0]*ms[1])*in:][:in]
		pos, tap := make([]int, n), make([]int, n)
		for o := range yp {
			best := float32(-math.MaxFloat32)
			clear(tap)
			stopped := false
			for more := true; more; more = kit.WindowStep(tap, g.Kernel) {
				if tap[n-1] == 0 {
					stopped = false
				}
				at, ok := 0, !stopped
				for d := range n {
					i := pos[d]*g.Stride[d] - g.Before[d] + tap[d]
					ok = ok && i >= 0 && i < g.In[d]
					at = at*g.In[d] + i
				}
				if !m.Spend(n) {
					return false
				}
				if !ok {
					continue
				}
				// If there is one axis, the exception for the first element does not apply.
				if mp[at] == 0 && (at > 0 || n == 1) {
					stopped = true
					continue
				}
				best = max(best, xp[at])
			}
			yp[o] = best
			kit.WindowStep(pos, g.Out)
		}
		return true
	})
}
