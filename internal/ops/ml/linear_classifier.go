package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// LinearClassifier computes one linear function per class for each row of X ([N,C], or
// [C] for one row), and labels the row with the class of the highest score
// (https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html).
//
// If there is one function and two labels, a positive score s selects the second label,
// and the scores are [1−s, s], or the two logistic or probit values. Like ONNX Runtime,
// the softmax transforms do not change this pair. If there is one function without labels, the
// label is 1 for a positive score and else 0, and like ONNX Runtime, only PROBIT changes the score.
// With one label, which ONNX Runtime refuses, the transform applies as in ONNX's reference
// evaluator, and rows with negative scores get the label 0 or "".
type LinearClassifier struct {
	model     linearModel
	labels    classLabels
	transform postTransform
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "LinearClassifier", Since: kit.Versions{1}, In: "X:T1",
	Out:   "Y:T2, Z:float",
	Types: "T1: " + mlNumbers + "; T2: string int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Ignore("multi_class") // one-versus-rest and multinomial differ in post_transform only
		a.Require("coefficients")
		op := &LinearClassifier{
			model:     linearModel{a.Floats("coefficients"), a.Floats("intercepts")},
			transform: readPostTransform(a),
		}
		if a.Has("classlabels_ints") || a.Has("classlabels_strings") {
			op.labels = readClassLabels(a, "classlabels_ints", "classlabels_strings")
		}
		return op
	}})

// Infer sets Y to [N] and Z to [N, E].
func (op *LinearClassifier) Infer(c *ir.InferContext) error {
	n, cols, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	e := ir.Unknown
	if k, ok := cols.Value(); ok {
		t, err := op.model.targets(0, k)
		if err != nil {
			return err
		}
		e = ir.Known(op.columns(t))
	}
	c.SetOut(0, ir.TensorType(op.labels.dtype(), n))
	c.SetOut(1, ir.TensorType(tensor.TypeFloat32, n, e))
	return nil
}

// columns returns the number of scores per row for t linear functions.
func (op *LinearClassifier) columns(t int) int {
	if t == 1 && op.labels.len() == 2 {
		return 2
	}
	return t
}

// Run computes the labels and scores.
func (op *LinearClassifier) Run(c *ir.Call) error {
	x := c.Tensor(0)
	n, cols, err := mlRows(x, "X")
	if err != nil {
		return err
	}
	t, err := op.model.targets(0, cols)
	if err != nil {
		return err
	}
	e := op.columns(t)
	if k := op.labels.len(); k != e && (k != 0 || e != 1) || t == 0 {
		return fail.Errorf("%d labels for %d linear functions, want one label per function, or two or none "+
			"for one function", k, t)
	}
	y, err := c.Output(0, op.labels.dtype(), n)
	if err != nil {
		return err
	}
	z, err := c.Output(1, tensor.TypeFloat32, n, e)
	if err != nil {
		return err
	}
	scores := tensor.MustData[float32](z)
	raw := scores
	if e != t {
		if raw, err = ir.ScratchOf[float32](c, n); err != nil {
			return err
		}
	}
	if c.Capturing && x.DType() == tensor.TypeFloat32 && e == t && n*cols*t < 1<<12 &&
		op.labels.dtype() != tensor.TypeString {
		data := tensor.MustData[float32](x)
		c.Launch(1, 1, func(int, int) {
			linearScores(data, &op.model, cols, t, scores)
			op.decide(c, 0, n, e, t, scores, scores, y)
		})
		return nil
	}
	if err := op.model.scores(c, x, n, cols, t, raw); err != nil {
		return err
	}
	c.Parallel(n, kit.GrainFor(16*e), func(lo, hi int) { op.decide(c, lo, hi, e, t, scores, raw, y) })
	return nil
}

// decide writes the labels of the rows [lo, hi) and transforms t raw scores into e final ones.
func (op *LinearClassifier) decide(c *ir.Call, lo, hi, e, t int, scores, raw []float32, y *tensor.Tensor) {
	for i := lo; i < hi; i++ {
		row := scores[i*e:][:e]
		switch {
		case e != t:
			s := raw[i]
			op.labels.set(y, i, kit.BoolToInt(s > 0))
			row[0], row[1] = 1-s, s
			switch op.transform {
			case transformLogistic:
				row[0] = -s
				applyTransform(op.transform, row)
			case transformProbit:
				applyTransform(op.transform, row)
			}
		case e == 1:
			if op.labels.len() == 0 {
				tensor.MustData[int64](y)[i] = int64(kit.BoolToInt(row[0] > 0))
				transformScores(op.transform, row)
			} else {
				op.labels.set(y, i, kit.BoolToInt(row[0] >= 0)-1)
				applyTransform(op.transform, row)
			}
		default:
			op.labels.set(y, i, argMaxRow(row))
		}
	}
	if e == t && e > 1 {
		transformRows(c, op.transform, scores[lo*e:hi*e], e)
	}
}

// argMaxRow returns the index of the first largest element.
func argMaxRow[T mlFloat](row []T) int {
	best := 0
	for i, v := range row {
		if v > row[best] {
			best = i
		}
	}
	return best
}
