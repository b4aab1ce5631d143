package ops

// The contrib forms of QuantizeLinear and DequantizeLinear take 16- and 4-bit
// types that ONNX's came to know later. Without the attribute axis there is one
// scale; then any axis will do.
var _ = register(Def{Domain: DomainMicrosoft, Name: "QuantizeLinear", Since: []int{1}, In: "x:T1, y_scale:T1, y_zero_point:T2?", Out: "y:T2",
	Types: Types{"T1": "float float16", "T2": "int8 uint8 int16 uint16 int4 uint4"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &QuantizeLinear{quantization: quantization{Axis: a.Int("axis", 0)}, Saturate: true}
	})})
