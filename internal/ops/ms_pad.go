package ops

var _ = register(Def{Domain: DomainMicrosoft, Name: "Pad", Since: []int{1}, In: "data:T, pads:int64, value:T?", Out: "output:T",
	Types: Types{"T": "float16 float double"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Pad{Mode: a.Enum("mode", "constant", "constant", "reflect", "edge"), Row: true}
	})})
