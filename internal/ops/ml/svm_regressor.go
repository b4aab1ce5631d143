package ml

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// SVMRegressor computes Σ coefficient·kernel(X, support vector) + rho, or coefficients·X
// + rho if there are no support vectors. With one_class it returns the sign
// (https://onnx.ai/onnx/operators/onnx_aionnxml_SVMRegressor.html).
type SVMRegressor struct {
	kernel       svmKernel
	coefficients []float64
	supports     int
	rho          float64
	oneClass     bool
	transform    postTransform
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "SVMRegressor", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:float", Types: "T: " + mlNumbers,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &SVMRegressor{kernel: readSVMKernel(a), coefficients: widened(a.Floats("coefficients")),
			supports: a.Int("n_supports", 0), oneClass: a.Bool("one_class", false), transform: readPostTransform(a)}
		if rho := a.Floats("rho"); len(rho) > 0 {
			op.rho = float64(rho[0])
		}
		switch {
		case op.supports < 0 || op.supports > 0 && op.supports != len(op.coefficients):
			a.Errorf("n_supports is %d, but there are %d coefficients, want one per support vector", op.supports,
				len(op.coefficients))
		case op.supports == 0:
			op.kernel.kind = "LINEAR"
			op.kernel.setVectors(op.coefficients, 1)
			op.coefficients = []float64{1}
		default:
			op.kernel.setVectors(widened(a.Floats("support_vectors")), op.supports)
		}
		return op
	}})

// Infer sets Y to [N, 1].
func (op *SVMRegressor) Infer(c *ir.InferContext) error {
	n, _, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, n, ir.Known(1)))
	return nil
}

// Run evaluates the kernels row by row.
func (op *SVMRegressor) Run(c *ir.Call) error {
	n, cols, err := mlRows(c.Tensor(0), "X")
	if err != nil {
		return err
	}
	name := "support_vectors"
	if op.supports == 0 {
		name = "coefficients"
	}
	if err := op.kernel.check(cols, name); err != nil {
		return err
	}
	t, err := c.Output(0, tensor.TypeFloat32, n, 1)
	if err != nil {
		return err
	}
	y := tensor.MustData[float32](t)
	return svmRows(c, &op.kernel, n, 1, 0, func(first, rows int, kernels, sums []float64) {
		count := op.kernel.count
		matmul.GemmHere(c, &gemm.Args[float64]{M: rows, N: 1, K: count, A: kernels, LdA: count, B: op.coefficients,
			LdB: 1, C: sums, LdC: 1})
		for r, s := range sums[:rows] {
			s += op.rho
			if op.oneClass {
				s = 2*float64(kit.BoolToInt(s > 0)) - 1
			}
			row := y[first+r:][:1]
			row[0] = float32(s)
			applyTransform(op.transform, row)
		}
	})
}
