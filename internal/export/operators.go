package export

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// made writes a node that a pass has created, and reports whether it can. If ONNX has no such
// operator, it writes one of ONNX Runtime's domain com.microsoft
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md), or several of
// ONNX.
func (x *graphExport) made(n *ir.Node, in, out []string) bool {
	const ms = kit.DomainMicrosoft
	opset := x.opsets[""]
	emit := func(op, domain string, attrs onnx.Attrs) bool {
		x.emit(op, domain, n.Name, in, out, attrs)
		return true
	}
	switch op := n.Op.(type) {
	case *ops.Conv:
		return emit("Conv", "", convAttrs(op.Window, op.Group))
	case *ops.FusedConv:
		attrs := convAttrs(op.Window, op.Group)
		switch op.Act.Kind {
		case kit.ActRelu:
			attrs["activation"] = "Relu"
		case kit.ActClip:
			attrs["activation"], attrs["activation_params"] = "Clip", []float32{op.Act.Lo, op.Act.Hi}
		}
		return emit("FusedConv", ms, attrs)
	case *blocked.ChannelAffine:
		if opset < 9 {
			return false // BatchNormalization had different attributes
		}
		x.affine(n.Name, op, in[0], out)
		return true
	case *blocked.ChannelShuffle:
		x.shuffle(n, op, in[0], out)
		return true
	case *ops.Gelu:
		switch {
		case opset >= 20 && op.Tanh:
			return emit("Gelu", "", onnx.Attrs{"approximate": "tanh"})
		case opset >= 20:
			return emit("Gelu", "", nil)
		case op.Tanh:
			return emit("FastGelu", ms, nil)
		}
		return emit("Gelu", ms, nil)
	case *ops.Transpose:
		perm := make([]int64, len(op.Perm))
		for i, p := range op.Perm {
			perm[i] = int64(p)
		}
		return emit("Transpose", "", onnx.Attrs{"perm": perm})
	case *ops.HardSigmoid:
		return emit("HardSigmoid", "", onnx.Attrs{"alpha": float32(op.Alpha), "beta": float32(op.Beta)})
	case *ops.Clip: // of a Max or Min; its bounds are inputs
		return opset >= 11 && emit("Clip", "", nil)
	case *ops.HardSwish:
		return opset >= 14 && emit("HardSwish", "", nil)
	case *blocked.Silu:
		return emit("QuickGelu", ms, onnx.Attrs{"alpha": float32(op.Alpha)})
	case *ops.LayerNormalization:
		if opset < 17 {
			return false
		}
		return emit("LayerNormalization", "", onnx.Attrs{"axis": op.Axis, "epsilon": op.Epsilon})
	case *ops.RMSNormalization:
		name := "RMSNormalization"
		if opset < 23 { // ONNX Runtime's name, in the domain of ONNX
			name = "SimplifiedLayerNormalization"
		}
		return emit(name, "", onnx.Attrs{"axis": op.Axis, "epsilon": op.Epsilon})
	case *blocked.StridedMatMul:
		x.matMul(n, op, in, out)
		return true
	case *ops.QLinearConv:
		if op.ChannelsLast {
			return false
		}
		return emit("QLinearConv", "", convAttrs(op.Window, op.Group))
	case *ops.QLinearMatMul:
		return emit("QLinearMatMul", "", nil)
	case *msft.QLinearAdd:
		return emit("QLinearAdd", ms, nil)
	case *msft.QLinearMul:
		return emit("QLinearMul", ms, nil)
	case *msft.QLinearConcat:
		return emit("QLinearConcat", ms, onnx.Attrs{"axis": op.Axis})
	case *msft.QLinearGlobalAveragePool:
		return emit("QLinearGlobalAveragePool", ms, onnx.Attrs{"channels_last": op.ChannelsLast})
	case *msft.QLinearAveragePool:
		if op.Dilations != nil {
			return false
		}
		attrs := windowAttrs(op.Window)
		attrs["ceil_mode"], attrs["count_include_pad"], attrs["channels_last"] = op.Ceil,
			op.CountIncludePad, op.ChannelsLast
		return emit("QLinearAveragePool", ms, attrs)
	case *msft.MatMulIntegerToFloat:
		return emit("MatMulIntegerToFloat", ms, nil)
	case *msft.QGemm:
		return emit("QGemm", ms, onnx.Attrs{"alpha": op.Alpha, "transA": op.TransA, "transB": op.TransB})
	}
	return false
}

func convAttrs(w window.Window, group int) onnx.Attrs {
	a := windowAttrs(w)
	a["group"] = group
	return a
}

func windowAttrs(w window.Window) onnx.Attrs {
	a := onnx.Attrs{}
	if w.AutoPad != "" && w.AutoPad != "NOTSET" {
		a["auto_pad"] = w.AutoPad
	}
	for name, v := range map[string][]int{"kernel_shape": w.Kernel, "strides": w.Strides, "dilations": w.Dilations,
		"pads": w.Pads} {
		if v != nil && !(name == "pads" && a["auto_pad"] != nil) {
			a[name] = v
		}
	}
	return a
}

// affine writes a function per channel as a BatchNormalization with mean 0 and variance 1, followed
// by its activation.
func (x *graphExport) affine(name string, op *blocked.ChannelAffine, in string, out []string) {
	c := len(op.Scale)
	vector := func(wish string, fill func(i int) float32) string {
		data := make([]float32, c)
		for i := range data {
			data[i] = fill(i)
		}
		return x.tensor(wish, tensor.Must(tensor.New(data, c)))
	}
	params := []string{in,
		vector(name+"_scale", func(i int) float32 { return op.Scale[i] }),
		vector(name+"_shift", func(i int) float32 { return op.Shift[i] }),
		vector(name+"_mean", func(int) float32 { return 0 }), vector(name+"_variance", func(int) float32 { return 1 })}
	y := out
	if op.Act.Kind != kit.ActNone {
		y = []string{x.fresh(name + "_affine")}
	}
	x.emit("BatchNormalization", "", name, params, y, onnx.Attrs{"epsilon": float32(0)})
	switch op.Act.Kind {
	case kit.ActRelu:
		x.emit("Relu", "", "", y, out, nil)
	case kit.ActClip:
		if x.opsets[""] < 11 {
			x.emit("Clip", "", "", y, out, onnx.Attrs{"min": op.Act.Lo, "max": op.Act.Hi})
			return
		}
		x.emit("Clip", "", "", []string{y[0], x.tensor("", tensor.Scalar(op.Act.Lo)),
			x.tensor("", tensor.Scalar(op.Act.Hi))}, out, nil)
	}
}

// shuffle writes a channel shuffle as Reshape, Transpose and Reshape.
func (x *graphExport) shuffle(n *ir.Node, op *blocked.ChannelShuffle, in string, out []string) {
	channels, _ := x.g.Values[n.In[0]].Type.Shape[1].Value()
	split, turned, shape := x.fresh(n.Name+"_groups"), x.fresh(n.Name+"_turned"), x.fresh(n.Name+"_shape")
	groups := tensor.Must(tensor.New([]int64{0, int64(op.Groups), int64(channels / op.Groups), -1}, 4))
	x.emit("Reshape", "", n.Name, []string{in, x.tensor("", groups)}, []string{split}, nil)
	x.emit("Transpose", "", "", []string{split}, []string{turned}, onnx.Attrs{"perm": []int64{0, 2, 1, 3}})
	x.emit("Shape", "", "", []string{in}, []string{shape}, nil)
	x.emit("Reshape", "", "", []string{turned, shape}, out, nil)
}

// matMul writes a MatMul of transposed matrices as a FusedMatMul, which can swap the last two axes.
// Other permutations stay Transpose nodes.
func (x *graphExport) matMul(n *ir.Node, op *blocked.StridedMatMul, in, out []string) {
	rank := len(op.PermA)
	plain := make([]int, rank)
	for i := range plain {
		plain[i] = i
	}
	swapped := slices.Clone(plain)
	swapped[rank-1], swapped[rank-2] = rank-2, rank-1
	attrs := onnx.Attrs{}
	factor := func(name string, perm []int, trans string) string {
		switch {
		case slices.Equal(perm, plain):
			return name
		case slices.Equal(perm, swapped):
			attrs[trans] = true
			return name
		}
		turned := x.fresh(n.Name + "_turned")
		x.emit("Transpose", "", "", []string{name}, []string{turned}, onnx.Attrs{"perm": perm})
		return turned
	}
	a, b := factor(in[0], op.PermA, "transA"), factor(in[1], op.PermB, "transB")
	if op.Alpha != 1 {
		attrs["alpha"] = op.Alpha
	}
	y := out
	if !slices.Equal(op.PermY, plain) {
		y = []string{x.fresh(n.Name + "_product")}
	}
	if len(attrs) == 0 {
		x.emit("MatMul", "", n.Name, []string{a, b}, y, nil)
	} else {
		x.emit("FusedMatMul", kit.DomainMicrosoft, n.Name, []string{a, b}, y, attrs)
	}
	if !slices.Equal(op.PermY, plain) {
		x.emit("Transpose", "", "", y, out, onnx.Attrs{"perm": op.PermY})
	}
}

// scalars removes the dimensions of the inputs of Range, which are to be scalars. Models with
// vectors of one element run on ONNX Runtime too, but it refuses vectors that are constant, as
// they may be after an optimization.
func (x *graphExport) scalars(n *ir.Node, in []string) {
	if _, ok := n.Op.(*ops.Range); !ok {
		return
	}
	for i, name := range in {
		if name != "" && len(x.g.Value(n.In[i]).Type.Shape) > 0 {
			in[i] = x.fresh(name + "_scalar")
			x.emit("Squeeze", "", "", []string{name}, []string{in[i]}, nil)
		}
	}
}
