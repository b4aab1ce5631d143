package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// TreeEnsembleClassifier sums the leaf weights of decision trees for each class and
// labels each row with the class of the highest sum
// (https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html).
//
// Binary classification with weights for one class only follows the convention of ONNX
// Runtime and of the converters. Let s be the sum:
//
//   - The second label is selected if s > 0.5, or if s > 0 and some weight is negative.
//   - If the weights are for the first class, the scores are [1−s, s], or [−s, s] if some
//     weight is negative; the softmax transforms do not change them.
//   - If the weights are for the second class, the scores are [0, s].
type TreeEnsembleClassifier struct {
	*treeModel
	labels   classLabels
	only     int  // the class of all weights if there are two labels and one such class, else −1
	positive bool // whether no weight is negative
}

// Version 5 deprecates the operator without changing it.
var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "TreeEnsembleClassifier", Since: kit.Versions{1, 3, 5},
	In: "X:T1", Out: "Y:T2, Z:float",
	Types: "T1: " + mlNumbers + "; T2: string int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &TreeEnsembleClassifier{labels: readClassLabels(a, "classlabels_int64s", "classlabels_strings"),
			only: -1, positive: true}
		op.treeModel = buildLegacyTrees(a, opset, "class", op.labels.len(), tree.Sum)
		for i, v := range op.forest.votes {
			op.positive = op.positive && !(v.Weight < 0)
			if i == 0 && op.targets == 2 {
				op.only = int(v.Target)
			}
			if int(v.Target) != op.only {
				op.only = -1
			}
		}
		switch k := len(op.base); {
		case k == 1 && op.targets == 2:
			// A single base value for two classes belongs to the class that has all weights, else
			// to the first class.
			op.base = []float64{op.base[0], 0}
			if op.only == 1 {
				op.base[0], op.base[1] = 0, op.base[0]
			}
		case k != 0 && k != op.targets:
			a.Errorf("%d base values for %d classes, want one per class or none", k, op.targets)
		}
		return op
	}})

// Infer sets Y to [N] and Z to [N, classes].
func (op *TreeEnsembleClassifier) Infer(c *ir.InferContext) error {
	n, _, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	c.SetOut(0, ir.TensorType(op.labels.dtype(), n))
	c.SetOut(1, ir.TensorType(tensor.TypeFloat32, n, ir.Known(op.targets)))
	return nil
}

// Run computes labels and scores.
func (op *TreeEnsembleClassifier) Run(c *ir.Call) error {
	x := c.Tensor(0)
	n, cols, err := mlRows(x, "X")
	if err != nil {
		return err
	}
	if op.targets == 0 {
		return fail.Errorf("the operator has no class labels, want at least one")
	}
	y, err := c.Output(0, op.labels.dtype(), n)
	if err != nil {
		return err
	}
	if !c.Generic && op.base == nil {
		return op.together(c, x, y, n, cols)
	}
	z, err := kit.RealOut[float64](c, 1, tensor.TypeFloat32, n, op.targets)
	if err != nil {
		return err
	}
	err = op.run(c, x, n, cols, nil, func(i int, scores []float64) {
		row := z.Data[i*op.targets:][:op.targets]
		copy(row, scores)
		for k, b := range op.base {
			row[k] += b
		}
		switch {
		case op.only >= 0:
			s := row[op.only]
			op.labels.set(y, i, op.second(s))
			applyTransform(op.arrange(row, s), row)
		case op.targets == 1:
			op.labels.set(y, i, kit.BoolToInt(row[0] > 0)-1)
			transformScores(op.transform, row)
		default:
			op.labels.set(y, i, argMaxRow(row))
			applyTransform(op.transform, row)
		}
	})
	if err != nil {
		return err
	}
	z.Store()
	return nil
}

// together computes the labels y and the scores of classes without base values, all rows at once.
func (op *TreeEnsembleClassifier) together(c *ir.Call, x, y *tensor.Tensor, n, cols int) error {
	t, err := c.Output(1, tensor.TypeFloat32, n, op.targets)
	if err != nil {
		return err
	}
	z := tensor.MustData[float32](t)
	err = op.run(c, x, n, cols, z, func(i int, scores []float64) {
		for k, v := range scores {
			z[i*op.targets+k] = float32(v)
		}
	})
	if err != nil {
		return err
	}
	c.Parallel(n, kit.GrainFor(16*op.targets), func(lo, hi int) {
		transform := op.transform
		for i := lo; i < hi; i++ {
			row := z[i*op.targets:][:op.targets]
			switch {
			case op.only >= 0:
				s, wide := float64(row[op.only]), [2]float64{}
				op.labels.set(y, i, op.second(s))
				transform = op.arrange(wide[:], s)
				row[0], row[1] = float32(wide[0]), float32(wide[1])
			case op.targets == 1:
				op.labels.set(y, i, kit.BoolToInt(row[0] > 0)-1)
			default:
				op.labels.set(y, i, argMaxRow(row))
			}
		}
		transformRows(c, transform, z[lo*op.targets:hi*op.targets], op.targets)
	})
	return nil
}

// second returns 1 if the sum s of the weights of one class selects the second label, otherwise 0.
func (op *TreeEnsembleClassifier) second(s float64) int {
	threshold := 0.0
	if op.positive {
		threshold = 0.5
	}
	return kit.BoolToInt(s > threshold)
}

// arrange writes the scores of two classes from the score s of one, and returns the transform that
// they need.
func (op *TreeEnsembleClassifier) arrange(row []float64, s float64) postTransform {
	if op.only == 1 {
		row[0], row[1] = 0, s
		return op.transform
	}
	row[0], row[1] = -s, s
	if op.transform != transformLogistic && (op.positive || op.transform == transformProbit) {
		row[0] = 1 - s
	}
	if op.transform == transformSoftmax || op.transform == transformSoftmaxZero {
		return transformNone
	}
	return op.transform
}
