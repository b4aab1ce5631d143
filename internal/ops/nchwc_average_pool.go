package ops

// AveragePool is that of ONNX, see [DomainNchwc].
var _ = register(Def{Domain: DomainNchwc, Name: "AveragePool", Since: []int{1}, In: "X:T", Out: "Y:T", Types: Types{"T": "float"}, Build: sameOperator("AveragePool", 19)})
