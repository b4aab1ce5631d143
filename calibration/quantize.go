package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Style is the representation of a quantized model.
type Style string

const (
	// QDQ keeps the operators and puts QuantizeLinear and DequantizeLinear around them.
	// All engines run it; those that recognize the pattern compute with integers.
	QDQ Style = "qdq"
	// QOperator uses operators on integers: QLinearConv, QLinearMatMul, and those of ONNX
	// Runtime's domain com.microsoft.
	QOperator Style = "qoperator"
)

// QuantizeOptions configure [QuantizeStatic] and [QuantizeDynamic]. Nil and the zero value
// select the defaults.
type QuantizeOptions struct {
	// Style is for QuantizeStatic. Default: QDQ.
	Style Style
	// Activation and Weight are tensor.TypeUint8 or tensor.TypeInt8. Default: unsigned
	// activations and signed weights. QuantizeDynamic supports unsigned activations only,
	// and uses unsigned weights for Conv, the only ones that ONNX Runtime supports.
	Activation, Weight tensor.DType
	// PerChannel uses a separate scale for each output channel of a weight.
	PerChannel bool
	// ReduceRange uses 7 bits for weights, so that sums of two products do not saturate
	// in 16 bits on processors with AVX2 and without VNNI.
	ReduceRange bool
	// SymmetricActivations puts the zero point of activations in the middle of the range.
	SymmetricActivations bool
	// AsymmetricWeights and SymmetricWeights override the zero point of weights. Default:
	// in the middle for signed types only. With QDQ, weights per channel are symmetric.
	AsymmetricWeights, SymmetricWeights bool
	// OpTypes are the operators to quantize. Default: those of ONNX Runtime's quantizer.
	OpTypes []string
	// Nodes are the names of the nodes to quantize, by default all. Exclude are the names
	// of nodes that are not quantized.
	Nodes, Exclude []string
	// Force quantizes operators that only move values even if their input is not already
	// quantized for another operator.
	Force bool
	// KeepActivations keeps Relu and Clip with QDQ even if the quantized range implies them.
	KeepActivations bool
	// FloatBias keeps the biases of Conv and Gemm in float with QDQ.
	FloatBias bool
	// MinRange is the smallest width of the range of a tensor.
	MinRange float32
	// NoPreprocess disables [Preprocess].
	NoPreprocess bool
}

func (o *QuantizeOptions) withDefaults(dynamic bool) (*QuantizeOptions, error) {
	var d QuantizeOptions
	if o != nil {
		d = *o
	}
	if d.Style == "" {
		d.Style = QDQ
	}
	if d.Activation == tensor.Undefined {
		d.Activation = tensor.TypeUint8
	}
	if d.Weight == tensor.Undefined && !dynamic {
		d.Weight = tensor.TypeInt8
	}
	eight := func(t tensor.DType) bool { return t == tensor.TypeInt8 || t == tensor.TypeUint8 }
	switch {
	case d.Style != QDQ && d.Style != QOperator:
		return nil, fmt.Errorf("style %q, want %s or %s", d.Style, QDQ, QOperator)
	case !eight(d.Activation) || d.Weight != tensor.Undefined && !eight(d.Weight):
		return nil, fmt.Errorf("activations of %s and weights of %s, want uint8 or int8", d.Activation, d.Weight)
	case dynamic && d.Activation != tensor.TypeUint8:
		return nil, fmt.Errorf("activations of %s, want uint8, the only type of DynamicQuantizeLinear", d.Activation)
	case d.Activation == tensor.TypeInt8 && d.Weight == tensor.TypeUint8:
		return nil, errors.New(
			"no engine multiplies int8 activations by uint8 weights: want uint8 activations or int8 weights")
	case d.SymmetricWeights && d.AsymmetricWeights:
		return nil, errors.New("SymmetricWeights and AsymmetricWeights are both set")
	case d.MinRange < 0 || d.MinRange != d.MinRange:
		return nil, fmt.Errorf("MinRange is %g, want 0 or more", d.MinRange)
	}
	return &d, nil
}

// symmetricWeight reports whether the zero point of weights of a type is in the middle.
func (o *QuantizeOptions) symmetricWeight(t tensor.DType) bool {
	if o.SymmetricWeights || o.AsymmetricWeights {
		return o.SymmetricWeights
	}
	return t == tensor.TypeInt8
}

// quantizer is the common part of the ways to quantize a model.
type quantizer struct {
	*editor
	*QuantizeOptions
	table *Table // nil: dynamic
	ops   []string
}

// wants reports whether the options select a node.
func (q *quantizer) wants(n *onnx.Node) bool {
	if n.Domain != "" && n.Domain != "ai.onnx" || !slices.Contains(q.ops, n.OpType) {
		return false
	}
	return (len(q.Nodes) == 0 || slices.Contains(q.Nodes, n.Name)) && !slices.Contains(q.Exclude, n.Name)
}

// checkNames returns an error if the model lacks a node that the options name.
func (q *quantizer) checkNames() error {
	names := map[string]bool{}
	for _, n := range q.g.Nodes {
		names[n.Name] = true
	}
	for _, name := range slices.Concat(q.Nodes, q.Exclude) {
		if !names[name] {
			return fmt.Errorf("the model has no node %q", name)
		}
	}
	return nil
}

// checkTable returns an error if the chosen operators have activations, and the table has a
// range for none of them.
func (q *quantizer) checkTable() error {
	missing := ""
	for _, n := range q.g.Nodes {
		if !q.wants(n) {
			continue
		}
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			if _, ok := q.table.Ranges[name]; ok {
				return nil
			}
			if missing == "" && q.floats[name] && q.inits[name] == nil {
				missing = name
			}
		}
	}
	if missing == "" {
		return nil
	}
	return fmt.Errorf("the table has no range for tensor %q, nor for any other of the chosen operators: calibrate "+
		"this model, with finite values", missing)
}

// adjustRanges clips the ranges of the results of Relu and Clip to their bounds and uses
// them for their inputs too, whose other values do not matter. The range of Softmax is 0 to
// 1.
func (q *quantizer) adjustRanges() {
	t := NewTable(q.table.Method)
	for name, r := range q.table.Ranges {
		t.Ranges[name] = r
	}
	q.table = t
	uses := q.consumers()
	for _, n := range q.g.Nodes {
		if !q.wants(n) || len(n.Inputs) == 0 {
			continue
		}
		switch n.OpType {
		case "Relu", "Clip":
			_, ok := t.Ranges[n.Inputs[0]]
			out, ok2 := t.Ranges[n.Outputs[0]]
			if lo, hi, known := q.bounds(n); known && ok2 && lo <= 0 && hi >= 0 {
				out.Lowest, out.Highest = min(max(out.Lowest, lo), hi), min(max(out.Highest, lo), hi)
				t.Ranges[n.Outputs[0]] = out
			}
			if ok && ok2 && q.single(n.Inputs[0], uses) {
				t.Ranges[n.Inputs[0]] = out
			}
		case "Softmax":
			t.Ranges[n.Outputs[0]] = Range{Lowest: 0, Highest: 1}
		}
	}
}

// bounds returns the bounds of a Relu or Clip. ok is false if they are not constant.
func (q *quantizer) bounds(n *onnx.Node) (lo, hi float32, ok bool) {
	if n.OpType == "Relu" {
		return 0, math.MaxFloat32, true
	}
	ends := [2]float32{-math.MaxFloat32, math.MaxFloat32}
	for i, attr := range []string{"min", "max"} {
		if q.opset() < 11 {
			ends[i] = floatAttr(n, attr, ends[i])
			continue
		}
		name := input(n, i+1)
		if name == "" {
			continue
		}
		t := q.weight(name)
		if t == nil {
			return 0, 0, false
		}
		v, err := q.values(t)
		if err != nil || len(v) != 1 {
			return 0, 0, false
		}
		ends[i] = v[0]
	}
	return ends[0], ends[1], ends[0] <= ends[1]
}

// removable reports whether the quantization of the result of a Relu or Clip implies the
// operator, so that its input can be quantized instead. The input must have no other use,
// and the bounds must include zero, which all quantized ranges include.
func (q *quantizer) removable(n *onnx.Node, uses map[string]int) bool {
	lo, hi, ok := q.bounds(n)
	if !ok || lo > 0 || hi < 0 || q.SymmetricActivations || !q.single(n.Inputs[0], uses) {
		return false
	}
	_, ok = q.table.Ranges[n.Inputs[0]]
	_, ok2 := q.table.Ranges[n.Outputs[0]]
	return ok && ok2
}

// single reports whether the only use of a value is one input of one node.
func (q *quantizer) single(name string, uses map[string]int) bool {
	return uses[name] == 1 && !q.captured[name] && !q.outputs[name] && !q.inputs[name]
}

// infinite reports whether an initializer has an infinite element, as masks of attention do.
// No scale represents it, so the initializer stays float.
func (q *quantizer) infinite(t *onnx.Tensor) bool {
	v, err := q.values(t)
	return err == nil && slices.ContainsFunc(v, func(x float32) bool { return math.IsInf(float64(x), 0) })
}

// activation returns the parameters of an activation from the table. ok is false if the
// table has no range for it; it then stays float.
func (q *quantizer) activation(name string) (p *quantized, ok bool, err error) {
	r, ok := q.table.Ranges[name]
	if !ok {
		return nil, false, nil
	}
	lo, hi := steps(q.Activation, false, q.SymmetricActivations)
	s, z, err := scaleAndZero(r.Lowest, r.Highest, lo, hi, q.SymmetricActivations, q.MinRange)
	if err != nil {
		return nil, false, fmt.Errorf("tensor %q: %w", name, err)
	}
	return &quantized{dtype: q.Activation, scales: []float32{s}, zeros: []int32{z}, axis: -1}, true, nil
}

// addParams adds the initializers of parameters and returns their names.
func (q *quantizer) addParams(name string, p *quantized) (scale, zero string) {
	zeros := make([]byte, len(p.zeros))
	for i, z := range p.zeros {
		zeros[i] = byte(z)
	}
	return q.addInit(name+"_scale", p.scales, p.dims()...),
		q.addBytes(name+"_zero_point", onnx.DataType(p.dtype), zeros, p.dims()...)
}

// QuantizeStatic returns a model with 8-bit weights and activations. The table is that of
// [Calibrate] for the same model. Tensors without a range in the table stay float; a table without
// any range for the chosen operators is an error. The result shares memory with m, which must stay
// open and unchanged while the result is in use.
func QuantizeStatic(m *onnx.Model, table *Table, o *QuantizeOptions) (*onnx.Model, error) {
	r, err := quantizeStatic(m, table, o)
	if err != nil {
		return nil, fmt.Errorf("static quantization: %w", err)
	}
	return r, nil
}

func quantizeStatic(m *onnx.Model, table *Table, o *QuantizeOptions) (*onnx.Model, error) {
	if table == nil {
		return nil, errors.New("the table of ranges is nil: create one with Calibrate")
	}
	opts, err := o.withDefaults(false)
	if err != nil {
		return nil, err
	}
	q, err := start(m, opts)
	if err != nil {
		return nil, err
	}
	q.table = table
	if q.ops = opts.OpTypes; len(q.ops) == 0 {
		q.ops = staticOps()
	}
	need := int64(10)
	if opts.PerChannel && opts.Style == QDQ {
		need = 13 // the first version with DequantizeLinear's attribute axis
	}
	if v := q.opset(); v < need {
		return nil, fmt.Errorf("the model imports opset %d, want at least %d: convert it first", v, need)
	}
	if err := q.checkTable(); err != nil {
		return nil, err
	}
	q.adjustRanges()
	if opts.Style == QDQ {
		err = (&qdq{quantizer: q}).quantize()
	} else {
		err = (&qoperator{quantizer: q}).quantize()
	}
	if err != nil {
		return nil, err
	}
	return q.finish()
}

// QuantizeDynamic returns a model with 8-bit weights whose activations are quantized in
// each run by the range that they have there. MatMul becomes MatMulInteger, Conv becomes
// ConvInteger, and the tables of Gather become 8-bit. The result shares memory with m,
// which must stay open and unchanged while the result is in use.
func QuantizeDynamic(m *onnx.Model, o *QuantizeOptions) (*onnx.Model, error) {
	r, err := quantizeDynamic(m, o)
	if err != nil {
		return nil, fmt.Errorf("dynamic quantization: %w", err)
	}
	return r, nil
}

func quantizeDynamic(m *onnx.Model, o *QuantizeOptions) (*onnx.Model, error) {
	opts, err := o.withDefaults(true)
	if err != nil {
		return nil, err
	}
	q, err := start(m, opts)
	if err != nil {
		return nil, err
	}
	if q.ops = opts.OpTypes; len(q.ops) == 0 {
		q.ops = []string{"Conv", "MatMul", "Gather", "Transpose"}
	}
	if v := q.opset(); v < 11 {
		return nil, fmt.Errorf(
			"the model imports opset %d, want at least 11 for DynamicQuantizeLinear: convert it first", v)
	}
	if err := q.gemmToMatMul(); err != nil {
		return nil, err
	}
	if err := (&qoperator{quantizer: q}).quantize(); err != nil {
		return nil, err
	}
	return q.finish()
}

func start(m *onnx.Model, opts *QuantizeOptions) (*quantizer, error) {
	if !opts.NoPreprocess {
		var err error
		if m, err = Preprocess(m); err != nil {
			return nil, err
		}
	}
	e, err := newEditor(m)
	if err != nil {
		return nil, err
	}
	for _, n := range e.g.Nodes {
		if n.OpType == "Gradient" {
			return nil, fmt.Errorf(
				"node %q computes a gradient, and quantization has none: quantize the model for inference", n.Name)
		}
	}
	q := &quantizer{editor: e, QuantizeOptions: opts}
	return q, q.checkNames()
}

// staticOps returns the operators of ONNX Runtime's registries for static quantization.
func staticOps() []string {
	return []string{
		"Add", "ArgMax", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "ConvTranspose", "CumSum",
		"Flatten", "Gather", "GatherElements", "Gemm", "GlobalAveragePool", "InstanceNormalization",
		"LayerNormalization",
		"LeakyRelu", "MatMul", "MaxPool", "Mul", "Pad", "Relu", "Reshape", "Resize", "Sigmoid", "Slice", "Softmax",
		"Split", "Squeeze", "TopK", "Transpose", "Unsqueeze", "Where",
	}
}

// StaticOps returns the operators that QuantizeStatic quantizes by default, sorted. As
// OpTypes of [Options] they restrict a calibration to the ranges that it needs.
func StaticOps() []string { return staticOps() }
