package calibration

import (
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// qdq puts QuantizeLinear and DequantizeLinear around operators, following ONNX Runtime's
// QDQQuantizer: each operator marks the tensors to quantize, then each of these gets one
// pair.
type qdq struct {
	*quantizer
	marks  map[string]*mark
	order  []string // of marks
	biases []biasMark
	uses   map[string]int
	read   places // of the original nodes
	make   places
	params map[string]*qdqParams // of quantized tensors
	ranges map[string]*quantized // of weights that are still to be quantized
}

// mark describes how to quantize a tensor.
type mark struct {
	weight bool
	axis   int    // -1: one scale
	like   string // the tensor whose parameters it shares; empty if it has its own
}

type biasMark struct {
	node              *onnx.Node
	at                int // the input
	input, weightName string
	factor            float32
}

type qdqParams struct {
	*quantized
	scale, zero string
}

func (q *qdq) quantize() error {
	q.marks, q.params, q.ranges = map[string]*mark{}, map[string]*qdqParams{}, map[string]*quantized{}
	q.uses, q.read, q.make = q.consumers(), q.readers(), q.makers()
	q.g.Nodes = slices.DeleteFunc(q.g.Nodes, func(n *onnx.Node) bool { return q.wants(n) && q.markNode(n) })
	if err := q.weightRanges(); err != nil {
		return err
	}
	for _, name := range q.order {
		if m := q.marks[name]; m != nil && m.like == "" {
			if err := q.own(name, m); err != nil {
				return err
			}
		}
	}
	if err := q.shared(); err != nil {
		return err
	}
	if q.FloatBias {
		return nil
	}
	for _, b := range q.biases {
		if err := q.bias(b); err != nil {
			return err
		}
	}
	return nil
}

// markNode marks the tensors of an operator. It reports whether the node is to be removed.
func (q *qdq) markNode(n *onnx.Node) (remove bool) {
	in, out := input(n, 0), ""
	if len(n.Outputs) > 0 {
		out = n.Outputs[0]
	}
	switch n.OpType {
	case "Conv", "ConvTranspose":
		q.mark(in)
		q.mark(out)
		axis := 0
		if n.OpType == "ConvTranspose" {
			axis = 1
		}
		if n.OpType == "ConvTranspose" && intAttr(n, "group", 1) != 1 {
			q.markWeight(input(n, 1), -2) // the channels of a group are not an axis
		} else {
			q.markWeight(input(n, 1), axis)
		}
		q.markBias(n, 2, 1)
	case "Gemm":
		q.mark(in)
		q.mark(out)
		axis := 1
		if intAttr(n, "transB", 0) != 0 {
			axis = 0
		}
		q.markWeight(input(n, 1), axis)
		q.markBias(n, 2, floatAttr(n, "beta", 1))
	case "MatMul":
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			axis := -1
			if name == input(n, 1) {
				axis = columns(q.inits[name])
			}
			if q.inits[name] != nil {
				q.markWeight(name, axis)
			} else {
				q.mark(name)
			}
		}
	case "Relu", "Clip":
		if q.marks[in] == nil {
			return false
		}
		if remove = !q.KeepActivations && q.removable(n, q.uses); remove {
			q.skip(in, out)
		} else {
			q.mark(in)
		}
		q.mark(out)
	case "MaxPool", "Resize", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "AveragePool", "Slice", "TopK":
		least := map[string]int64{"MaxPool": 12, "Resize": 11}[n.OpType]
		if q.opset() < least {
			return false
		}
		if q.Force {
			q.mark(in)
		}
		if q.marks[in] != nil {
			q.markLike(out, in)
		}
	case "Gather", "GatherElements":
		if q.inits[in] != nil || q.Force {
			q.mark(in)
		}
		if q.marks[in] != nil {
			q.markLike(out, in)
		}
	case "Split":
		q.mark(in)
		for _, o := range n.Outputs {
			q.markLike(o, in)
		}
	case "Pad":
		for _, name := range n.Inputs {
			q.mark(name)
		}
		if q.padsWithValues(n) {
			q.markLike(out, in)
		} else {
			q.mark(out)
		}
	case "Where":
		a, b := input(n, 1), input(n, 2)
		if q.Force {
			q.mark(a)
			q.mark(b)
		}
		if q.marks[a] != nil && q.marks[b] != nil {
			q.mark(out)
		}
	case "InstanceNormalization", "LayerNormalization", "BatchNormalization":
		q.mark(in)
		if q.inits[input(n, 1)] != nil {
			q.markWeight(input(n, 1), 1)
		} else {
			q.mark(input(n, 1))
		}
		q.markBias(n, 2, 1)
		for _, o := range n.Outputs {
			q.mark(o)
		}
	default:
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			q.mark(name)
		}
	}
	return remove
}

// quantizable reports whether a value is a float32 tensor with a range and, if it is an
// initializer, constant.
func (q *qdq) quantizable(name string) bool {
	if q.inits[name] != nil {
		t := q.weight(name)
		return t != nil && !q.infinite(t)
	}
	_, ok := q.table.Ranges[name]
	return ok && q.floats[name]
}

func (q *qdq) set(name string, m *mark) {
	if q.marks[name] == nil {
		q.order = append(q.order, name)
	}
	q.marks[name] = m
}

// mark marks a tensor as an activation with its own parameters.
func (q *qdq) mark(name string) {
	if q.marks[name] == nil && q.quantizable(name) {
		q.set(name, &mark{axis: -1})
	}
}

// markLike marks a tensor that shares the parameters of another.
func (q *qdq) markLike(name, like string) {
	if q.quantizable(name) && q.inits[name] == nil {
		q.set(name, &mark{axis: -1, like: like})
	}
}

// markWeight marks an initializer as a weight, with a scale for each index of the axis if
// PerChannel is set.
func (q *qdq) markWeight(name string, axis int) {
	if !q.quantizable(name) {
		return
	}
	t := q.inits[name]
	if q.PerChannel && t != nil && axis >= 0 && axis < len(t.Dims) {
		q.set(name, &mark{weight: true, axis: axis})
	} else if q.marks[name] == nil {
		q.set(name, &mark{weight: true, axis: -1})
	}
}

func (q *qdq) markBias(n *onnx.Node, at int, factor float32) {
	if t := q.weight(input(n, at)); t != nil && len(t.Dims) == 1 {
		q.biases = append(q.biases, biasMark{n, at, n.Inputs[0], n.Inputs[1], factor})
	}
}

// skip makes the node that computes the input of a Relu or Clip compute its result instead.
func (q *qdq) skip(in, out string) {
	q.make.rename(in, out)
	delete(q.marks, in)
}

// padsWithValues reports whether a Pad adds only values of its input, or zeros, which all
// ranges include.
func (q *qdq) padsWithValues(n *onnx.Node) bool {
	if a := n.Attribute("mode"); a != nil && a.S != "constant" {
		return true
	}
	if q.opset() < 11 {
		return floatAttr(n, "value", 0) == 0
	}
	if input(n, 2) == "" {
		return true
	}
	t := q.weight(n.Inputs[2])
	if t == nil {
		return false
	}
	v, err := q.values(t)
	return err == nil && len(v) == 1 && v[0] == 0
}

// weightRanges computes the parameters of all marked initializers. Scales are large enough
// for the biases.
func (q *qdq) weightRanges() error {
	for _, name := range q.order {
		m, t := q.marks[name], q.inits[name]
		if m == nil || t == nil {
			continue
		}
		v, err := q.values(t)
		if err != nil {
			return err
		}
		dtype, symmetric := q.Activation, q.SymmetricActivations
		if m.weight {
			dtype, symmetric = q.Weight, q.symmetricWeight(q.Weight)
		}
		if q.ranges[name], err = weightParams(t, v, m.axis, dtype, symmetric || m.axis >= 0, q.ReduceRange,
			q.MinRange); err != nil {
			return err
		}
	}
	for _, b := range q.biases {
		w := q.ranges[b.weightName]
		m := q.marks[b.input]
		if w == nil || m == nil {
			continue
		}
		in, ok, err := q.activation(b.input)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		v, err := q.values(q.inits[b.node.Inputs[b.at]])
		if err != nil {
			return err
		}
		if b.factor != 1 {
			v = slices.Clone(v)
			for i := range v {
				v[i] *= b.factor
			}
		}
		widenForBias(w, in.scales[0], v)
	}
	return nil
}

// own quantizes a tensor with its own parameters.
func (q *qdq) own(name string, m *mark) error {
	if t := q.inits[name]; t != nil {
		v, err := q.values(t)
		if err != nil {
			return err
		}
		p := q.ranges[name]
		scale, zero := q.addParams(name, p)
		q.params[name] = &qdqParams{p, scale, zero}
		var attrs onnx.Attrs
		if p.axis >= 0 {
			attrs = onnx.Attrs{"axis": int64(p.axis)}
		}
		bytes := q.addBytes(name+"_quantized", onnx.DataType(p.dtype), quantizeWeight(t, v, p), t.Dims...)
		out := q.unused(name + "_DequantizeLinear_Output")
		q.read.rename(name, out)
		q.g.Nodes = append(q.g.Nodes,
			newNode("DequantizeLinear", name+"_DequantizeLinear", []string{bytes, scale, zero}, []string{out}, attrs))
		return nil
	}
	p, _, err := q.activation(name)
	if err != nil {
		return err
	}
	scale, zero := q.addParams(name, p)
	q.pair(name, &qdqParams{p, scale, zero})
	return nil
}

// pair inserts QuantizeLinear and DequantizeLinear after an activation.
func (q *qdq) pair(name string, p *qdqParams) {
	q.params[name] = p
	from, to := name, name
	if q.outputs[name] && !q.inputs[name] {
		from = q.unused(name + "_QuantizeLinear_Input")
		q.make.rename(name, from)
	} else {
		to = q.unused(name + "_DequantizeLinear_Output")
		q.read.rename(name, to)
	}
	mid := q.unused(name + "_QuantizeLinear_Output")
	q.g.Nodes = append(q.g.Nodes,
		newNode("QuantizeLinear", name+"_QuantizeLinear", []string{from, p.scale, p.zero}, []string{mid}, nil),
		newNode("DequantizeLinear", name+"_DequantizeLinear", []string{mid, p.scale, p.zero}, []string{to}, nil))
}

// shared quantizes the tensors that share the parameters of others.
func (q *qdq) shared() error {
	for {
		left := ""
		again := false
		for _, name := range q.order {
			m := q.marks[name]
			if m == nil || m.like == "" || q.params[name] != nil {
				continue
			}
			p := q.params[m.like]
			if p == nil {
				left = name
				continue
			}
			q.pair(name, p)
			again = true
		}
		if left == "" {
			return nil
		}
		if !again { // the other tensor has been removed
			if err := q.own(left, q.marks[left]); err != nil {
				return err
			}
		}
	}
}

// bias quantizes a bias to int32 in units of the scale of the input times that of the
// weight, if both are quantized and the bias fits.
func (q *qdq) bias(b biasMark) error {
	in, w := q.params[b.input], q.params[b.weightName]
	name := b.node.Inputs[b.at]
	t := q.weight(name)
	if in == nil || w == nil || t == nil || len(in.scales) != 1 || len(w.scales) != 1 &&
		int64(len(w.scales)) != t.Dims[0] {
		return nil
	}
	v, err := q.values(t)
	if err != nil {
		return err
	}
	if b.factor != 1 {
		v = slices.Clone(v)
		for i := range v {
			v[i] *= b.factor
		}
	}
	ints, scales, ok := quantizeBias(v, in.scales[0], w.scales)
	if !ok {
		return nil // the bias stays float
	}
	if b.factor != 1 {
		b.node.Attributes = slices.DeleteFunc(slices.Clone(b.node.Attributes), func(a *onnx.Attribute) bool {
			return a.Name == "beta"
		})
	}
	var dims []int64
	var attrs onnx.Attrs
	if len(scales) > 1 {
		dims, attrs = []int64{int64(len(scales))}, onnx.Attrs{"axis": int64(0)}
	}
	quantizedName := q.addInit(name+"_quantized", ints, t.Dims...)
	inputs := []string{quantizedName, q.addInit(quantizedName+"_scale", scales, dims...),
		q.addInit(quantizedName+"_zero_point", make([]int32, len(scales)), dims...)}
	out := q.unused(name + "_DequantizeLinear_Output")
	b.node.Inputs[b.at] = out
	q.g.Nodes = append(q.g.Nodes, newNode("DequantizeLinear", name+"_DequantizeLinear", inputs, []string{out}, attrs))
	return nil
}
