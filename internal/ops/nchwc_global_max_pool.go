package ops

// GlobalMaxPool is that of ONNX, see [DomainNchwc].
var _ = register(Def{Domain: DomainNchwc, Name: "GlobalMaxPool", Since: []int{1}, In: "X:T", Out: "Y:T", Types: Types{"T": "float"}, Build: sameOperator("GlobalMaxPool", 1)})
