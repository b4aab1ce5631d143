package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Loop runs its body repeatedly, at most input M times and while the condition is true. The inputs
// of the body are the iteration number, the condition and the carried values. Its outputs are the
// condition, the carried values and the scan outputs, which are stacked along a new first axis.
// Without M there is no limit; without cond the condition is initially true. The iteration number
// and the condition are scalars, or vectors of one element if the body declares them so, as in ONNX
// Runtime (https://onnx.ai/onnx/operators/onnx__Loop.html).
type Loop struct{ Body int }

var _ = kit.Register(&kit.Def{Name: "Loop", Since: kit.Versions{1, 11, 13, 16, 19, 21, 23, 24, 25},
	In: "M:int64?, cond:bool?, v_initial:any*", Out: "v_final_and_scan_outputs:any*",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &Loop{Body: a.Graph("body")} }})

// Iterates implements ir.Iterating.
func (op *Loop) Iterates() {}

// CarriedTo implements ir.Carrying.
func (op *Loop) CarriedTo(i int) int {
	if i == 0 {
		return -1 // the condition
	}
	return i + 1
}

// Infer implements ir.Operator. The shapes of carried values may change between iterations, so the
// body is inferred for any shape.
func (op *Loop) Infer(c *ir.InferContext) error {
	n := max(c.NumIn()-2, 0)
	in := []ir.Value{{Type: ir.TensorType(kit.TensorInt64)}, {Type: ir.TensorType(tensor.TypeBool)}}
	for i, t := range c.GraphInputs(op.Body) {
		if i < len(in) && isVector(t) {
			in[i].Type.Shape = []ir.Dim{ir.Known(1)}
		}
	}
	for i := range n {
		in = append(in, ir.Value{Type: unshaped(c.Type(2 + i))})
	}
	out, err := c.InferGraph(op.Body, in)
	if err != nil {
		return err
	}
	if len(out) < 1+n || c.NumOut() > len(out)-1 {
		return fail.Errorf("body has %d outputs, which does not match %d carried values and %d outputs of the node",
			len(out), n, c.NumOut())
	}
	count := ir.Unknown
	if t, ok := out[0].Const.(*tensor.Tensor); ok && c.Has(0) {
		on, err := oneBool(t, "the body's condition")
		start := c.Const(1)
		if err == nil && on && (!c.Has(1) || start != nil && start.Len() == 1 && tensor.MustData[bool](start)[0]) {
			if d := c.Contents(0); len(d) == 1 {
				if count = d[0]; count.IsKnown() {
					v, _ := count.Value()
					count = ir.Known(max(v, 0))
				}
			}
		}
	}
	for i := range c.NumOut() {
		o := out[1+i].Type
		if i < n {
			start := c.Type(2 + i)
			if unwraps(start, o) {
				start = *start.Of
			}
			t, err := widenBranch(start, o)
			if err != nil {
				return fail.Errorf("carried value %d before and after the body: %w", i, err)
			}
			c.SetOut(i, t)
			continue
		}
		if o.Known() && o.Kind != tensor.KindTensor {
			return fail.Errorf("scan output %d has type %s, want a tensor", i-n, o)
		}
		t := ir.UnrankedTensor(o.Elem)
		if o.Shape != nil {
			t = ir.TensorType(o.Elem, append([]ir.Dim{count}, o.Shape...)...)
		}
		c.SetOut(i, t)
	}
	return nil
}

// unwraps reports whether a carried value is initially an optional, while the body returns the
// element of such an optional. It is then wrapped for the body, and the final value is not an
// optional.
func unwraps(start, out ir.Type) bool {
	return start.Kind == tensor.KindOptional && start.Of != nil && out.Known() && start.Of.Base().Equal(out.Base())
}

// isVector reports whether a type has one dimension.
func isVector(t ir.Type) bool { return t.Kind == tensor.KindTensor && len(t.Shape) == 1 }

// unshaped returns a type without shapes.
func unshaped(t ir.Type) ir.Type {
	if t.Of != nil {
		of := unshaped(*t.Of)
		t.Of = &of
	}
	t.Shape = nil
	return t
}

// Run implements ir.Operator.
func (op *Loop) Run(c *ir.Call) error {
	limit, on := math.MaxInt, true
	var err error
	if t := c.Tensor(0); t != nil {
		if limit, err = kit.ScalarInt(t, "M"); err != nil {
			return err
		}
	}
	if t := c.Tensor(1); t != nil {
		if on, err = oneBool(t, "cond"); err != nil {
			return err
		}
	}
	n := max(c.NumIn()-2, 0)
	in := make([]tensor.Value, 2+n)
	for i := range n {
		in[2+i] = c.In[2+i]
	}
	g := c.Node.Graphs[op.Body]
	var shapes [2][]int // of the iteration number and the condition
	for i := range shapes {
		if i < len(g.Inputs) && isVector(g.Value(g.Inputs[i]).Type) {
			shapes[i] = []int{1}
		}
	}
	scans := make([]scanBuffer, max(len(c.Out)-n, 0))
	for i := range scans {
		scans[i].Most, scans[i].Direct, scans[i].Out = limit, true, n+i
	}
	k := 0
	for ; k < limit && on; k++ {
		if err := c.Err(); err != nil {
			return err
		}
		in[0], in[1] = tensor.Must(tensor.New([]int64{int64(k)}, shapes[0]...)),
			tensor.Must(tensor.New([]bool{on}, shapes[1]...))
		out, err := c.RunBody(op.Body, in)
		if err != nil {
			return fail.Errorf("iteration %d: %w", k, err)
		}
		if len(out) < 1+n+len(scans) {
			return fail.Errorf("body has %d outputs, which does not match %d carried values and %d scan outputs",
				len(out), n, len(scans))
		}
		cond, _ := out[0].(*tensor.Tensor)
		if on, err = oneBool(cond, "the body's condition"); err != nil {
			return err
		}
		c.Release(out[0])
		for i := range n {
			if k > 0 {
				c.Release(in[2+i])
			}
			in[2+i] = out[1+i]
			if _, ok := c.In[2+i].(*tensor.Optional); ok && in[2+i].Type().Kind != tensor.KindOptional {
				in[2+i] = &tensor.Optional{Elem: out[1+i].Type(), Value: tensor.Clone(out[1+i])}
			}
		}
		for i := range out[1+n:] {
			if i < len(scans) && c.Wants(n+i) {
				if err := scans[i].Add(c, out[1+n+i]); err != nil {
					return fail.Errorf("iteration %d: output %d: %w", k, n+i, err)
				}
			}
			c.Release(out[1+n+i])
		}
	}
	for i := range min(n, len(c.Out)) {
		v := in[2+i]
		if o, ok := v.(*tensor.Optional); ok && unwraps(ir.TypeOf(v), g.Value(g.Outputs[1+i]).Type) {
			if v = o.Value; v == nil {
				return fail.Errorf("carried value %d is an empty optional although no iteration ran, want a %s",
					i, o.Elem)
			}
		}
		if err := move.Value(c, i, v); err != nil {
			return err
		}
	}
	for i := range scans {
		if !c.Wants(n + i) {
			continue
		}
		if k == 0 {
			if err := scans[i].Declare(c, op.Body, 1+n+i); err != nil {
				return err
			}
		}
		if err := scans[i].Stack(c, n+i, 0, k, false); err != nil {
			return err
		}
	}
	return nil
}
