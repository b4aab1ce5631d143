package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "CausalConvWithState", Since: []int{1}, In: causalConvInputs, Out: "output:T, present_state:T",
	Types: Types{"T": "float float16 bfloat16"}, Build: simple(func(a *Attrs, opset int) Operator {
		// CausalConvWithState of ONNX, with dilations, channels at the end and several
		// states at once
		// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState).
		op := readCausalConv(a)
		op.Dilation, op.ChannelsLast, op.Window = a.Int("dilation", 1), a.Bool("channels_last", false), readStateWindow(a)
		if n := a.Int("ndim", 1); n != 1 {
			a.Errorf("ndim is %d: only sequences are supported, ndim 1", n)
		}
		if op.Dilation < 1 || op.Dilation > windowLimit {
			a.Errorf("dilation is %d, want 1 to %d", op.Dilation, windowLimit)
		}
		return op
	})})
