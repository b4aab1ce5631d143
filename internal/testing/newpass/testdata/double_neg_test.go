package optimize

func init() { moreCases = append(moreCases, doubleNegCases) }

func doubleNegCases() []passCase {
	neg := func(in, out string) build { return node("Neg", in, out) }
	return []passCase{
		{pass: "double-neg", name: "two in sequence", build: steps(rows, neg("x", "a"), neg("a", "b"), node("Relu", "b", "y")), want: "Relu"},
		{pass: "double-neg", name: "three", build: steps(rows, neg("x", "a"), neg("a", "b"), neg("b", "c"), node("Relu", "c", "y")), want: "Neg Relu"},
		{pass: "double-neg", name: "an output", build: steps(rows, neg("x", "a"), neg("a", "y")), want: "Neg Neg"},
		{pass: "double-neg", name: "a value with two uses", build: steps(rows, neg("x", "a"), neg("a", "b"), node("Add", "a b", "y")), want: "Neg Neg Add"},
	}
}
