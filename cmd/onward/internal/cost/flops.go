package cost

import (
	"strings"

	"github.com/onward-ml/onward"
)

// perResult holds the operators with one operation per element of the result.
const perResult = " Add Sub Mul Div Pow Mod Abs Neg Exp Log Sqrt Reciprocal Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Tanh Sigmoid " +
	"HardSigmoid Relu LeakyRelu PRelu Elu Selu Celu Softplus Softsign Gelu FastGelu BiasGelu QuickGelu Mish Swish HardSwish ThresholdedRelu Clip Floor Ceil " +
	"Round Sign Min Max Sum Mean Where Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor Not QuantizeLinear DequantizeLinear QLinearAdd QLinearMul " +
	"QLinearSigmoid QLinearLeakyRelu BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift RotaryEmbedding "

// perInput holds the operators with one operation per element of the first input.
const perInput = " ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare ArgMax ArgMin CumSum " +
	"CumProd MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool TopK "

// perElement holds the operations per element of the first input of operators of several steps.
var perElement = map[string]int64{
	"Softmax": 4, "LogSoftmax": 4, "BatchNormalization": 2, "LayerNormalization": 6, "SimplifiedLayerNormalization": 4, "RMSNormalization": 4,
	"SkipLayerNormalization": 7, "SkipSimplifiedLayerNormalization": 5, "InstanceNormalization": 6, "GroupNormalization": 6, "LRN": 6,
	"LpNormalization": 3, "MeanVarianceNormalization": 6, "EmbedLayerNormalization": 8,
}

// flops returns the operations of a node: two for each multiplication with addition, one for each
// element of elementwise results and of what is reduced, and 0 for operators that move elements.
func flops(n onward.NodeInfo, macs int64, in func(int) []int64, out []int64) int64 {
	count := func(shape []int64) int64 {
		if shape == nil {
			return 0
		}
		return product(shape)
	}
	word := " " + n.OpType + " "
	switch {
	case macs > 0:
		return times(2, macs)
	case strings.Contains(perResult, word):
		return count(out)
	case strings.Contains(perInput, word):
		return count(in(0))
	}
	return times(perElement[n.OpType], count(in(0)))
}
