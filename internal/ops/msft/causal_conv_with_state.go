package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "CausalConvWithState", Since: kit.Versions{1},
	In: ops.CausalConvInputs, Out: "output:T, present_state:T",
	MACs:  kit.ConvMACs,
	Types: "T: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		// The operator is CausalConvWithState of ONNX with dilations, optionally channels last,
		// and a window of several states
		// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState).
		op := ops.ReadCausalConv(a)
		op.Dilation, op.ChannelsLast, op.Window = a.Int("dilation", 1), a.Bool("channels_last", false),
			readStateWindow(a)
		if n := a.Int("ndim", 1); n != 1 {
			a.Errorf("ndim must be 1, got %d: only one-dimensional sequences are supported", n)
		}
		if op.Dilation < 1 || op.Dilation > window.Limit {
			a.Errorf("dilation is %d, want 1 to %d", op.Dilation, window.Limit)
		}
		return op
	}})
