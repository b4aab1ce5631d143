package ops

import "github.com/onward-ml/onward/internal/ops/kit"

// momentum is one iteration of gradient descent with standard or Nesterov's
// momentum
// (https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Momentum.html).
type momentum struct {
	alpha, beta, norm float64
	nesterov          bool
}

var _ = registerTrainer("Momentum", func(a *kit.Attrs) optimizerStep {
	a.Require("alpha", "beta", "mode", "norm_coefficient")
	return &momentum{real64(a.Float("alpha", 0)), real64(a.Float("beta", 0)), real64(a.Float("norm_coefficient", 0)),
		a.Enum("mode", "standard", "standard", "nesterov") == "nesterov"}
})

func (*momentum) States() int { return 1 }

func (op *momentum) Begin(rate float64, count int64) func(x, g float64, s [2]float64) (float64, [2]float64) {
	beta := op.beta
	if count <= 0 {
		beta = 1
	}
	return func(x, g float64, s [2]float64) (float64, [2]float64) {
		g += op.norm * x
		s[0] = op.alpha*s[0] + beta*g
		if op.nesterov {
			return x - rate*(g+op.alpha*s[0]), s
		}
		return x - rate*s[0], s
	}
}
