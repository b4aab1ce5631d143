package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "Trilu", Since: []int{1}, In: "X:T, k:int64?", Out: "Y:T",
	Types: Types{"T": "@float @int bool"},
	Build: simple(func(a *Attrs, opset int) Operator { return &Trilu{Upper: a.Bool("upper", true)} })})
