package ops

// GlobalAveragePool is that of ONNX, see [DomainNchwc].
var _ = register(Def{Domain: DomainNchwc, Name: "GlobalAveragePool", Since: []int{1}, In: "X:T", Out: "Y:T", Types: Types{"T": "float"}, Build: sameOperator("GlobalAveragePool", 1)})
