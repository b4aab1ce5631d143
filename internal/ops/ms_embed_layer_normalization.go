package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// EmbedLayerNormalization adds the embeddings of words, positions and segments
// and normalizes the sum over the last dimension; mask_index counts the ones of
// the mask for each batch item
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EmbedLayerNormalization).
type EmbedLayerNormalization struct{ epsilon float32 }

var _ = register(Def{Domain: DomainMicrosoft, Name: "EmbedLayerNormalization", Since: []int{1},
	In:  "input_ids:int32, segment_ids:int32?, word_embedding:T, position_embedding:T, segment_embedding:T?, gamma:T, beta:T, mask:int32?, position_ids:int32?",
	Out: "output:T, mask_index:int32?, embedding_sum:T?", Types: Types{"T": "float float16"},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Ignore("mask_index_type") // says only that the second output is used
		return &EmbedLayerNormalization{a.Float("epsilon", 1e-12)}
	})})

// Infer sets output and sum to [batch, length, hidden] and mask_index to [batch].
func (op *EmbedLayerNormalization) Infer(c *ir.InferContext) error {
	if err := checkRank(c, 0, 2, "input_ids"); err != nil {
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

// Run looks up, adds and normalizes.
func (op *EmbedLayerNormalization) Run(c *ir.Call) error {
	ids := c.Tensor(0)
	if ids.Rank() != 2 {
		return fmt.Errorf("input_ids has shape %v, want [batch, length]", ids.Shape())
	}
	batch, length := ids.Dim(0), ids.Dim(1)
	if c.Has(1) != c.Has(4) {
		return fmt.Errorf("segment_ids and segment_embedding must be given together")
	}
	for _, i := range []int{1, 7} {
		if t := c.Tensor(i); t != nil && !slices.Equal(t.Shape(), ids.Shape()) {
			return fmt.Errorf("input %d has shape %v, want %v", i, t.Shape(), ids.Shape())
		}
	}
	positions := ints(c.Tensor(8))
	if p := c.Tensor(8); p != nil && !slices.Equal(p.Shape(), ids.Shape()) && !slices.Equal(p.Shape(), []int{1, length}) {
		return fmt.Errorf("position_ids has shape %v, want %v or [1 %d]", p.Shape(), ids.Shape(), length)
	}
	hidden := -1
	var tables [3][]float32
	var rows [3]int
	for k, i := range []int{2, 3, 4} {
		t := c.Tensor(i)
		if t == nil {
			continue
		}
		if hidden < 0 && t.Rank() == 2 {
			hidden = t.Dim(1)
		}
		if t.Rank() != 2 || t.Dim(1) != hidden {
			return fmt.Errorf("embedding %d has shape %v, want [rows, %d]", k, t.Shape(), hidden)
		}
		rows[k] = t.Dim(0)
		var err error
		if tables[k], err = realIn[float32](c, t); err != nil {
			return err
		}
	}
	r := normRows[float32]{cols: hidden, eps: float64(op.epsilon), center: true}
	for i, p := range []*[]float32{&r.gain, &r.bias} {
		t := c.Tensor(5 + i)
		if t.Rank() != 1 || t.Len() != hidden {
			return fmt.Errorf("gamma and beta have shapes %v and %v, want [%d]", c.Tensor(5).Shape(), c.Tensor(6).Shape(), hidden)
		}
		var err error
		if *p, err = realIn[float32](c, t); err != nil {
			return err
		}
	}
	words, segments := tensor.Of[int32](ids), ints(c.Tensor(1))
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
		if v < 0 || v >= rows[k] {
			return 0, fmt.Errorf("%s holds %d for an embedding of %d rows", name, v, rows[k])
		}
		return v, nil
	}
	dtype := c.Tensor(2).DType()
	y, err := realOut[float32](c, 0, dtype, batch, length, hidden)
	if err != nil {
		return err
	}
	sum, err := realMaybe[float32](c, 2, dtype, batch, length, hidden)
	if err != nil {
		return err
	}
	for i := range words {
		row := sum.data[i*hidden:][:hidden]
		for k, table := range tables {
			if c.Tensor(2+k) == nil {
				continue
			}
			v, err := index(k, i)
			if err != nil {
				return err
			}
			if k == 0 {
				copy(row, table[v*hidden:])
			} else {
				addTo(row, table[v*hidden:])
			}
		}
	}
	r.x, r.y = sum.data, y.data
	if err := r.run(c); err != nil {
		return err
	}
	y.store()
	if sum.t != nil {
		sum.store()
	}
	if !c.Wants(1) {
		return nil
	}
	t, err := c.Output(1, tensor.TypeInt32, batch)
	if err != nil {
		return err
	}
	count := tensor.Of[int32](t)
	clear(count)
	if m := c.Tensor(7); m != nil {
		for i, v := range tensor.Of[int32](m) {
			if v == 1 {
				count[i/length]++
			}
		}
	}
	return nil
}
