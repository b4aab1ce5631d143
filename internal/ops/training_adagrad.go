package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ops/kit"
)

// adagrad is one iteration of Adagrad
// (https://jmlr.org/papers/v12/duchi11a.html,
// https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adagrad.html).
type adagrad struct{ decay, epsilon, norm float64 }

var _ = registerTrainer("Adagrad", func(a *kit.Attrs) optimizerStep {
	return &adagrad{real64(a.Float("decay_factor", 0)), real64(a.Float("epsilon", 0)),
		real64(a.Float("norm_coefficient", 0))}
})

func (*adagrad) States() int { return 1 }

func (op *adagrad) Begin(rate float64, count int64) func(x, g float64, s [2]float64) (float64, [2]float64) {
	rate /= 1 + float64(count)*op.decay
	return func(x, g float64, s [2]float64) (float64, [2]float64) {
		g += op.norm * x
		s[0] += g * g
		return x - rate*g/(math.Sqrt(s[0])+op.epsilon), s
	}
}
