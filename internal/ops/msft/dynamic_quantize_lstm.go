package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/recurrent"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// DynamicQuantizeLSTM is an LSTM with quantized weights, W [directions input 4·hidden]
// and R [directions hidden 4·hidden]. It quantizes the input, and at each step the hidden
// state, to uint8 as DynamicQuantizeLinear does. The products are computed on the
// dequantized values
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM).
type DynamicQuantizeLSTM struct{ of ops.LSTM }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "DynamicQuantizeLSTM", Since: kit.Versions{1},
	MACs: kit.RecurrentMACs,
	In:   "X:T, W:T2, R:T2, B:T?, sequence_lens:T1?, initial_h:T?, initial_c:T?, P:T?, W_scale:T, W_zero_point:T2, R_scale:T, R_zero_point:T2",
	Out:  "Y:T?, Y_h:T?, Y_c:T?", Types: "T: float; T1: int32; T2: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &DynamicQuantizeLSTM{ops.LSTM{Layer: recurrent.Build(a, 7, 4, "Sigmoid", "Tanh", "Tanh"), InputForget: a.Bool("input_forget", false)}}
	}})

// Infer sets the shapes of Y, Y_h and Y_c.
func (op *DynamicQuantizeLSTM) Infer(c *ir.InferContext) error {
	dirs, seq, batch, hidden := ir.Known(len(op.of.Reverse)), ir.Unknown, ir.Unknown, ir.Unknown
	for i, name := range []string{"X", "W", "R"} {
		if err := kit.CheckRank(c, i, 3, name); err != nil {
			return err
		}
	}
	if x := c.Shape(0); x != nil {
		seq, batch = x[0], x[1]
	}
	if r := c.Shape(2); r != nil {
		hidden = r[1]
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), seq, dirs, batch, hidden))
	c.SetOut(1, ir.TensorType(c.Elem(0), dirs, batch, hidden))
	c.SetOut(2, ir.TensorType(c.Elem(0), dirs, batch, hidden))
	return nil
}

// Run runs the LSTM on the dequantized input, state and weights.
func (op *DynamicQuantizeLSTM) Run(c *ir.Call) error {
	x, dirs := c.Tensor(0), len(op.of.Reverse)
	rounded, err := kit.ScratchTensor(c, tensor.TypeFloat32, x.Shape())
	if err != nil {
		return err
	}
	copy(tensor.Of[float32](rounded), tensor.Of[float32](x))
	if err := quantizeBack(c, tensor.Of[float32](rounded)[:op.used(c, x)]); err != nil {
		return err
	}
	in := slices.Clone(c.In[:min(8, len(c.In))])
	in[0] = rounded
	for i := 1; i <= 2; i++ {
		if in[i], err = op.weights(c, i, 8+2*(i-1), dirs); err != nil {
			return err
		}
	}
	defer func(outer []tensor.Value) { c.In = outer }(c.In)
	c.In = in
	return ops.RunLSTM(&op.of, c, nil, ops.LSTMHooks[float32]{Round: func(state []float32) error { return quantizeBack(c, state) }})
}

// used returns the number of elements of x up to the end of the longest sequence. As in ONNX Runtime,
// the padding after it does not enter the range of the quantization.
func (op *DynamicQuantizeLSTM) used(c *ir.Call, x *tensor.Tensor) int {
	lens := c.Tensor(4)
	if lens == nil || lens.Len() == 0 || x.Rank() != 3 {
		return x.Len()
	}
	longest := int(slices.Max(tensor.Of[int32](lens)))
	return min(max(longest, 0), x.Dim(0)) * x.Dim(1) * x.Dim(2)
}

// weights returns the dequantized weights of input i, transposed per direction. Inputs
// scale and scale+1 hold the scales and zero points, one per direction or per column.
func (op *DynamicQuantizeLSTM) weights(c *ir.Call, i, scale, dirs int) (*tensor.Tensor, error) {
	t, st, zt := c.Tensor(i), c.Tensor(scale), c.Tensor(scale+1)
	if t.Rank() != 3 || t.Dim(0) != dirs || st.Len() != zt.Len() || st.Len() != dirs && st.Len() != dirs*t.Dim(2) || zt.DType() != t.DType() {
		return nil, fail.Errorf("input %d has shape %v with scales %v and zero points %v, want [%d rows columns] and one scale per direction or per column",
			i, t.Shape(), st.Shape(), zt.Shape(), dirs)
	}
	rows, cols, per := t.Dim(1), t.Dim(2), st.Len()/dirs
	y, err := kit.ScratchTensor(c, tensor.TypeFloat32, []int{dirs, cols, rows})
	if err != nil {
		return nil, err
	}
	scales, dst := tensor.Of[float32](st), tensor.Of[float32](y)
	w, z := make([]int32, t.Len()), make([]int32, zt.Len())
	if err := c.Reserve(4 * int64(t.Len())); err != nil {
		return nil, err
	}
	window.WidenBytes(w, t)
	window.WidenBytes(z, zt)
	for d := range dirs {
		for r := range rows {
			for k := range cols {
				s := d*per + k%per
				dst[(d*cols+k)*rows+r] = float32(w[(d*rows+r)*cols+k]-z[s]) * scales[s]
			}
		}
	}
	return y, nil
}

// quantizeBack quantizes x to uint8 and dequantizes it in place.
func quantizeBack(c *ir.Call, x []float32) error {
	q, err := ir.ScratchOf[uint8](c, len(x))
	if err != nil {
		return err
	}
	scale, zero, err := dynamicQuantize(c, q, x)
	if err != nil {
		return err
	}
	for i, v := range q {
		x[i] = float32(int(v)-int(zero)) * scale
	}
	return nil
}
