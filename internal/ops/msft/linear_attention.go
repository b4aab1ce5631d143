package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "LinearAttention", Since: kit.Versions{1},
	In: ops.LinearAttentionInputs, Out: "output:T, present_state:S",
	Types: "T: float float16 bfloat16; S: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		// The operator is LinearAttention of ONNX with a window of several states and shared keys
		// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LinearAttention).
		op := ops.ReadLinearAttention(a)
		op.Window, op.SharedKeys = readStateWindow(a), true
		if h, k := op.Heads, op.KVHeads; h%k != 0 && k%h != 0 {
			a.Errorf("q_num_heads is %d and kv_num_heads %d, want one a multiple of the other", h, k)
		}
		return op
	}})

// readStateWindow reads the number of last states that an operator returns.
func readStateWindow(a *kit.Attrs) int {
	w := a.Int("state_window", 0)
	if w < 0 || w > 1<<16 {
		a.Errorf("state_window is %d, want 0 to %d", w, 1<<16)
	}
	return w
}
