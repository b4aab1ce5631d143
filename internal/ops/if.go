package ops

import (
	"errors"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// If runs one of two subgraphs and returns its outputs
// (https://onnx.ai/onnx/operators/onnx__If.html).
type If struct {
	Then, Else int // indices of the subgraphs
}

var _ = kit.Register(&kit.Def{Name: "If", Since: kit.Versions{1, 11, 13, 16, 19, 21, 23, 24, 25},
	In: "cond:bool", Out: "outputs:any*",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &If{Then: a.Graph("then_branch"), Else: a.Graph("else_branch")}
	},
	Gradient: &gradient.Gradient{Subgraphs: true}})

// Infer implements ir.Operator. If the condition is constant, the other branch is ignored; it may
// be one that cannot run.
func (op *If) Infer(c *ir.InferContext) error {
	then, err1 := c.InferGraph(op.Then, nil)
	other, err2 := c.InferGraph(op.Else, nil)
	outs := [][]ir.Value{then, other}
	if t := c.Const(0); t != nil && t.DType() == tensor.TypeBool && t.Len() == 1 {
		if tensor.MustData[bool](t)[0] {
			outs, err2 = outs[:1], nil
		} else {
			outs, err1 = outs[1:], nil
		}
	}
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, o := range outs {
		if len(o) < c.NumOut() {
			return fail.Errorf("branch has %d outputs, the node has %d", len(o), c.NumOut())
		}
	}
	for i := range c.NumOut() {
		t, d := outs[0][i].Type, ir.ContentsOf(&outs[0][i])
		for _, o := range outs[1:] {
			w, err := widenBranch(t, o[i].Type)
			if err != nil {
				return fail.Errorf("output %d of the branches: %w", i, err)
			}
			t, d = w, kit.JoinContents(d, ir.ContentsOf(&o[i]))
		}
		c.SetOut(i, t)
		if d != nil && len(t.Shape) <= 1 && t.Shape != nil {
			c.SetContents(i, d)
		}
	}
	return nil
}

// Run implements ir.Operator.
func (op *If) Run(c *ir.Call) error {
	cond, err := oneBool(c.Tensor(0), "cond")
	if err != nil {
		return err
	}
	k := op.Else
	if cond {
		k = op.Then
	}
	out, err := c.RunGraph(k, nil)
	if err != nil {
		return err
	}
	if len(out) < len(c.Out) {
		return fail.Errorf("branch has %d outputs, the node has %d", len(out), len(c.Out))
	}
	for i := range c.Out {
		c.Set(i, out[i])
	}
	return nil
}
