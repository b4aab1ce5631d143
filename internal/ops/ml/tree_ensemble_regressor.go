package ml

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// TreeEnsembleRegressor combines the leaf weights of decision trees for each target, adds
// the base values and transforms the result
// (https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html).
type TreeEnsembleRegressor struct{ *treeModel }

// Version 5 deprecates the operator without changing it.
var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "TreeEnsembleRegressor", Since: kit.Versions{1, 3, 5},
	In: "X:T", Out: "Y:float",
	Types: "T: " + mlNumbers, Build: func(a *kit.Attrs, opset int) kit.Operator {
		targets := a.Int("n_targets", 1)
		if targets < 1 || targets > 1<<24 {
			a.Errorf("n_targets is %d, want 1 to 2^24", targets)
			targets = 1
		}
		aggregates := map[string]tree.Aggregate{"AVERAGE": tree.Average, "SUM": tree.Sum,
			"MIN": tree.Min, "MAX": tree.Max}
		m := buildLegacyTrees(a, opset, "target", targets,
			aggregates[a.Enum("aggregate_function", "SUM", "AVERAGE", "SUM", "MIN", "MAX")])
		if k := len(m.base); k != 0 && k != targets {
			a.Errorf("%d base values for %d targets, want one per target or none", k, targets)
		}
		return &TreeEnsembleRegressor{m}
	}})

// Infer sets Y to [N, n_targets].
func (op *TreeEnsembleRegressor) Infer(c *ir.InferContext) error {
	n, _, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, n, ir.Known(op.targets)))
	return nil
}

// Run computes the targets.
func (op *TreeEnsembleRegressor) Run(c *ir.Call) error { return op.regress(c, tensor.TypeFloat32) }

// regress writes the transformed scores to output 0, which has type dtype.
func (m *treeModel) regress(c *ir.Call, dtype tensor.DType) error {
	x := c.Tensor(0)
	n, cols, err := mlRows(x, "X")
	if err != nil {
		return err
	}
	var direct []float32
	var y kit.RealOutput[float64]
	if dtype == tensor.TypeFloat32 && m.base == nil && (m.transform == transformNone || !c.Generic) {
		t, err := c.Output(0, dtype, n, m.targets)
		if err != nil {
			return err
		}
		direct = tensor.MustData[float32](t)
	} else if y, err = kit.RealOut[float64](c, 0, dtype, n, m.targets); err != nil {
		return err
	}
	err = m.run(c, x, n, cols, direct, func(i int, scores []float64) {
		if direct != nil {
			for k, v := range scores {
				direct[i*m.targets+k] = float32(v)
			}
			return
		}
		row := y.Data[i*m.targets:][:m.targets]
		copy(row, scores)
		for k, b := range m.base {
			row[k] += b
		}
		transformScores(m.transform, row)
	})
	switch {
	case err != nil:
		return err
	case direct == nil:
		y.Store()
	case m.transform != transformNone:
		c.Parallel(n, kit.GrainFor(16*m.targets), func(lo, hi int) {
			transformRows(c, m.transform, direct[lo*m.targets:hi*m.targets], m.targets)
		})
	}
	return nil
}
