package calibration

import (
	"fmt"
	"maps"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// qoperator replaces operators by ones on integers, following ONNX Runtime's ONNXQuantizer.
// Node by node it records which values exist as integers, quantizes the inputs of an
// operator, and dequantizes the values that other operators, outputs and subgraphs use. It
// quantizes dynamically if there is no table.
type qoperator struct {
	*quantizer
	nodes  []*onnx.Node
	values map[string]*qvalue // values that exist as integers, by the name of the float value
	floats map[string]bool    // values that exist as floats
	uses   map[string]int
	scales map[string]string // products of scales, by the names of both
}

// qvalue is a value that exists as integers: the names of these and of their parameters.
type qvalue struct {
	name, scale, zero string
	params            *quantized // nil if they are computed at run time
}

func (q *qoperator) dynamic() bool { return q.table == nil }

func (q *qoperator) quantize() error {
	q.values, q.scales = map[string]*qvalue{}, map[string]string{}
	q.floats = maps.Clone(q.inputs)
	q.uses = q.consumers()
	if err := q.sortNodes(); err != nil {
		return err
	}
	for _, n := range q.g.Nodes {
		done := false
		if q.wants(n) {
			var err error
			if done, err = q.node(n); err != nil {
				return fmt.Errorf("node %q (%s): %w", n.Name, n.OpType, err)
			}
		}
		if !done {
			q.keep(n)
		}
	}
	for _, v := range q.g.Outputs {
		q.dequantize(v.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(q.captured)) {
		q.dequantize(name)
	}
	q.g.Nodes = q.nodes
	return nil
}

// keep emits a node unchanged, with float inputs.
func (q *qoperator) keep(n *onnx.Node) {
	for _, in := range n.Inputs {
		q.dequantize(in)
	}
	q.emit(n)
}

func (q *qoperator) emit(n *onnx.Node) {
	q.nodes = append(q.nodes, n)
	for _, out := range n.Outputs {
		q.floats[out] = true
	}
}

// dequantize converts a value that exists only as integers to floats. An initializer also
// exists as floats.
func (q *qoperator) dequantize(name string) {
	v := q.values[name]
	if v == nil || q.floats[name] || q.inits[name] != nil {
		return
	}
	q.emit(newNode("DequantizeLinear", name+"_DequantizeLinear", []string{v.name, v.scale, v.zero},
		[]string{name}, nil))
}

// node replaces a node. It returns false if the node is to be kept.
func (q *qoperator) node(n *onnx.Node) (bool, error) {
	if q.dynamic() {
		switch n.OpType {
		case "Conv":
			return q.convInteger(n)
		case "MatMul":
			return q.matMulInteger(n)
		}
	}
	switch n.OpType {
	case "Gather":
		if t := q.weight(input(n, 0)); t != nil {
			return q.direct(n, true)
		}
		return false, nil
	case "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten":
		return q.direct(n, q.Force)
	}
	if q.dynamic() {
		return false, nil
	}
	switch n.OpType {
	case "Conv":
		return q.conv(n)
	case "Gemm":
		return q.gemm(n)
	case "MatMul":
		return q.matMul(n)
	case "Add", "Mul":
		return q.linear(n, 2, nil)
	case "LeakyRelu", "Sigmoid":
		return q.linear(n, 1, nil)
	case "AveragePool":
		// QLinearAveragePool is AveragePool before opset 19, without dilations.
		if a := n.Attribute("dilations"); a != nil && slices.ContainsFunc(a.Ints, func(d int64) bool {
			return d != 1
		}) {
			return false, nil
		}
		return q.linear(n, 1, nil, "dilations")
	case "Softmax":
		return q.softmax(n)
	case "GlobalAveragePool":
		if q.values[input(n, 0)] == nil {
			return false, nil
		}
		return q.linear(n, 1, onnx.Attrs{"channels_last": int64(0)})
	case "Relu", "Clip":
		return q.cut(n), nil
	case "MaxPool", "Resize":
		least := map[string]int64{"MaxPool": 12, "Resize": 11}[n.OpType]
		if q.opset() < least || n.OpType == "MaxPool" && len(n.Outputs) > 1 {
			return false, nil
		}
		return q.direct(n, q.Force)
	case "Split":
		return q.direct(n, true)
	case "Pad":
		return q.pad(n)
	case "Concat":
		return q.concat(n)
	case "Where":
		return q.where(n)
	case "ArgMax":
		if v := q.values[input(n, 0)]; v != nil {
			n.Inputs[0] = v.name
			q.emit(n)
			return true, nil
		}
	}
	return false, nil
}

// known returns the quantized form of a result with the parameters from the table, or nil.
func (q *qoperator) known(name string) (*qvalue, error) {
	p, ok, err := q.activation(name)
	if err != nil || !ok {
		return nil, err
	}
	return q.result(name, p), nil
}

func (q *qoperator) result(name string, p *quantized) *qvalue {
	scale, zero := q.addParams(name, p)
	return &qvalue{q.unused(name + "_quantized"), scale, zero, p}
}

// integers returns an activation as integers and quantizes it if necessary. The result is
// nil if that is not possible.
func (q *qoperator) integers(name string) (*qvalue, error) {
	if v := q.values[name]; v != nil {
		return v, nil
	}
	if q.inits[name] != nil {
		reduce := false
		return q.initializer(name, q.Activation, -1, reduce)
	}
	if name == "" || !q.editor.floats[name] {
		return nil, nil
	}
	if q.dynamic() {
		v := &qvalue{q.unused(name + "_quantized"), q.unused(name + "_scale"), q.unused(name + "_zero_point"), nil}
		q.nodes = append(q.nodes, newNode("DynamicQuantizeLinear", name+"_QuantizeLinear", []string{name},
			[]string{v.name, v.scale, v.zero}, nil))
		q.values[name] = v
		return v, nil
	}
	v, err := q.known(name)
	if v == nil || err != nil {
		return nil, err
	}
	q.nodes = append(q.nodes,
		newNode("QuantizeLinear", name+"_QuantizeLinear", []string{name, v.scale, v.zero}, []string{v.name}, nil))
	q.values[name] = v
	return v, nil
}

// initializer returns an initializer as integers, nil if it is not float32.
func (q *qoperator) initializer(name string, dtype tensor.DType, axis int, reduce bool) (*qvalue, error) {
	key := name
	if axis >= 0 {
		key = fmt.Sprintf("%s axis %d", name, axis)
	}
	if v := q.values[key]; v != nil && v.params.dtype == dtype {
		return v, nil
	}
	t := q.weight(name)
	if t == nil || axis >= len(t.Dims) || q.infinite(t) {
		return nil, nil
	}
	v, err := q.editor.values(t)
	if err != nil {
		return nil, err
	}
	symmetric := q.SymmetricActivations
	if dtype == q.Weight || q.dynamic() {
		symmetric = q.symmetricWeight(dtype)
	}
	p, err := weightParams(t, v, axis, dtype, symmetric, reduce && q.ReduceRange, q.MinRange)
	if err != nil {
		return nil, err
	}
	r := q.addWeight(t, v, p)
	q.values[key] = r
	return r, nil
}

func (q *qoperator) addWeight(t *onnx.Tensor, v []float32, p *quantized) *qvalue {
	scale, zero := q.addParams(t.Name, p)
	name := q.addBytes(t.Name+"_quantized", onnx.DataType(p.dtype), quantizeWeight(t, v, p), t.Dims...)
	return &qvalue{name, scale, zero, p}
}

// factor returns the second operand of a matrix product, a weight or an activation, quantized.
// axis is the axis of output channels, or -1 for a single scale.
func (q *qoperator) factor(name string, axis int, dtype tensor.DType, reduce bool) (*qvalue, error) {
	if q.inits[name] == nil {
		return q.integers(name)
	}
	if !q.PerChannel {
		axis = -1
	}
	return q.initializer(name, dtype, axis, reduce)
}

// bias returns the name of a bias in int32, and the weight, whose scales it may have
// increased. The weight is nil if the bias cannot be quantized.
func (q *qoperator) bias(name string, x, w *qvalue, weightName string, factor float32) (string, *qvalue, error) {
	t := q.weight(name)
	if t == nil || len(t.Dims) != 1 || x.params == nil || w.params == nil || len(w.params.scales) != 1 &&
		int64(len(w.params.scales)) != t.Dims[0] {
		return "", nil, nil
	}
	v, err := q.editor.values(t)
	if err != nil {
		return "", nil, err
	}
	if factor != 1 {
		v = slices.Clone(v)
		for i := range v {
			v[i] *= factor
		}
	}
	if wt := q.weight(weightName); wt != nil {
		p := *w.params
		p.scales = slices.Clone(p.scales)
		if widenForBias(&p, x.params.scales[0], v) {
			data, err := q.editor.values(wt)
			if err != nil {
				return "", nil, err
			}
			w = q.addWeight(wt, data, &p)
		}
	}
	ints, _, ok := quantizeBias(v, x.params.scales[0], w.params.scales)
	if !ok {
		return "", nil, nil
	}
	return q.addInit(name+"_quantized", ints, t.Dims...), w, nil
}

// emitInteger emits a node whose result is the integer form of the first output of n.
func (q *qoperator) emitInteger(opType, domain string, n *onnx.Node, inputs []string, y *qvalue, attrs onnx.Attrs,
	without ...string) {
	r := newNode(opType, "", inputs, []string{y.name}, attrs)
	r.Domain = domain
	if n.Name != "" {
		r.Name = n.Name + "_quant"
	}
	for _, a := range n.Attributes {
		if !slices.Contains(without, a.Name) {
			r.Attributes = append(r.Attributes, a)
		}
	}
	q.nodes = append(q.nodes, r)
	q.values[n.Outputs[0]] = y
}

func (q *qoperator) conv(n *onnx.Node) (bool, error) {
	w, err := q.convWeight(n)
	if w == nil || err != nil {
		return false, err
	}
	x, err := q.integers(n.Inputs[0])
	if x == nil || err != nil {
		return false, err
	}
	bias := ""
	if b := input(n, 2); b != "" {
		var wide *qvalue
		if bias, wide, err = q.bias(b, x, w, n.Inputs[1], 1); wide == nil || err != nil {
			return false, err
		}
		w = wide
	}
	y, err := q.known(n.Outputs[0])
	if y == nil || err != nil {
		return false, err
	}
	in := []string{x.name, x.scale, x.zero, w.name, w.scale, w.zero, y.scale, y.zero}
	if bias != "" {
		in = append(in, bias)
	}
	q.emitInteger("QLinearConv", "", n, in, y, nil)
	return true, nil
}

// convWeight returns the weights of a Conv, int8 if there is a scale per channel.
func (q *qoperator) convWeight(n *onnx.Node) (*qvalue, error) {
	dtype := q.Weight
	if q.PerChannel {
		dtype = tensor.TypeInt8
	}
	return q.factor(input(n, 1), 0, dtype, true)
}

func (q *qoperator) gemm(n *onnx.Node) (bool, error) {
	axis := 1
	if intAttr(n, "transB", 0) != 0 {
		axis = 0
	}
	x, err := q.integers(n.Inputs[0])
	if x == nil || err != nil {
		return false, err
	}
	w, err := q.factor(input(n, 1), axis, q.Weight, true)
	if w == nil || err != nil {
		return false, err
	}
	bias := ""
	if b := input(n, 2); b != "" {
		var wide *qvalue
		// QGemm's alpha scales the bias too.
		if a := floatAttr(n, "alpha", 1); a != 1 {
			return false, nil
		}
		if bias, wide, err = q.bias(b, x, w, n.Inputs[1], floatAttr(n, "beta", 1)); wide == nil || err != nil {
			return false, err
		}
		w = wide
	}
	y, err := q.known(n.Outputs[0])
	if y == nil || err != nil {
		return false, err
	}
	q.emitInteger("QGemm", microsoft, n,
		[]string{x.name, x.scale, x.zero, w.name, w.scale, w.zero, bias, y.scale, y.zero}, y, nil, "beta")
	return true, nil
}

func (q *qoperator) matMul(n *onnx.Node) (bool, error) {
	a, err := q.integers(n.Inputs[0])
	if a == nil || err != nil {
		return false, err
	}
	b, err := q.factor(n.Inputs[1], columns(q.inits[n.Inputs[1]]), q.Weight, true)
	if b == nil || err != nil {
		return false, err
	}
	y, err := q.known(n.Outputs[0])
	if y == nil || err != nil {
		return false, err
	}
	q.emitInteger("QLinearMatMul", "", n, []string{a.name, a.scale, a.zero, b.name, b.scale, b.zero, y.scale, y.zero},
		y, nil)
	return true, nil
}

// linear replaces an operator X, whose first inputs are tensors, by QLinearX with the
// attributes of both but those of X that are listed in without.
func (q *qoperator) linear(n *onnx.Node, tensors int, attrs onnx.Attrs, without ...string) (bool, error) {
	var in []string
	for i := range tensors {
		x, err := q.integers(input(n, i))
		if x == nil || err != nil {
			return false, err
		}
		in = append(in, x.name, x.scale, x.zero)
	}
	y, err := q.known(n.Outputs[0])
	if y == nil || err != nil {
		return false, err
	}
	q.emitInteger("QLinear"+n.OpType, microsoft, n, append(in, y.scale, y.zero), y, attrs, without...)
	return true, nil
}

// softmax replaces Softmax by QLinearSoftmax with results from 0 to 1 in units of 1/256.
func (q *qoperator) softmax(n *onnx.Node) (bool, error) {
	x, err := q.integers(n.Inputs[0])
	if x == nil || err != nil {
		return false, err
	}
	p := &quantized{dtype: q.Activation, scales: []float32{1.0 / 256}, zeros: []int32{0}, axis: -1}
	if q.Activation == tensor.TypeInt8 {
		p.zeros[0] = -128
	}
	y := q.result(n.Outputs[0], p)
	q.emitInteger("QLinearSoftmax", microsoft, n, []string{x.name, x.scale, x.zero, y.scale, y.zero}, y,
		onnx.Attrs{"opset": q.opset()})
	return true, nil
}

// cut removes a Relu or Clip if the quantized range of its input implies it.
func (q *qoperator) cut(n *onnx.Node) bool {
	v := q.values[n.Inputs[0]]
	if v == nil || q.floats[n.Inputs[0]] || !q.removable(n, q.uses) {
		return false
	}
	q.values[n.Outputs[0]] = v
	return true
}

// direct makes an operator that only moves values move integers.
func (q *qoperator) direct(n *onnx.Node, force bool) (bool, error) {
	v := q.values[n.Inputs[0]]
	if v == nil && force {
		var err error
		if v, err = q.integers(n.Inputs[0]); err != nil {
			return false, err
		}
	}
	if v == nil || v.params != nil && v.params.axis >= 0 {
		return false, nil
	}
	n.Inputs[0] = v.name
	for i, out := range n.Outputs {
		if out == "" {
			continue
		}
		y := *v
		y.name = q.unused(out + "_quantized")
		n.Outputs[i] = y.name
		q.values[out] = &y
	}
	q.nodes = append(q.nodes, n)
	return true, nil
}

func (q *qoperator) pad(n *onnx.Node) (bool, error) {
	v := q.values[n.Inputs[0]]
	if v == nil || v.params == nil || q.opset() < 11 {
		return false, nil
	}
	if a := n.Attribute("mode"); a == nil || a.S == "constant" {
		fill := v.zero
		if name := input(n, 2); name != "" {
			t := q.weight(name)
			if t == nil {
				return false, nil
			}
			c, err := q.editor.values(t)
			if err != nil {
				return false, err
			}
			fill = q.addBytes(name+"_quantized", onnx.DataType(v.params.dtype),
				quantizeTo(nil, c, v.params.scales[0], v.params.zeros[0], v.params.dtype), t.Dims...)
		}
		for len(n.Inputs) < 3 {
			n.Inputs = append(n.Inputs, "")
		}
		n.Inputs[2] = fill
	}
	return q.direct(n, false)
}

func (q *qoperator) concat(n *onnx.Node) (bool, error) {
	var in []string
	for _, name := range n.Inputs {
		x, err := q.integers(name)
		if x == nil || err != nil {
			return false, err
		}
		in = append(in, x.name, x.scale, x.zero)
	}
	y, err := q.known(n.Outputs[0])
	if y == nil || err != nil {
		return false, err
	}
	q.emitInteger("QLinearConcat", microsoft, n, append([]string{y.scale, y.zero}, in...), y, nil)
	return true, nil
}

func (q *qoperator) where(n *onnx.Node) (bool, error) {
	if !q.Force {
		return false, nil
	}
	a, err := q.integers(input(n, 1))
	if a == nil || err != nil {
		return false, err
	}
	b, err := q.integers(input(n, 2))
	if b == nil || err != nil {
		return false, err
	}
	y, err := q.known(n.Outputs[0])
	if y == nil || err != nil {
		return false, err
	}
	q.emitInteger("QLinearWhere", microsoft, n,
		[]string{n.Inputs[0], a.name, a.scale, a.zero, b.name, b.scale, b.zero, y.scale, y.zero}, y, nil)
	return true, nil
}
