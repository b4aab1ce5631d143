package ops

import "github.com/onward-ml/onward/internal/ir"

// MoE is a mixture of experts: for every token it takes the K experts to which
// the softmax of router_probs gives most, and adds up their outputs,
// FC2(activation(FC1(x))·FC3(x)), by these weights. FC3 may be missing
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoE).
type MoE struct{ moeAttrs }

var _ = register(Def{Domain: DomainMicrosoft, Name: "MoE", Since: []int{1},
	In: "input:T, router_probs:T, fc1_experts_weights:T, fc1_experts_bias:T?, fc2_experts_weights:T, fc2_experts_bias:T?, " +
		"fc3_experts_weights:T?, fc3_experts_bias:T?",
	Out: "output:T", Types: Types{"T": "float float16 bfloat16"},
	Build: simple(func(a *Attrs, opset int) Operator { return &MoE{readMoE(a)} })})

// Infer keeps the shape.
func (*MoE) Infer(c *ir.InferContext) error { return inferMoE(c) }

// Run computes half types as float.
func (op *MoE) Run(c *ir.Call) error {
	x, router := c.Tensor(0), c.Tensor(1)
	_, hidden, err := moeTokens(x.Shape(), router.Shape())
	if err != nil {
		return err
	}
	m := &moeRun{moeAttrs: op.moeAttrs, experts: router.Dim(1), hidden: hidden}
	for i, l := range []**moeLayer{&m.fc1, &m.fc2, &m.fc3} {
		if *l, err = moeDense(c, 2+2*i, m.experts); err != nil {
			return err
		}
	}
	return m.finish(c)
}

// finish reads the tokens and runs.
func (m *moeRun) finish(c *ir.Call) error {
	if err := m.check(); err != nil {
		return err
	}
	x := c.Tensor(0)
	var err error
	if m.x, err = realIn[float32](c, x); err != nil {
		return err
	}
	if m.choice, err = realIn[float32](c, c.Tensor(1)); err != nil {
		return err
	}
	y, err := realOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	if err := m.run(c, y.data); err != nil {
		return err
	}
	y.store()
	return nil
}
