package opfuzz

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// mutate changes a seed: each kind of change by itself, so that most results are valid.
func (g *gen) mutate(all []*Case, seed *Case) *Case {
	c := seed.clone()
	what := g.n(8)
	if what == 1 || what == 2 || what == 7 {
		g.resize(c)
	}
	if what == 3 || what == 7 {
		g.retype(c)
	}
	if what == 4 {
		g.attributes(c, all)
	}
	if what == 5 {
		for i, p := range g.def.Signature().In {
			// Those of com.microsoft have kernels that read some of them without a look.
			if p.Optional && i < len(c.In) && c.Domain == "" && g.one(3) {
				c.In[i] = nil
			}
		}
		for i := range c.Out {
			if out := g.def.Signature().Out; i < len(out) && out[i].Optional && g.one(3) {
				c.Out[i] = false
			}
		}
		if !slices.Contains(c.Out, true) {
			c.Out[0] = true
		}
	}
	if what == 6 || c.Opset < 7 && c.Domain == "" {
		c.Opset = g.opset(7)
	}
	if g.n(4) != 0 {
		g.refill(c)
	}
	g.constants(c)
	return c
}

// resize maps every size that occurs in the inputs to another one, the same
// everywhere, so that sizes that must agree do.
func (g *gen) resize(c *Case) {
	to := map[int]int{}
	only := -1
	if g.one(3) && c.Domain == "" { // kernels of com.microsoft trust some sizes to agree
		only = g.n(len(c.In)) // one input alone
	}
	for i := range c.In {
		t := c.Tensor(i)
		if t == nil || only >= 0 && i != only {
			continue
		}
		if i > 0 && t.Rank() == 1 && t.DType() == tensor.TypeInt64 && only < 0 && t.Len() <= 8 && !g.one(4) {
			continue // axes, shapes, pads
		}
		shape := slices.Clone(t.Shape())
		for k, d := range shape {
			if _, ok := to[d]; !ok {
				to[d] = d
				if g.n(3) != 0 {
					to[d] = pick(g, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 2*d, 3*d, d+1, 0)
				}
			}
			shape[k] = to[d]
		}
		if n, err := tensor.Elements(shape); err != nil || n > 1<<15 {
			continue
		}
		c.In[i] = g.like(t, t.DType(), shape)
	}
}

// refill draws new contents for the inputs.
func (g *gen) refill(c *Case) {
	for i := range c.In {
		t := c.Tensor(i)
		if t == nil || g.one(4) {
			continue
		}
		c.In[i] = g.like(t, t.DType(), t.Shape())
	}
}

// like makes a tensor of another shape and type whose elements are as those of t:
// floats of the same sign and range, other elements from among them.
func (g *gen) like(t *tensor.Tensor, d tensor.DType, shape []int) *tensor.Tensor {
	n := t.Len()
	if t.DType() == tensor.TypeString && d == tensor.TypeString {
		r := tensor.Must(tensor.Zeros(d, shape...))
		for i := range tensor.MustData[string](r) {
			if n > 0 {
				tensor.MustData[string](r)[i] = tensor.MustData[string](t)[g.rng.IntN(n)]
			}
		}
		return r
	}
	old, err := Floats(t)
	if err != nil || d == tensor.TypeString || n == 0 {
		return g.tensor(d, normal, shape...)
	}
	if d == tensor.TypeBool {
		return g.tensor(d, normal, shape...)
	}
	size := tensor.Must(tensor.Zeros(tensor.TypeFloat64, shape...)).Len()
	v := make([]float64, size)
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range old {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	reuse := !t.DType().IsFloat() || g.rng.IntN(4) == 0 || lo > hi
	same := slices.Equal(shape, t.Shape())
	for i := range v {
		switch {
		case reuse && same && !t.DType().IsFloat() && g.rng.IntN(3) != 0:
			v[i] = old[i]
		case reuse:
			v[i] = old[g.rng.IntN(n)]
		default:
			v[i] = lo + (hi-lo)*g.rng.Float64()
		}
		if !t.DType().IsFloat() && g.rng.IntN(40) == 0 {
			v[i] += float64(g.rng.IntN(3) - 1)
		}
	}
	if !d.IsFloat() {
		a, b := intRange(d)
		for i := range v {
			if v[i] != v[i] {
				v[i] = 0
			}
			v[i] = min(max(math.Round(v[i]), a), b)
		}
	}
	r := tensor.Must(tensor.Zeros(d, shape...))
	if err := tensor.ConvertInto(r, tensor.Must(tensor.New(v, shapeOf(shape, size)...)),
		nil); err != nil {
		return g.tensor(d, normal, shape...)
	}
	return r
}

// retype gives a type variable of the signature another type.
func (g *gen) retype(c *Case) {
	sig := g.def.Signature()
	var names []string
	for _, p := range sig.In {
		if vars, ok := sig.Vars[p.Pattern]; ok && len(vars) > 1 && vars[0].Kind == tensor.KindTensor &&
			!slices.Contains(names, p.Pattern) {
			names = append(names, p.Pattern)
		}
	}
	if len(names) == 0 {
		return
	}
	name := pick(g, names...)
	d := g.dtype(name)
	for i := range c.In {
		p := sig.In[min(i, len(sig.In)-1)]
		if t := c.Tensor(i); t != nil && p.Pattern == name {
			c.In[i] = g.like(t, d, t.Shape())
		}
	}
}

// attributes changes, adds or drops one attribute.
func (g *gen) attributes(c *Case, all []*Case) {
	from := all[g.n(len(all))]
	if len(from.Attrs) > 0 && g.n(2) == 0 {
		a := from.Attrs[g.n(len(from.Attrs))]
		if a.Type != onnx.AttrGraph {
			c.Attrs = slices.DeleteFunc(c.Attrs, func(x *onnx.Attribute) bool { return x.Name == a.Name })
			c.Attrs = append(c.Attrs, a)
		}
		return
	}
	if len(c.Attrs) == 0 {
		return
	}
	i := g.n(len(c.Attrs))
	a := c.Attrs[i]
	switch a.Type {
	case onnx.AttrInt:
		c.set(a.Name, pick(g, int64(0), 1, 2, -1, a.I+1, a.I-1, a.I*2))
	case onnx.AttrFloat:
		c.set(a.Name, pick(g, float32(0), 1, 0.5, -0.25, a.F*2, 1e-3))
	case onnx.AttrInts:
		v := slices.Clone(a.Ints)
		if len(v) > 0 {
			v[g.n(len(v))] = pick(g, int64(0), 1, 2, -1, 3)
		}
		c.set(a.Name, v)
	default:
		c.Attrs = slices.Delete(c.Attrs, i, i+1)
	}
}
