package optimize

func init() { moreCases = append(moreCases, dropExpandCases) }

func dropExpandCases() []passCase {
	// s of n×4×1×1 has the shape of x in e.
	expanded := steps(input("x", "n", 4, "h", "w"), input("s", "n", 4, 1, 1), node("Shape", "x", "d"),
		node("Expand", "s d", "e"))
	more := func(list ...build) []build { return append(expanded[:len(expanded):len(expanded)], list...) }
	var r []passCase
	for _, c := range []passCase{
		{name: "a factor", build: more(node("Mul", "x e", "y")), want: "Mul"},
		{name: "a divisor of the same", build: more(node("Div", "e x", "y")), want: "Div"},
		{name: "a choice", build: more(node("Greater", "x e", "c"), node("Where", "c e x", "y")), want: "Shape Expand Greater Where"},
		{name: "a use that needs the shape", build: more(node("Mul", "x e", "u"), node("Exp", "e", "v"), node("Sub", "u v", "y")), want: "Shape Expand Mul Exp Sub"},
		{name: "both inputs", build: more(node("Mul", "e e", "y")), want: "Shape Expand Mul"},
		{name: "a result of another shape", build: more(constant("k", []float32{1, 2, 3}, 3, 1, 1, 1, 1), node("Mul", "k e", "y")), want: "Shape Expand Mul"},
	} {
		c.pass = "drop-expand"
		r = append(r, c)
	}
	return r
}
