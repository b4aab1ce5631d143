package reduce

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ClassLoss is the common part of NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. For scores
// [N, C, d…] and targets [N, d…] it computes −weight[t]·score[t] for each target t, and reduces by
// (weighted) mean, sum or not at all. Targets equal to ignore_index are ignored.
type ClassLoss struct {
	reduction string
	Ignore    int
	HasIgnore bool
}

// BuildClassLoss reads the attributes reduction and ignore_index.
func BuildClassLoss(a *kit.Attrs) ClassLoss {
	return ClassLoss{a.Enum("reduction", "mean", "mean", "sum", "none"), a.Int("ignore_index", 0),
		a.Has("ignore_index")}
}

// InferLoss infers a scalar or, without reduction, the shape of the target.
func (l *ClassLoss) InferLoss(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return fail.Errorf("scores have rank %d, want at least 2", len(s))
	}
	if l.reduction != "none" {
		c.SetOut(0, ir.TensorType(c.Elem(0)))
		return nil
	}
	shape := c.Shape(1)
	if s := c.Shape(0); shape == nil && s != nil {
		shape = append([]ir.Dim{s[0]}, s[2:]...)
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: c.Elem(0), Shape: shape})
	return nil
}

// lossShape is the shape of the scores as [n, classes, inner].
type lossShape struct{ n, classes, inner int }

// Classes returns the span of the classes.
func (s lossShape) Classes() kit.AxisSpan {
	return kit.AxisSpan{Outer: s.n, N: s.classes, Inner: s.inner}
}

// Shape returns the sizes of scores and target, or an error if they do not match.
func (l *ClassLoss) Shape(c *ir.Call) (lossShape, error) {
	s, t := c.Tensor(0).Shape(), c.Tensor(1).Shape()
	if len(s) < 2 || len(t) != len(s)-1 || t[0] != s[0] || !slices.Equal(t[1:], s[2:]) {
		return lossShape{}, fail.Errorf("scores and target have shapes %v and %v, want [N, C, ...] and [N, ...]", s, t)
	}
	if w := c.Tensor(2); w != nil && !slices.Equal(w.Shape(), s[1:2]) {
		return lossShape{}, fail.Errorf("weight has shape %v, want [%d]", w.Shape(), s[1])
	}
	return lossShape{s[0], s[1], kit.Product(s[2:])}, nil
}

// LossRun computes output 0 from log probabilities.
func LossRun[T kit.RealFloat](l *ClassLoss, c *ir.Call, s lossShape, logProb []T) error {
	target := kit.Ints(c.Tensor(1))
	weight, err := kit.RealIn[T](c, c.Tensor(2))
	if err != nil {
		return err
	}
	shape := []int{}
	if l.reduction == "none" {
		shape = c.Tensor(1).Shape()
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil {
		return err
	}
	sum, total := 0.0, 0.0
	c.Serial(s.n*s.inner, kit.GrainCheap, func(lo, hi int) {
		for at := lo; at < hi && err == nil; at++ {
			t := target[at]
			loss, w := 0.0, 0.0
			if !l.HasIgnore || t != l.Ignore {
				if t < 0 || t >= s.classes {
					err = fail.Errorf("target[%d] is %d, want 0 to %d", at, t, s.classes-1)
					return
				}
				w = 1
				if weight != nil {
					w = float64(weight[t])
				}
				loss = -w * float64(logProb[(at/s.inner*s.classes+t)*s.inner+at%s.inner])
			}
			if l.reduction == "none" {
				y.Data[at] = T(loss)
			}
			sum += loss
			total += w
		}
	})
	if err != nil {
		return err
	}
	switch l.reduction {
	case "mean":
		y.Data[0] = T(sum / total)
	case "sum":
		y.Data[0] = T(sum)
	}
	y.Store()
	return nil
}
