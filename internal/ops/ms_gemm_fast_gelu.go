package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
)

// GemmFastGelu is FastGelu, which approximates by tanh, of X·W + bias
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmFastGelu).
type GemmFastGelu struct{}

var _ = register(Def{Domain: DomainMicrosoft, Name: "GemmFastGelu", Since: []int{1}, In: "X:T, W:T, bias:T?", Out: "Y:T",
	Types: Types{"T": "float float16 bfloat16"},
	Build: withoutAttrs(&GemmFastGelu{})})

// Infer broadcasts the leading dimensions.
func (*GemmFastGelu) Infer(c *ir.InferContext) error {
	if err := inferMatMul(c, 0, 1, ir.UnrankedTensor(c.Elem(0))); err != nil {
		return err
	}
	return checkQuantizedBias(c, 2, 1)
}

// Run computes half types as float.
func (*GemmFastGelu) Run(c *ir.Call) error {
	x, w := c.Tensor(0), c.Tensor(1)
	s, err := newMatMulShape(x.Shape(), w.Shape())
	if err != nil {
		return err
	}
	var in [3][]float32
	for i := range in {
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	if in[2] != nil && len(in[2]) != s.n {
		return fmt.Errorf("bias has shape %v, want [%d]", c.Tensor(2).Shape(), s.n)
	}
	y, err := realOut[float32](c, 0, x.DType(), s.out...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	if err := matMulBatches(c, &s, y.data, in[0], in[1]); err != nil {
		return err
	}
	err = reduceEach(c, len(y.data)/s.n, 8*s.n, func(i int) {
		row := y.data[i*s.n:][:s.n]
		if in[2] != nil {
			addLoop(row, row, in[2])
		}
		geluTanhLoop(row, row)
	})
	if err == nil {
		y.store()
	}
	return err
}
