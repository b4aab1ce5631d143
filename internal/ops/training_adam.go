package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ops/kit"
)

// adam is one iteration of Adam (https://arxiv.org/abs/1412.6980) with two
// regularizations
// (https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html).
type adam struct{ alpha, beta, epsilon, norm, post float64 }

var _ = registerTrainer("Adam", func(a *kit.Attrs) optimizerStep {
	return &adam{real64(a.Float("alpha", 0.9)), real64(a.Float("beta", 0.999)), real64(a.Float("epsilon", 0)),
		real64(a.Float("norm_coefficient", 0)), real64(a.Float("norm_coefficient_post", 0))}
})

func (*adam) States() int { return 2 }

func (op *adam) Begin(rate float64, count int64) func(x, g float64, s [2]float64) (float64, [2]float64) {
	if count > 0 {
		rate *= math.Sqrt(1-math.Pow(op.beta, float64(count))) / (1 - math.Pow(op.alpha, float64(count)))
	}
	return func(x, g float64, s [2]float64) (float64, [2]float64) {
		g += op.norm * x
		s[0] = op.alpha*s[0] + (1-op.alpha)*g
		s[1] = op.beta*s[1] + (1-op.beta)*g*g
		x -= rate * s[0] / (math.Sqrt(s[1]) + op.epsilon)
		return (1 - op.post) * x, s
	}
}
