package opfuzz

import (
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// move draws cases that select and place elements.
func move(g *gen) *Case {
	op := g.def.Name
	shape := g.shape(1, 4)
	for i := range shape {
		shape[i] = max(shape[i], 1)
	}
	rank := len(shape)
	axis := g.in(-rank, rank-1)
	at := (axis + rank) % rank
	sig := g.def.Signature()
	d := tensor.TypeFloat32
	if _, ok := sig.Vars[sig.In[0].Pattern]; ok {
		d = g.dtype(sig.In[0].Pattern)
	}
	index := pick(g, tensor.TypeInt64, tensor.TypeInt32)
	switch op {
	case "Concat":
		c := &Case{Out: []bool{true}}
		for range g.in(1, 4) {
			s := slices.Clone(shape)
			s[at] = g.size()
			c.In = append(c.In, g.tensor(d, normal, s...))
		}
		c.Opset = g.opset(11)
		return c.set("axis", int64(axis))
	case "Split":
		n := g.in(1, 4)
		parts := make([]int, n)
		total := 0
		for i := range parts {
			parts[i] = g.in(0, 4)
			total += parts[i]
		}
		s := slices.Clone(shape)
		s[at] = total
		c := newCase()
		c.Opset = g.opset(11)
		c.set("axis", int64(axis))
		c.Out = make([]bool, n)
		for i := range c.Out {
			c.Out[i] = true
		}
		switch {
		case c.Opset >= 18 && g.n(2) == 1:
			s[at] = g.in(n, 9)
			c.set("num_outputs", int64(n))
			c.In = append(c.In, g.tensor(d, normal, s...))
		case c.Opset >= 13:
			c.In = append(c.In, g.tensor(d, normal, s...), ints(parts...))
		default:
			c.In = append(c.In, g.tensor(d, normal, s...))
			c.set("split", int64s(parts))
		}
		return c
	case "Slice":
		axes := g.axes(rank, true)
		starts, ends, steps := make([]int, len(axes)), make([]int, len(axes)), make([]int, len(axes))
		for i := range axes {
			starts[i], ends[i] = g.in(-7, 7), g.in(-7, 9)
			steps[i] = pick(g, 1, 1, 2, -1, -2, 3)
			if g.one(6) {
				ends[i] = pick(g, 1<<62, -1<<62, 1<<31-1, -1<<31)
			}
		}
		c := newCase(g.tensor(d, normal, shape...), ints(starts...), ints(ends...), ints(axes...), ints(steps...))
		c.Opset = g.opset(11)
		if index == tensor.TypeInt32 {
			for i := 1; i < 5; i++ {
				x := tensor.Must(tensor.Zeros(tensor.TypeInt32, len(axes)))
				for k, v := range tensor.MustData[int64](c.Tensor(i)) {
					tensor.MustData[int32](x)[k] = int32(min(max(v, -1<<31), 1<<31-1))
				}
				c.In[i] = x
			}
		}
		return c
	case "Pad":
		mode := pick(g, "constant", "constant", "edge", "reflect", "wrap")
		pads := make([]int, 2*rank)
		for i := range pads {
			pads[i] = g.in(-1, 3)
			if shape[i%rank] <= 3 || mode == "wrap" {
				pads[i] = max(pads[i], 0)
			}
			if mode == "reflect" {
				pads[i] = min(pads[i], shape[i%rank]-1)
			}
		}
		c := newCase(g.tensor(d, normal, shape...), ints(pads...)).set("mode", mode)
		c.Opset = g.opset(11)
		if mode == "wrap" {
			c.Opset = g.opset(19)
		}
		if mode == "constant" && g.n(2) == 1 {
			c.In = append(c.In, g.tensor(d, normal))
		}
		return c
	case "Tile":
		r := make([]int, rank)
		for i := range r {
			r[i] = g.in(0, 3)
		}
		return newCase(g.tensor(d, normal, shape...), ints(r...))
	case "Expand":
		return newCase(g.tensor(d, normal, g.broadcast(shape)...), ints(shape...))
	case "Reshape":
		n := 1
		for _, v := range shape {
			n *= v
		}
		to := pick(g, []int{-1}, []int{n}, []int{0, -1}, []int{1, n, 1}, []int{1, -1}, []int{n, 1, 1, -1},
			[]int{shape[0], -1})
		c := newCase(g.tensor(d, normal, shape...), ints(to...))
		return c
	case "Squeeze", "Unsqueeze":
		c := newCase()
		c.Opset = g.opset(11)
		var axes []int
		if op == "Squeeze" {
			for i := range shape {
				if g.n(2) == 1 {
					shape[i] = 1
					axes = append(axes, i-rank*g.n(2))
				}
			}
		} else {
			for _, a := range g.rng.Perm(rank + 2)[:2] {
				axes = append(axes, a-(rank+2)*g.n(2))
			}
		}
		c.In = append(c.In, g.tensor(d, normal, shape...))
		switch {
		case len(axes) == 0:
		case c.Opset >= 13:
			c.In = append(c.In, ints(axes...))
		default:
			c.set("axes", int64s(axes))
		}
		return c
	case "Gather":
		c := newCase(g.tensor(d, normal, shape...), g.indices(index, shape[at], true, g.shape(0, 2)...))
		c.Opset = g.opset(11)
		return c.set("axis", int64(axis))
	case "GatherElements":
		s := slices.Clone(shape)
		for i := range s {
			if i != at {
				s[i] = g.in(0, s[i])
			}
		}
		s[at] = g.size()
		return newCase(g.tensor(d, normal, shape...), g.indices(index, shape[at], true, s...)).set("axis", int64(axis))
	case "ScatterElements", "Scatter":
		// Without a reduction indices must be distinct, because the order of writes is undefined.
		s := slices.Clone(shape)
		for i := range s {
			s[i] = g.in(1, s[i])
		}
		c := newCase(g.tensor(d, normal, shape...), nil, g.tensor(d, normal, s...))
		c.set("axis", int64(axis))
		x := tensor.Must(tensor.Zeros(tensor.TypeInt64, s...))
		perm := g.rng.Perm(shape[at])
		inner := 1
		for _, v := range s[at+1:] {
			inner *= v
		}
		for i := range tensor.MustData[int64](x) {
			tensor.MustData[int64](x)[i] = int64(perm[i/inner%s[at]])
		}
		c.In[1] = x
		if op == "ScatterElements" {
			c.Opset = g.opset(11)
			if red := pick(g, "none", "add", "mul", "min", "max"); red != "none" && c.Opset >= 18 &&
				d != tensor.TypeString && d != tensor.TypeBool {
				c.set("reduction", red)
				c.In[1] = g.indices(tensor.TypeInt64, shape[at], true, s...)
			}
		} else {
			c.set("axis", int64(at))
		}
		return c
	case "GatherND", "ScatterND":
		last := g.in(1, rank)
		batch := 0
		c := newCase()
		c.Opset = g.opset(11)
		if op == "GatherND" && c.Opset >= 12 && rank > 1 {
			batch = g.n(min(rank, 3))
			last = g.in(1, rank-batch)
		}
		lead := append(slices.Clone(shape[:batch]), g.in(1, 4))
		n := 1
		for _, v := range lead {
			n *= v
		}
		x := tensor.Must(tensor.Zeros(tensor.TypeInt64, append(slices.Clone(lead), last)...))
		for i := range tensor.MustData[int64](x) {
			tensor.MustData[int64](x)[i] = int64(g.rng.IntN(shape[batch+i%last]))
		}
		c.In = append(c.In, g.tensor(d, normal, shape...), x)
		if op == "GatherND" {
			if batch > 0 {
				c.set("batch_dims", int64(batch))
			}
			return c
		}
		red := pick(g, "none", "add", "mul", "min", "max")
		if c.Opset < 18 || d == tensor.TypeString || d == tensor.TypeBool {
			red = "none"
		}
		if red == "none" {
			x = tensor.Must(tensor.Zeros(tensor.TypeInt64, 1, last))
			for i := range tensor.MustData[int64](x) {
				tensor.MustData[int64](x)[i] = int64(g.rng.IntN(shape[i]))
			}
			c.In[1], lead = x, []int{1}
		} else {
			c.set("reduction", red)
		}
		c.In = append(c.In, g.tensor(d, normal, append(lead, shape[last:]...)...))
		return c
	case "Compress":
		c := newCase(g.tensor(d, normal, shape...), g.tensor(tensor.TypeBool, normal, g.in(0, shape[at])))
		c.Opset = g.opset(11)
		if g.n(3) > 0 {
			c.set("axis", int64(axis))
		}
		return c
	case "OneHot":
		depth := g.in(1, 6)
		v := g.dtype("T3")
		c := newCase(g.indices(index, depth, true, shape...), nil, g.tensor(v, normal, 2))
		c.In[1] = tensor.Scalar(int64(depth))
		c.Opset = g.opset(11)
		return c.set("axis", int64(g.in(-rank-1, rank)))
	case "ReverseSequence":
		shape = append([]int{g.in(1, 6), g.in(1, 6)}, g.shape(0, 2)...)
		b, t := 1, 0
		if g.n(2) == 1 {
			b, t = 0, 1
		}
		l := make([]int, shape[b])
		for i := range l {
			l[i] = 1 + g.rng.IntN(shape[t])
		}
		return newCase(g.tensor(d, normal, shape...), ints(l...)).set("batch_axis", int64(b)).set("time_axis", int64(t))
	case "Trilu":
		c := newCase(g.tensor(d, normal, append(shape, g.size())...))
		if g.n(2) == 1 {
			c.In = append(c.In, tensor.Scalar(int64(g.in(-5, 5))))
		}
		return c.set("upper", int64(g.n(2)))
	case "Range":
		d = pick(g, tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeInt32, tensor.TypeInt64, tensor.TypeInt16)
		return newCase(g.tensor(d, normal), g.tensor(d, normal), g.tensor(d, positive))
	case "CenterCropPad":
		to := make([]int, rank)
		for i := range to {
			to[i] = g.size()
		}
		return newCase(g.tensor(d, normal, shape...), ints(to...))
	case "ConstantOfShape":
		c := newCase(ints(shape...))
		d = pick(g, tensor.TypeFloat32, tensor.TypeInt64, tensor.TypeInt8, tensor.TypeBool, tensor.TypeFloat16,
			tensor.TypeFloat64)
		if g.n(3) > 0 {
			c.set("value", g.tensor(d, normal, 1))
		}
		return c
	case "Clip":
		c := newCase(g.tensor(d, g.contents(), shape...))
		c.Opset = g.opset(11)
		if c.Opset < 12 {
			c.In[0] = g.tensor(tensor.TypeFloat32, normal, shape...)
			d = tensor.TypeFloat32
		}
		if g.n(3) > 0 {
			c.In = append(c.In, g.tensor(d, whole))
		} else {
			c.In = append(c.In, nil)
		}
		if g.n(3) > 0 {
			c.In = append(c.In, g.tensor(d, positive))
		}
		return c
	case "Cast", "CastLike":
		k := pick(g, normal, whole, positive)
		to := g.dtype("T2")
		x := g.tensor(d, k, shape...)
		if d == tensor.TypeString && to != tensor.TypeString {
			for i := range tensor.MustData[string](x) {
				tensor.MustData[string](x)[i] = []string{"1", "-2", "3.5", "1e3",
					"0"}[g.rng.IntN(5-2*btoi(!to.IsFloat()))]
			}
		}
		c := newCase(x)
		if op == "Cast" {
			c.set("to", int64(to))
		} else {
			c.In = append(c.In, g.tensor(to, normal, 1))
		}
		return c
	}
	panic(op)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
