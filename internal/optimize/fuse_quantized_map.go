package optimize

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/tensor"
)

// byteFunction is an elementwise function of one quantized tensor.
type byteFunction struct {
	x     quantizedValue
	found bool
	nodes []*ir.Node // in order
	begun int        // operators that collect has entered, at most maxByteFunction
	seen  map[ir.ValueID]bool
}

// maxByteFunction limits the operators of a byteFunction, and thereby the recursion of collect.
const maxByteFunction = 64

// byteMap replaces the operators between a DequantizeLinear and the QuantizeLinear y by a table, if
// they are an elementwise function of one quantized tensor. The table holds the results of the
// generic kernels for all 256 integers, so the results are bit-identical.
func (f *quantizedFuser) byteMap(n *ir.Node, y quantizedValue) *ir.Node {
	fn := &byteFunction{seen: map[ir.ValueID]bool{}}
	if !f.collect(n.In[0], fn) || !fn.found {
		return nil
	}
	if fn.x.x == n.In[0] || !f.sameShapeOrScalar(fn.x.x, n.In[0]) {
		return nil
	}
	table, ok := f.tabulate(n.In[0], fn, y)
	if !ok {
		return nil
	}
	return replaced(n, "ByteMap", &blocked.ByteMap{Table: *table, Elem: y.elem}, fn.x.x)
}

// sameShapeOrScalar reports whether the function keeps the shape of its input: its constants have
// one element and no higher rank.
func (f *quantizedFuser) sameShapeOrScalar(x, y ir.ValueID) bool {
	a, b := f.g.Values[x].Type.Shape, f.g.Values[y].Type.Shape
	return a != nil && len(a) == len(b)
}

// collect follows a value back to one dequantized tensor.
func (f *quantizedFuser) collect(id ir.ValueID, fn *byteFunction) bool {
	if fn.seen[id] {
		return true
	}
	if id == ir.None {
		return false
	}
	if q, ok := f.one(id); ok {
		if fn.found && (q.x != fn.x.x || q.scale != fn.x.scale || q.zero != fn.x.zero) {
			return false
		}
		fn.x, fn.found, fn.seen[id] = q, true, true
		return true
	}
	p := f.maker(id)
	if p == nil || len(p.Out) == 0 || p.Out[0] != id || len(p.Graphs) > 0 || !isFloat(f.g, id) {
		return false
	}
	if d := definition(p); d == nil || !d.Elementwise {
		return false
	}
	if fn.begun++; fn.begun > maxByteFunction {
		return false
	}
	some := false
	for _, in := range p.In {
		if in == ir.None {
			continue
		}
		if t, ok := f.g.Values[in].Const.(*tensor.Tensor); ok {
			if t.Len() != 1 {
				return false
			}
			continue
		}
		if !f.collect(in, fn) {
			return false
		}
		some = true
	}
	fn.nodes = append(fn.nodes, p)
	fn.seen[id] = true
	return some
}

// tabulate evaluates a function for all 256 integers.
func (f *quantizedFuser) tabulate(out ir.ValueID, fn *byteFunction, y quantizedValue) (*[256]byte, bool) {
	all := make([]float32, 256)
	for i := range all {
		v := int32(i)
		if fn.x.elem == tensor.TypeInt8 {
			v = int32(int8(i))
		}
		all[i] = float32(v-fn.x.zeroAt) * fn.x.scales[0]
	}
	x, err := tensor.New(all, len(all))
	if err != nil {
		return nil, false
	}
	known := map[ir.ValueID]tensor.Value{}
	value := func(id ir.ValueID) tensor.Value {
		if id == ir.None {
			return nil
		}
		if c := f.g.Values[id].Const; c != nil {
			// The table has rank 1, so reduce constants of one element to that rank.
			if t, ok := c.(*tensor.Tensor); ok && t.Rank() > 1 {
				if s, err := t.Reshape(1); err == nil {
					return s
				}
			}
			return c
		}
		if v := known[id]; v != nil {
			return v
		}
		return x
	}
	for _, p := range fn.nodes {
		in := make([]tensor.Value, len(p.In))
		for i, id := range p.In {
			in[i] = value(id)
		}
		free := &ir.Graph{}
		node := *p
		node.Out = []ir.ValueID{free.NewValue("", ir.UnrankedTensor(tensor.TypeFloat32))}
		res, err := f.o.Eval(free, &node, in, 1<<20)
		if err != nil || len(res) == 0 || res[0] == nil {
			return nil, false
		}
		known[p.Out[0]] = res[0]
	}
	t, ok := value(out).(*tensor.Tensor)
	if !ok || t.Len() != 256 || t.DType() != tensor.TypeFloat32 {
		return nil, false
	}
	lo, hi := float64(0), float64(math.MaxUint8)
	if y.elem == tensor.TypeInt8 {
		lo, hi = math.MinInt8, math.MaxInt8
	}
	var table [256]byte
	for i, v := range tensor.MustData[float32](t) {
		if v != v {
			return nil, false // the result for NaN depends on the engine
		}
		q := math.RoundToEven(float64(v/y.scales[0])) + float64(y.zeroAt)
		table[i] = byte(int32(min(max(q, lo), hi)))
	}
	return &table, true
}

// sameParameters reports whether two quantized tensors map integers to the same numbers.
func sameParameters(x, y quantizedValue) bool {
	return x.elem == y.elem && x.scales[0] == y.scales[0] && x.zeroAt == y.zeroAt
}

// moved applies an operator that only moves or selects elements to the integers.
func (f *quantizedFuser) moved(n, p *ir.Node, x, y quantizedValue) *ir.Node {
	if len(p.Out) > 1 && p.Out[1] != ir.None || !sameParameters(x, y) {
		return nil
	}
	r := *p
	r.In, r.Out = append([]ir.ValueID{x.x}, p.In[1:]...), n.Out
	op, ok := p.Op.(*ops.Pad)
	switch {
	case !ok:
	case op.Mode != "constant":
		if len(r.In) > 2 {
			r.In[2] = ir.None // not used, and of the wrong type
		}
	default:
		if op.Value != 0 || len(p.In) > 2 && p.In[2] != ir.None {
			if len(p.In) < 3 {
				return nil
			}
			if v, ok := f.scalar(p.In[2]); !ok || v != 0 {
				return nil
			}
		}
		for len(r.In) < 3 {
			r.In = append(r.In, ir.None)
		}
		if t, ok := f.g.Values[x.zero].Const.(*tensor.Tensor); !ok || t.Rank() != 0 {
			return nil
		}
		r.In[2] = x.zero
	}
	return &r
}

// concat concatenates quantized tensors. Those that have the parameters of the result are copied.
func (f *quantizedFuser) concat(n, p *ir.Node, op *ops.Concat, y quantizedValue) *ir.Node {
	in := []ir.ValueID{y.scale, y.zero}
	same := true
	var plain []ir.ValueID
	for _, id := range p.In {
		q, ok := f.one(id)
		if !ok {
			return nil
		}
		if q = f.typed(q, y.elem); q.elem != y.elem {
			return nil
		}
		in = append(in, q.x, q.scale, q.zero)
		plain = append(plain, q.x)
		same = same && sameParameters(q, y)
	}
	if same {
		r := *p
		r.In, r.Out = plain, n.Out
		return &r
	}
	return replaced(n, "QLinearConcat", &msft.QLinearConcat{Axis: op.Axis}, in...)
}
