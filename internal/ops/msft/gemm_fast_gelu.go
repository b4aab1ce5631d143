package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

// GemmFastGelu computes FastGelu, Gelu approximated by tanh, of X·W + bias
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmFastGelu).
type GemmFastGelu struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GemmFastGelu", Since: kit.Versions{1},
	In: "X:T, W:T, bias:T?", Out: "Y:T",
	MACs:  kit.MatMulMACs,
	Types: "T: float float16 bfloat16",
	Build: kit.WithoutAttrs[GemmFastGelu]})

// Infer broadcasts the leading dimensions.
func (*GemmFastGelu) Infer(c *ir.InferContext) error {
	if err := matmul.Infer(c, 0, 1, ir.UnrankedTensor(c.Elem(0))); err != nil {
		return err
	}
	return checkQuantizedBias(c, 2, 1)
}

// Run computes 16-bit types in float32.
func (*GemmFastGelu) Run(c *ir.Call) error {
	x, w := c.Tensor(0), c.Tensor(1)
	s, err := matmul.NewShape(x.Shape(), w.Shape())
	if err != nil {
		return err
	}
	var in [3][]float32
	for i := range in {
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	if in[2] != nil && len(in[2]) != s.N {
		return fail.Errorf("bias has shape %v, want [%d]", c.Tensor(2).Shape(), s.N)
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), s.Out...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	if err := matmul.Batches(c, &s, y.Data, in[0], in[1]); err != nil {
		return err
	}
	kit.ParallelEach(c, len(y.Data)/s.N, 8*s.N, func(i int) {
		row := y.Data[i*s.N:][:s.N]
		if in[2] != nil {
			elementwise.AddLoop(row, row, in[2])
		}
		kit.GeluTanhLoop(row, row)
	})
	y.Store()
	return nil
}
