package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Style is how a model says that it computes with integers.
type Style string

const (
	// QDQ keeps the operators and puts QuantizeLinear and DequantizeLinear around
	// them. Every engine runs it; those that know the pattern use integers.
	QDQ Style = "qdq"
	// QOperator has operators on integers: QLinearConv, QLinearMatMul, and those of
	// ONNX Runtime's domain com.microsoft.
	QOperator Style = "qoperator"
)

// QuantizeOptions say how a model is quantized. The zero value and nil stand for the
// defaults.
type QuantizeOptions struct {
	// Style is for QuantizeStatic. Default: QDQ.
	Style Style
	// Activation and Weight are tensor.TypeUint8 or tensor.TypeInt8. Default: unsigned
	// activations and signed weights; QuantizeDynamic takes unsigned weights for Conv,
	// as ONNX Runtime runs no others, and unsigned activations only.
	Activation, Weight tensor.DType
	// PerChannel gives every output channel of a weight a scale of its own.
	PerChannel bool
	// ReduceRange takes 7 bits for weights, so that pairs of products do not
	// saturate in 16 bits on processors with AVX2 and without VNNI.
	ReduceRange bool
	// SymmetricActivations makes the zero point of activations the middle.
	SymmetricActivations bool
	// AsymmetricWeights and SymmetricWeights override that the zero point of weights is
	// the middle for signed types only. Weights per channel are symmetric with QDQ.
	AsymmetricWeights, SymmetricWeights bool
	// OpTypes are the operators to quantize. Default: those that gain by it.
	OpTypes []string
	// Nodes are the names of the only nodes to quantize, and Exclude of those to
	// leave alone.
	Nodes, Exclude []string
	// Force quantizes operators that only move values even where their input is not
	// quantized for another reason.
	Force bool
	// KeepActivations keeps Relu and Clip, with QDQ, where the range says the same.
	KeepActivations bool
	// FloatBias keeps the biases of Conv and Gemm as they are, with QDQ.
	FloatBias bool
	// MinRange is the least width of the range of a tensor.
	MinRange float32
	// NoPreprocess leaves out Preprocess.
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
		return nil, fmt.Errorf("activations of %s, want uint8: DynamicQuantizeLinear makes no other", d.Activation)
	case d.Activation == tensor.TypeInt8 && d.Weight == tensor.TypeUint8:
		return nil, errors.New("int8 activations with uint8 weights, which no engine multiplies: want uint8 activations or int8 weights")
	case d.SymmetricWeights && d.AsymmetricWeights:
		return nil, errors.New("SymmetricWeights and AsymmetricWeights are both set")
	case d.MinRange < 0 || d.MinRange != d.MinRange:
		return nil, fmt.Errorf("MinRange is %g, want 0 or more", d.MinRange)
	}
	return &d, nil
}

// symmetricWeight says whether weights of a type have their zero point in the middle.
func (o *QuantizeOptions) symmetricWeight(t tensor.DType) bool {
	if o.SymmetricWeights || o.AsymmetricWeights {
		return o.SymmetricWeights
	}
	return t == tensor.TypeInt8
}

// quantizer is what the ways to quantize a model share.
type quantizer struct {
	*editor
	*QuantizeOptions
	table *Table // nil: dynamic
	ops   []string
}

// wants says whether the options choose a node.
func (q *quantizer) wants(n *onnx.Node) bool {
	if n.Domain != "" && n.Domain != "ai.onnx" || !slices.Contains(q.ops, n.OpType) {
		return false
	}
	return (len(q.Nodes) == 0 || slices.Contains(q.Nodes, n.Name)) && !slices.Contains(q.Exclude, n.Name)
}

// checkNames fails for names of nodes that the model does not have.
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

// adjustRanges keeps the results of Relu and Clip within what these let through, gives
// their inputs the same range, which drops what would be cut off, and Softmax the range
// from 0 to 1.
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

// bounds returns what a Relu or Clip lets through; false where only a run knows.
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

// removable says whether quantizing the result of a Relu or Clip does what it does,
// so that its input, used by nothing else, can be quantized in its place: zero, which
// every range holds, is let through, and so is the range.
func (q *quantizer) removable(n *onnx.Node, uses map[string]int) bool {
	lo, hi, ok := q.bounds(n)
	if !ok || lo > 0 || hi < 0 || q.SymmetricActivations || !q.single(n.Inputs[0], uses) {
		return false
	}
	_, ok = q.table.Ranges[n.Inputs[0]]
	_, ok2 := q.table.Ranges[n.Outputs[0]]
	return ok && ok2
}

// single says whether one input of one node is all that uses a value.
func (q *quantizer) single(name string, uses map[string]int) bool {
	return uses[name] == 1 && !q.captured[name] && !q.outputs[name] && !q.inputs[name]
}

// activation returns the parameters of an activation from the table.
func (q *quantizer) activation(name string) (*quantized, bool, error) {
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

// QuantizeStatic returns a model with 8-bit weights and activations. The table holds
// the ranges of the activations, as [Calibrate] finds them on the same model. The
// result shares memory with m, which must stay open and unchanged while it is in use.
func QuantizeStatic(m *onnx.Model, table *Table, o *QuantizeOptions) (*onnx.Model, error) {
	r, err := quantizeStatic(m, table, o)
	if err != nil {
		return nil, fmt.Errorf("static quantization: %w", err)
	}
	return r, nil
}

func quantizeStatic(m *onnx.Model, table *Table, o *QuantizeOptions) (*onnx.Model, error) {
	if table == nil {
		return nil, errors.New("there is no table of ranges: make one with Calibrate")
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
		need = 13 // DequantizeLinear has an axis from then on
	}
	if v := q.opset(); v < need {
		return nil, fmt.Errorf("the model imports opset %d, want %d at least for this: convert it first", v, need)
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

// QuantizeDynamic returns a model with 8-bit weights whose activations are quantized
// in every run, by their range there: MatMul becomes MatMulInteger, Conv ConvInteger,
// and the tables of Gather hold bytes. The result shares memory with m, which must
// stay open and unchanged while it is in use.
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
		return nil, fmt.Errorf("the model imports opset %d, want 11 at least for DynamicQuantizeLinear: convert it first", v)
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
	q := &quantizer{editor: e, QuantizeOptions: opts}
	return q, q.checkNames()
}

// staticOps are the operators of ONNX Runtime's registries for static quantization.
func staticOps() []string {
	return []string{
		"Add", "ArgMax", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "ConvTranspose", "CumSum",
		"Flatten", "Gather", "GatherElements", "Gemm", "GlobalAveragePool", "InstanceNormalization", "LayerNormalization",
		"LeakyRelu", "MatMul", "MaxPool", "Mul", "Pad", "Relu", "Reshape", "Resize", "Sigmoid", "Slice", "Softmax",
		"Split", "Squeeze", "TopK", "Transpose", "Unsqueeze", "Where",
	}
}

// StaticOps returns the operators that QuantizeStatic quantizes by default, sorted.
// Ranges of their inputs and outputs are all that it needs ([Options].OpTypes).
func StaticOps() []string { return staticOps() }
