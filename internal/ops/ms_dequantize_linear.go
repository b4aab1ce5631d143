package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "DequantizeLinear", Since: []int{1}, In: "x:T1, x_scale:T2, x_zero_point:T1?", Out: "y:T2",
	Types: Types{"T1": "int8 uint8 int16 uint16 int32 int4 uint4", "T2": "float float16"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &DequantizeLinear{quantization: quantization{Axis: a.Int("axis", 0)}}
	})})
