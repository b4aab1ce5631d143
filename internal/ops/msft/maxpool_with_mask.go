package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// MaxpoolWithMask is a MaxPool that, in each row of a window, stops at the first element
// whose mask is 0. The first element of a plane does not stop it. A mask with fewer
// planes than the input repeats. The maximum of no elements is −MaxFloat32
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MaxpoolWithMask).
type MaxpoolWithMask struct{ window.Window }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MaxpoolWithMask", Since: kit.Versions{1},
	In: "X:T, M:int32", Out: "Y:T", Types: "T: float",
	Class: kit.ClassReduction,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		a.Ignore("storage_order")
		return &MaxpoolWithMask{window.Read(a, false)}
	}})

// Infer computes the output shape.
func (p *MaxpoolWithMask) Infer(c *ir.InferContext) error {
	return window.InferPool(c, &p.Window, ir.UnrankedTensor(tensor.TypeFloat32))
}

// Run processes planes in parallel.
func (p *MaxpoolWithMask) Run(c *ir.Call) error {
	x, mask := c.Tensor(0), c.Tensor(1)
	g, shape, err := window.PoolGeom(&p.Window, x.Shape())
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
		return fail.Errorf("M has shape %v, which is inconsistent with X with shape %v", ms, x.Shape())
	}
	y, err := c.Output(0, tensor.TypeFloat32, shape...)
	if err != nil || y.Len() == 0 {
		return err
	}
	in, out := kit.Product(g.In), kit.Product(g.Out)
	src, dst, keep := tensor.MustData[float32](x), tensor.MustData[float32](y), tensor.MustData[int32](mask)
	masks := ms[0] * ms[1]
	whole := window.NewMaxPlane(c, &g)
	rows := newMaskedRows(c, &g)
	read := make([]maskedTaps, min(masks, planes))
	size := 0 // of the memory of a workspace
	for i := range read {
		mask := keep[i*in:][:in]
		if whole != nil && !slices.Contains(mask[min(1, len(g.In)-1):], 0) {
			continue
		}
		if rows == nil {
			err = read[i].find(c, &g, mask)
		} else {
			read[i].alive, err = rows.find(c, mask, len(read)-i)
			size = rows.size
		}
		if err != nil {
			return err
		}
	}
	work, err := ir.ScratchOf[float32](c, 2*size*kit.WorkspaceCount(c, planes))
	if err != nil {
		return err
	}
	run := func(m *ir.Meter, ws, plane int) bool {
		xp, yp, taps := src[plane*in:][:in], dst[plane*out:][:out], &read[plane%masks]
		ok := true
		switch {
		case taps.alive != nil:
			ok = rows.run(m, yp, xp, work[2*size*ws:][:2*size], taps.alive)
		case taps.ends == nil:
			ok = whole.Run(m, yp, xp)
		default:
			from := int32(0)
			for o, end := range taps.ends {
				best := float32(-math.MaxFloat32)
				for _, at := range taps.at[from:end] {
					best = max(best, xp[at])
				}
				yp[o], from = best, end
			}
			return m.Spend(len(taps.at))
		}
		vec.MaxScalarF32(cpu.Active(), yp, yp, -math.MaxFloat32)
		return ok
	}
	if size == 0 {
		return window.PoolPlanes(c, &g, planes, func(m *ir.Meter, plane int) bool { return run(m, 0, plane) })
	}
	return kit.InWorkspaces(c, planes, func(ws, plane int) error {
		run(&ir.Meter{C: c}, ws, plane)
		return c.Err()
	})
}

// maskedRows reduces the rows of windows with vector kernels: first along the last axis, for all
// elements of the plane at once, then along the others.
type maskedRows struct {
	g     *window.Geometry
	width int // of a row that all windows read, with its padding
	size  int // of a plane of such rows
	rest  *window.PoolPlane
	bools []byte // of a mask
	free  []byte // memory for results of find
}

// newMaskedRows returns nil if lists of elements are faster or the window is unsupported.
func newMaskedRows(c *ir.Call, g *window.Geometry) *maskedRows {
	last := len(g.In) - 1
	if g.Kernel[last] > 16 || kit.Product(g.In) < 64 || kit.Product(g.Out) == 0 || g.Before[last] >= g.In[last] {
		return nil
	}
	r := &maskedRows{g: g, width: (g.Out[last]-1)*g.Stride[last] + g.Kernel[last]}
	if g.Before[last] == 0 && r.width <= g.In[last] {
		r.width = g.In[last]
	}
	if r.width > 2*g.In[last]+16 || r.width <= g.Before[last] {
		return nil
	}
	r.size = kit.Product(g.In[:last]) * r.width
	rest := *g
	rest.In, rest.Kernel, rest.Before = slices.Clone(g.In), slices.Clone(g.Kernel), slices.Clone(g.Before)
	rest.In[last], rest.Kernel[last], rest.Before[last] = r.width, 1, 0
	if r.rest = window.NewMaxPlane(c, &rest); r.rest == nil {
		return nil
	}
	return r
}

// find reports for each tap of the last axis, and each element of a plane with padding, whether a
// row that begins at the element reaches the tap. At most rest masks follow, with this one.
func (r *maskedRows) find(c *ir.Call, mask []int32, rest int) ([]bool, error) {
	last := len(r.g.In) - 1
	taps, width, before := r.g.Kernel[last], r.g.In[last], r.g.Before[last]
	if r.bools == nil {
		if err := c.Reserve(int64(taps)*int64(r.size)*int64(rest) + int64(len(mask))); err != nil {
			return nil, err
		}
		r.bools, r.free = make([]byte, len(mask)), make([]byte, taps*r.size*rest)
	}
	alive := r.free[:taps*r.size]
	r.free = r.free[len(alive):]
	l, m := cpu.Active(), ir.Meter{C: c}
	first := alive[:r.size]
	vec.I32ToBool(l, r.bools, mask) // whole, because rows may be shorter than a vector
	for row := range r.size / r.width {
		to := first[row*r.width:][:r.width]
		end := min(before+width, r.width)
		copy(to[before:end], r.bools[row*width:])
		for i := range before {
			to[i] = 1
		}
		for i := end; i < r.width; i++ {
			to[i] = 1
		}
		m.Check(r.width)
	}
	if last > 0 && before < r.width { // if there is one axis, the exception for the first element does not apply
		first[before] = 1
	}
	for k := 1; k < taps && k < r.size; k++ {
		dst, sofar, next := alive[k*r.size:][:r.size-k], alive[(k-1)*r.size:], first[k:]
		elementwise.AndWords(dst, sofar, next)
		for i := len(dst) &^ 31; i < len(dst); i++ {
			dst[i] = sofar[i] & next[i]
		}
		m.Check(r.size / 8)
	}
	return memory.FromRaw[bool](alive), nil
}

// run pools the plane x into y. work has the size of two planes.
func (r *maskedRows) run(m *ir.Meter, y, x, work []float32, alive []bool) bool {
	bits := func(x []float32) []uint32 { return memory.FromRaw[uint32](memory.AsBytes(x)) }
	l, last := cpu.Active(), len(r.g.In)-1
	best := work[:r.size]
	if width := r.g.In[last]; r.width != width || r.g.Before[last] != 0 {
		padded, before := work[r.size:], r.g.Before[last]
		vec.FillF32(padded, -math.MaxFloat32)
		for row := range r.size / r.width {
			copy(padded[row*r.width+before:(row+1)*r.width], x[row*width:][:width])
		}
		x = padded
	}
	var part [1 << 9]float32
	for lo := 0; lo < r.size; lo += len(part) {
		n := min(len(part), r.size-lo)
		sum := best[lo:][:n]
		vec.FillF32(sum, -math.MaxFloat32)
		for k := range r.g.Kernel[last] {
			n := min(n, r.size-k-lo) // the last elements begin no window
			if n <= 0 {
				break
			}
			to := part[:n]
			if k == 0 {
				to = sum[:n]
			}
			vec.SelectU32(l, bits(to), bits(x[lo+k:][:n]), bits(sum[:n]), alive[k*r.size+lo:][:n])
			if k > 0 {
				vec.MaxF32(l, sum[:n], sum[:n], to)
			}
		}
		if !m.Spend(n) {
			return false
		}
	}
	return r.rest.Run(m, y, best)
}

// maskedTaps holds the elements of a plane that windows read under a mask: those of output o are
// at[ends[o-1]:ends[o]]. alive is set instead for [maskedRows].
type maskedTaps struct {
	at, ends []int32
	alive    []bool
}

func (t *maskedTaps) find(c *ir.Call, g *window.Geometry, mask []int32) error {
	out, n, last := kit.Product(g.Out), len(g.In), len(g.In)-1
	limit := int64(out) * int64(min(g.Taps(), kit.Product(g.In)))
	if in := int64(len(mask)); max(limit, in) > math.MaxInt32 {
		return fail.Errorf("%d windows read up to %d times from a plane of %d elements, want at most %d", out,
			limit, in, math.MaxInt32)
	}
	if err := c.Reserve(4 * (limit + int64(out))); err != nil {
		return err
	}
	t.at, t.ends = make([]int32, 0, limit), make([]int32, 0, out)
	m := ir.Meter{C: c}
	pos, tap := make([]int, n), make([]int, last)
	for range out {
		first, end := g.TapRange(last, pos[last])
		clear(tap)
		for more := first < end; more; more = kit.NextIndex(tap, g.Kernel[:last]) {
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
		kit.NextIndex(pos, g.Out)
	}
	return nil
}
