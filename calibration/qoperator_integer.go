package calibration

import (
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// matMulInteger replaces MatMul by MatMulInteger and a multiplication by both scales.
func (q *qoperator) matMulInteger(n *onnx.Node) (bool, error) {
	t := q.weight(n.Inputs[1])
	if t == nil || !q.editor.floats[n.Inputs[0]] || q.inits[n.Inputs[0]] != nil {
		return false, nil
	}
	dtype := q.Weight
	if dtype == tensor.Undefined {
		dtype = tensor.TypeInt8
	}
	w, err := q.factor(n.Inputs[1], columns(t), dtype, true)
	if w == nil || err != nil {
		return false, err
	}
	x, err := q.integers(n.Inputs[0])
	if x == nil || err != nil {
		return false, err
	}
	q.sums("MatMulInteger", n, x, w, n.Outputs[0])
	return true, nil
}

func (q *qoperator) convInteger(n *onnx.Node) (bool, error) {
	t := q.weight(input(n, 1))
	if t == nil || !q.editor.floats[n.Inputs[0]] || q.inits[n.Inputs[0]] != nil {
		return false, nil
	}
	dtype := q.Weight
	if dtype == tensor.Undefined {
		dtype = tensor.TypeUint8
	}
	w, err := q.initializer(n.Inputs[1], dtype, -1, true)
	if w == nil || err != nil {
		return false, err
	}
	x, err := q.integers(n.Inputs[0])
	if x == nil || err != nil {
		return false, err
	}
	out := n.Outputs[0]
	bias := input(n, 2)
	if bias == "" {
		q.sums("ConvInteger", n, x, w, out)
		return true, nil
	}
	q.dequantize(bias)
	scaled := q.unused(out + "_scaled")
	q.sums("ConvInteger", n, x, w, scaled)
	shape := make([]int64, len(t.Dims))
	for i := range shape {
		shape[i] = 1
	}
	shape[1] = -1
	column := q.unused(out + "_bias")
	q.emit(newNode("Reshape", out+"_bias_reshape",
		[]string{bias, q.addInit(out+"_bias_shape", shape, int64(len(shape)))}, []string{column}, nil))
	q.emit(newNode("Add", out+"_bias_add", []string{scaled, column}, []string{out}, nil))
	return true, nil
}

// sums emits an operator on 8-bit integers with int32 results, and their conversion to
// floats.
func (q *qoperator) sums(opType string, n *onnx.Node, x, w *qvalue, out string) {
	y := &qvalue{name: q.unused(out + "_output_quantized")}
	q.emitInteger(opType, "", n, []string{x.name, w.name, x.zero, w.zero}, y, nil)
	delete(q.values, n.Outputs[0])
	cast := q.unused(y.name + "_cast_output")
	q.emit(newNode("Cast", y.name+"_cast", []string{y.name}, []string{cast}, onnx.Attrs{"to": onnx.Float}))
	key := x.scale + "\x00" + w.scale
	scale := q.scales[key]
	if scale == "" {
		scale = q.unused(out + "_scales")
		q.scales[key] = scale
		q.emit(newNode("Mul", out+"_scales_mul", []string{x.scale, w.scale}, []string{scale}, nil))
	}
	q.emit(newNode("Mul", out+"_output_scale_mul", []string{cast, scale}, []string{out}, nil))
}
