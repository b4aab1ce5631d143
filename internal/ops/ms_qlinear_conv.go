package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "QLinearConv", Since: []int{1},
	In: "x:T1, x_scale:float, x_zero_point:T1, w:T2, w_scale:float, w_zero_point:T2, y_scale:float, y_zero_point:T3, B:T4?", Out: "y:T3",
	Types: Types{"T1": byteTypes, "T2": byteTypes, "T3": byteTypes, "T4": "int32"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &QLinearConv{Window: readWindow(a, true), Group: readGroup(a), ChannelsLast: a.Bool("channels_last", false)}
	})})
