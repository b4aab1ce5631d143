package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// QEmbedLayerNormalization is [EmbedLayerNormalization] with quantized tables, each with
// one scale and zero point
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization).
type QEmbedLayerNormalization struct{ epsilon float32 }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QEmbedLayerNormalization", Since: kit.Versions{1},
	Work: 8,
	In: "input_ids:T1, segment_ids:T1?, word_embedding_quant:T2, position_embedding_quant:T2, segment_embedding:T2?, " +
		"gamma_quant:T2, " +
		"beta_quant:T2, mask:T1?, word_embedding_scale:T, position_embedding_scale:T, segment_embedding_scale:T?, " +
		"gamma_scale:T, " +
		"beta_scale:T, word_embedding_zero_point:T2, position_embedding_zero_point:T2, " +
		"segment_embedding_zero_point:T2?, " +
		"gamma_zero_point:T2, beta_zero_point:T2",
	Out: "layernorm_out:T, mask_index_out:T1", Types: "T1: int32; T2: " + byteTypes + "; T: float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &QEmbedLayerNormalization{a.Float("epsilon", 1e-12)}
	}})

// Infer sets the output to [batch, length, hidden] and the mask index to [batch].
func (op *QEmbedLayerNormalization) Infer(c *ir.InferContext) error {
	s := ir.UnknownDims(3)
	if ids := c.Shape(0); len(ids) == 2 {
		s[0], s[1] = ids[0], ids[1]
	}
	if w := c.Shape(2); len(w) == 2 {
		s[2] = w[1]
	}
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, s...))
	c.SetOut(1, ir.TensorType(tensor.TypeInt32, s[0]))
	return kit.CheckRank(c, 0, 2, "input_ids")
}

// Run looks up the embeddings, adds them and normalizes the sum.
func (op *QEmbedLayerNormalization) Run(c *ir.Call) error {
	e := &embeddings{ids: c.Tensor(0), segments: c.Tensor(1), mask: c.Tensor(7), dtype: tensor.TypeFloat32}
	for k, name := range []string{"word_embedding", "position_embedding", "segment_embedding", "gamma", "beta"} {
		t := c.Tensor(2 + k)
		if t == nil || !c.Has(8+k) {
			continue
		}
		q, err := byteQuantOf(c, name, t.DType(), 8+k, 13+k)
		if err != nil {
			return err
		}
		if k >= 3 {
			v, err := realBytes(c, t, &q)
			if err != nil {
				return err
			}
			*[]*[]float32{&e.gamma, &e.beta}[k-3] = v
			continue
		}
		table, codes := q.reals(), t.Bytes()
		e.tables[k] = embeddingTable{shape: t.Shape(), row: func(dst []float32, at int) {
			for i, b := range codes[at:][:len(dst)] {
				dst[i] = table[b]
			}
		}}
	}
	return e.run(c, op.epsilon)
}
