package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "TransposeMatMul", Since: []int{1}, In: "A:T, B:T", Out: "Y:T",
	Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &transposedMatMul{Alpha: a.Float("alpha", 1), Trans: [2]bool{a.Bool("transA", false), a.Bool("transB", false)}}
	})})
