package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "GatherND", Since: []int{1}, In: "data:T, indices:Tind", Out: "output:T",
	Types: Types{"T": moveTypes, "Tind": "int32 int64"},
	Build: simple(func(a *Attrs, opset int) Operator { return &GatherND{} })})
