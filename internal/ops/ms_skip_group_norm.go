package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "SkipGroupNorm", Since: []int{1},
	In: "X:T, gamma:M, beta:M, skip:T, bias:T?", Out: "Y:T, S:T?",
	Types: Types{"T": "float16 float", "M": "float16 float"},
	Build: simple(func(a *Attrs, opset int) Operator { return readGroupNorm(a, true) })})
