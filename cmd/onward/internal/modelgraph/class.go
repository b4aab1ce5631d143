package modelgraph

import (
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// The classes of operators, which are the colors of the page.
const (
	linearClass     = iota // convolutions and matrix products
	activationClass        // and other elementwise functions of one input
	normalClass            // normalizations and Softmax
	poolClass              // pooling and reductions
	shapeClass             // what moves elements or computes shapes
	arithmeticClass        // elementwise operators of several inputs, and comparisons
	controlClass           // control flow, sequences, functions
	otherClass
	portClass // inputs and outputs
)

// classNames are the names of the classes, in their order.
var classNames = []string{"convolution, matrix product, recurrent", "activation", "normalization", "pooling, reduction", "shape, indices", "arithmetic, logic", "control flow, function", "other operator"}

var classes = func() map[string]int {
	r := map[string]int{}
	for class, words := range map[int]string{
		linearClass: "Conv ConvTranspose ConvInteger DeformConv FusedConv QLinearConv MatMul MatMulInteger MatMulNBits MatMulIntegerToFloat DynamicQuantizeMatMul " +
			"QLinearMatMul FusedMatMul Gemm QGemm FusedGemm Einsum LSTM GRU RNN Attention MultiHeadAttention GroupQueryAttention QAttention LinearAttention",
		activationClass: "Relu LeakyRelu PRelu Elu Selu Celu Sigmoid HardSigmoid Tanh Softplus Softsign Gelu FastGelu BiasGelu QuickGelu Mish Swish HardSwish " +
			"ThresholdedRelu Clip Erf Exp Log Sqrt Reciprocal Abs Neg Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Floor Ceil Round Sign Not Shrink " +
			"QLinearSigmoid QLinearLeakyRelu Dropout",
		normalClass: "BatchNormalization LayerNormalization SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization RMSNormalization " +
			"InstanceNormalization GroupNormalization LRN LpNormalization MeanVarianceNormalization EmbedLayerNormalization Softmax LogSoftmax Hardmax",
		poolClass: "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool MaxRoiPool RoiAlign ArgMax ArgMin TopK NonMaxSuppression CumSum CumProd " +
			"QLinearAveragePool QLinearGlobalAveragePool",
		shapeClass: "Reshape Transpose Concat Slice Split Gather GatherND GatherElements Scatter ScatterND ScatterElements Squeeze Unsqueeze Flatten Expand Tile Pad " +
			"Shape Size ConstantOfShape Range Cast CastLike Identity SpaceToDepth DepthToSpace Resize Upsample ReverseSequence Compress NonZero OneHot EyeLike Trilu " +
			"Col2Im CenterCropPad Constant Unique TensorScatter GridSample AffineGrid",
		arithmeticClass: "Add Sub Mul Div Pow Mod Min Max Sum Mean Where Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor BitShift BitwiseAnd BitwiseOr " +
			"BitwiseXor BitwiseNot IsNaN IsInf QLinearAdd QLinearMul RotaryEmbedding",
		controlClass: "If Loop Scan SequenceMap SequenceConstruct SequenceAt SequenceInsert SequenceErase SequenceEmpty SequenceLength SplitToSequence " +
			"ConcatFromSequence Optional OptionalGetElement OptionalHasElement",
	} {
		for op := range strings.FieldsSeq(words) {
			r[op] = class
		}
	}
	return r
}()

// classOf returns the class of a node's operator.
func classOf(n *onnx.Node) int {
	if c, ok := classes[n.OpType]; ok {
		return c
	}
	switch {
	case strings.HasPrefix(n.OpType, "Reduce"):
		return poolClass
	case len(n.Subgraphs()) > 0:
		return controlClass
	}
	return otherClass
}
