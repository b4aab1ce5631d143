package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// unsignedActivations lets QuantizeLinear write uint8 in place of int8 where only DequantizeLinear
// reads it, with zero points that are 128 larger, so that all numbers stay the same. VPDPBUSD
// multiplies unsigned by signed integers: its kernels copy activations of int8.
func unsignedActivations(o *Options, g *ir.Graph) (int, error) {
	if o.portable() || !cpu.VNNI(cpu.Active()) || !hasDequantize(g) {
		return 0, nil
	}
	readers := map[ir.ValueID][]*ir.Node{}
	for _, n := range g.Nodes {
		if _, ok := n.Op.(*ops.DequantizeLinear); ok {
			readers[n.In[0]] = append(readers[n.In[0]], n)
		}
	}
	edits, uses := 0, g.Uses()
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		op, ok := n.Op.(*ops.QuantizeLinear)
		if !ok || len(n.Out) == 0 || n.Out[0] == ir.None || g.Values[n.Out[0]].Type.Elem != tensor.TypeInt8 {
			continue
		}
		group := append(readers[n.Out[0]], n)
		var zeros []*tensor.Tensor
		for _, n := range group {
			if z := unsignedZeros(g, n); z != nil {
				zeros = append(zeros, z)
			}
		}
		if len(zeros) < len(group) || uses[n.Out[0]] >= len(group) {
			continue
		}
		unsigned := *op
		unsigned.OutputDType = tensor.TypeUint8
		n.Op = &unsigned
		g.Values[n.Out[0]].Type.Elem = tensor.TypeUint8
		for i, n := range group {
			n.In = append(slices.Clone(n.In[:2]), g.NewConst("", zeros[i]))
		}
		edits++
	}
	return edits, nil
}

// unsignedZeros returns the zero points of uint8 for those of int8 of a node, or nil if
// they are not constant.
func unsignedZeros(g *ir.Graph, n *ir.Node) *tensor.Tensor {
	scale := constTensor(g, n, 1)
	if scale == nil {
		return nil
	}
	zero, err := tensor.Zeros(tensor.TypeInt8, scale.Shape()...)
	if len(n.In) > 2 && n.In[2] != ir.None {
		zero = constTensor(g, n, 2)
	}
	if err != nil || zero == nil || zero.DType() != tensor.TypeInt8 {
		return nil
	}
	return otherBytes(zero)
}

// otherBytes returns integers that are 128 larger, of uint8 for int8, or 128 less,
// of int8 for uint8.
func otherBytes(t *tensor.Tensor) *tensor.Tensor {
	d, b := tensor.TypeUint8, slices.Clone(t.Bytes())
	if t.DType() == d {
		d = tensor.TypeInt8
	}
	for i := range b {
		b[i] ^= 0x80
	}
	return tensor.Must(tensor.FromBytes(d, b, t.Shape()...))
}
