package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// SequenceMap runs its body for each item of its first input. Each run gets one item of the other
// inputs that are sequences; tensors are passed to every run. Each output of the body becomes a
// sequence (https://onnx.ai/onnx/operators/onnx__SequenceMap.html).
type SequenceMap struct{ Body int }

var _ = kit.Register(&kit.Def{Name: "SequenceMap", Since: kit.Versions{17},
	In: "input_sequence:seq(T), additional_inputs:any*", Out: "out_sequence:any+", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &SequenceMap{Body: a.Graph("body")} }})

// Infer implements ir.Operator.
func (op *SequenceMap) Infer(c *ir.InferContext) error {
	in := make([]ir.Value, c.NumIn())
	for i := range in {
		in[i] = ir.Value{Type: c.Type(i)}
		if c.Type(i).Kind == tensor.KindSequence {
			in[i].Type = sequenceElem(c, i)
		}
	}
	out, err := c.InferGraph(op.Body, in)
	if err != nil {
		return err
	}
	if len(out) < c.NumOut() {
		return fail.Errorf("body has %d outputs, the node has %d", len(out), c.NumOut())
	}
	for i := range c.NumOut() {
		c.SetOut(i, ir.SequenceOf(out[i].Type))
	}
	return nil
}

// Run implements ir.Operator.
func (op *SequenceMap) Run(c *ir.Call) error {
	first, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	n := len(first.Items)
	in := make([]tensor.Value, c.NumIn())
	for i := range in {
		if s, ok := c.In[i].(*tensor.Sequence); ok && len(s.Items) != n {
			return fail.Errorf("input 0 has %d items, input %d has %d", n, i, len(s.Items))
		}
		in[i] = c.In[i]
	}
	outs := make([]*tensor.Sequence, len(c.Out))
	for i := range outs {
		outs[i] = &tensor.Sequence{}
	}
	for k := range n {
		if err := c.Err(); err != nil {
			return err
		}
		for i, v := range c.In[:len(in)] {
			if s, ok := v.(*tensor.Sequence); ok {
				in[i] = s.Items[k]
			}
		}
		res, err := c.RunGraph(op.Body, in)
		if err != nil {
			return fail.Errorf("item %d: %w", k, err)
		}
		if len(res) < len(outs) {
			return fail.Errorf("body has %d outputs, the node has %d", len(res), len(outs))
		}
		for i, s := range outs {
			t := res[i].Type()
			if k > 0 && !t.Equal(s.Elem) {
				return fail.Errorf("output %d is %s for item %d, was %s before", i, t, k, s.Elem)
			}
			s.Elem = t
			s.Items = append(s.Items, res[i])
		}
	}
	g := c.Node.Graphs[op.Body]
	for i, s := range outs {
		if n == 0 && i < len(g.Outputs) {
			s.Elem = g.Value(g.Outputs[i]).Type.Base()
		}
		c.Set(i, s)
	}
	return nil
}
