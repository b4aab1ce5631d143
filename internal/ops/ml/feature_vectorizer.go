package ml

import (
	"errors"
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// FeatureVectorizer concatenates the columns of its inputs, [N, C], or [C] for one row. Further
// dimensions are columns too.
// Each input is truncated or zero-padded to the width that inputdimensions gives
// (https://onnx.ai/onnx/operators/onnx_aionnxml_FeatureVectorizer.html).
type FeatureVectorizer struct{ widths []int }

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "FeatureVectorizer", Since: kit.Versions{1}, In: "X:T1+",
	Out: "Y:float", Types: "T1: " + mlNumbers,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &FeatureVectorizer{a.Ints("inputdimensions")}
		if op.widths != nil && len(op.widths) != a.NumIn {
			a.Errorf("inputdimensions has %d elements, want %d, one per input", len(op.widths), a.NumIn)
		}
		total := 0
		for _, w := range op.widths {
			if w < 0 || w > math.MaxInt32 {
				a.Errorf("inputdimensions holds %d, want non-negative int32 values", w)
			}
			total += w
		}
		return op
	}})

// Infer sets Y to [N, sum of the widths].
func (op *FeatureVectorizer) Infer(c *ir.InferContext) error {
	rows, total := ir.Unknown, ir.Known(0)
	for i := range c.NumIn() {
		n, w := ir.Unknown, ir.Unknown
		var err error
		switch s := c.Shape(i); {
		case s == nil:
		case len(s) == 0:
			return fail.Errorf("input %d: a scalar, want at least one dimension", i)
		case len(s) == 1:
			n, w = ir.Known(1), s[0]
		default:
			n, w = s[0], ir.Known(1)
			for _, d := range s[1:] {
				w = w.Mul(d)
			}
		}
		if rows, err = ir.Merge(rows, n); err != nil {
			return fail.Errorf("numbers of rows: %w", err)
		}
		if op.widths != nil {
			w = ir.Known(op.widths[i])
		}
		total = total.Add(w)
	}
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, rows, total))
	return nil
}

// Run copies the columns.
func (op *FeatureVectorizer) Run(c *ir.Call) error {
	rows, total := 0, 0
	for i := range c.NumIn() {
		n, w, err := featureRows(c.Tensor(i))
		if err != nil {
			return fail.Errorf("input %d: %w", i, err)
		}
		if i > 0 && n != rows {
			return fail.Errorf("input %d has %d rows, input 0 has %d", i, n, rows)
		}
		if op.widths != nil {
			w = op.widths[i]
		}
		rows, total = n, total+w
	}
	t, err := c.Output(0, tensor.TypeFloat32, rows, total)
	if err != nil || t.Len() == 0 {
		return err
	}
	y, from := tensor.MustData[float32](t), 0
	for i := range c.NumIn() {
		x := c.Tensor(i)
		_, cols, _ := featureRows(x)
		w := cols
		if op.widths != nil {
			w = op.widths[i]
		}
		to := y[from:]
		switch x.DType() {
		case tensor.TypeFloat32:
			copyFeatures(to, tensor.MustData[float32](x), rows, cols, w, total)
		case tensor.TypeFloat64:
			copyFeatures(to, tensor.MustData[float64](x), rows, cols, w, total)
		case tensor.TypeInt32:
			copyFeatures(to, tensor.MustData[int32](x), rows, cols, w, total)
		case tensor.TypeInt64:
			copyFeatures(to, tensor.MustData[int64](x), rows, cols, w, total)
		default:
			return fail.Errorf("input %d is %s, want one of %s", i, x.DType(), mlNumbers)
		}
		from += w
	}
	return nil
}

// copyFeatures converts the first w of cols columns to rows of dst of stride total. Missing columns
// are 0.
func copyFeatures[T float32 | float64 | int32 | int64](dst []float32, x []T, rows, cols, w, total int) {
	for r := range rows {
		y, from := dst[r*total:][:w], x[r*cols:][:cols]
		n := min(w, cols)
		for k, v := range from[:n] {
			y[k] = float32(v)
		}
		clear(y[n:])
	}
}

// featureRows returns the numbers of rows and columns of an input of rank 1 or more.
func featureRows(x *tensor.Tensor) (rows, cols int, err error) {
	switch x.Rank() {
	case 0:
		return 0, 0, errors.New("a scalar, want at least one dimension")
	case 1:
		return 1, x.Dim(0), nil
	}
	return x.Dim(0), kit.Product(x.Shape()[1:]), nil
}
