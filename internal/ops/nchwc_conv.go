package ops

// Conv convolves, adds Sum and applies an activation. The filter is in blocks, see
// [DomainNchwc].
var _ = register(Def{Domain: DomainNchwc, Name: "Conv", Since: []int{1}, In: "X:T, W:T, B:T?, Sum:T?", Out: "Y:T", Types: Types{"T": "float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &NchwcConv{readBlock(a), ActivatedConv{Conv{Window: readWindow(a, true), Group: readGroup(a)}, readFusedActivation(a, a.Floats("activation_params"))}}
	})})
