package msft

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// MaxpoolWithMask is a MaxPool that, in each row of a window, stops at the first element
// whose mask is 0. The first element of a plane does not stop it. A mask with fewer
// planes than the input repeats. The maximum of no elements is −MaxFloat32
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MaxpoolWithMask).
type MaxpoolWithMask struct{ kit.Window }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MaxpoolWithMask", Since: kit.Versions{1}, In: "X:T, M:int32", Out: "Y:T", Types: "T: float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		a.Ignore("storage_order")
		return &MaxpoolWithMask{kit.ReadWindow(a, false)}
	}})

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
	masks := ms[0] * ms[1]
	whole := kit.NewMaxPlane(c, &g)
	read := make([]maskedTaps, min(masks, planes))
	for i := range read {
		mask := keep[i*in:][:in]
		if whole == nil || slices.Contains(mask[min(1, len(g.In)-1):], 0) {
			if err := read[i].find(c, &g, mask); err != nil {
				return err
			}
		}
	}
	return kit.PoolPlanes(c, &g, planes, func(m *kit.Meter, plane int) bool {
		xp, yp, taps := src[plane*in:][:in], dst[plane*out:][:out], &read[plane%masks]
		if taps.ends == nil {
			ok := whole.Run(m, yp, xp)
			vec.MaxScalarF32(cpu.Active(), yp, yp, -math.MaxFloat32)
			return ok
		}
		from := int32(0)
		for o, end := range taps.ends {
			best := float32(-math.MaxFloat32)
			for _, at := range taps.at[from:end] {
				best = max(best, xp[at])
			}
			yp[o], from = best, end
		}
		return m.Spend(len(taps.at))
	})
}

// maskedTaps holds the elements of a plane that windows read under a mask: those of output o are
// at[ends[o-1]:ends[o]].
type maskedTaps struct{ at, ends []int32 }

func (t *maskedTaps) find(c *ir.Call, g *kit.WindowGeom, mask []int32) error {
	out, n, last := kit.Product(g.Out), len(g.In), len(g.In)-1
	limit := int64(out) * int64(min(g.Taps(), kit.Product(g.In)))
	if in := int64(len(mask)); max(limit, in) > math.MaxInt32 {
		return fmt.Errorf("%d windows read up to %d times from a plane of %d elements, want at most %d", out, limit, in, math.MaxInt32)
	}
	if err := c.Reserve(4 * (limit + int64(out))); err != nil {
		return err
	}
	t.at, t.ends = make([]int32, 0, limit), make([]int32, 0, out)
	m := kit.Meter{C: c}
	pos, tap := make([]int, n), make([]int, last)
	for range out {
		first, end := g.TapRange(last, pos[last])
		clear(tap)
		for more := first < end; more; more = kit.WindowStep(tap, g.Kernel[:last]) {
			at, ok := 0, true
			for d, k := range tap {
				i := pos[d]*g.Stride[d] - g.Before[d] + k
				ok = ok && i >= 0 && i < g.In[d]
				at = at*g.In[d] + i
			}
			m.Check(n + g.Kernel[last])
			at = at*g.In[last] + pos[last]*g.Stride[last] - g.Before[last] + first
			for k := at; ok && k < at+end-first; k++ {
				// If there is one axis, the exception for the first element does not apply.
				if mask[k] == 0 && (k > 0 || n == 1) {
					break
				}
				t.at = append(t.at, int32(k))
			}
		}
		t.ends = append(t.ends, int32(len(t.at)))
		kit.WindowStep(pos, g.Out)
	}
	return nil
}
