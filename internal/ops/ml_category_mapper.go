package ops

// CategoryMapper turns strings into integers and integers into strings, by two
// lists of one length
// (https://onnx.ai/onnx/operators/onnx_aionnxml_CategoryMapper.html).
var _ = register(Def{Domain: DomainML, Name: "CategoryMapper", Since: []int{1}, In: "X:T1", Out: "Y:T2",
	Types: Types{"T1": "string int64", "T2": "string int64"}, Build: func(a *Attrs, opset int) (Operator, error) {
		return buildCategories(a, a.Strings("cats_strings"), int64s(a.Ints("cats_int64s")))
	}})
