package ops

// MaxPool is that of ONNX, see [DomainNchwc].
var _ = register(Def{Domain: DomainNchwc, Name: "MaxPool", Since: []int{1}, In: "X:T", Out: "Y:T", Types: Types{"T": "float"}, Build: sameOperator("MaxPool", 12)})
