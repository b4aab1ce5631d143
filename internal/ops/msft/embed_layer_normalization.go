package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// EmbedLayerNormalization adds the embeddings of words, positions and segments and
// normalizes the sum over the last dimension. mask_index is the number of ones of the
// mask, per batch item
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EmbedLayerNormalization).
type EmbedLayerNormalization struct{ epsilon float32 }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "EmbedLayerNormalization", Since: kit.Versions{1},
	Work: 8,
	In: "input_ids:int32, segment_ids:int32?, word_embedding:T, position_embedding:T, segment_embedding:T?, " +
		"gamma:T, beta:T, mask:int32?, position_ids:int32?",
	Out: "output:T, mask_index:int32?, embedding_sum:T?", Types: "T: float float16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Ignore("mask_index_type") // only states whether the second output is used
		return &EmbedLayerNormalization{a.Float("epsilon", 1e-12)}
	}})

// Infer sets output and sum to [batch, length, hidden] and mask_index to [batch].
func (op *EmbedLayerNormalization) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 2, "input_ids"); err != nil {
		return err
	}
	s := ir.UnknownDims(3)
	if ids := c.Shape(0); ids != nil {
		s[0], s[1] = ids[0], ids[1]
	}
	if w := c.Shape(2); len(w) == 2 {
		s[2] = w[1]
	}
	c.SetOut(0, ir.TensorType(c.Elem(2), s...))
	c.SetOut(1, ir.TensorType(tensor.TypeInt32, s[0]))
	c.SetOut(2, ir.TensorType(c.Elem(2), s...))
	return nil
}

// Run looks up the embeddings, adds them and normalizes the sum.
func (op *EmbedLayerNormalization) Run(c *ir.Call) error {
	e := &embeddings{ids: c.Tensor(0), segments: c.Tensor(1), mask: c.Tensor(7), positions: c.Tensor(8),
		dtype: c.Tensor(2).DType(), sum: 2}
	for k, i := range []int{2, 3, 4} {
		t := c.Tensor(i)
		if t == nil {
			continue
		}
		table, err := kit.RealIn[float32](c, t)
		if err != nil {
			return err
		}
		e.tables[k] = embeddingTable{shape: t.Shape(), row: func(dst []float32, at int) { copy(dst, table[at:]) }}
	}
	for i, p := range []*[]float32{&e.gamma, &e.beta} {
		var err error
		if *p, err = kit.RealIn[float32](c, c.Tensor(5+i)); err != nil {
			return err
		}
	}
	return e.run(c, op.epsilon)
}

// embeddingTable is an embedding of shape [rows, hidden]. row copies elements from index
// at on to dst. The zero value is a missing embedding.
type embeddingTable struct {
	shape []int
	row   func(dst []float32, at int)
}

// embeddings holds the inputs of an embedding layer normalization: words, positions and
// segments.
type embeddings struct {
	ids, segments, mask, positions *tensor.Tensor // all but ids may be nil
	tables                         [3]embeddingTable
	gamma, beta                    []float32
	dtype                          tensor.DType
	sum                            int // index of the output for the sum, or 0 without such an output
}

func (e *embeddings) run(c *ir.Call, epsilon float32) error {
	ids := e.ids
	if ids.Rank() != 2 {
		return fail.Errorf("input_ids has shape %v, want [batch, length]", ids.Shape())
	}
	batch, length := ids.Dim(0), ids.Dim(1)
	if (e.segments == nil) != (e.tables[2].row == nil) {
		return fail.Errorf("segment_ids and segment_embedding must be given together")
	}
	for i, t := range []*tensor.Tensor{e.segments, e.mask} {
		if t != nil && !slices.Equal(t.Shape(), ids.Shape()) {
			return fail.Errorf("%s has shape %v, want %v", []string{"segment_ids", "mask"}[i], t.Shape(), ids.Shape())
		}
	}
	positions := kit.Ints(e.positions)
	if p := e.positions; p != nil && !slices.Equal(p.Shape(), ids.Shape()) &&
		!slices.Equal(p.Shape(), []int{1, length}) {
		return fail.Errorf("position_ids has shape %v, want %v or [1 %d]", p.Shape(), ids.Shape(), length)
	}
	hidden := len(e.gamma)
	for k, t := range e.tables {
		if t.row != nil && (len(t.shape) != 2 || t.shape[1] != hidden) {
			return fail.Errorf("embedding %d has shape %v, want [rows, %d]", k, t.shape, hidden)
		}
	}
	if len(e.beta) != hidden {
		return fail.Errorf("gamma has %d elements and beta %d, want equal lengths", hidden, len(e.beta))
	}
	r := reduce.NormRows[float32]{Cols: hidden, Eps: float64(epsilon), Center: true, Gain: e.gamma, Bias: e.beta}
	words, segments := tensor.MustData[int32](ids), kit.Ints(e.segments)
	index := func(k, i int) (int, error) {
		v, name := i%max(1, length), "position_ids"
		switch {
		case k == 0:
			v, name = int(words[i]), "input_ids"
		case k == 2:
			v, name = segments[i], "segment_ids"
		case positions != nil:
			v = positions[i%len(positions)]
		}
		if n := e.tables[k].shape[0]; v < 0 || v >= n {
			return 0, fail.Errorf("%s holds %d, which is out of range for an embedding of %d rows", name, v, n)
		}
		return v, nil
	}
	y, err := kit.RealOut[float32](c, 0, e.dtype, batch, length, hidden)
	if err != nil {
		return err
	}
	var sum kit.RealOutput[float32]
	if e.sum > 0 {
		sum, err = kit.RealMaybe[float32](c, e.sum, e.dtype, batch, length, hidden)
	} else {
		sum.Data, err = ir.ScratchOf[float32](c, len(y.Data))
	}
	if err != nil {
		return err
	}
	one, err := ir.ScratchOf[float32](c, hidden)
	if err != nil {
		return err
	}
	m := ir.Meter{C: c}
	for i := range words {
		if !m.Spend(3 * hidden) {
			return c.Err()
		}
		row := sum.Data[i*hidden:][:hidden]
		clear(row)
		for k, t := range e.tables {
			if t.row == nil {
				continue
			}
			v, err := index(k, i)
			if err != nil {
				return err
			}
			t.row(one, v*hidden)
			addTo(row, one)
		}
	}
	r.X, r.Y = sum.Data, y.Data
	if err := r.Compute(c); err != nil {
		return err
	}
	y.Store()
	if sum.T != nil {
		sum.Store()
	}
	if !c.Wants(1) {
		return nil
	}
	t, err := c.Output(1, tensor.TypeInt32, batch)
	if err != nil {
		return err
	}
	count := tensor.MustData[int32](t)
	clear(count)
	if e.mask != nil {
		mask := tensor.MustData[int32](e.mask)
		c.Serial(len(mask), kit.GrainCheap, func(lo, hi int) {
			for i, v := range mask[lo:hi] {
				if v == 1 {
					count[(lo+i)/length]++
				}
			}
		})
	}
	return nil
}
