package ml

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// postTransform is the final transform that operators of ai.onnx.ml apply to a row of
// scores.
type postTransform uint8

const (
	transformNone postTransform = iota
	transformSoftmax
	transformLogistic
	transformSoftmaxZero
	transformProbit
)

// postTransformNames are the values of the attribute post_transform; the index
// is the number that TreeEnsemble-5 uses.
var postTransformNames = []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}

func readPostTransform(a *kit.Attrs) postTransform {
	name := a.Enum("post_transform", "NONE", postTransformNames...)
	for i, n := range postTransformNames {
		if n == name {
			return postTransform(i)
		}
	}
	return transformNone
}

// mlFloat lists the types of scores.
type mlFloat interface{ float32 | float64 }

// probit is the inverse of the normal distribution function by Winitzki's
// approximation of the inverse error function with a = 0.147, which ONNX's
// reference and ONNX Runtime use.
func probit(p float64) float64 {
	x := 2*p - 1
	l := math.Log((1 - x) * (1 + x))
	if math.IsInf(l, -1) {
		return math.Copysign(math.Inf(1), x)
	}
	v := 2/(math.Pi*0.147) + 0.5*l
	return math.Sqrt2 * math.Copysign(math.Sqrt(math.Sqrt(v*v-l/0.147)-v), x)
}

// transformScores transforms one row of scores in place. As in ONNX Runtime, a row of one score has
// no transform but PROBIT.
func transformScores[T mlFloat](t postTransform, row []T) {
	if len(row) > 1 || t == transformProbit {
		applyTransform(t, row)
	}
}

// applyTransform transforms one row of scores in place. SOFTMAX_ZERO is a
// softmax in which scores of 0 stay 0.
func applyTransform[T mlFloat](t postTransform, row []T) {
	switch t {
	case transformLogistic:
		for i, v := range row {
			row[i] = T(kit.Logistic(float64(v)))
		}
	case transformProbit:
		for i, v := range row {
			row[i] = T(probit(float64(v)))
		}
	case transformSoftmax, transformSoftmaxZero:
		if len(row) == 0 {
			return
		}
		top := math.Inf(-1)
		for _, v := range row {
			top = max(top, float64(v))
		}
		sum := 0.0
		for i, v := range row {
			switch v := float64(v); {
			case t == transformSoftmaxZero && v == 0: // the next product is 0, because top is not negative
			case t == transformSoftmaxZero && math.Abs(v) <= 1e-7:
				row[i] = T(v * math.Exp(-top))
			case v == top && !math.IsInf(v, 0):
				row[i] = 1
			default:
				row[i] = T(math.Exp(v - top))
			}
			sum += float64(row[i])
		}
		if sum == 0 {
			for i := range row {
				row[i] = 0.5
			}
			return
		}
		for i, v := range row {
			row[i] = T(float64(v) / sum)
		}
	}
}

// transformRows is transformScores for rows of n scores, with vector kernels if there are some.
func transformRows(c *ir.Call, t postTransform, scores []float32, n int) {
	switch {
	case t == transformNone || n < 2 && t != transformProbit:
	case t == transformLogistic && !c.Generic:
		vec.SigmoidF32(cpu.Active(), scores, scores)
	case t == transformSoftmax && !c.Generic:
		vec.SoftmaxRowsF32(cpu.Active(), scores, scores, n)
	default:
		plain := 0 // rows of SOFTMAX_ZERO that have the softmax
		for i := 0; i < len(scores); i += n {
			row := scores[i:][:n]
			if t == transformSoftmaxZero && !c.Generic && leaveZeros(row) {
				plain += n
				continue
			}
			vec.SoftmaxRowsF32(cpu.Active(), scores[i-plain:i], scores[i-plain:i], n)
			plain = 0
			applyTransform(t, row)
		}
		vec.SoftmaxRowsF32(cpu.Active(), scores[len(scores)-plain:], scores[len(scores)-plain:], n)
	}
}

// leaveZeros reports whether SOFTMAX_ZERO of a row equals the softmax of its nonzero scores. In
// that case it replaces zeros by −Inf, whose softmax is 0. The two differ if a nonzero score is
// close to 0, or if 0 is the maximum and the exponentials of the others vanish.
func leaveZeros(row []float32) bool {
	top, low := row[0], row[0]
	for _, v := range row {
		if v != 0 && !(v > 1e-7 || v < -1e-7) {
			return false
		}
		top, low = max(top, v), min(low, v)
	}
	if top == 0 && (low == 0 || low < -80) {
		return false
	}
	for i, v := range row {
		if v == 0 {
			row[i] = float32(math.Inf(-1))
		}
	}
	return true
}

// classLabels holds the labels of a classifier; at most one of the lists is set.
type classLabels struct {
	ints []int64
	strs []string
}

// readClassLabels reads a pair of label attributes, exactly one of which must be given.
func readClassLabels(a *kit.Attrs, ints, strs string) classLabels {
	var l classLabels
	for _, v := range a.Ints(ints) {
		l.ints = append(l.ints, int64(v))
	}
	l.strs = a.Strings(strs)
	if (len(l.ints) > 0) == (len(l.strs) > 0) {
		a.Errorf("%d labels in %s and %d in %s, want labels in exactly one of them", len(l.ints),
			ints, len(l.strs), strs)
	}
	return l
}

func (l *classLabels) len() int { return max(len(l.ints), len(l.strs)) }

func (l *classLabels) dtype() tensor.DType {
	if len(l.strs) > 0 {
		return tensor.TypeString
	}
	return tensor.TypeInt64
}

// set writes label k to element i of t. If k < 0, it writes the label of no class: 0 or
// the empty string.
func (l *classLabels) set(t *tensor.Tensor, i, k int) {
	if len(l.strs) > 0 {
		s := ""
		if k >= 0 {
			s = l.strs[k]
		}
		tensor.MustData[string](t)[i] = s
		return
	}
	var v int64
	if k >= 0 {
		v = l.ints[k]
	}
	tensor.MustData[int64](t)[i] = v
}

// mlRows returns the numbers of rows and columns of an input of shape [N,C], or [C] for a
// single row.
func mlRows(x *tensor.Tensor, name string) (n, c int, err error) {
	switch x.Rank() {
	case 1:
		return 1, x.Dim(0), nil
	case 2:
		return x.Dim(0), x.Dim(1), nil
	}
	return 0, 0, fail.Errorf("%s has shape %v, want [N, C] or [C]", name, x.Shape())
}

// mlRowDims is the shape inference counterpart of mlRows for input i.
func mlRowDims(c *ir.InferContext, i int, name string) (n, cols ir.Dim, err error) {
	switch s := c.Shape(i); {
	case s == nil:
		return ir.Unknown, ir.Unknown, nil
	case len(s) == 1:
		return ir.Known(1), s[0], nil
	case len(s) == 2:
		return s[0], s[1], nil
	default:
		return ir.Unknown, ir.Unknown, fail.Errorf("%s has rank %d, want 1 or 2", name, len(s))
	}
}

// mlNumbers lists the types that most operators of ai.onnx.ml accept.
const mlNumbers = "float double int64 int32"

// mlNumbersAs returns the elements of a float, double, int32 or int64 tensor as T. It
// converts in scratch memory unless they have that type.
func mlNumbersAs[T mlFloat](c *ir.Call, t *tensor.Tensor) ([]T, error) {
	t, err := kit.ToScratch(c, t, tensor.DTypeOf[T]())
	if err != nil {
		return nil, err
	}
	return tensor.MustData[T](t), nil
}
