package opfuzz

import (
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// geometry draws the attributes of a window over an image of 1 to 3 dimensions. It returns
// the sizes of image and window.
func (g *gen) geometry(c *Case, dilate bool) (image, kernel []int) {
	dims := pick(g, 2, 2, 2, 1, 3)
	pads, strides, dilations := make([]int64, 2*dims), make([]int64, dims), make([]int64, dims)
	for i := range dims {
		k := pick(g, 1, 3, 3, 2, 5)
		d := 1
		if dilate && g.one(4) {
			d = 2
		}
		need := (k-1)*d + 1
		kernel = append(kernel, k)
		image = append(image, need+g.n(12-3*dims)+btoi(dims < 3)*g.n(12))
		strides[i], dilations[i] = int64(pick(g, 1, 1, 2, 3)), int64(d)
		pads[i], pads[i+dims] = int64(g.n(k)), int64(g.n(k))
	}
	switch g.n(6) {
	case 5:
		c.set("auto_pad", pick(g, "SAME_UPPER", "SAME_LOWER", "VALID"))
	case 4:
	default:
		c.set("pads", pads)
	}
	if g.n(4) > 0 {
		c.set("strides", strides)
	}
	if dilate && c.Text("auto_pad", "") == "" {
		c.set("dilations", dilations)
	}
	if dilate && c.Text("auto_pad", "") != "" && !slices.Contains(dilations, 2) {
		c.set("dilations", dilations)
	}
	return image, kernel
}

func window(g *gen) *Case {
	op := g.def.Name
	c := newCase()
	n := g.in(1, 3)
	d := pick(g, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeFloat64)
	switch op {
	case "Conv", "ConvInteger", "QLinearConv":
		image, kernel := g.geometry(c, true)
		group := pick(g, 1, 1, 1, 2, 3, 4)
		in := pick(g, 1, 2, 3, 4, 8, 16)
		out := pick(g, 1, 2, 3, 8, 16, 20)
		if op == "QLinearConv" && group > 1 || g.one(6) {
			in, out = 1, pick(g, 1, 2) // depthwise
		}
		x := append([]int{n, group * in}, image...)
		w := append([]int{group * out, in}, kernel...)
		c.set("group", int64(group))
		if g.n(2) == 1 {
			c.set("kernel_shape", int64s(kernel))
		}
		switch op {
		case "Conv":
			c.In = append(c.In, g.tensor(d, normal, x...), g.tensor(d, unit, w...))
			if g.n(2) == 1 {
				c.In = append(c.In, g.tensor(d, normal, group*out))
			}
			return c
		case "ConvInteger":
			c.In = append(c.In, g.tensor(tensor.TypeUint8, normal, x...), g.tensor(tensor.TypeUint8, normal, w...))
			if g.n(2) == 1 {
				c.In = append(c.In, g.tensor(tensor.TypeUint8, whole))
				if g.n(2) == 1 {
					c.In = append(c.In, g.tensor(tensor.TypeUint8, whole))
				}
			}
			return c
		}
		dx, dw := tensor.TypeUint8, pick(g, tensor.TypeUint8, tensor.TypeInt8)
		if dw == tensor.TypeInt8 && g.n(2) == 1 {
			dx = tensor.TypeInt8
		}
		s := func() *tensor.Tensor { return tensor.Scalar(pick(g, float32(0.5), 0.1, 0.03, 1)) }
		ws, zw := s(), g.tensor(dw, whole)
		if g.n(2) == 1 {
			ws = g.tensor(tensor.TypeFloat32, positive, group*out)
			zw = tensor.Must(tensor.Zeros(dw, group*out))
		}
		c.In = append(c.In, g.tensor(dx, normal, x...), s(), g.tensor(dx, whole), g.tensor(dw, normal, w...), ws, zw,
			tensor.Scalar(float32(2)), g.tensor(dx, whole))
		if g.n(2) == 1 {
			c.In = append(c.In, g.tensor(tensor.TypeInt32, normal, group*out))
		}
		return c
	case "ConvTranspose":
		image, kernel := g.geometry(c, true)
		group, in, out := pick(g, 1, 1, 2), pick(g, 1, 3, 8), pick(g, 1, 3, 8)
		c.set("group", int64(group))
		if strides := c.Attr("strides"); strides != nil && c.Attr("pads") != nil && g.n(2) == 1 {
			p := make([]int64, len(strides.Ints))
			for i, s := range strides.Ints {
				p[i] = int64(g.n(int(s)))
			}
			c.set("output_padding", p)
		}
		c.In = append(c.In, g.tensor(d, normal, append([]int{n, group * in}, image...)...),
			g.tensor(d, unit, append([]int{group * in, out}, kernel...)...))
		if g.n(2) == 1 {
			c.In = append(c.In, g.tensor(d, normal, group*out))
		}
		return c
	case "MaxPool", "AveragePool", "LpPool", "NhwcMaxPool":
		c.Opset = g.opset(10)
		dilate := op == "MaxPool" || c.Opset >= 19 && op == "AveragePool" || c.Opset >= 18 && op == "LpPool"
		image, kernel := g.geometry(c, dilate)
		c.set("kernel_shape", int64s(kernel))
		channels := pick(g, 1, 3, 8, 17)
		k := normal
		switch op {
		case "MaxPool":
			c.set("ceil_mode", int64(g.n(2)))
			if g.n(2) == 1 {
				c.Out = []bool{true, true}
				c.set("storage_order", int64(g.n(2)))
			}
			if c.Opset >= 12 && g.one(4) {
				d = pick(g, tensor.TypeUint8, tensor.TypeInt8)
			}
			k = pick(g, normal, whole)
		case "AveragePool":
			c.set("ceil_mode", int64(g.n(2))).set("count_include_pad", int64(g.n(2)))
		case "LpPool":
			c.set("p", int64(g.in(1, 3)))
			if c.Opset >= 18 {
				c.set("ceil_mode", int64(g.n(2)))
			}
		case "NhwcMaxPool":
			c.Opset = 1
			d = pick(g, tensor.TypeUint8, tensor.TypeInt8)
			c.In = append(c.In, g.tensor(d, normal, append(append([]int{n}, image...), channels)...))
			return c
		}
		c.In = append(c.In, g.tensor(d, k, append([]int{n, channels}, image...)...))
		return c
	case "Resize":
		return resize(g)
	case "GridSample":
		c.Opset = g.opset(16)
		x := []int{n, g.in(1, 3), g.in(1, 6), g.in(1, 6)}
		gs := []int{n, g.in(1, 5), g.in(1, 5), 2}
		modes := []string{"linear", "nearest", "cubic"}
		if c.Opset < 20 {
			modes = []string{"bilinear", "nearest", "bicubic"}
		} else if g.one(3) {
			x, gs, modes = append(x, g.in(1, 4)), []int{n, 2, 3, 2, 3}, modes[:2]
		}
		c.In = append(c.In, g.tensor(tensor.TypeFloat32, normal, x...),
			g.tensor(tensor.TypeFloat32, pick(g, unit, normal), gs...))
		return c.set("mode", pick(g, modes...)).set("padding_mode", pick(g, "zeros", "border", "reflection")).
			set("align_corners", int64(g.n(2)))
	case "RoiAlign", "MaxRoiPool":
		h, w := g.in(2, 12), g.in(2, 12)
		count := g.in(1, 4)
		rois := tensor.Must(tensor.Zeros(tensor.TypeFloat32, count, 4+btoi(op == "MaxRoiPool")))
		at := 0
		r := tensor.MustData[float32](rois)
		for range count {
			if op == "MaxRoiPool" {
				r[at] = float32(g.rng.IntN(n))
				at++
			}
			x1, y1 := g.rng.Float32()*float32(w-1), g.rng.Float32()*float32(h-1)
			r[at], r[at+1], r[at+2], r[at+3] = x1, y1, x1+g.rng.Float32()*float32(w), y1+g.rng.Float32()*float32(h)
			at += 4
		}
		x := g.tensor(tensor.TypeFloat32, normal, n, g.in(1, 4), h, w)
		if op == "MaxRoiPool" {
			c.In = append(c.In, x, rois)
			return c.set("pooled_shape", []int64{int64(g.in(1, 4)), int64(g.in(1, 4))}).
				set("spatial_scale", pick(g, float32(1), 0.5))
		}
		c.Opset = g.opset(10)
		c.In = append(c.In, x, rois, g.indices(tensor.TypeInt64, n, false, count))
		if c.Opset >= 16 {
			c.set("coordinate_transformation_mode", pick(g, "half_pixel", "output_half_pixel"))
		}
		return c.set("output_height", int64(g.in(1, 4))).set("output_width", int64(g.in(1, 4))).
			set("sampling_ratio", int64(g.in(0, 3))).set("spatial_scale", pick(g, float32(1), 0.5))
	case "MaxUnpool":
		ch, h, w := g.in(1, 3), g.in(1, 4), g.in(1, 4)
		x := g.tensor(tensor.TypeFloat32, normal, n, ch, h, w)
		i := tensor.Must(tensor.Zeros(tensor.TypeInt64, n, ch, h, w))
		for k := range tensor.MustData[int64](i) {
			col, row, plane := k%w, k/w%h, k/(w*h)
			tensor.MustData[int64](i)[k] = int64(plane*4*h*w + (2*row+g.rng.IntN(2))*2*w + 2*col + g.rng.IntN(2))
		}
		c.In = append(c.In, x, i)
		return c.set("kernel_shape", []int64{2, 2}).set("strides", []int64{2, 2})
	}
	panic(op)
}

func resize(g *gen) *Case {
	c := newCase()
	c.Opset = g.opset(10)
	mode := pick(g, "nearest", "linear", "cubic")
	rank := pick(g, 4, 4, 2, 3)
	if mode == "cubic" {
		rank = 4
	}
	shape := make([]int, rank)
	scales := make([]float32, rank)
	sizes := make([]int, rank)
	for i := range shape {
		shape[i] = g.in(1, 7)
		scales[i] = 1
		if i >= rank-2 {
			scales[i] = pick(g, float32(2), 1, 0.5, 3, 1.5, 0.75, 2.6)
			if float32(shape[i])*scales[i] < 1 {
				scales[i] = 1
			}
		}
		sizes[i] = shape[i]
		if i >= rank-2 {
			sizes[i] = g.in(1, 11)
		}
	}
	d := pick(g, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeUint8, tensor.TypeInt32,
		tensor.TypeFloat16, tensor.TypeInt8, tensor.TypeFloat64)
	x := g.tensor(d, normal, shape...)
	s := tensor.Must(tensor.New(scales, rank))
	if c.Opset == 10 {
		if mode == "cubic" {
			mode = "linear"
		}
		c.In = append(c.In, x, s)
		return c.set("mode", mode)
	}
	c.set("mode", mode)
	transform := pick(g, "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric",
		"tf_half_pixel_for_nn")
	if transform == "half_pixel_symmetric" && c.Opset < 19 || transform == "tf_half_pixel_for_nn" && c.Opset > 11 {
		transform = "half_pixel"
	}
	c.set("coordinate_transformation_mode", transform)
	switch mode {
	case "nearest":
		c.set("nearest_mode", pick(g, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
	case "cubic":
		c.set("cubic_coeff_a", pick(g, float32(-0.75), -0.5)).set("exclude_outside", int64(g.n(2)))
	}
	if c.Opset >= 18 && mode != "nearest" && g.one(3) {
		c.set("antialias", int64(1))
	}
	empty := tensor.Must(tensor.New([]float32{}, 0))
	if g.n(2) == 0 {
		c.In = append(c.In, x, empty, s)
		return c
	}
	c.In = append(c.In, x, empty, nil, ints(sizes...))
	if c.Opset < 13 {
		c.In[2] = empty
	}
	if c.Opset >= 18 && g.one(3) {
		c.set("keep_aspect_ratio_policy", pick(g, "stretch", "not_larger", "not_smaller"))
		c.set("axes", []int64{int64(rank - 2), int64(rank - 1)})
		c.In[3] = ints(sizes[rank-2:]...)
	}
	return c
}

func normalize(g *gen) *Case {
	op := g.def.Name
	d := pick(g, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeFloat16)
	c := newCase()
	eps := pick(g, float32(1e-5), 1e-3, 1e-2)
	if g.n(2) == 1 {
		c.set("epsilon", eps)
	}
	switch op {
	case "BatchNormalization":
		s := g.shape(2, 5)
		s[1] = max(s[1], 1)
		ch := s[1]
		c.Opset = g.opset(9)
		c.In = append(c.In, g.tensor(d, normal, s...), g.tensor(d, normal, ch), g.tensor(d, normal, ch),
			g.tensor(d, normal, ch), g.tensor(d, positive, ch))
		return c
	case "InstanceNormalization":
		s := g.shape(3, 5)
		c.In = append(c.In, g.tensor(d, normal, s...), g.tensor(d, normal, s[1]), g.tensor(d, normal, s[1]))
		return c
	case "GroupNormalization":
		groups := g.in(1, 4)
		s := g.shape(3, 4)
		s[1] = groups * g.in(1, 4)
		c.Opset = 21
		c.In = append(c.In, g.tensor(d, normal, s...), g.tensor(d, normal, s[1]), g.tensor(d, normal, s[1]))
		return c.set("num_groups", int64(groups))
	case "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization":
		s := g.shape(1, 4)
		axis := g.in(-len(s), len(s)-1)
		at := (axis + len(s)) % len(s)
		c.In = append(c.In, g.tensor(d, normal, s...), g.tensor(d, normal, s[at:]...))
		c.set("axis", int64(axis))
		if op == "LayerNormalization" {
			if g.n(2) == 1 {
				c.In = append(c.In, g.tensor(d, normal, s[at:]...))
			}
			c.Out = []bool{true, true, true}[:1+2*g.n(2)]
		}
		return c
	}
	s := []int{g.in(1, 3), g.in(1, 5), g.in(1, 40)}
	h := s[2]
	if d == tensor.TypeFloat64 {
		d = tensor.TypeFloat32
	}
	c.In = append(c.In, g.tensor(d, normal, s...), g.tensor(d, normal, s...), g.tensor(d, normal, h))
	if op == "SkipLayerNormalization" && g.n(2) == 1 {
		c.In = append(c.In, g.tensor(d, normal, h))
	}
	return c
}

func quantize(g *gen) *Case {
	op := g.def.Name
	s := g.shape(0, 4)
	if op == "DynamicQuantizeLinear" {
		c := newCase(g.tensor(tensor.TypeFloat32, pick(g, normal, positive), s...))
		c.Out = []bool{true, true, true}
		return c
	}
	c := newCase()
	c.Opset = g.opset(10)
	q := pick(g, tensor.TypeUint8, tensor.TypeInt8)
	if c.Opset >= 21 {
		q = pick(g, tensor.TypeUint8, tensor.TypeInt8, tensor.TypeUint16, tensor.TypeInt16, tensor.TypeInt4,
			tensor.TypeUint4)
	}
	if c.Opset >= 19 && g.one(5) {
		q = pick(g, tensor.TypeFloat8E4M3FN, tensor.TypeFloat8E5M2)
	}
	f := tensor.TypeFloat32
	if c.Opset >= 19 && g.one(4) {
		f = tensor.TypeFloat16
	}
	scale := []int{}
	if len(s) > 0 && c.Opset >= 13 && g.n(2) == 1 {
		axis := g.in(-len(s), len(s)-1)
		at := (axis + len(s)) % len(s)
		scale = []int{s[at]}
		c.set("axis", int64(axis))
		if c.Opset >= 21 && s[at] > 1 && g.n(2) == 1 {
			block := g.in(1, s[at])
			c.set("block_size", int64(block))
			scale = slices.Clone(s)
			scale[at] = (s[at] + block - 1) / block
		}
	}
	sc := g.tensor(f, positive, scale...)
	z := g.tensor(q, whole, scale...)
	if q.IsFloat() {
		z = tensor.Must(tensor.Zeros(q, scale...))
	}
	if op == "QuantizeLinear" {
		c.In = append(c.In, g.tensor(f, pick(g, normal, normal, special), s...), sc, z)
		return c
	}
	c.In = append(c.In, g.tensor(q, pick(g, normal, normal, special), s...), sc)
	if g.n(3) > 0 {
		c.In = append(c.In, z)
	}
	return c
}

func recurrent(g *gen) *Case {
	op := g.def.Name
	gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[op]
	seq, batch, size, hid := g.in(1, 5), g.in(1, 5), g.in(1, 9), g.in(1, 18)
	c := newCase()
	dir := pick(g, "forward", "reverse", "bidirectional")
	dirs := 1 + btoi(dir == "bidirectional")
	d := pick(g, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat64)
	c.set("direction", dir).set("hidden_size", int64(hid))
	c.In = append(c.In, g.tensor(d, normal, seq, batch, size), g.tensor(d, unit, dirs, gates*hid, size),
		g.tensor(d, unit, dirs, gates*hid, hid), nil, nil, nil)
	if g.n(2) == 1 {
		c.In[3] = g.tensor(d, unit, dirs, 2*gates*hid)
	}
	if g.n(2) == 1 {
		l := tensor.Must(tensor.Zeros(tensor.TypeInt32, batch))
		for i := range tensor.MustData[int32](l) {
			tensor.MustData[int32](l)[i] = int32(1 + g.rng.IntN(seq))
		}
		c.In[4] = l
	}
	if g.n(2) == 1 {
		c.In[5] = g.tensor(d, unit, dirs, batch, hid)
	}
	c.Out = []bool{true, true}
	switch op {
	case "LSTM":
		c.In = append(c.In, nil, nil)
		if g.n(2) == 1 {
			c.In[6] = g.tensor(d, unit, dirs, batch, hid)
		}
		if g.n(3) == 2 {
			c.In[7] = g.tensor(d, unit, dirs, 3*hid)
		}
		c.Out = []bool{true, true, true}
	case "GRU":
		c.set("linear_before_reset", int64(g.n(2)))
	}
	if g.one(4) {
		c.set("clip", pick(g, float32(0.5), 1, 3))
	}
	for len(c.In) > 0 && c.In[len(c.In)-1] == nil {
		c.In = c.In[:len(c.In)-1]
	}
	return c
}
