package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/ops/kit/recurrent"
	"github.com/onward-ml/onward/tensor"
)

// DynamicQuantizeLSTM is an LSTM with 8-bit weights, W [directions input 4·hidden] and
// R [directions hidden 4·hidden]. As in ONNX Runtime on one thread, it quantizes X, and before each
// step the hidden state of all items, to uint8 as DynamicQuantizeLinear does. Products are sums
// of integers, and biases are added after them
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM).
type DynamicQuantizeLSTM struct{ of ops.LSTM }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "DynamicQuantizeLSTM", Since: kit.Versions{1},
	MACs: kit.RecurrentMACs,
	In: "X:T, W:T2, R:T2, B:T?, sequence_lens:T1?, initial_h:T?, initial_c:T?, P:T?, W_scale:T, W_zero_point:T2, " +
		"R_scale:T, R_zero_point:T2",
	Out: "Y:T?, Y_h:T?, Y_c:T?", Types: "T: float; T1: int32; T2: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		layer := recurrent.Build(a, 7, 4, "Sigmoid", "Tanh", "Tanh")
		layer.Bytes = true
		return &DynamicQuantizeLSTM{ops.LSTM{Layer: layer, InputForget: a.Bool("input_forget", false)}}
	}})

// Infer sets the shapes of Y, Y_h and Y_c.
func (op *DynamicQuantizeLSTM) Infer(c *ir.InferContext) error { return op.of.InferWith(c, 2) }

// weights returns W and R.
func (op *DynamicQuantizeLSTM) weights(in []tensor.Value) (w, r *recurrent.Bytes, err error) {
	var t [12]*tensor.Tensor
	for _, i := range quantizedInputs {
		t[i] = in[i].(*tensor.Tensor)
	}
	if w, err = recurrent.NewBytes("W", t[1], t[8], t[9], len(op.of.Reverse)); err == nil {
		r, err = recurrent.NewBytes("R", t[2], t[10], t[11], len(op.of.Reverse))
	}
	return w, r, err
}

// quantizedInputs are W and R, and their scales and zero points.
var quantizedInputs = []int{1, 2, 8, 9, 10, 11}

// SetThreads implements [ir.Threaded].
func (op *DynamicQuantizeLSTM) SetThreads(n int) { op.of.SetThreads(n) }

// Run packs the weights and computes with them.
func (op *DynamicQuantizeLSTM) Run(c *ir.Call) error {
	w, r, err := op.weights(c.In)
	if err != nil {
		return err
	}
	if !c.Generic {
		for _, b := range []*recurrent.Bytes{w, r} {
			if err := c.Reserve(3 * matmul.QuantLen(b.Values.Dim(1), b.Values.Dim(0)*b.Values.Dim(2))); err != nil {
				return err
			}
		}
		if p := op.of.PackBytes(c.Par(), w, r, []ir.Type{ir.TypeOf(c.In[0])}, dynamicQuantize); p != nil {
			return ops.RunLSTM(&op.of, c, p, ops.LSTMHooks[float32]{})
		}
	}
	products, err := byteProducts(c, w, r)
	if err != nil {
		return err
	}
	return ops.RunLSTM(&op.of, c, nil, ops.LSTMHooks[float32]{Products: products})
}

// byteProducts returns a function that quantizes x and multiplies it by W or R.
func byteProducts(c *ir.Call, w, r *recurrent.Bytes) (recurrent.Products[float32], error) {
	var wide [2][]int32
	var err error
	for i, b := range []*recurrent.Bytes{w, r} {
		if wide[i], err = b.Widen(c); err != nil {
			return nil, err
		}
	}
	var q []uint8
	var ints, sums []int32
	return func(d int, state bool, rows int, x, out []float32) error {
		b, weights := w, wide[0]
		if state {
			b, weights = r, wide[1]
		}
		k, n := b.Values.Dim(1), b.Values.Dim(2)
		if len(q) < rows*k {
			if q, err = ir.ScratchOf[uint8](c, rows*k); err == nil {
				ints, err = ir.ScratchOf[int32](c, rows*k)
			}
		}
		if err == nil && len(sums) < rows*n {
			sums, err = ir.ScratchOf[int32](c, rows*n)
		}
		if err != nil {
			return err
		}
		scale, zero := dynamicQuantize(c, q[:rows*k], x[:rows*k])
		for i, v := range q[:rows*k] {
			ints[i] = int32(v) - int32(zero)
		}
		s := matmul.Shape{M: rows, K: k, N: n, Out: []int{rows, n}}
		if err := matmul.Batches(c, &s, sums[:rows*n], ints[:rows*k], weights[d*k*n:][:k*n]); err != nil {
			return err
		}
		for i, v := range sums[:rows*n] {
			out[i] = float32(v) * (scale * b.Scale(d, i%n))
		}
		return nil
	}, nil
}

// dynamicQuantizeLSTMPacked is a DynamicQuantizeLSTM with constant weights.
type dynamicQuantizeLSTMPacked struct {
	DynamicQuantizeLSTM
	p *recurrent.Weights
}

// Prepare packs constant weights.
func (op *DynamicQuantizeLSTM) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	for _, i := range quantizedInputs {
		if _, ok := in[i].(*tensor.Tensor); !ok {
			return nil, nil, nil
		}
	}
	w, r, err := op.weights(in)
	if err != nil {
		return nil, nil, nil // Run reports the error
	}
	if p := op.of.PackBytes(nil, w, r, types, dynamicQuantize); p != nil {
		return &dynamicQuantizeLSTMPacked{*op, p}, quantizedInputs, nil
	}
	return nil, nil, nil
}

// Run computes with packed weights.
func (op *dynamicQuantizeLSTMPacked) Run(c *ir.Call) error {
	return ops.RunLSTM(&op.of, c, op.p, ops.LSTMHooks[float32]{})
}
