package opfuzz

import (
	"slices"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// families maps operators with many valid cases to their generators. All others are drawn
// from seeds.
var families = map[string]func(*gen) *Case{}

func family(f func(*gen) *Case, names ...string) {
	for _, n := range names {
		families[n] = f
	}
}

func newCase(in ...tensor.Value) *Case { return &Case{In: in, Out: []bool{true}} }

// float draws a floating-point type, mostly float32.
func (g *gen) float() tensor.DType {
	return pick(g, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeFloat16,
		tensor.TypeBFloat16)
}

func init() {
	for _, d := range kit.All() {
		if !d.Elementwise || d.Until != 0 {
			continue
		}
		if sig := d.Signature(); len(sig.In) == 1 && !sig.In[0].Variadic {
			family(unary, kit.QualifiedName(d.Domain, d.Name))
		} else {
			family(binary, kit.QualifiedName(d.Domain, d.Name))
		}
	}
	family(unary, "com.microsoft.QuickGelu", "Shape", "Size", "NonZero", "Flatten", "Transpose", "Hardmax", "Softmax",
		"LogSoftmax", "LpNormalization", "EyeLike", "Det",
		"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "MeanVarianceNormalization", "LRN", "DepthToSpace",
		"SpaceToDepth", "com.microsoft.Inverse", "com.microsoft.IsAllFinite")
	family(binary, "StringConcat", "SwiGLU")
	family(reduce, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
		"ReduceProd", "ReduceSum", "ReduceSumSquare")
	family(along, "ArgMax", "ArgMin", "CumSum", "TopK", "Unique", "CumProd")
	family(product, "MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "Einsum", "com.microsoft.FusedMatMul",
		"com.microsoft.FusedGemm")
	family(move, "Concat", "Split", "Slice", "Pad", "Tile", "Expand", "Reshape", "Squeeze", "Unsqueeze", "Gather",
		"GatherElements", "GatherND", "ScatterElements", "ScatterND",
		"Scatter", "Compress", "OneHot", "ReverseSequence", "Trilu", "Range", "CenterCropPad", "ConstantOfShape",
		"Clip", "Cast", "CastLike")
	family(window, "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "ConvInteger", "QLinearConv", "Resize",
		"GridSample", "RoiAlign", "MaxRoiPool", "MaxUnpool", "com.microsoft.NhwcMaxPool")
	family(normalize, "BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization",
		"RMSNormalization", "com.microsoft.SkipLayerNormalization",
		"com.microsoft.SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization")
	family(quantize, "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
	family(recurrent, "RNN", "GRU", "LSTM")
}

// unary draws cases with one data input.
func unary(g *gen) *Case {
	op := g.def.Name
	sig := g.def.Signature()
	k := g.contents()
	d := g.dtype(sig.In[0].Pattern)
	if _, ok := sig.Vars[sig.In[0].Pattern]; !ok {
		d = tensor.TypeBool
	}
	shape := g.shape(0, 4)
	switch op {
	case "Sqrt", "Log", "Acosh", "Reciprocal":
		if k == normal {
			k = positive
		}
	case "Acos", "Asin", "Atanh":
		if k == normal {
			k = unit
		}
	case "EyeLike":
		shape = g.shape(2, 2)
	case "Det", "Inverse":
		n := g.in(1, 5)
		shape = append(g.shape(0, 2), n, n)
		k = normal
	case "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN":
		shape = g.shape(3, 5)
	case "MeanVarianceNormalization", "DepthToSpace", "SpaceToDepth":
		shape = g.shape(4, 4)
	case "Softmax", "LogSoftmax", "Hardmax", "LpNormalization":
		shape = g.shape(1, 4)
		if k == special && op == "LpNormalization" {
			k = normal
		}
	}
	b := g.in(1, 3)
	switch op {
	case "DepthToSpace":
		shape[1] *= b * b
	case "SpaceToDepth":
		shape[2], shape[3] = shape[2]*b, shape[3]*b
	}
	c := newCase(g.tensor(d, k, shape...))
	rank := len(shape)
	f := func(name string, def float32) {
		if g.n(2) == 1 {
			c.set(name, pick(g, def, 0.25, 1.5, 0, 2))
		}
	}
	switch op {
	case "Celu", "ThresholdedRelu", "LeakyRelu", "Elu", "Swish", "QuickGelu":
		if op == "Celu" {
			c.set("alpha", pick(g, float32(1), 0.5, 2))
		} else {
			f("alpha", 1)
		}
	case "HardSigmoid":
		f("alpha", 0.2)
		f("beta", 0.5)
	case "Selu":
		f("alpha", 1.67)
		f("gamma", 1.05)
	case "Shrink":
		f("lambd", 0.5)
		f("bias", 0)
	case "Gelu":
		if g.def.Domain == "" {
			c.set("approximate", pick(g, "none", "tanh"))
		}
	case "IsInf":
		c.set("detect_negative", int64(g.n(2))).set("detect_positive", int64(g.n(2)))
	case "Shape":
		if g.n(2) == 1 {
			c.set("start", int64(g.in(-rank-1, rank+1))).set("end", int64(g.in(-rank-1, rank+1)))
			c.Opset = 15
		}
	case "Flatten":
		c.Opset = g.opset(11)
		c.set("axis", int64(g.in(-rank, rank)))
	case "Transpose":
		if g.n(3) > 0 {
			perm := g.rng.Perm(rank)
			p := make([]int64, rank)
			for i, v := range perm {
				p[i] = int64(v)
			}
			c.set("perm", p)
		}
	case "Softmax", "LogSoftmax", "Hardmax":
		if g.n(2) == 1 {
			c.Opset = g.opset(11)
			c.set("axis", int64(g.in(-rank, rank-1)))
		}
	case "LpNormalization":
		c.set("axis", int64(g.in(-rank, rank-1))).set("p", int64(g.in(1, 2)))
	case "EyeLike":
		c.set("k", int64(g.in(-4, 4)))
		if g.n(2) == 1 {
			c.set("dtype", int64(pick(g, tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeInt32, tensor.TypeInt64,
				tensor.TypeUint64)))
		}
	case "GlobalLpPool":
		c.set("p", int64(g.in(1, 3)))
	case "MeanVarianceNormalization":
		if g.n(2) == 1 {
			c.set("axes", pick(g, []int64{0, 2, 3}, []int64{1}, []int64{2, 3}, []int64{0, 1, 2, 3}))
		}
	case "LRN":
		c.set("size", int64(2*g.in(0, 3)+1))
		f("alpha", 1e-4)
		f("beta", 0.75)
		f("bias", 1)
	case "DepthToSpace":
		c.set("blocksize", int64(b))
		if g.n(2) == 1 {
			c.Opset = g.opset(11)
			c.set("mode", pick(g, "DCR", "CRD"))
		}
	case "SpaceToDepth":
		c.set("blocksize", int64(b))
	}
	return c
}

// broadcast draws a shape that can be broadcast with s.
func (g *gen) broadcast(s []int) []int {
	r := slices.Clone(s)
	switch g.n(4) {
	case 0:
		return r
	case 1:
		return r[g.n(len(r)+1):]
	}
	for i := range r {
		if g.n(2) == 1 {
			r[i] = 1
		}
	}
	return r[g.n(len(r)+1)/2:]
}

// binary draws cases whose inputs are broadcast.
func binary(g *gen) *Case {
	op := g.def.Name
	sig := g.def.Signature()
	base := g.shape(0, 4)
	count := 2
	c := &Case{Out: []bool{true}}
	switch op {
	case "Max", "Min", "Sum", "Mean":
		count = g.in(1, 4)
		c.Opset = g.opset(8)
	case "Where":
		count = 3
	}
	bound := map[string]tensor.DType{}
	k := g.contents()
	for i := range count {
		p := sig.In[min(i, len(sig.In)-1)].Pattern
		if _, ok := bound[p]; !ok {
			if _, ok := sig.Vars[p]; ok {
				bound[p] = g.dtype(p)
			} else {
				bound[p] = tensor.TypeBool
				if op == "StringConcat" {
					bound[p] = tensor.TypeString
				}
			}
		}
		kk := k
		if i == 1 && (op == "Div" || op == "Mod") && !bound[p].IsFloat() {
			kk = positive
		}
		if op == "Pow" {
			kk = pick(g, positive, whole)
			if i == 1 && !bound[p].IsFloat() {
				kk = positive
			}
		}
		shape := g.broadcast(base)
		if op == "PRelu" && i == 0 || op == "SwiGLU" {
			shape = base
		}
		c.In = append(c.In, g.tensor(bound[p], kk, shape...))
	}
	switch op {
	case "BitShift":
		c.set("direction", pick(g, "LEFT", "RIGHT"))
		if len(c.In) > 0 && c.DType(0) != tensor.TypeUint8 && !g.one(4) {
			d := pick(g, tensor.TypeUint8, tensor.TypeUint32, tensor.TypeUint64)
			for k := range c.In {
				c.In[k] = g.tensor(d, normal, c.Tensor(k).Shape()...)
			}
		}
	case "Mod":
		fmod := int64(g.n(2))
		if c.DType(0).IsFloat() {
			fmod = 1
			c.In[1] = g.tensor(c.DType(1), positive, c.Tensor(1).Shape()...)
		}
		c.set("fmod", fmod)
	}
	return c
}

// axes draws distinct axes of a rank, some of them negative if negative is set.
func (g *gen) axes(rank int, negative bool) []int {
	r := g.rng.Perm(rank)[:g.n(rank+1)]
	for i := range r {
		if negative && g.rng.IntN(3) == 0 {
			r[i] -= rank
		}
	}
	return r
}

func int64s(v []int) []int64 {
	r := make([]int64, len(v))
	for i, x := range v {
		r[i] = int64(x)
	}
	return r
}

func reduce(g *gen) *Case {
	op := g.def.Name
	shape := g.shape(0, 4)
	k := g.contents()
	if op == "ReduceLogSum" {
		k = positive
	}
	c := newCase(g.tensor(g.dtype("T"), k, shape...))
	c.set("keepdims", int64(g.n(2)))
	c.Opset = g.opset(11)
	axes := g.axes(len(shape), true)
	old := c.Opset < 18
	if op == "ReduceSum" {
		old = c.Opset < 13
	}
	if g.n(3) == 0 {
		return c
	}
	if old {
		if len(axes) > 0 {
			c.set("axes", int64s(axes))
		}
		return c
	}
	c.In = append(c.In, ints(axes...))
	c.set("noop_with_empty_axes", int64(g.n(2)))
	return c
}

func along(g *gen) *Case {
	op := g.def.Name
	shape := g.shape(1, 4)
	rank := len(shape)
	axis := g.in(-rank, rank-1)
	at := (axis + rank) % rank
	switch op {
	case "CumSum", "CumProd":
		c := newCase(g.tensor(g.dtype(g.def.Signature().In[0].Pattern), pick(g, normal, whole), shape...), nil)
		a := tensor.Scalar(int64(axis))
		c.In[1] = a
		if g.n(2) == 1 {
			c.In[1] = tensor.Scalar(int32(axis))
		}
		return c.set("exclusive", int64(g.n(2))).set("reverse", int64(g.n(2)))
	case "TopK":
		c := newCase(g.tensor(g.dtype("T"), pick(g, normal, whole), shape...), ints(g.in(0, shape[at])))
		c.Out = []bool{true, true}
		c.set("axis", int64(axis))
		if g.n(3) > 0 {
			c.Opset = g.opset(11)
			c.set("largest", int64(g.n(2)))
		} else {
			c.Opset = 10
			c.set("axis", int64(at))
		}
		return c
	case "Unique":
		c := newCase(g.tensor(g.dtype("T"), pick(g, whole, normal), shape...))
		c.Out = []bool{true, true, true, true}
		c.set("sorted", int64(g.n(2)))
		if g.n(2) == 1 {
			c.set("axis", int64(axis))
		}
		return c
	}
	c := newCase(g.tensor(g.dtype("T"), pick(g, whole, normal), shape...))
	c.Opset = g.opset(12)
	return c.set("axis", int64(axis)).set("keepdims", int64(g.n(2))).set("select_last_index", int64(g.n(2)))
}

func product(g *gen) *Case {
	m, k, n := g.size(), g.in(1, 40), g.size()
	op := g.def.Name
	switch op {
	case "Gemm", "FusedGemm":
		d := g.float()
		if op == "FusedGemm" {
			d = tensor.TypeFloat32
		}
		ta, tb := g.n(2), g.n(2)
		a, b := []int{m, k}, []int{k, n}
		if ta == 1 {
			a = []int{k, m}
		}
		if tb == 1 {
			b = []int{n, k}
		}
		c := newCase(g.tensor(d, normal, a...), g.tensor(d, normal, b...))
		c.Opset = g.opset(7)
		if op == "FusedGemm" {
			c.Opset = 1
			c.set("activation", pick(g, "Relu", "Sigmoid", "Tanh"))
		}
		if g.n(3) > 0 || c.Opset < 11 {
			c.In = append(c.In,
				g.tensor(d, normal, pick(g, []int{m, n}, []int{n}, []int{1, n}, []int{m, 1}, []int{1}, []int{})...))
		}
		c.set("transA", int64(ta)).set("transB", int64(tb))
		if g.n(2) == 1 {
			c.set("alpha", pick(g, float32(0.5), 2, 0)).set("beta", pick(g, float32(0.5), 2, 0))
		}
		return c
	case "Einsum":
		eq := pick(g, "ij,jk->ik", "bij,bjk->bik", "...ij,...jk->...ik", "ij->ji", "ii->i", "ij,ij->", "i,j->ij",
			"ij->j", "bhid,bhjd->bhij", "ij,jk", "bi,ij,bj->b", "iij->j")
		size := map[rune]int{'i': g.in(1, 6), 'j': g.in(1, 6), 'k': g.in(1, 6), 'b': g.in(1, 3), 'h': g.in(1, 3),
			'd': g.in(1, 8)}
		var shapes [][]int
		cur := []int{}
		dots := 0
		for _, r := range eq {
			if r == '-' {
				break
			}
			switch {
			case r == ',':
				shapes, cur = append(shapes, cur), []int{}
			case r == '.':
				if dots++; dots%3 == 0 {
					cur = append(cur, 2)
				}
			default:
				cur = append(cur, size[r])
			}
		}
		shapes = append(shapes, cur)
		d := pick(g, tensor.TypeFloat32, tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeInt32, tensor.TypeInt64)
		c := &Case{Out: []bool{true}}
		for _, s := range shapes {
			c.In = append(c.In, g.tensor(d, normal, s...))
		}
		return c.set("equation", eq)
	}
	batch := g.shape(0, 2)
	a, b := append(g.broadcast(batch), m, k), append(g.broadcast(batch), k, n)
	switch op {
	case "MatMulInteger", "QLinearMatMul":
		da, db := pick(g, tensor.TypeUint8, tensor.TypeInt8), pick(g, tensor.TypeUint8, tensor.TypeInt8)
		if op == "QLinearMatMul" && da == tensor.TypeInt8 {
			db = tensor.TypeInt8
		}
		x, y := g.tensor(da, normal, a...), g.tensor(db, normal, b...)
		zx, zy := g.tensor(da, whole), g.tensor(db, whole)
		if op == "MatMulInteger" {
			c := newCase(x, y)
			if g.n(3) > 0 {
				c.In = append(c.In, zx)
				if g.n(2) == 1 {
					if g.n(2) == 1 {
						zy = g.tensor(db, whole, n)
					}
					c.In = append(c.In, zy)
				}
			}
			return c
		}
		s := func() *tensor.Tensor { return tensor.Scalar(pick(g, float32(0.5), 0.1, 0.03, 1)) }
		return newCase(x, s(), zx, y, s(), zy, s(), g.tensor(da, whole))
	case "FusedMatMul":
		d := pick(g, tensor.TypeFloat32, tensor.TypeFloat64)
		ta, tb := g.n(2), g.n(2)
		if ta == 1 {
			a = append(a[:len(a)-2], k, m)
		}
		if tb == 1 {
			b = append(b[:len(b)-2], n, k)
		}
		c := newCase(g.tensor(d, normal, a...), g.tensor(d, normal, b...))
		return c.set("transA", int64(ta)).set("transB", int64(tb)).set("alpha", pick(g, float32(1), 0.5, 2))
	}
	if g.one(5) {
		a = []int{k}
	}
	if g.one(5) {
		b = []int{k}
	}
	d := g.dtype("T")
	return newCase(g.tensor(d, normal, a...), g.tensor(d, normal, b...))
}
