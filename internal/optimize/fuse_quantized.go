package optimize

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/tensor"
)

// fuseQuantized replaces operators between DequantizeLinear and QuantizeLinear by integer
// operators: Conv becomes QLinearConv, MatMul becomes QLinearMatMul or, without a QuantizeLinear,
// MatMulIntegerToFloat, Gemm becomes QGemm, Add becomes QLinearAdd, and so on. Operators that only
// move or select elements work on the integers, and an elementwise function becomes a table. ONNX
// Runtime replaces the same groups
// (https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html). Results differ
// by the rounding of the sums, by at most one step of the output.
func fuseQuantized(o *Options, g *ir.Graph) (int, error) {
	if !hasDequantize(g) {
		return 0, nil
	}
	f := &quantizedFuser{o: o, zeros: zeroPoints(g)}
	edits, err := rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		f.matcher = m
		if op, ok := n.Op.(*ops.QuantizeLinear); ok {
			return f.quantize(n, op)
		}
		return nil
	})
	if err != nil {
		return edits, err
	}
	if _, err := removeDead(o, g); err != nil {
		return edits, err
	}
	f.zeros = zeroPoints(g) // the sweep has cleared unused constants
	products, err := rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		f.matcher = m
		if _, ok := n.Op.(*ops.MatMul); ok {
			return f.matMulToFloat(n)
		}
		return nil
	})
	return edits + products, err
}

// zeroPoints adds the constants for omitted zero points.
func zeroPoints(g *ir.Graph) map[tensor.DType]ir.ValueID {
	return map[tensor.DType]ir.ValueID{
		tensor.TypeUint8: g.NewConst("", tensor.Scalar(uint8(0))),
		tensor.TypeInt8:  g.NewConst("", tensor.Scalar(int8(0))),
	}
}

// foldQuantized folds the remaining quantized constants.
func foldQuantized(o *Options, g *ir.Graph) (int, error) {
	if !hasDequantize(g) {
		return 0, nil
	}
	return fold(o, g)
}

func hasDequantize(g *ir.Graph) bool {
	for _, n := range g.Nodes {
		if _, ok := n.Op.(*ops.DequantizeLinear); ok {
			return true
		}
	}
	return false
}

// exactDepth is the maximum number of products in a sum: products of two byte differences, plus a
// bias of the same magnitude, fit in int32.
const exactDepth = 1 << 14

type quantizedFuser struct {
	*matcher
	o     *Options
	zeros map[tensor.DType]ir.ValueID
}

// quantizedValue is a tensor of 8-bit integers with constant parameters.
type quantizedValue struct {
	x, scale, zero ir.ValueID
	elem           tensor.DType
	scales         []float32
	axis           int
	zeroAt         int32 // the zero point, if there is one scale
}

// parameters returns a constant scale and zero point. elem is the type of the integers.
func (f *quantizedFuser) parameters(n *ir.Node, elem tensor.DType, axis, block int) (q quantizedValue, ok bool) {
	s := constTensor(f.g, n, 1)
	if block != 0 || s == nil || s.DType() != tensor.TypeFloat32 || s.Rank() > 1 || s.Len() == 0 {
		return q, false
	}
	q = quantizedValue{x: n.In[0], scale: n.In[1], elem: elem, scales: tensor.MustData[float32](s), axis: axis}
	for _, v := range q.scales {
		if !(v > 0) || math.IsInf(float64(v), 0) {
			return q, false
		}
	}
	if q.zero, ok = f.zeros[elem]; !ok {
		return q, false
	}
	if len(n.In) > 2 && n.In[2] != ir.None {
		z := constTensor(f.g, n, 2)
		if z == nil || z.DType() != elem || z.Len() != s.Len() {
			return q, false
		}
		q.zero = n.In[2]
		if elem == tensor.TypeInt8 {
			q.zeroAt = int32(tensor.MustData[int8](z)[0])
		} else {
			q.zeroAt = int32(tensor.MustData[uint8](z)[0])
		}
	}
	return q, true
}

// dequantized returns the quantized form of a value.
func (f *quantizedFuser) dequantized(id ir.ValueID) (q quantizedValue, ok bool) {
	n := f.maker(id)
	if n == nil || n.Out[0] != id {
		return q, false
	}
	op, ok := n.Op.(*ops.DequantizeLinear)
	if !ok || op.OutputDType != tensor.Undefined && op.OutputDType != tensor.TypeFloat32 {
		return q, false
	}
	return f.parameters(n, f.g.Values[n.In[0]].Type.Elem, op.Axis, op.BlockSize)
}

// one is dequantized for values with one scale.
func (f *quantizedFuser) one(id ir.ValueID) (q quantizedValue, ok bool) {
	q, ok = f.dequantized(id)
	return q, ok && len(q.scales) == 1
}

// quantize replaces a QuantizeLinear and the operator that it reads.
func (f *quantizedFuser) quantize(n *ir.Node, op *ops.QuantizeLinear) *ir.Node {
	if op.Precision != tensor.Undefined && op.Precision != tensor.TypeFloat32 || !isFloat(f.g, n.In[0]) {
		return nil
	}
	y, ok := f.parameters(n, f.g.Values[n.Out[0]].Type.Elem, op.Axis, op.BlockSize)
	if !ok || len(y.scales) != 1 {
		return nil
	}
	if !f.o.portable() {
		if r := f.byteMap(n, y); r != nil {
			return r
		}
	}
	p := f.only(n.In[0])
	if p != nil {
		if _, ok := p.Op.(*ops.Relu); ok &&
			(y.elem == tensor.TypeUint8 && y.zeroAt == 0 || y.elem == tensor.TypeInt8 && y.zeroAt == -128) {
			p = f.only(p.In[0]) // integers below zero cannot occur
		}
	}
	if p == nil || len(p.In) == 0 || len(p.Out) == 0 || p.In[0] == ir.None {
		return nil
	}
	if op, ok := p.Op.(*ops.Concat); ok {
		return f.concat(n, p, op, y)
	}
	x, ok := f.one(p.In[0])
	if !ok {
		return nil
	}
	switch op := p.Op.(type) {
	case *ops.Conv:
		return f.conv(n, p, op, x, y)
	case *ops.MatMul:
		return f.matMul(n, p, x, y)
	case *ops.Gemm:
		return f.gemm(n, p, op, x, y)
	case *ops.Add, *ops.Sum:
		if a, b, ok := f.two(p, x, y); ok {
			return replaced(n, "QLinearAdd", &msft.QLinearAdd{}, a.x, a.scale, a.zero, b.x, b.scale, b.zero,
				y.scale, y.zero)
		}
	case *ops.Mul:
		if a, b, ok := f.two(p, x, y); ok {
			return replaced(n, "QLinearMul", &msft.QLinearMul{}, a.x, a.scale, a.zero, b.x, b.scale, b.zero,
				y.scale, y.zero)
		}
	case *ops.AveragePool:
		if y.elem == x.elem && !(f.o.portable() && op.Dilations != nil) {
			return replaced(n, "QLinearAveragePool", &msft.QLinearAveragePool{AveragePool: *op}, x.x, x.scale, x.zero,
				y.scale, y.zero)
		}
	case *ops.GlobalAveragePool:
		return f.means(n, x, y)
	case *ops.ReduceMean:
		if op.KeepDims && reducesPlanes(f.g, p, &op.Reduction) {
			return f.means(n, x, y)
		}
	case *ops.Softmax:
		if y.elem == x.elem && !f.o.portable() { // ONNX Runtime's operator rounds differently
			return replaced(n, "QLinearSoftmax", msft.NewQLinearSoftmax(op), x.x, x.scale, x.zero, y.scale, y.zero)
		}
	}
	if d := definition(p); d != nil && d.Selects != nil && d.Selects(p.Op) {
		return f.moved(n, p, x, y)
	}
	return nil
}

// two returns x and the other of two quantized tensors, in the type of y.
func (f *quantizedFuser) two(p *ir.Node, x, y quantizedValue) (a, b quantizedValue, ok bool) {
	if len(p.In) != 2 {
		return a, b, false // a Sum of one or of several
	}
	if b, ok = f.one(p.In[1]); ok {
		a, b = f.typed(x, y.elem), f.typed(b, y.elem)
	}
	return a, b, ok && a.elem == y.elem && b.elem == y.elem
}

// typed returns a constant in the other type of bytes if it does not have type elem.
func (f *quantizedFuser) typed(q quantizedValue, elem tensor.DType) quantizedValue {
	t, ok := f.g.Values[q.x].Const.(*tensor.Tensor)
	zero, ok2 := f.g.Values[q.zero].Const.(*tensor.Tensor)
	if ok && ok2 && q.elem != elem && !f.o.portable() {
		q.x, q.zero, q.elem = f.g.NewConst("", otherBytes(t)), f.g.NewConst("", otherBytes(zero)), elem
	}
	return q
}

// means returns a QLinearGlobalAveragePool.
func (f *quantizedFuser) means(n *ir.Node, x, y quantizedValue) *ir.Node {
	if y.elem != x.elem {
		return nil
	}
	return replaced(n, "QLinearGlobalAveragePool", &msft.QLinearGlobalAveragePool{}, x.x, x.scale, x.zero,
		y.scale, y.zero)
}

// matMul returns a QLinearMatMul for a product with a matrix, or of two batches of matrices.
func (f *quantizedFuser) matMul(n, p *ir.Node, x, y quantizedValue) *ir.Node {
	b, ok := f.factor(p.In[1], false)
	if !ok {
		if b, ok = f.one(p.In[1]); !ok {
			return nil
		}
		s := f.g.Values[x.x].Type.Shape
		if len(s) == 0 {
			return nil
		}
		if k, ok := s[len(s)-1].Value(); !ok || k > exactDepth {
			return nil
		}
	}
	return replaced(n, "QLinearMatMul", &ops.QLinearMatMul{}, x.x, x.scale, x.zero, b.x, b.scale, b.zero,
		y.scale, y.zero)
}

// conv returns a QLinearConv for a Conv with constant weights.
func (f *quantizedFuser) conv(n, p *ir.Node, op *ops.Conv, x, y quantizedValue) *ir.Node {
	w, ok := f.dequantized(p.In[1])
	if !ok {
		return nil
	}
	t, ok := f.g.Values[w.x].Const.(*tensor.Tensor)
	if !ok || t.Rank() < 3 || t.Dim(0) == 0 || t.Len()/t.Dim(0) > exactDepth {
		return nil
	}
	if len(w.scales) > 1 && (w.axis != 0 && w.axis != -t.Rank() || len(w.scales) != t.Dim(0)) {
		return nil
	}
	in := []ir.ValueID{x.x, x.scale, x.zero, w.x, w.scale, w.zero, y.scale, y.zero}
	if len(p.In) > 2 && p.In[2] != ir.None {
		b, ok := f.bias(p.In[2], x, w, y)
		if !ok {
			return nil
		}
		in = append(in, b)
	}
	return replaced(n, "QLinearConv", &ops.QLinearConv{Window: op.Window, Group: op.Group}, in...)
}

// bias returns the int32 tensor of a constant bias in units of the product of the two scales.
func (f *quantizedFuser) bias(id ir.ValueID, x, w, y quantizedValue) (ir.ValueID, bool) {
	n := f.maker(id)
	if n == nil {
		return f.roundedBias(id, x, w, y)
	}
	op, ok := n.Op.(*ops.DequantizeLinear)
	b, s := constTensor(f.g, n, 0), constTensor(f.g, n, 1)
	if !ok || op.BlockSize != 0 || b == nil || s == nil || b.DType() != tensor.TypeInt32 || b.Rank() != 1 ||
		s.DType() != tensor.TypeFloat32 || s.Len() == 0 {
		return ir.None, false
	}
	if len(n.In) > 2 && n.In[2] != ir.None {
		z := constTensor(f.g, n, 2)
		if z == nil || z.DType() != tensor.TypeInt32 {
			return ir.None, false
		}
		for _, v := range tensor.MustData[int32](z) {
			if v != 0 {
				return ir.None, false
			}
		}
	}
	steps := tensor.MustData[float32](s)
	for i := range max(len(steps), len(w.scales)) {
		want := float64(x.scales[0]) * float64(w.scales[i%len(w.scales)])
		if math.Abs(float64(steps[i%len(steps)])-want) > 1e-5*want {
			return ir.None, false
		}
	}
	for _, v := range tensor.MustData[int32](b) {
		if v < -1<<30 || v > 1<<30 {
			return ir.None, false // the sum might overflow
		}
	}
	return n.In[0], true
}

// roundedBias rounds a constant bias in float32, as in models for TensorRT, if that changes results
// by at most a quarter of a step of y.
func (f *quantizedFuser) roundedBias(id ir.ValueID, x, w, y quantizedValue) (ir.ValueID, bool) {
	t, ok := f.g.Values[id].Const.(*tensor.Tensor)
	if !ok || t.DType() != tensor.TypeFloat32 || t.Rank() != 1 {
		return ir.None, false
	}
	r := make([]int32, t.Len())
	for i, v := range tensor.MustData[float32](t) {
		step := float64(x.scales[0]) * float64(w.scales[i%len(w.scales)])
		n := math.RoundToEven(float64(v) / step)
		// or the sum might overflow
		if !(math.Abs(n) <= 1<<30) || 4*math.Abs(float64(v)-n*step) > float64(y.scales[0]) {
			return ir.None, false
		}
		r[i] = int32(n)
	}
	return f.g.NewConst("", tensor.Must(tensor.New(r, len(r)))), true
}

// factor returns the right operand of a product: one matrix with one scale or one per column. If
// trans is set, the columns are rows.
func (f *quantizedFuser) factor(id ir.ValueID, trans bool) (q quantizedValue, ok bool) {
	if q, ok = f.dequantized(id); !ok {
		return q, false
	}
	s := f.g.Values[q.x].Type.Shape
	if len(s) != 2 {
		return q, false
	}
	depth, axis := 0, 1
	if trans {
		depth, axis = 1, 0
	}
	k, ok := s[depth].Value()
	return q, ok && k <= exactDepth &&
		(len(q.scales) == 1 || (q.axis == axis || q.axis == axis-2) && s[axis].Is(len(q.scales)))
}

func (f *quantizedFuser) gemm(n, p *ir.Node, op *ops.Gemm, x, y quantizedValue) *ir.Node {
	w, ok := f.factor(p.In[1], op.TransB)
	if !ok || op.TransA || op.Alpha != 1 {
		return nil
	}
	c := ir.None
	if len(p.In) > 2 && p.In[2] != ir.None {
		if c, ok = f.bias(p.In[2], x, w, y); !ok || op.Beta != 1 {
			return nil
		}
	}
	return replaced(n, "QGemm", &msft.QGemm{Gemm: *op}, x.x, x.scale, x.zero, w.x, w.scale, w.zero, c, y.scale, y.zero)
}

// matMulToFloat replaces a product by a constant whose result is not quantized.
func (f *quantizedFuser) matMulToFloat(n *ir.Node) *ir.Node {
	x, ok := f.one(n.In[0])
	if !ok {
		return nil
	}
	b, ok := f.factor(n.In[1], false)
	if !ok || f.g.Values[b.x].Const == nil {
		return nil
	}
	return replaced(n, "MatMulIntegerToFloat", &msft.MatMulIntegerToFloat{}, x.x, b.x, x.scale, b.scale, x.zero, b.zero)
}
